"""The snapshot: the frozen prompt prefix of a session."""

from hypothesis import given
from hypothesis import strategies as st

from agent_core.context.snapshot import freeze
from tests.agent_core.history import spec

TOOLS = [spec("a"), spec("b", effect="write"), spec("c", timeout=1.0)]


@given(st.permutations(TOOLS))
def test_the_order_of_tools_is_always_the_same(tools):
    """A snapshot lists its tools by name, whatever order they came in, and its hash does not depend on it."""
    snapshot = freeze(model="m", instructions="i", tools=tools)
    assert [tool.name for tool in snapshot.tools] == ["a", "b", "c"]
    assert snapshot == freeze(model="m", instructions="i", tools=TOOLS)


def test_the_hash_names_what_the_model_sees():
    """Two snapshots have the same hash exactly when model, instructions, tool names, texts and schemas are the same."""
    base = freeze(model="m", instructions="i", tools=[spec("a")])
    others = [
        freeze(model="n", instructions="i", tools=[spec("a")]),
        freeze(model="m", instructions="j", tools=[spec("a")]),
        freeze(model="m", instructions="i", tools=[spec("b")]),
        freeze(model="m", instructions="i", tools=[]),
        freeze(model="m", instructions="i", tools=[spec("a"), spec("b")]),
    ]
    assert len({each.hash for each in (base, *others)}) == len(others) + 1
    behaves_otherwise = spec("a", effect="write", timeout=9.0, concurrency_safe=True, result_limit=7)
    assert freeze(model="m", instructions="i", tools=[behaves_otherwise]).hash == base.hash


def test_a_hash_is_short_and_plain():
    """A snapshot's hash is 16 hexadecimal digits."""
    digest = freeze(model="m", instructions="i", tools=[]).hash
    assert len(digest) == 16
    assert int(digest, 16) >= 0
