"""Text blocks of Claude's that lie side by side, as one text."""

from agent_core.messages import Citation
from agent_core.providers.base import ModelCitation, ModelTextDelta
from tests.agent_core.providers.anthropic.messages_events import TEXT, begin, change, close, start, stop, text, words
from tests.agent_core.providers.anthropic.test_provider import answered, deltas, native, of


def said(found) -> dict[int, str]:
    slots: dict[int, str] = {}
    for delta in of(ModelTextDelta, found):
        slots[delta.slot] = slots.get(delta.slot, "") + delta.text
    return slots


def test_blocks_side_by_side_have_one_slot():
    """Blocks that follow each other are one text; one that begins while another is open is a text of its own."""
    assert said(answered(text(0, "a"), text(1, " "), text(2, "b"))) == {0: "a b"}
    open_ = [begin(0, TEXT), begin(1, TEXT), *words(0, "a"), *words(1, "b"), *words(0, "c"), close(0), close(1)]
    assert said(answered(open_)) == {0: "ac", 1: "b"}


def test_whole_blocks_of_a_first_event_are_one_text():
    """The blocks that a paused answer goes on with, whole in its first event, are joined too, with their sources."""
    first = start()
    cited = {"type": "text", "text": "🌧 now", "citations": [{"cited_text": "Rain", "encrypted_index": "x"}]}
    first["message"]["content"] = [{"type": "text", "text": "It is "}, cited, {"type": "text", "text": "."}]
    found = deltas(first, stop("end_turn"))
    assert said(found) == {0: "It is 🌧 now."}
    assert of(ModelCitation, found) == [ModelCitation(0, Citation(start=6, end=11, text="Rain"))]
    assert native(found) == first["message"]["content"]


def test_the_blocks_of_a_model_go_back_as_it_wrote_them():
    """Several plain blocks keep their borders for their model; blank ones are left out once and for all."""
    found = answered(text(0, " "), text(1, "a\n"), text(2, " "), text(3, "b"))
    assert said(found) == {0: " a\n b"}
    assert native(found) == [{"type": "text", "text": "a\n"}, {"type": "text", "text": "b"}]


def test_a_blank_block_has_no_sources():
    """A source of no words is none."""
    cited = change(0, "citations_delta", citation={"cited_text": "Rain"})
    assert of(ModelCitation, answered([begin(0, TEXT), cited, close(0)])) == []


def test_a_paused_answer_ends_its_paragraph_where_a_tool_follows():
    """What a paused answer said before its server's tool is a paragraph; text at its very end may go on."""
    search = [begin(1, {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}), close(1)]
    found = answered(text(0, "I look."), search, reason="pause_turn")
    assert said(found) == {0: "I look.\n\n"}
    assert native(found)[0] == {"type": "text", "text": "I look."}
    assert said(answered(text(0, "I look.\n"), search, reason="pause_turn")) == {0: "I look.\n"}
    assert said(answered(search, text(2, "Half a"), reason="pause_turn")) == {1: "Half a"}
    assert said(answered(text(0, "I look."), search)) == {0: "I look."}
