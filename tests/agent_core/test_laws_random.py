"""Laws 4, 8 and 9 of the design, and the rest of the contract, on random sessions: no plan may break them."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings

from agent_core import events as e
from agent_core.agent.frames import CORRECTION, STOPPED_NOTE
from agent_core.agent.state import MAX_FAILURES, OVERFLOW, Compact, replay
from agent_core.agent.strategy import announce, react
from agent_core.agent.window import PromptHistory, Window
from agent_core.agents import Agent
from agent_core.clock import SystemClock
from agent_core.events import (
    CompactionFailed,
    ContextAdded,
    ContextCompacted,
    Fact,
    MessageCompleted,
    MessageReceived,
    SnapshotFrozen,
    StepStarted,
)
from agent_core.messages import Actor, Message, Part, Reasoning, ToolCall, ToolResult, text_of
from agent_core.providers.base import neutral
from agent_core.runtime.compacting import Compactor, PromptCache
from agent_core.testing import ScriptedProvider
from tests.agent_core.laws import check_log
from tests.agent_core.random_plans import EVERYTHING, SHRINKING, Plan, plans
from tests.agent_core.random_session import Asked, RandomSession
from tests.agent_core.stage import unmarked
from tests.agent_core.wires import wires
from tests.conftest import Fresh

LEFT_OUT = "[note] What was said here was left out"
REWRITES = (ContextCompacted, SnapshotFrozen, e.ContentLeftOut)

DECIDED = (StepStarted, e.ToolStarted, e.RunWaiting, ContextCompacted, CompactionFailed, *e.TERMINAL)


def no_session_breaks_the_log(session: RandomSession) -> None:
    """Whatever happens in a session, its log keeps the rules of the contract and every run comes to an end."""
    check_log(session.facts)
    ended = {fact.run for fact in session.facts if isinstance(fact.body, e.TERMINAL)}
    assert ended == {fact.run for fact in session.facts if fact.run}


def law_4_the_strategy_derives_everything_from_state(session: RandomSession) -> None:
    """Whatever a run decided follows from the replay of the log as it was then: no decision needs more than that."""
    marker = session.windows[0][0].frames.marker
    for fact in session.facts:
        if isinstance(fact.body, DECIDED) and fact.run:
            assert is_explained(session.facts, fact, session.agents[fact.run], marker), fact


def is_explained(facts: Sequence[Fact], decided: Fact, agent: Agent, marker: str) -> bool:
    """Return whether the strategy, on some prefix of the log that ends before, announces just what follows it."""
    assert decided.run
    compactor = Compactor(lambda _: ScriptedProvider(()), SystemClock(), _no_file, PromptCache())
    place = decided.seq - 1
    for end in range(place, max(place - 12, 0), -1):
        prefix, following = facts[:end], [fact for fact in facts[end:] if fact.run == decided.run]
        window = Window(neutral, marker=marker)
        window.apply(prefix)
        last = window.history.newest_call
        state = replay(decided.run, prefix)
        fill = compactor.fill(window, agent, state)
        state = state.with_window(size=len(window.entries), border=window.border, fill=fill, last=last)
        move = react(state, agent)
        if isinstance(move, Compact):
            if following[0] == decided and _carries_out(move, window, following[0].body):
                return True
            continue
        announced = announce(move, state, agent, _shown(following[0].body))
        expected = [_placed(body, fact.seq) for body, fact in zip(announced, following, strict=False)]
        written = [fact.body for fact in following[: len(expected)]]
        if expected == written and decided in following[: len(expected)]:
            return True
    return False


async def _no_file(_name: str) -> None:
    return None


def _carries_out(move: Compact, window: Window, body: e.FactBody) -> bool:
    """Return whether *body* is what became of *move*: just what was decided, or a summary that failed."""
    if isinstance(body, CompactionFailed):
        return move.kind == "summary"
    place = len(window.entries) - move.keep
    border = window.start_of(move.keep, whole=move.whole, inside=move.inside)
    start = window.seq_at(place if move.kind == "prune" else border)
    return isinstance(body, ContextCompacted) and (body.kind, body.from_seq) == (move.kind, start)


def _shown(body: e.FactBody) -> tuple[Part, ...]:
    """Return what people had read of an answer that no attempt completed: it happened, no strategy decides it."""
    return body.parts if isinstance(body, MessageCompleted) and body.partial else ()


def _placed(body: e.FactBody, seq: int) -> e.FactBody:
    """Return a draft as it stands at *seq*."""
    if not isinstance(body, StepStarted):
        return body
    return msgspec.structs.replace(body, takes=tuple(take if take > 0 else seq + take for take in body.takes))


def law_8_the_window_of_a_prefix_is_a_prefix_of_the_window(session: RandomSession) -> None:
    """Each request's bytes of tools, system and messages begin with those of the request before.

    Only a compaction or a new snapshot between them may change that, restarts and stops may not.
    """
    changes = [fact.seq for fact in session.facts if isinstance(fact.body, REWRITES)]
    for before, after in zip(session.asked, session.asked[1:], strict=False):
        if not any(before.step < seq < after.step for seq in changes):
            assert after.prefix.startswith(before.prefix), (before, after)


def law_8_holds_on_every_wire(session: RandomSession) -> None:
    """What Messages, Responses and Chat Completions send of a request begins with what they sent of the one before.

    Restarts, dictionaries in another order and edits of the agent change no byte of it.
    """
    changes = [fact.seq for fact in session.facts if isinstance(fact.body, REWRITES)]
    for bytes_of in wires():
        sent = [bytes_of(replace(asked.request, messages=asked.entries)) for asked in session.asked]
        for place, (before, after) in enumerate(pairwise(session.asked)):
            if not any(before.step < seq < after.step for seq in changes):
                assert sent[place + 1].startswith(sent[place]), (before, after)


def law_8_reasoning_from_before_a_new_prefix_is_gone_for_good(session: RandomSession) -> None:
    """Reasoning is replayed until a compaction or a new snapshot, and never again after it."""
    changes = [fact.seq for fact in session.facts if isinstance(fact.body, REWRITES)]
    for asked in session.asked:
        newest = max((seq for seq in changes if seq < asked.step), default=0)
        for entry in asked.entries:
            thinks = any(isinstance(part, Reasoning) for part in entry.message.parts)
            said = _completed(session.facts, entry.seq)
            wanted = said is not None and not said.partial and any(isinstance(p, Reasoning) for p in said.parts)
            assert thinks == (wanted and entry.seq > newest)


def _completed(facts: Sequence[Fact], seq: int) -> e.MessageCompleted | None:
    body = facts[seq - 1].body
    return body if isinstance(body, e.MessageCompleted) else None


def law_8_a_summary_is_asked_for_after_the_window_as_it_was(session: RandomSession) -> None:
    """A window that fits is sent as it was before: its bytes and those of the request before begin the same."""
    for summed in session.summed:
        before = [asked for asked in session.asked if asked.step <= summed.seq][-1]
        changes = [fact for fact in session.facts if isinstance(fact.body, REWRITES) or _overflowed(fact)]
        if not any(before.step < fact.seq <= summed.seq for fact in changes):
            one, other = sorted((before.prefix, summed.prefix), key=len)
            assert other.startswith(one), (before, summed)


def a_summary_stands_in_front_until_the_next_cut(session: RandomSession) -> None:
    """Every request begins with the newest summary, if nothing was left out since, and has no other one."""
    for asked in session.asked:
        cut = _newest_cut(session.facts, asked.step)
        found = {place: entry for place, entry in enumerate(asked.entries) if entry.summary}
        if cut is None or cut.summary is None:
            assert not found
        else:
            assert list(found) == [0]
            assert unmarked(text_of(found[0].message.parts)).endswith(cut.summary)


def every_call_has_its_result(session: RandomSession) -> None:
    """Whatever was left out of a window, calls and their results stand side by side in it, or neither does."""
    for asked in session.asked:
        messages = [entry.message for entry in asked.entries]
        for before, after in pairwise([Message("user", ()), *messages, Message("user", ())]):
            calls = [part.call for part in before.parts if isinstance(part, ToolCall)]
            assert calls == [part.call for part in after.parts if isinstance(part, ToolResult)], asked


def law_9_the_model_sees_what_the_steps_named(session: RandomSession) -> None:
    """What people and notes said to the model in a request is what the steps up to it took, in that order."""
    for asked in session.asked:
        assert _sent(asked) == _named(session.facts, asked.step)


def _sent(asked: Asked) -> list[str]:
    entries = [entry for entry in asked.entries if entry.message.role == "user" and not entry.summary]
    said = [unmarked(text_of(entry.message.parts)) for entry in entries]
    return [text for text in said if text != STOPPED_NOTE and not text.startswith(LEFT_OUT)]


def _newest_cut(facts: Sequence[Fact], step: int) -> ContextCompacted | None:
    """Return the newest compaction before *step* that left something out for good; placeholders stay in place."""
    bodies = [fact.body for fact in facts[: step - 1] if isinstance(fact.body, ContextCompacted)]
    return next((body for body in reversed(bodies) if body.kind != "prune"), None)


def _named(facts: Sequence[Fact], step: int) -> list[str]:
    """Return the texts that the steps up to *step* took, from the last cut on, and those that it kept.

    Those that were left out, as a provider refused them, are not among them.
    """
    cut = _newest_cut(facts, step)
    gone = [fact.body for fact in facts[: step - 1] if isinstance(fact.body, e.ContentLeftOut)]
    start, kept = (cut.from_seq, cut.kept_seq) if cut else (0, None)
    return [
        text
        for fact in facts[:step]
        if isinstance(fact.body, StepStarted) and (fact.seq >= start or fact.seq == kept)
        if not any(each.from_seq <= fact.seq <= each.to_seq for each in gone)
        for text in _taken(facts, fact.body.takes)
    ]


def _taken(facts: Sequence[Fact], takes: Sequence[int]) -> list[str]:
    """Return the texts of what a step takes; a correction of what it takes too stands in that one's place."""
    texts: dict[int, str] = {}
    for take in takes:
        body = facts[take - 1].body
        if isinstance(body, e.MessageCorrected):
            place = body.corrects if body.corrects in takes else take
            before = _speaker(facts[place - 1].body) if place != take else f"{_speaker(body)}{CORRECTION}\n\n"
            texts[place] = f"{before}{text_of(body.parts)}"
        elif getattr(body, "role", "user") == "user":
            texts[take] = _text(facts[take - 1])
    return list(texts.values())


def _text(fact: Fact) -> str:
    if isinstance(fact.body, ContextAdded):
        return f"[{fact.body.source}] {fact.body.text}"
    assert isinstance(fact.body, MessageReceived | e.MessageCompleted), f"a step took {fact}"
    return f"{_speaker(fact.body)}{text_of(fact.body.parts)}"


def _speaker(body: e.FactBody) -> str:
    """Return what stands before a message where several people write."""
    match body:
        case MessageReceived(actor=actor, named=True) | e.MessageCorrected(actor=Actor() as actor):
            return f"[speaker] {actor.name or actor.id}\n\n"
        case _:
            return ""


def a_rebuilt_window_equals_the_one_that_grew(session: RandomSession) -> None:
    """A session's window, rebuilt from the log after a restart, is the one that grew fact by fact, its history too."""
    for grown, rebuilt in session.windows:
        assert _calls_of(rebuilt.history) == _calls_of(grown.history)
        assert _shape(rebuilt) == _shape(grown)
        assert rebuilt.snapshot == grown.snapshot


def _calls_of(history: PromptHistory) -> tuple[object, ...]:
    """Return the last calls of a history; how many entries they had counts only while those are there."""
    calls = [call and msgspec.structs.replace(call, entries=0) for call in (history.last, history.newest_call)]
    return (*calls, history.rewritten, history.previous)


def _shape(window: Window) -> list[tuple[int, bool, bool, Message]]:
    return [(entry.seq, entry.border, entry.summary, entry.message) for entry in window.entries]


def a_cache_that_keeps_all_is_missed_for_a_new_snapshot_only(session: RandomSession) -> None:
    """With a cache that loses nothing only a run with its own instructions, and the next one without, read less."""
    assert {fact.body.cause for fact in session.facts if isinstance(fact.body, e.CacheMissed)} <= {"system"}


def what_was_deleted_unseen_stays_unseen(session: RandomSession) -> None:
    """No step takes a message after its deletion, nor a correction of it."""
    gone: set[int] = set()
    for fact in session.facts:
        if isinstance(fact.body, e.MessageCorrected) and not fact.body.parts:
            gone.add(fact.body.corrects)
        elif isinstance(fact.body, StepStarted):
            assert gone.isdisjoint(fact.body.takes)


def a_window_stays_within_its_limit(session: RandomSession) -> None:
    """A request holds no more messages than the limit where the window could have been cut at a border.

    The request that continues a paused answer is exempt: that answer must go back whole. So is one for which room could
    not be made, and those of a run that has given up making room.
    """
    limit = session.plan.max_context_messages
    cuts = [fact for fact in session.facts if isinstance(fact.body, ContextCompacted)]
    assert limit is not None or not cuts or any(_overflowed(fact) for fact in session.facts)
    for asked in session.asked:
        step = session.facts[asked.step - 1].body
        first_try = isinstance(step, StepStarted) and step.attempt == 1
        older = asked.entries[next((place for place, each in enumerate(asked.entries) if not each.summary), 0) + 1 :]
        could_cut = any(entry.border and entry.seq < asked.step for entry in older)
        run = session.facts[asked.step - 1].run
        said = [fact.body for fact in session.facts[: asked.step - 1] if fact.run == run]
        answers = [body for body in said if isinstance(body, MessageCompleted) and body.role == "assistant"]
        paused = bool(answers) and answers[-1].stop == "continue"
        exempt = paused or not (first_try and could_cut) or _failed_to_make_room(session.facts[: asked.step - 1], run)
        assert limit is None or exempt or len(asked.entries) <= limit


def _failed_to_make_room(facts: Sequence[Fact], run: str | None) -> bool:
    """Return whether a summary failed just before the next step of *run*, or too often in it."""
    own = [fact for fact in facts if fact.run == run]
    failures = [fact for fact in own if isinstance(fact.body, CompactionFailed) or _overflowed(fact)]
    newest = next((x.body for x in reversed(own) if isinstance(x.body, StepStarted | CompactionFailed)), None)
    return isinstance(newest, CompactionFailed) or len(failures) >= MAX_FAILURES


def _overflowed(fact: Fact) -> bool:
    return isinstance(fact.body, e.StepFailed) and fact.body.code == OVERFLOW


LAWS = (
    no_session_breaks_the_log,
    law_4_the_strategy_derives_everything_from_state,
    law_8_the_window_of_a_prefix_is_a_prefix_of_the_window,
    law_8_holds_on_every_wire,
    law_8_reasoning_from_before_a_new_prefix_is_gone_for_good,
    law_8_a_summary_is_asked_for_after_the_window_as_it_was,
    law_9_the_model_sees_what_the_steps_named,
    a_summary_stands_in_front_until_the_next_cut,
    every_call_has_its_result,
    a_rebuilt_window_equals_the_one_that_grew,
    a_cache_that_keeps_all_is_missed_for_a_new_snapshot_only,
    what_was_deleted_unseen_stays_unseen,
    a_window_stays_within_its_limit,
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plan=plans())
@example(plan=EVERYTHING)
def test_no_session_breaks_a_law(fresh: Fresh, plan: Plan):
    """Whatever happens in a session, on a fresh database, every law above holds on what it left."""
    obeys(fresh, plan)


@pytest.mark.whole
@settings(max_examples=108, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plan=plans())
def test_none_of_many_sessions_breaks_a_law(fresh: Fresh, plan: Plan):
    """The same of nine times as many sessions, on both databases."""
    obeys(fresh, plan)


@pytest.mark.parametrize("kinds", [{"summary"}, {"cut", "prune"}], ids=["summary", "cut"])
def test_no_prune_and_no_summary_breaks_a_law(fresh: Fresh, kinds: set[str]):
    """The same of a session that is summed up, with summaries that fail, and of one that is pruned and cut."""
    is_cut = "cut" in kinds
    session = obeys(fresh, replace(SHRINKING, kind="cut") if is_cut else SHRINKING)
    assert {fact.body.kind for fact in session.facts if isinstance(fact.body, ContextCompacted)} == kinds
    assert is_cut or any(isinstance(fact.body, CompactionFailed) for fact in session.facts)


def obeys(fresh: Fresh, plan: Plan) -> RandomSession:
    """Live through *plan*, check every law on it, and return it."""
    with fresh() as open_database:
        session = asyncio.run(RandomSession(open_database, plan).live())
    for law in LAWS:
        law(session)
    return session
