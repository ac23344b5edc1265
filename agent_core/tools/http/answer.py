"""What the model reads of an answer. Pure."""

import codecs
import re
from collections.abc import Collection, Mapping
from http import HTTPStatus
from urllib.parse import urlsplit

from agent_core.net.fetch import Fetched
from agent_core.secrets import scrubbed
from agent_core.tools.http.page import page_text

SHOWN = 300
"""Characters of the answer that an error shows."""
_TEXTS = re.compile(r"text/|application/(.*\+)?(json|xml|yaml|x-yaml|x-ndjson|jsonl|javascript|graphql|x-www-form-)")
_CHARSETS = re.compile(
    r"utf-?8|utf-?(16|32)(-?(le|be))?|(us-)?ascii|(iso-?)?8859-\d+|iso-8859-\d+|latin-?1|windows-\d+|cp\d+"
    r"|shift[_-]jis|euc-(jp|kr)|gb(k|2312|18030)|big5|koi8-[ru]",
    re.IGNORECASE,
)
"""Encodings of the web; others of Python's are slow, or no encodings of text."""
_MARKUP = re.compile(r"<(script|style)\b(?:.*?</\1\b[^<>]*>?|.*)|<[^<>]*>", re.IGNORECASE | re.DOTALL)
"""Elements that show nothing, and tags; what is found is never read twice, so that the time is linear."""
_READ = 50_000
"""Characters of an answer in which the words of an error are looked for."""
_LATER = re.compile(r"\d{1,9}|\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", re.ASCII)
_OF_A_HEAD = ("content-type", "content-length", "last-modified", "etag", "location")


def is_ok(status: int, more: Collection[int]) -> bool:
    """Return whether an answer with *status* is one that the tool wants."""
    return 200 <= status < 300 or status in more  # noqa: PLR2004 - HTTP's own


def text_of(method: str, fetched: Fetched, secrets: Mapping[str, str], *, has_source: bool = False) -> str:
    """Return an answer as text: what is not text is described, an empty one named by its status.

    Of an HTML page it is the text, unless the tool *has_source*. Servers that name no type call all they send HTML: a
    page begins with `<`. *secrets* are masked in its source first, as a value may be spelled otherwise in its text.
    """
    if method == "HEAD":
        lines = [f"{name}: {fetched.headers[name]}" for name in _OF_A_HEAD if name in fetched.headers]
        return "\n".join((_status(fetched.status), *lines))
    if not fetched.body:
        return f"{_status(fetched.status)}, with an empty answer."
    text = _decoded(fetched)
    if text is None:
        kind = _kind(fetched.headers)[0] or "of no known type"
        return f"{_status(fetched.status)}. The answer is {kind}, {len(fetched.body):,} bytes; it is not shown."
    is_page = "html" in _kind(fetched.headers)[0] and text.lstrip("\ufeff \t\r\n").startswith("<") and not has_source
    return page_text(scrubbed(text, secrets)) if is_page else text


def error_of(method: str, fetched: Fetched, secrets: Mapping[str, str]) -> str:
    """Return what the model reads of an answer that is none it wants: the status, the host, the first words.

    *secrets* are masked before the words are cut: the half of one would not be found.
    """
    words = " ".join(_words(fetched, secrets).split())
    again = fetched.headers.get("retry-after", "")
    later = f" (Retry-After: {again})" if _LATER.fullmatch(again) else ""
    detail = f": {words[:SHOWN]}" if words else "."
    return f"{_status(fetched.status)} from {method} {host_of(fetched.url)}{later}{detail}"


def host_of(url: str) -> str:
    """Return the host of *url*, and its port where it is written: the rest may be a secret."""
    return urlsplit(url).netloc.rpartition("@")[2]


def _words(fetched: Fetched, secrets: Mapping[str, str]) -> str:
    # Twice as much is masked as is shown, so that no secret is cut.
    text = scrubbed((_decoded(fetched) or "")[: 2 * _READ], secrets)[:_READ]
    return _MARKUP.sub(" ", text) if "html" in _kind(fetched.headers)[0] else text


def _status(status: int) -> str:
    try:
        return f"HTTP {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP {status}"


def _decoded(fetched: Fetched) -> str | None:
    """Return the body as text, by the encoding that it says it has; None when it is no text."""
    kind, charset = _kind(fetched.headers)
    body = fetched.body
    if not kind and (b"\0" in body[:1000] or not _is_utf8(body)):
        return None
    if kind and not _TEXTS.match(kind):
        return None
    named = _charset(charset)
    if body.startswith(codecs.BOM_UTF8):
        named = "utf-8-sig"
    return body.decode(named, "replace")


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _charset(name: str) -> str:
    if not _CHARSETS.fullmatch(name):
        return "utf-8"
    try:
        return codecs.lookup(name).name
    except LookupError:
        return "utf-8"


def _kind(headers: Mapping[str, str]) -> tuple[str, str]:
    """Return the media type and the charset of an answer, in lower case, either empty where it says none."""
    kind, _, rest = headers.get("content-type", "").lower().partition(";")
    match = re.search(r"charset\s*=\s*\"?([\w.:-]{1,40})", rest)
    return kind.strip()[:100], match[1] if match else ""
