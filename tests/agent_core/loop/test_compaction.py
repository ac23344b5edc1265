"""Which way is chosen to make a window shorter. Pure."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from agent_core.agent.state import CompactionState, Tail, WindowFill, on_overflow, when_due
from agent_core.agents import Compaction

SUMMARY, CUT, OFF = Compaction(), Compaction(kind="cut"), Compaction(kind="off")
FULL = WindowFill(
    tokens=100_000,
    prefix=10_000,
    limit=200_000,
    threshold=90_000,
    summary=3_000,
    tails=(Tail(2, 5_000), Tail(8, 20_000), Tail(12, 40_000)),
    prune=Tail(12, 30_000),
    own=(Tail(3, 60_000),),
)


def way(fill: WindowFill, policy: Compaction = SUMMARY, *, whole: bool = False) -> tuple[str, int] | None:
    move = when_due(fill, 30, policy, whole=whole)
    return (move.kind, move.keep) if move else None


def overflow(fill: WindowFill, policy: Compaction = SUMMARY) -> tuple[str, int] | None:
    move = on_overflow(fill, 30, policy)
    return (move.kind, move.keep) if move else None


def test_a_summary_keeps_what_fits_of_the_last_messages():
    """It keeps the last three messages of people, or fewer, if they are long; results of the run itself stay."""
    assert way(FULL) == ("summary", 12)
    assert way(msgspec.structs.replace(FULL, threshold=60_000)) == ("summary", 8)
    assert way(msgspec.structs.replace(FULL, tokens=90_000)) is None
    assert way(msgspec.structs.replace(FULL, tails=(), prune=None)) is None


def test_results_become_placeholders_where_no_summary_reads_them():
    """A cut leaves out old results first, if that is enough; a summary has read what it stands for."""
    full = msgspec.structs.replace(FULL, tokens=201_000, prune=Tail(12, 100_000))
    assert way(full, CUT) == ("prune", 12)
    assert way(full) == ("summary", 12)
    assert way(msgspec.structs.replace(full, prune=Tail(12, 10_000)), CUT) == ("cut", 12)


def test_a_run_gives_up_its_own_results_only_where_it_must():
    """Beyond the model's limit a run's own part goes too, if nothing else does, and what no step has read last."""
    long = msgspec.structs.replace(FULL, tails=(), prune=None, tokens=201_000, own=(Tail(3, 150_000),))
    assert way(long, CUT) == ("prune", 3)
    assert overflow(msgspec.structs.replace(long, limit=None), CUT) == ("prune", 3)
    full = msgspec.structs.replace(long, own=(), steps=(Tail(0, 80_000),), unread=Tail(0, 60_000))
    assert overflow(full, CUT) == ("prune", 0)
    assert overflow(full) == ("summary", 0)
    assert overflow(msgspec.structs.replace(full, steps=(Tail(2, 20_000),)), CUT) == ("cut", 2)
    assert way(msgspec.structs.replace(full, tokens=100_000)) is None


def test_a_cut_is_made_at_the_limit_only():
    """What is lost for good is lost at the model's limit, or beyond, and not before."""
    assert way(FULL, CUT) is None
    assert way(msgspec.structs.replace(FULL, tokens=201_000), CUT) == ("cut", 12)
    assert overflow(FULL, CUT) == ("cut", 12)
    assert overflow(msgspec.structs.replace(FULL, limit=70_000), CUT) == ("cut", 8)
    assert way(msgspec.structs.replace(FULL, tokens=201_000), OFF) is None
    assert overflow(FULL, OFF) is None


def test_a_giant_message_cannot_be_made_shorter():
    """Where next to nothing can go, nothing is done: the prompt would be written to the cache again for it."""
    giant = WindowFill(tokens=100_000, tails=(Tail(1, 99_000),))
    assert overflow(giant) is None
    followed = msgspec.structs.replace(giant, tails=(Tail(1, 10), Tail(2, 99_010)))
    assert overflow(followed) == ("summary", 1), "the next message leaves it out"


def test_an_overflow_after_a_compaction_is_a_failed_try():
    """Three tries that did not help end it; each step counts its own compactions."""
    state = CompactionState().overflowed().succeeded()
    assert state.answers
    for _ in range(2):
        state = state.overflowed()
        assert not state.is_off
        state = state.succeeded()
    assert state.overflowed().is_off
    assert CompactionState(failures=2).started().overflowed().failures == 2
    assert CompactionState().failed(1).failed(1).failed(2).is_off


@given(
    tokens=st.integers(1, 300_000),
    tails=st.lists(st.tuples(st.integers(1, 30), st.integers(0, 200_000)), max_size=3),
    freed=st.integers(0, 100_000),
    limit=st.none() | st.integers(1_000, 300_000),
    kind=st.sampled_from(["summary", "cut", "off"]),
    whole=st.booleans(),
)
def test_whatever_is_done_frees_something(tokens, tails, freed, limit, kind, whole):
    """Every way that is chosen leaves a tenth less at least, so that no run compacts for ever."""
    kept = tuple(Tail(entries, min(size, tokens)) for entries, size in sorted(tails))
    prune = Tail(3, min(freed, tokens)) if freed else None
    fill = WindowFill(
        tokens=tokens,
        limit=limit,
        threshold=limit,
        tails=kept,
        prune=prune if kept else None,
        own=(prune,) if prune else (),
    )
    for move in (when_due(fill, 40, Compaction(kind=kind), whole=whole), on_overflow(fill, 40, Compaction(kind=kind))):
        if move is None:
            continue
        left = {"prune": tokens - (prune.tokens if prune else 0)}.get(
            move.kind, 0 if move.whole else next((each.tokens for each in kept if each.entries == move.keep), tokens)
        )
        assert left <= tokens * 0.9
