"""Which headers of a request are the caller's to set, and how they may be written."""

import re

_NAME = re.compile("[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}")
_VALUE = re.compile("[ -~]*")
# What belongs to a connection or to the framing of a message; two opinions on these are how requests are smuggled.
_OURS = frozenset({
    "accept-encoding", "connection", "content-length", "expect", "host", "keep-alive", "te", "trailer",
    "transfer-encoding", "upgrade",
})  # fmt: skip


def header_fault(name: str, value: str) -> str | None:
    """Return why the header cannot be sent, without its value; None when it can."""
    if not (_NAME.fullmatch(name) and _VALUE.fullmatch(value)):
        return f"The header `{name[:100]!a}` is none: a name and a value are of plain characters."
    if name.lower() in _OURS or name.lower().startswith("proxy-"):
        return f"The header `{name}` is not the caller's to set."
    return None
