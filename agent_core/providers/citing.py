"""Citations as each vendor's API gives them, as neutral ones: bounded, and without what is the vendor's own."""

from typing import Any

import msgspec

from agent_core.messages import Citation, clean

MAX_CITATIONS = 200
"""Citations kept of one answer: a page of text with two sources in each line has about a hundred."""
_QUOTED, _NAME, _ADDRESS = 1_000, 300, 2_000
_WEB = ("https://", "http://")


class _WireCitation(msgspec.Struct):
    """The fields that we read of a citation of any type; a server may send any of them as null."""

    type: str | None = None
    cited_text: str | None = None
    title: str | None = None
    document_title: str | None = None
    filename: str | None = None
    url: str | None = None
    source: str | None = None
    document_index: int | None = None
    search_result_index: int | None = None
    index: int | None = None
    start_index: int | None = None
    end_index: int | None = None


def citation(raw: msgspec.Raw | bytes, start: int | None = None, end: int | None = None) -> Citation | None:
    """Return the citation *raw* as JSON, for the code points from *start* to *end* of its part.

    Without them those are taken that the vendor states. What is quoted is cut to 1,000 characters and a name to 300,
    and an address over 2,000 is left out, as are all ids: a vendor's id of a file means nothing elsewhere. Return None
    for what is no citation or names no source.
    """
    try:
        fields = msgspec.json.decode(raw, type=_WireCitation)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if start is None and _is_range(fields.start_index, fields.end_index):
        start, end = fields.start_index, fields.end_index
    address, name = _short(fields.url, _ADDRESS), _short(fields.source, _ADDRESS)
    if address is None and name is not None and name.startswith(_WEB):
        address, name = name, None
    index = next((n for n in (fields.document_index, fields.search_result_index, fields.index) if n is not None), None)
    neutral = Citation(
        start=start,
        end=end,
        text=_cut(fields.cited_text, _QUOTED),
        title=_cut(fields.title or fields.document_title or fields.filename, _NAME),
        url=address if address is not None and address.startswith(_WEB) else None,
        source=name,
        index=index if index is not None and index >= 0 else None,
    )
    return neutral if neutral.text or neutral.title or neutral.url or neutral.source else None


def within(citation: Citation, length: int) -> Citation:
    """Return *citation* without its stretch where that is not in a text of *length* code points."""
    if citation.end is None or citation.end <= length:
        return citation
    return msgspec.structs.replace(citation, start=None, end=None)


def _is_range(start: Any, end: Any) -> bool:
    return start is not None and end is not None and 0 <= start < end


def _cut(text: str | None, limit: int) -> str | None:
    return clean(text)[:limit] or None if text else None


def _short(text: str | None, limit: int) -> str | None:
    return clean(text) if text and len(text) <= limit else None
