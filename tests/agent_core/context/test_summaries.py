"""Summaries: what is asked for, how long it may be, and how much of what is too long is read. Pure."""

from hypothesis import given
from hypothesis import strategies as st

from agent_core.agent.entries import IMAGE_TOKENS, INSTRUCTION, PAGE_TOKENS, bounded, instruction, shortened, tokens_of
from agent_core.agent.window import WindowEntry
from agent_core.messages import File, Message, Native, Reasoning, Text, ToolCall, ToolResult, text_of
from agent_core.providers.base import neutral
from tests.cases import for_each

NATIVE = Native("anthropic:m", ('{"type":"thinking"}',), ("toolu_1",))


def test_files_are_no_text():
    """An image and the pages of a PDF count by themselves, however many bytes they have; a text file is text."""
    image = Message("user", (Text("Look"), File("b", "cat.png", "image/png", 5_000_000)))
    pages = Message("tool", (ToolResult("c", "done", (File("b", "a.pdf", "application/pdf", 120_000),)),))
    text = Message("user", (File("b", "a.csv", "text/csv; charset=utf-8", 7_000),))
    assert IMAGE_TOKENS < tokens_of(image) < IMAGE_TOKENS + 30
    assert 3 * PAGE_TOKENS <= tokens_of(pages) < 3 * PAGE_TOKENS + 30
    assert tokens_of(text) == 2_007


def test_native_items_count_as_they_are_sent():
    """Of an answer that is replayed verbatim its native items count, with the texts that they name."""
    parts = (Text("x" * 1_000), ToolCall("c", "look", {"what": "y" * 500}))
    items = Native("anthropic:m", ('{"text":', 0, '},{"input":"' + "y" * 500 + '"}'))
    assert tokens_of(Message("assistant", parts, items)) == round((8 + 1_000 + 512 + 2) / 3.5)


@for_each(
    "wanted",
    [
        *("Goal", "Decisions", "reasons", "ids", "numbers", "names", "links", "Open questions", "State of the work"),
        *("Promises and refusals", "What was shown", "Language", "Do not call any tool", "begins with a summary"),
    ],
)
def test_the_prompt_asks_for_what_must_survive(wanted):
    """The request for a summary names each kind of thing that must not be lost, and bounds its length."""
    assert wanted in instruction(3_000)
    assert "at most 1800 words" in instruction(3_000)
    assert INSTRUCTION.count("{") == 1


def test_a_summary_is_bounded():
    """A summary far beyond what was asked for is cut, and says so."""
    assert bounded("  fine \n", 1_000) == "fine"
    assert len(bounded("x" * 100_000, 1_000)) == 8_004
    assert bounded("x" * 100_000, 1_000).endswith(" […]")


def talk(sizes: list[int]) -> list[WindowEntry]:
    """Return for each of *sizes* a question, a call with its result, and an answer."""
    messages = [
        message
        for n, size in enumerate(sizes)
        for message in (
            Message("user", (Text(f"question {n} {'x' * size}"),)),
            Message("assistant", (Reasoning("Hm."), ToolCall(f"c{n}", "look", {"what": "x" * size})), NATIVE),
            Message("tool", (ToolResult(f"c{n}", "done", (Text("y" * size),)),), NATIVE),
            Message("assistant", (Text(f"answer {n}"),)),
        )
    ]
    return [WindowEntry(n, message, neutral) for n, message in enumerate(messages)]


@given(sizes=st.lists(st.integers(0, 6_000), min_size=1, max_size=8), room=st.integers(300, 4_000))
def test_what_is_too_long_is_read_in_part(sizes, room):
    """What fits is sent as it was; else the longest messages are shortened, and none is left out or keeps native items.

    No call is parted from its result.
    """
    entries = talk(sizes)
    found = shortened(entries, room)
    if sum(entry.tokens for entry in entries) <= room:
        assert found == entries
        return
    assert [(entry.seq, entry.message.role) for entry in found] == [(each.seq, each.message.role) for each in entries]
    assert sum(entry.tokens for entry in found) <= room * 1.1 + 60 * len(found)
    assert [entry for entry in found if entry.message.native is not None] == []
    assert not any(isinstance(part, Reasoning) for entry in found for part in entry.message.parts)
    short = min(range(len(entries)), key=lambda place: entries[place].tokens)
    assert text_of(found[short].message.parts) == text_of(entries[short].message.parts)


def test_a_giant_message_keeps_its_ends():
    """It is shortened to its beginning and its end, and says how much is missing; a short one beside it is whole."""
    giant, short = (Message("user", (Text(text),)) for text in ("begins " + "x" * 50_000 + " ends", "short " * 90))
    cut, whole = shortened([WindowEntry(n, each, neutral) for n, each in enumerate((giant, short), 1)], 1_000)
    said = text_of(cut.message.parts)
    assert said.startswith("begins ")
    assert said.endswith(" ends")
    assert "characters were left out" in said
    assert whole.message == short
