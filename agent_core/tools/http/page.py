"""An HTML page as its text, with its links; for the model. Pure, and linear in the page.

Style sheets are not read: text that a page hides from people is part of it.
"""

import re
from collections.abc import Iterator
from html import unescape

_MARKUP = re.compile(
    r"<!--(?:-?>|.*?-->|.*)|<svg\b[^<>]*/>|<(?P<hidden>script|style|template|noscript|svg)\b(?:.*?</(?P=hidden)\b[^<>]*>?|.*)"
    r"|<(?P<end>/?)(?P<name>[a-z][a-z0-9]*)\b(?P<rest>[^<>]*)>|<[!?/a-z][^<>]*>",
    re.IGNORECASE | re.DOTALL,
)
"""Comments, elements that show nothing, and tags; what is found is never read twice, so that the time is linear."""
_HREF = re.compile(r"(?<![\w-])href\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))", re.IGNORECASE)
_ALT = re.compile(r"(?<![\w-])alt\s*=\s*(?:\"([^\"]*)\"|'([^']*)')", re.IGNORECASE)
_NO_PLACE = re.compile(r"#|(?!https?:|mailto:)[a-z][a-z0-9+.-]*:", re.IGNORECASE)
"""How addresses begin that lead to no other page."""
_LINES = re.compile(
    r"address|article|aside|blockquote|br|dd|div|dl|dt|fieldset|fig(caption|ure)|footer|form|h[1-6r]|header|li|main|nav|[ou]l"
    r"|option|p|pre|section|table|title|tr"
)
"""Elements that begin and end a line."""
_BEGINS = {"li": "- ", "td": " | ", "th": " | ", **{f"h{n}": "#" * n + " " for n in range(1, 7)}}
_IN_PRE = str.maketrans({"\n": "\ue000", " ": "\ue001", "\t": "\ue001"})
_AFTER_PRE = str.maketrans({"\ue000": "\n", "\ue001": " "})
"""Characters for private use hold the line ends and blanks of `<pre>` until the others are one."""
_SPACES = re.compile(r"[ \t\r\f\v\xa0]+")
_GAPS = re.compile(r" ?\n[ \n]*")


def page_text(html: str) -> str:
    """Return the text of a page: a line per block, `- ` before list items, `#` before headings, `[text](address)`."""
    text = "".join(_pieces(html))
    return _GAPS.sub("\n", _SPACES.sub(" ", text)).strip().translate(_AFTER_PRE)


def _pieces(html: str) -> Iterator[str]:
    end, links, is_code = 0, list[str](), False
    for match in _MARKUP.finditer(html):
        yield _words(html[end : match.start()], is_code=is_code)
        end = match.end()
        name = (match["name"] or "").lower()
        is_code = not match["end"] if name == "pre" else is_code
        if name == "a":
            yield _link(match, links)
        elif name == "img" and (alt := _ALT.search(match["rest"])):
            yield _words(alt[1] or alt[2] or "")
        else:
            yield "\n" if _LINES.fullmatch(name) else ""
            yield "" if match["end"] else _BEGINS.get(name, "")
    yield _words(html[end:], is_code=is_code)


def _link(match: re.Match[str], links: list[str]) -> str:
    """Return what stands for the begin or the end of a link; *links* are the addresses of those that are open."""
    if match["end"]:
        address = links.pop() if links else ""
        return f"]({address})" if address else ""
    href = _HREF.search(match["rest"])
    address = _words(next(filter(None, href.groups()), "")).strip() if href else ""
    links.append("" if _NO_PLACE.match(address) else address)
    return "[" if links[-1] else ""


def _words(text: str, *, is_code: bool = False) -> str:
    return unescape(text).translate(_IN_PRE) if is_code else unescape(text).replace("\n", " ")
