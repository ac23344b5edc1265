"""When a window is compacted and how: thresholds, estimates, and the way that is chosen. Pure."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_core import File, Message, Text, ToolCall, ToolResult
from agent_core.context.compaction import (
    GROWTH,
    QUALITY,
    QUALITY_OF_CHEAP_READS,
    PromptBounds,
    TokenRates,
    bounds,
    expected,
    filling,
    pays_at_idle,
    threshold,
)
from agent_core.context.estimates import IMAGE_TOKENS, PAGE_TOKENS, UNCALIBRATED, Calibration, Weight, weight_of
from agent_core.context.history import PromptHistory
from agent_core.context.summaries import INSTRUCTION, bounded, instruction
from agent_core.context.window import Window
from agent_core.domain import events as e
from agent_core.domain.agents import Compaction
from agent_core.domain.compaction import Tail, WindowFill
from agent_core.domain.messages import Native, Usage
from agent_core.loop.compaction import CompactionState, on_overflow, when_due
from agent_core.providers.base import neutral
from tests.agent_core.history import history, opened, said, started
from tests.cases import for_each

PRICED: dict[str, Any] = {"read": 0.1, "write": 1.25, "output": 5.0}
SUMMARY, CUT, OFF = Compaction(), Compaction(kind="cut"), Compaction(kind="off")
TALK = PromptHistory()


def cost_per_call(rates: TokenRates, *, prefix: int, tail: int, summary: int, length: float, growth: int) -> float:
    """Return what a call costs on average when the window is compacted each time that it is *length* tokens long."""
    calls = (length - prefix - tail) / growth
    reads = rates.read * (prefix + tail + (length - prefix - tail) / 2) + rates.write * growth
    return reads + (rates.read * length + rates.output * summary + rates.write * tail) / calls


@for_each("read, wanted", [(0.1, 52_000), (0.05, 62_000), (0.025, 75_000)])
def test_the_cost_of_a_conversation_is_least_at_the_threshold(read, wanted):
    """The closed form is the least of a brute force over all lengths, as the facts have it, before quality counts."""
    rates = TokenRates(**{**PRICED, "read": read})
    shape = {"prefix": 22_000, "tail": 6_000, "summary": 3_000, "growth": GROWTH}
    lengths = range(30_000, 200_000, 500)
    best = min(lengths, key=lambda length: cost_per_call(rates, length=length, **shape))
    assert abs(best - wanted) < 4_000
    floor = QUALITY_OF_CHEAP_READS if read <= 0.05 else QUALITY
    assert threshold(PromptBounds(rates=rates), TALK, prefix=22_000, tail=6_000) == max(floor, best)
    wide = threshold(PromptBounds(rates=rates), TALK, prefix=122_000, tail=6_000)
    best = min(
        range(129_000, 400_000, 500), key=lambda n: cost_per_call(rates, length=n, **{**shape, "prefix": 122_000})
    )
    assert wide is not None
    assert abs(wide - best) < 4_000, "above the floor it is the closed form"


def test_the_threshold_is_between_quality_and_what_fits():
    """A model's limit and its price for long prompts bound the threshold; without a price only the limit is known."""
    rates = TokenRates(**PRICED, above=60_000)
    assert threshold(PromptBounds(rates=rates), TALK, prefix=1, tail=1) == 60_000
    assert threshold(PromptBounds(limit=9_000, rates=rates), TALK, prefix=1, tail=1) == 9_000
    assert threshold(PromptBounds(limit=9_000), TALK, prefix=1, tail=1) == 9_000
    assert threshold(PromptBounds(), TALK, prefix=1, tail=1) is None
    assert bounds(200_000, 64_000, None).limit == 136_000
    assert bounds(9_000, 64_000, None).limit == 6_000, "an answer does not take all of a small context"
    assert bounds(8_000, 64_000, None).summary == 666


def test_misses_make_compaction_pay_sooner():
    """Where calls often miss the cache, each token of the window costs more: the threshold falls."""
    wide = {"prefix": 90_000, "tail": 6_000}
    often = PromptHistory(calls=10, medium=4, long=1)
    calm, stormy = (threshold(PromptBounds(rates=TokenRates(**PRICED)), each, **wide) for each in (TALK, often))
    assert calm is not None
    assert stormy is not None
    assert stormy < calm


def test_idle_compaction_asks_whether_people_come_back():
    """It pays by the chance of a return after the expiry, which the session's own pauses tell."""
    sizes = {"tokens": 100_000, "prefix": 20_000, "tail": 10_000}
    rates = TokenRates(**PRICED)
    new, faithful = TALK, PromptHistory(calls=9, medium=4)
    third = 1.25 * 70_000 / 3
    assert pays_at_idle(rates, new, **sizes, cost=third - 1)
    assert not pays_at_idle(rates, new, **sizes, cost=third + 1)
    assert pays_at_idle(rates, faithful, **sizes, cost=third + 1)


def test_estimates_are_calibrated_by_what_was_counted():
    """The ratio of a model nears what its calls were counted at, and the error is stated."""
    known = UNCALIBRATED
    for _ in range(12):
        known = known.after(Weight(20_000, 0), 10_000)
    assert known.tokens(Weight(2_000, 0)) == pytest.approx(1_000, rel=0.02)
    assert known.error < 0.05
    assert UNCALIBRATED.after(Weight(20_000, 0), 10_000).tokens(Weight(2_000, 0)) == 1_000, "the first call sets it"
    assert UNCALIBRATED.after(Weight(100, 0), 50) == UNCALIBRATED, "of a small prompt most is scaffolding"
    off = known.after(Weight(20_000, 0), 10_000, estimated=20_000)
    assert off.error > known.error


def test_files_are_no_text():
    """An image and the pages of a PDF count by themselves, however many bytes they have; a text file is text."""
    image = Message("user", (Text("Look"), File("b", "cat.png", "image/png", 5_000_000)))
    pages = Message("tool", (ToolResult("c", "done", (File("b", "a.pdf", "application/pdf", 120_000),)),))
    text = Message("user", (File("b", "a.csv", "text/csv; charset=utf-8", 7_000),))
    assert weight_of(image).tokens == IMAGE_TOKENS
    assert weight_of(image).bytes < 100
    assert weight_of(pages).tokens == 3 * PAGE_TOKENS
    assert weight_of(text) == Weight(7_024, 0)


def test_native_items_weigh_what_is_sent():
    """Of an answer that is replayed verbatim its native items count, with the texts that they name."""
    parts = (Text("x" * 1_000), ToolCall("c", "look", {"what": "y" * 500}))
    items = Native("anthropic:m", ('{"text":', 0, '},{"input":"' + "y" * 500 + '"}'))
    assert weight_of(Message("assistant", parts, items)).bytes == 8 + 1_000 + 512 + 2


def asked(n: int, tokens: int, *, model: str = "scripted:m") -> list[e.FactBody]:
    """Return the first step of a session, whose prompt was counted as *tokens*."""
    step = started(n, takes=(1,), controls={"model": model})
    usage = Usage(tokens - 100, 20, None, 100, 0, 0)
    return [
        *opened("Question " * 50),
        step,
        said(n, Text("Answer " * 100)),
        e.StepCompleted(n=n, usage=usage, cost=None),
    ]


def test_only_what_came_since_is_estimated():
    """The tokens of the last prompt are known; its answer and what came later are estimated."""
    window = Window(neutral, prefix="s")
    window.apply(history(*asked(1, 5_000)))
    answer = UNCALIBRATED.tokens(window.entries[-1].weight)
    found = expected(window, "scripted:m", UNCALIBRATED, prefix=777, taken=50)
    assert found == 5_000 + answer + 50
    every = sum(UNCALIBRATED.tokens(entry.weight) for entry in window.entries)
    other = expected(window, "scripted:other", UNCALIBRATED, prefix=777)
    assert abs(other - (777 + every)) <= 1, "another model has another measure"
    window.apply(history(e.ContextCompacted(kind="prune", from_seq=1, tokens_before=1, tokens_after=1), first=7))
    after = expected(window, "scripted:m", UNCALIBRATED, prefix=777)
    assert abs(after - (777 + every)) <= 1, "after a compaction nothing is measured"


def test_a_calm_window_is_not_looked_at():
    """Below the lowest threshold only the tokens are known, at the cost of the entries since the last call."""
    window = Window(neutral, prefix="s")
    window.apply(history(*asked(1, 5_000)))
    rates = TokenRates(**PRICED)
    calm = filling(window, PromptBounds(limit=9_000, rates=rates), UNCALIBRATED, tokens=5_300, prefix=700, look=False)
    assert (calm.tokens, calm.threshold, calm.tails) == (5_300, None, ())
    assert not calm.is_due
    wary = Calibration(ratio=3.5, error=0.9, calls=1)
    full = filling(window, PromptBounds(limit=9_000, rates=rates), wary, tokens=5_300, prefix=700, look=False)
    assert full.is_due, "the error of the estimates is a margin"
    assert full.estimated == 5_300, "which is none of the estimate itself"


@for_each("kind, limit", [("off", 9_000), ("cut", 200_000)])
def test_what_decides_nothing_is_not_looked_at(kind, limit, monkeypatch: pytest.MonkeyPatch):
    """Without compaction, and for a cut below the model's limit, no entry is looked at however full the window is."""
    window = Window(neutral, prefix="s")
    window.apply(history(*asked(1, 100_000)))
    monkeypatch.setattr(Window, "steps", property(lambda _: pytest.fail("looked at")))
    given = PromptBounds(limit=limit, rates=TokenRates(**PRICED))
    calm = filling(window, given, UNCALIBRATED, tokens=100_300, prefix=700, look=kind == "off", kind=kind)
    assert (calm.tokens, calm.threshold, calm.tails) == (100_300, None, ())
    with pytest.raises(pytest.fail.Exception):
        filling(window, given, UNCALIBRATED, tokens=100_300, prefix=700, look=False)


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


def test_first_results_become_placeholders_if_that_is_enough():
    """Placeholders for old results lose least; where they do not free enough the older part is summed up instead."""
    assert way(msgspec.structs.replace(FULL, prune=Tail(12, 50_000))) == ("prune", 12)
    assert way(FULL) == ("summary", 12), "it keeps the last three messages of people"
    assert way(msgspec.structs.replace(FULL, threshold=60_000)) == ("summary", 8), "or fewer, if they are long"
    assert way(msgspec.structs.replace(FULL, tokens=90_000)) is None
    assert way(msgspec.structs.replace(FULL, tails=(), prune=None)) is None, "a run keeps its own results"


def test_a_run_gives_up_its_own_results_only_where_it_must():
    """Beyond the model's limit old results of the run itself go too, if nothing else does."""
    long = msgspec.structs.replace(FULL, tails=(), prune=None, tokens=201_000)
    assert way(long) == ("prune", 3)
    assert overflow(msgspec.structs.replace(long, limit=None)) == ("prune", 3)
    full = msgspec.structs.replace(long, own=(), steps=(Tail(0, 80_000),), unread=Tail(0, 60_000))
    assert overflow(full, CUT) == ("prune", 0), "what no step has read goes last"
    assert overflow(msgspec.structs.replace(full, steps=(Tail(2, 20_000),)), CUT) == ("cut", 2)
    assert way(msgspec.structs.replace(full, tokens=100_000)) is None


def test_a_cut_is_made_at_the_limit_only():
    """What is lost for good is not given away for its price; at the limit, or beyond, it is."""
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
