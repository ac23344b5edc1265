"""Credentials that an operator wrote into the texts of a server themselves, and not as references to secrets. Pure."""

import re
from collections.abc import Iterator, Mapping
from urllib.parse import parse_qsl, unquote, urlsplit

from agent_core.agents import SECRET
from agent_core.servers import McpServer

_NAMED = re.compile(
    r"auth(?!or(?!i))|key|token|secret|passw|pwd|credential|cookie|signature|(?:\b|_)pat\b", re.IGNORECASE
)
"""In names of what is a credential; other texts, such as a path or a region, are in ordinary results too."""
_RANDOM = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[\w+=-]{20,500}", re.ASCII)
"""What looks like a key, unless its name says that it is an id: that of a project is in results with good reason."""
_ID = re.compile(r"ids?$", re.IGNORECASE)
_SHORTEST = 8
_SCHEME = re.compile(r"(?:Bearer|Basic|Token|ApiKey)\s+", re.IGNORECASE)
_OPTION = re.compile(r"--?([\w.-]+)(?:[=:](.*))?", re.DOTALL)
_HEADER = re.compile(r"([\w-]+):\s*(.+)", re.DOTALL)


def written_in(server: McpServer) -> Mapping[str, str]:
    """Return the credentials in the texts of *server*, by where they are; references to secrets are none of them."""
    found: dict[str, str] = {}
    for place, name, text in _texts(server):
        value = _SCHEME.sub("", text, count=1) if _SCHEME.match(text) else text
        is_own = len(value) >= _SHORTEST and not SECRET.search(value)
        looks_so = _RANDOM.fullmatch(value) and not _ID.search(name)
        if is_own and (_NAMED.search(name) or value != text or looks_so):
            found[place] = value
    return found


def _texts(server: McpServer) -> Iterator[tuple[str, str, str]]:
    """Yield where a text is, its name, and the text."""
    for name, text in server.headers.items():
        yield f"header {name}", name, text
    for name, text in server.env.items():
        yield f"env {name}", name, text
    if server.oauth is not None and server.oauth.client_secret:
        yield "oauth.client_secret", "client_secret", server.oauth.client_secret
    before = ""
    for place, text in enumerate(server.args):
        option = _OPTION.fullmatch(text)
        header = _HEADER.fullmatch(text)
        if option is not None:
            before = option[1]
            if option[2]:
                yield f"args[{place}]", before, option[2]
        elif header is not None:  # as `--header "Authorization: Bearer …"` has it
            yield f"args[{place}]", header[1], header[2]
        else:
            yield f"args[{place}]", before, text
            before = ""
    if server.url is not None:
        try:
            where = urlsplit(server.url)
        except ValueError:  # nothing is sent there either
            return
        if where.password:
            yield "url", "password", unquote(where.password)
        for name, text in parse_qsl(where.query):
            yield f"url {name}", name, text
