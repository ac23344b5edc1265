"""Citations of both vendors as neutral ones."""

import json

from agent_core.messages import Citation
from agent_core.providers.base import citation, within
from tests.cases import for_each

WEB = {"type": "web_search_result_location", "cited_text": "Rain.", "title": "Oslo", "encrypted_index": "Ep=="}
DOCUMENT = {"cited_text": "Rain.", "document_index": 2, "document_title": "Diary", "file_id": "file_1"}
FOUND = {"type": "search_result_location", "title": "Notes", "search_result_index": 1, "start_block_index": 0}


def read(*at: int | None, **given: object) -> Citation | None:
    return citation(json.dumps(given).encode(), *at)


@for_each(
    "given, kept",
    [
        ({**WEB, "url": "https://a.example"}, Citation(text="Rain.", title="Oslo", url="https://a.example")),
        ({**WEB, "url": "javascript:alert(1)"}, Citation(text="Rain.", title="Oslo")),
        ({"type": "char_location", **DOCUMENT, "start_char_index": 4}, Citation(text="Rain.", title="Diary", index=2)),
        ({"type": "page_location", **DOCUMENT, "document_title": None}, Citation(text="Rain.", index=2)),
        ({**FOUND, "source": "https://b.example"}, Citation(title="Notes", url="https://b.example", index=1)),
        ({**FOUND, "source": "s3://inside"}, Citation(title="Notes", source="s3://inside", index=1)),
        ({"type": "file_citation", "file_id": "f", "filename": "b.pdf", "index": 0}, Citation(title="b.pdf", index=0)),
    ],
)
def test_what_names_a_source_is_kept_and_ids_are_not(given, kept):
    """Of each vendor's citations the quoted words, the names and the addresses on the web are kept."""
    assert read(**given) == kept
    place = Citation(**{**{f: getattr(kept, f) for f in kept.__struct_fields__}, "start": 3, "end": 9})
    assert read(3, 9, **given) == place


def test_a_vendor_may_state_the_place():
    """Where the vendor says for which words a source stands, that is kept, if it is a place in the text."""
    cited = {"type": "url_citation", "title": "A", "start_index": 2, "end_index": 5}
    assert read(**cited) == Citation(start=2, end=5, title="A")
    assert read(**{**cited, "end_index": 2}) == Citation(title="A")
    assert within(Citation(start=2, end=5, title="A"), 5) == Citation(start=2, end=5, title="A")
    assert within(Citation(start=2, end=5, title="A"), 4) == Citation(title="A")


def test_citations_are_bounded():
    """Long quotations and names are cut, an address that is too long is left out, and text is valid UTF-8."""
    found = read(cited_text="x" * 5_000, title="y" * 999, url="https://" + "z" * 2_000)
    assert found == Citation(text="x" * 1_000, title="y" * 300)


@for_each("given", [b"", b"null", b"[]", b'{"title": 7}', b'{"type": "file_path", "index": 1}', b"{"])
def test_what_names_no_source_is_no_citation(given):
    """An annotation of another kind, or one that cannot be read, is left out."""
    assert citation(given) is None
