"""Forks: a window's older part as it is sent to be summed up, whole or in pieces. Pure."""

from hypothesis import given
from hypothesis import strategies as st

from agent_core import Message, Reasoning, Text, ToolCall, ToolResult, text_of
from agent_core.context.estimates import UNCALIBRATED
from agent_core.context.forks import pieces
from agent_core.context.window import WindowEntry
from agent_core.domain.messages import Native
from agent_core.providers.base import neutral
from tests.cases import for_each

NATIVE = Native("anthropic:m", ('{"type":"thinking"}',), ("toolu_1",))


def exchange(n: int, size: int) -> list[WindowEntry]:
    """Return a question, a call with its result, and an answer."""
    call = ToolCall(f"c{n}", "look", {"what": "x"})
    messages = [
        Message("user", (Text(f"question {n} {'x' * size}"),)),
        Message("assistant", (Reasoning("Hm."), call), NATIVE),
        Message("tool", (ToolResult(f"c{n}", "done", (Text("y" * size),)),), NATIVE),
        Message("assistant", (Text(f"answer {n}"),)),
    ]
    return [WindowEntry(n, message, neutral) for message in messages]


def talk(sizes: list[int]) -> list[WindowEntry]:
    return [entry for n, size in enumerate(sizes) for entry in exchange(n, size)]


def tokens(entries: list[WindowEntry]) -> int:
    return sum(UNCALIBRATED.tokens(entry.weight) for entry in entries)


@for_each("room", [None, 100_000])
def test_what_fits_is_sent_as_it_was(room):
    """In one piece it has the entries of the window themselves, so that their bytes are in the cache."""
    entries = talk([100, 200])
    (whole,) = pieces(entries, room, UNCALIBRATED)
    assert whole == entries


@given(sizes=st.lists(st.integers(0, 6_000), min_size=1, max_size=8), room=st.integers(300, 4_000))
def test_pieces_keep_calls_with_their_results(sizes, room):
    """Each piece fits, no call is parted from its result, none holds native items, and nothing is left out."""
    entries = talk(sizes)
    found = pieces(entries, room, UNCALIBRATED)
    if len(found) == 1 and found[0] == entries:
        assert tokens(entries) <= room
        return
    assert [entry.seq for piece in found for entry in piece] == [entry.seq for entry in entries]
    for piece in found:
        assert piece[0].message.role != "tool"
        assert tokens(piece) <= room * 1.5 + 200
        assert [entry for entry in piece if entry.message.native is not None] == []
        assert not any(isinstance(part, Reasoning) for entry in piece for part in entry.message.parts)
        calls = [part.call for entry in piece for part in entry.message.parts if isinstance(part, ToolCall)]
        results = [part.call for entry in piece for part in entry.message.parts if isinstance(part, ToolResult)]
        assert calls == results


def test_a_giant_message_keeps_its_ends():
    """A message that fits in no piece is shortened to its beginning and its end, and says how much is missing."""
    text = "begins " + "x" * 50_000 + " ends"
    (piece,) = pieces([WindowEntry(1, Message("user", (Text(text),)), neutral)], 1_000, UNCALIBRATED)
    said = text_of(piece[0].message.parts)
    assert said.startswith("begins ")
    assert said.endswith(" ends")
    assert "48,012 characters were left out" in said
