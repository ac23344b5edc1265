"""RunState: what has happened in one run, as a pure fold of the session's facts."""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Literal

import msgspec
from msgspec.structs import replace

from agent_core import events as e
from agent_core.agent.compaction import OVERFLOW, CompactionState, WindowFill
from agent_core.agent.waiting import AnswerState, InboxState, StepState, WaitingState
from agent_core.controls import PromptCall, Spent
from agent_core.events import Fact, FactBody
from agent_core.messages import Actor, Part, ToolResult, Usage

REPAIR = "repair"
"""Reason of a snapshot with unchanged content: a model refused its earlier reasoning, which is left out from now on."""
CRASHED, RESTARTED = "crashed", "restarted"
HANDED_OVER, OUTAGE, DUE, ANSWERED = "handed_over", "outage", "due", "answered"
BLAMELESS = frozenset({HANDED_OVER, OUTAGE, DUE, ANSWERED})
"""Causes of a resume that are no fault of the run: its worker was stopped, the database was away, a wait is over."""
RunPhase = Literal["new", "queued", "running", "waiting", "ended"]


class RunState(msgspec.Struct, frozen=True):
    """Everything that the strategy needs to decide what comes next, in parts: step, inbox, answer, waiting, compaction.

    *seq* is the newest fact of the session that is folded in. *failed_resumes* counts resumes after a crash since the
    run last made progress. *usage* and *cost* (a decimal in US dollars) are sums; a sum with an unknown part is None,
    while *spent* sums what is known.
    *window_size* is how many entries the window has, *window_border* how many of them lie before the newest place where
    it may be cut; *last_call* is the session's newest model call, and *fill* says how full the window is, where the
    driver has looked. *asker* wrote the message that opened the run; that of a run for what another left is not in its
    own facts, see `for_inputs`.
    """

    run: str
    seq: int = 0
    phase: RunPhase = "new"
    epoch: int = 0
    failed_resumes: int = 0
    cancelling: e.RunCancelling | None = None
    step: StepState = StepState()
    inbox: InboxState = InboxState()
    answer: AnswerState = AnswerState()
    waiting: WaitingState = WaitingState()
    usage: Usage | None = None
    cost: str | None = "0"
    spent: Spent = Spent()
    window_size: int = 0
    window_border: int = 0
    last_call: PromptCall | None = None
    fill: WindowFill | None = None
    compaction: CompactionState = CompactionState()
    asker: Actor | None = None
    untrusted_since: int | None = None

    def apply(self, *facts: Fact) -> "RunState":
        """Return the state after *facts*, which follow `seq` in the session's log; other runs' facts only count."""
        state = _folded(self, ((fact.seq, fact.body) for fact in facts if fact.run == self.run))
        return replace(state, seq=facts[-1].seq) if facts else state

    def preview(self, held: Iterable[FactBody]) -> "RunState":
        """Return the state as it would be with *held* appended."""
        bodies = tuple(held)
        return _folded(self, ((index - len(bodies), body) for index, body in enumerate(bodies)))

    def at(self, seq: int) -> "RunState":
        """Return the state with the facts up to *seq* known to hold nothing more of this run."""
        return replace(self, seq=max(self.seq, seq))

    def for_inputs(self, inputs: Iterable[Fact]) -> "RunState":
        """Return the state of a run that answers the messages *inputs*, which an ended run left; the first one asks."""
        askers = (fact.body.actor for fact in inputs if isinstance(fact.body, e.MessageReceived))
        return replace(self, asker=self.asker or next(askers, None))

    def with_window(
        self,
        *,
        size: int,
        border: int,
        fill: WindowFill | None = None,
        sources_asked: bool = False,
        last: PromptCall | None = None,
    ) -> "RunState":
        """Return the state with the window's shape noted, and whether the driver has asked the context sources.

        *last* is the newest model call of the window's history.
        """
        inbox = self.inbox.with_sources_asked() if sources_asked else self.inbox
        return replace(self, window_size=size, window_border=border, fill=fill, last_call=last, inbox=inbox)


def replay(run: str, facts: Iterable[Fact]) -> RunState:
    """Return the state of *run* after *facts* of its session, oldest first."""
    return RunState(run).apply(*facts)


def _folded(s: RunState, facts: Iterable[tuple[int, FactBody]]) -> RunState:
    """Return the state after *facts*, each with its seq; imported messages are thousands, and folded together."""
    imported: list[tuple[int, e.MessageCompleted]] = []
    for seq, body in facts:
        if isinstance(body, e.MessageCompleted) and not s.step.is_answered_by(body):
            imported.append((seq, body))
            continue
        if imported:
            s, imported = _with_imported(s, imported), []
        s = _fold(s, seq, body)
    return _with_imported(s, imported)


def _with_imported(s: RunState, imported: Sequence[tuple[int, e.MessageCompleted]]) -> RunState:
    if not imported:
        return s
    by_user = [seq for seq, body in imported if body.role == "user"]
    s = replace(s, inbox=s.inbox.with_imported([seq for seq, _ in imported], by_user=by_user))
    return _with_untrusted(s, [part for _, body in imported for part in body.parts])


def _fold(s: RunState, seq: int, body: FactBody) -> RunState:
    match body:
        case e.MessageReceived():
            is_first = s.phase == "new"
            asker = body.actor if is_first and s.asker is None else s.asker
            waiting = s.waiting.with_wanted(body.parts) if is_first else s.waiting
            inbox = s.inbox.with_message(seq, steered=not is_first)
            return _with_untrusted(replace(s, inbox=inbox, asker=asker, waiting=waiting), body.parts)
        case e.MessageCorrected():
            return replace(s, inbox=s.inbox.corrected(seq, body.corrects, deleted=not body.parts))
        case e.ContextAdded():
            return replace(s, inbox=s.inbox.with_note(seq) if body.by is None else s.inbox.with_recalled(seq))
        case e.MessageCompleted():
            return replace(s, step=replace(s.step, is_open=False), answer=s.answer.closed(body.stop, body.parts))
        case e.StepStarted() | e.StepFailed() | e.StepCompleted() | e.ContextCompacted() | e.CompactionFailed():
            return _fold_step(s, body)
        case e.ContentLeftOut():
            return replace(s, compaction=s.compaction.succeeded())
        case e.ToolRequested() | e.ToolStarted() | e.ToolPending() | e.ToolCompleted():
            return _fold_call(s, body)
        case e.HookRuled() | e.ApprovalRequested() | e.ApprovalDecided():
            return replace(s, waiting=_with_verdict(s.waiting, body))
        case e.ControlsChanged():
            return replace(s, step=s.step.with_changes(body))
        case e.SnapshotFrozen():
            is_repair = body.reason == REPAIR
            return replace(s, step=replace(s.step, reasoning_dropped=True, paused=False)) if is_repair else s
        case e.SessionOpened() | e.CacheMissed() | e.ApprovalVoted() | e.RenderShown() | e.ToolsUnavailable():
            return s
        case _:
            return _fold_run(s, body)


def _with_untrusted(s: RunState, parts: Sequence[Part]) -> RunState:
    """Return the state after a message that may bring what a tool returned and strangers may have written."""
    brings = s.untrusted_since is None and any(isinstance(part, ToolResult) and part.untrusted for part in parts)
    return replace(s, untrusted_since=s.step.n) if brings else s


def _fold_run(
    s: RunState,
    body: e.RunQueued | e.RunStarted | e.RunWaiting | e.RunResumed | e.RunCancelling | e.Terminal,
) -> RunState:
    match body:
        case e.RunQueued():
            return replace(s, phase="queued", inbox=s.inbox.with_inputs(body.inputs))
        case e.RunStarted():
            return replace(s, phase="running", epoch=body.epoch, inbox=s.inbox.with_earlier_notes(body.notes))
        case e.RunWaiting():
            return replace(s, phase="waiting", failed_resumes=0)
        case e.RunResumed():
            failed = s.failed_resumes + (body.cause not in BLAMELESS)
            waiting = s.waiting.outlived() if body.cause == RESTARTED else s.waiting
            return replace(s, phase="running", epoch=body.epoch, failed_resumes=failed, waiting=waiting)
        case e.RunCancelling():
            inbox = replace(s.inbox, unanswered=()) if body.clears else s.inbox
            return replace(s, cancelling=s.cancelling or body, inbox=inbox)
        case e.RunCompleted() | e.RunFailed() | e.RunCancelled():
            return replace(s, phase="ended")


def _fold_step(
    s: RunState,
    body: e.StepStarted | e.StepFailed | e.StepCompleted | e.ContextCompacted | e.CompactionFailed,
) -> RunState:
    match body:
        case e.StepStarted():
            is_new = body.n != s.step.n
            has_message = not set(s.inbox.user_messages).isdisjoint(body.takes)
            return replace(
                s,
                step=s.step.started(body, s.answer.stop),
                inbox=s.inbox.consumed(body.takes),
                answer=s.answer.opened(is_new=is_new, has_message=has_message),
                waiting=s.waiting.without_calls() if is_new else s.waiting,
                compaction=s.compaction.started() if is_new else s.compaction,
            )
        case e.StepFailed():
            compaction = s.compaction.overflowed() if body.code == OVERFLOW else s.compaction.refused()
            failed = replace(s, step=s.step.failed(body), compaction=compaction)
            return failed if body.usage is None else _billed(failed, body.usage, body.cost)
        case e.ContextCompacted() | e.CompactionFailed():
            is_made = isinstance(body, e.ContextCompacted)
            compaction = s.compaction.succeeded() if is_made else s.compaction.failed(s.step.n)
            tried = replace(s, compaction=compaction)
            return tried if body.usage is None else _billed(tried, body.usage, body.cost)
        case e.StepCompleted():
            return _billed(replace(s, step=s.step.without_failures(), failed_resumes=0), body.usage, body.cost)


def _billed(s: RunState, usage: Usage, cost: str | None) -> RunState:
    """Return the state after a model call that cost something."""
    total = usage if s.usage is None else s.usage + usage
    return replace(s, usage=total, cost=sum_of(s.cost, cost), spent=s.spent.plus(usage, cost))


def _fold_call(s: RunState, body: e.ToolRequested | e.ToolStarted | e.ToolPending | e.ToolCompleted) -> RunState:
    match body:
        case e.ToolRequested():
            return replace(s, waiting=s.waiting.requested(body, s.step.controls))
        case e.ToolStarted():
            return replace(s, waiting=s.waiting.changed(body.call, status="started", epoch=s.epoch, ends=0))
        case e.ToolPending():
            return replace(s, waiting=s.waiting.changed(body.call, status="pending", on=body.on))
        case e.ToolCompleted():
            waiting = s.waiting.completed(body)
            answer = s.answer.with_result() if body.outcome == "done" else s.answer
            since = s.step.n if body.untrusted and s.untrusted_since is None else s.untrusted_since
            return replace(s, waiting=waiting, answer=answer, failed_resumes=0, untrusted_since=since)


def _with_verdict(waiting: WaitingState, body: e.HookRuled | e.ApprovalRequested | e.ApprovalDecided) -> WaitingState:
    match body:
        case e.HookRuled():
            return waiting.ruled(body)
        case e.ApprovalRequested():
            return waiting.approval_requested(body)
        case e.ApprovalDecided():
            return waiting.decided(body)


def sum_of(total: str | None, more: str | None) -> str | None:
    """Add decimals; a sum with an unknown part is itself unknown."""
    return None if total is None or more is None else f"{Decimal(total) + Decimal(more):f}"
