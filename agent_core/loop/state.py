"""RunState: what has happened in one run, as a pure fold of the session's facts."""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from agent_core.domain import events as e
from agent_core.domain.controls import Defaults, Override, merged, read, refusal
from agent_core.domain.events import Fact, FactBody
from agent_core.domain.messages import CallOutcome, Reasoning, Usage, text_of

TOOLS_WITHHELD, CHOICE_IGNORED, CONTROLS_REFUSED = "tools_withheld", "choice_ignored", "controls_refused"
UNCOUNTED = frozenset({TOOLS_WITHHELD, CHOICE_IGNORED, CONTROLS_REFUSED, "stale_reasoning"})
"""Failed tries that are mended in a way of their own, and leave a step its tries."""
REPAIR = "repair"
"""Why a snapshot is frozen anew with nothing changed: a model refused its earlier thinking, so that is left out."""
HANDED_OVER, OUTAGE, DUE, ANSWERED = "handed_over", "outage", "due", "answered"
BLAMELESS = frozenset({HANDED_OVER, OUTAGE, DUE, ANSWERED})
"""Causes of a resume that say nothing of the run: its worker was stopped, the database was away, a wait is over."""
NOT_ALLOWED = "Not run: a rule of this agent does not allow this call."
DENIED = "Not run: a person did not approve this call."
TOO_LATE = "Not run: nobody approved this call in time."
_UNTAKEN = ("untaken", "owed", "questions", "notes", "late")
RunPhase = Literal["new", "queued", "running", "waiting", "ended"]


class Call(msgspec.Struct, frozen=True):
    """One use of a tool: *epoch* is the run's when it was started, *repeat* how often it came in a row.

    *ruled* are the hooks that let these *arguments* pass, *approved* those for which people did, *amended* those that
    changed them; *approval* is the question that is open, or was; *denied* says why it will not run.
    """

    call: str
    name: str
    arguments: dict[str, Any]
    index: int
    step: int
    repeat: int
    raw: str | None = None
    status: Literal["requested", "started", "pending", "completed"] = "requested"
    epoch: int = 0
    on: e.WaitingOn | None = None
    outcome: CallOutcome | None = None
    ruled: tuple[str, ...] = ()
    approved: tuple[str, ...] = ()
    amended: tuple[str, ...] = ()
    approval: e.ApprovalRequested | None = None
    denied: str | None = None


class Left(msgspec.Struct, frozen=True):
    """What no step of a run took: *owed* messages open the next run, which tells of *notes*; seqs."""

    owed: tuple[int, ...] = ()
    notes: tuple[int, ...] = ()


NOTHING = Left()


class RunState(msgspec.Struct, frozen=True):
    """Everything that the strategy needs to decide what comes next.

    *seq* is the newest fact of the session that is folded in. *untaken* are seqs of this run's messages, corrections
    and notes that no step took; *owed* are those of them that a next run must answer if this one ends first (the
    run's own input is not owed), *questions* those that a person asked, *notes* those that ask for no step of their own
    and *late* those that correct what a step took. In a preview, facts that are not yet in the log
    have negative seqs: `-k` is the k-th from the end. *paused* tells whether the open step continues an answer that its
    provider paused: nothing new may go with it. *size* and *border* describe the window: its entries, and how
    many lie before the newest place where it may be cut. *failures* are those in a row of the model that the open step
    asks, *shown* tells whether something of one of its tries was seen, *repaired* whether its earlier thinking was
    left out already, and *mended* names the failures of the step that were mended in a way of their own. *plain* is a
    model whose API refused what the controls ask for. *answer* is the text of the last answer, its continuations
    joined, and *answers* how many whole ones there were since somebody asked. *override* is for the next step alone,
    *defaults* are for the rest of the run. *empty* tells whether the last answer said nothing, *nudges* how often in a
    row. *ruled* are the hooks that let the run start; it is *blocked* when one forbids it or its answer, and *expired*
    when people were too late for a call without which it is to fail. *recalled* is what the context sources gave, None
    until they were asked.
    """

    run: str
    seq: int = 0
    phase: RunPhase = "new"
    epoch: int = 0
    vain: int = 0
    untaken: tuple[int, ...] = ()
    owed: tuple[int, ...] = ()
    questions: tuple[int, ...] = ()
    notes: tuple[int, ...] = ()
    late: tuple[int, ...] = ()
    step: int = 0
    attempt: int = 0
    message: str = ""
    is_open: bool = False
    stop: e.Stop | None = None
    paused: bool = False
    failures: int = 0
    failure: e.StepFailed | None = None
    shown: bool = False
    repaired: bool = False
    empty: bool = False
    nudges: int = 0
    continuations: int = 0
    mended: tuple[str, ...] = ()
    plain: str | None = None
    answer: str = ""
    answers: int = 0
    override: Override | None = None
    defaults: Defaults | None = None
    controls: dict[str, Any] | None = None
    calls: tuple[Call, ...] = ()
    last_call: bytes = b""
    repeats: int = 0
    usage: Usage | None = None
    cost: str | None = "0"
    steps: int = 0
    cancelling: e.RunCancelling | None = None
    size: int = 0
    border: int = 0
    ruled: tuple[str, ...] = ()
    blocked: bool = False
    expired: bool = False
    recalled: tuple[int, ...] | None = None

    def apply(self, *facts: Fact) -> "RunState":
        """Return the state after *facts*, which follow `seq` in the session's log; other runs' facts only count."""
        state = self
        for fact in facts:
            if fact.run == state.run:
                state = _fold(state, fact.seq, fact.body)
            state = replace(state, seq=fact.seq)
        return state

    def preview(self, held: Iterable[FactBody]) -> "RunState":
        """Return the state as it would be with *held* appended."""
        bodies = tuple(held)
        state = self
        for place, body in enumerate(bodies):
            state = _fold(state, place - len(bodies), body)
        return state

    def at(self, seq: int) -> "RunState":
        """Return the state with the facts up to *seq* known to hold nothing more of this run."""
        return replace(self, seq=max(self.seq, seq))

    def seeing(self, *, size: int, border: int, asked: bool = False) -> "RunState":
        """Return the state with the window's shape noted, and whether the driver has *asked* the context sources."""
        return replace(self, size=size, border=border, recalled=self.recalled or () if asked else self.recalled)

    @property
    def model(self) -> str | None:
        """Return the model that the newest step asked."""
        return (self.controls or {}).get("model")

    @property
    def asks(self) -> bool:
        """Tell whether something untaken asks for a step."""
        return not set(self.untaken) <= set(self.notes)

    @property
    def left(self) -> Left:
        """Return what this run leaves to the next one, should it end now; what is not in the log yet is left out."""
        notes = sorted({*self.notes, *self.late} - set(self.recalled or ()))
        return Left(tuple(seq for seq in self.owed if seq > 0), tuple(seq for seq in notes if seq > 0))

    def open_calls(self) -> tuple[Call, ...]:
        return tuple(call for call in self.calls if call.status != "completed")


def replay(run: str, facts: Iterable[Fact]) -> RunState:
    """Return the state of *run* after *facts* of its session, oldest first."""
    return RunState(run).apply(*facts)


def call_key(name: str, arguments: dict[str, Any], raw: str | None = None) -> bytes:
    """Return what makes two calls identical: the name and the canonical JSON of the arguments, or their raw text."""
    return msgspec.json.encode([name, arguments, raw], order="deterministic")


def _fold(s: RunState, seq: int, body: FactBody) -> RunState:
    match body:
        case e.MessageReceived():
            owed = s.owed if s.phase == "new" else (*s.owed, seq)
            return replace(s, untaken=(*s.untaken, seq), owed=owed, questions=(*s.questions, seq))
        case e.MessageCorrected():
            return _fold_correction(s, seq, body)
        case e.ContextAdded():
            recalled = s.recalled if body.by is None else (*(s.recalled or ()), seq)
            return replace(s, untaken=(*s.untaken, seq), notes=(*s.notes, seq), recalled=recalled)
        case e.MessageCompleted():
            return _fold_message(s, seq, body)
        case e.StepStarted() | e.StepFailed() | e.StepCompleted():
            return _fold_step(s, body)
        case e.ToolRequested() | e.ToolStarted() | e.ToolPending() | e.ToolCompleted():
            return _fold_call(s, body)
        case e.HookRuled():
            return _fold_ruling(s, body)
        case e.ApprovalRequested() | e.ApprovalDecided():
            return _fold_approval(s, body)
        case e.SnapshotFrozen():
            return replace(s, repaired=True, paused=False) if body.reason == REPAIR else s
        case e.ControlsChanged():
            defaults = merged(body.defaults, s.defaults) if body.defaults else s.defaults
            return replace(s, override=body.next or s.override, defaults=defaults)
        case e.SessionOpened() | e.ContextCompacted() | e.ApprovalVoted() | e.RenderShown():
            return s
        case _:
            return _fold_run(s, body)


def _fold_run(
    s: RunState,
    body: e.RunQueued | e.RunStarted | e.RunWaiting | e.RunResumed | e.RunCancelling | e.Terminal,
) -> RunState:
    match body:
        case e.RunQueued():
            questions = (*s.questions, *body.inputs)
            return replace(s, phase="queued", untaken=(*s.untaken, *body.inputs), questions=questions)
        case e.RunStarted():
            untaken, notes = (*body.notes, *s.untaken), (*body.notes, *s.notes)
            return replace(s, phase="running", epoch=body.epoch, untaken=untaken, notes=notes)
        case e.RunWaiting():
            return replace(s, phase="waiting", vain=0)
        case e.RunResumed():
            return replace(s, phase="running", epoch=body.epoch, vain=s.vain + (body.cause not in BLAMELESS))
        case e.RunCancelling():
            return replace(s, cancelling=s.cancelling or body, owed=() if body.clears else s.owed)
        case e.RunCompleted() | e.RunFailed() | e.RunCancelled():
            return replace(s, phase="ended")


def _fold_correction(s: RunState, seq: int, body: e.MessageCorrected) -> RunState:
    """Let a correction go with a message that no step took, in the place of one that was taken; a deleted one is gone.

    Of a deleted message that was taken a note tells.
    """
    of = body.corrects
    if not body.parts:
        kept = {name: tuple(x for x in getattr(s, name) if x != of) for name in _UNTAKEN}
        return replace(s, **kept)
    if of in s.untaken:
        owed = (*s.owed, seq) if of in s.owed else s.owed
        return replace(s, untaken=(*s.untaken, seq), owed=owed)
    return replace(s, untaken=(*s.untaken, seq), late=(*s.late, seq))


def _fold_message(s: RunState, seq: int, body: e.MessageCompleted) -> RunState:
    if not (s.is_open and body.message == s.message):  # an imported message of the history
        questions = (*s.questions, seq) if body.role == "user" else s.questions
        return replace(s, untaken=(*s.untaken, seq), questions=questions)
    empty = body.stop == "done" and all(isinstance(part, Reasoning) for part in body.parts)
    return replace(
        s,
        is_open=False,
        stop=body.stop,
        answer=s.answer + text_of(body.parts),
        answers=s.answers + (body.stop == "done" and not empty),
        continuations=s.continuations + 1 if body.stop == "length" else 0,
        empty=empty,
        nudges=s.nudges + 1 if empty else 0,
    )


def _fold_step(s: RunState, body: e.StepStarted | e.StepFailed | e.StepCompleted) -> RunState:
    match body:
        case e.StepStarted():
            fresh = body.n != s.step
            other = (body.controls or {}).get("model", s.model) != s.model
            taken = set(body.takes)
            untaken = _beyond(s.untaken, taken)
            if fresh:
                s = _fresh(s)
            return replace(
                s,
                step=body.n,
                attempt=body.attempt,
                message=body.message,
                is_open=True,
                stop=None,
                failures=0 if fresh or other else s.failures,
                paused=s.paused and not other,
                failure=None,
                controls=body.controls or s.controls,
                untaken=untaken,
                notes=tuple(seq for seq in s.notes if seq in untaken),
                late=tuple(seq for seq in s.late if seq in untaken),
                questions=tuple(seq for seq in s.questions if seq not in taken),
                owed=tuple(seq for seq in s.owed if seq not in taken),
                answers=0 if taken.intersection(s.questions) else s.answers,
            )
        case e.StepFailed():
            counted = body.code not in UNCOUNTED
            s = replace(s, failures=s.failures + counted, failure=body)
            s = s if counted else replace(s, mended=(*s.mended, body.code))
            s = replace(s, plain=s.model) if body.code == CONTROLS_REFUSED else s
            s = replace(s, shown=s.shown or body.partial, usage=_added(s.usage, body.usage))
            return s if body.usage is None else replace(s, cost=_paid(s.cost, body.cost))
        case e.StepCompleted():
            s = replace(s, usage=_added(s.usage, body.usage), cost=_paid(s.cost, body.cost))
            return replace(s, steps=s.steps + 1, vain=0, failures=0, failure=None)


def _fresh(s: RunState) -> RunState:
    """Return the state as a new step finds it: what was of the last one alone is gone."""
    goes_on = s.stop in ("length", "continue")
    return replace(
        s,
        shown=False,
        repaired=False,
        mended=(),
        override=s.override if s.stop == "continue" else None,
        calls=(),
        answer=s.answer if goes_on else "",
        paused=s.stop == "continue",
    )


def _beyond(untaken: tuple[int, ...], taken: set[int]) -> tuple[int, ...]:
    """Return what came after the last that was *taken*; what a step leaves out before that is left out for good."""
    places = [place for place, seq in enumerate(untaken) if seq in taken]
    return untaken[places[-1] + 1 :] if places else untaken


def _fold_call(s: RunState, body: e.ToolRequested | e.ToolStarted | e.ToolPending | e.ToolCompleted) -> RunState:
    match body:
        case e.ToolRequested():
            key = call_key(body.name, body.arguments, body.raw)
            repeats = s.repeats + 1 if key == s.last_call else 1
            call = Call(body.call, body.name, body.arguments, body.index, body.step, repeats, body.raw)
            if s.controls and (denied := refusal(read(s.controls), body.name)):
                call = replace(call, denied=denied)
            return replace(s, calls=(*s.calls, call), last_call=key, repeats=repeats)
        case e.ToolStarted():
            return _with_call(s, body.call, status="started", epoch=s.epoch)
        case e.ToolPending():
            return _with_call(s, body.call, status="pending", on=body.on)
        case e.ToolCompleted():
            return replace(_with_call(s, body.call, status="completed", outcome=body.outcome), vain=0)


def _fold_ruling(s: RunState, body: e.HookRuled) -> RunState:
    """Let arguments that a hook changed be ruled on anew: what others, people too, let pass was another call."""
    if body.call is None:
        blocked = s.blocked or body.ruling == "deny"
        return replace(s, ruled=(*s.ruled, body.hook) if body.event == "OnRunStart" else s.ruled, blocked=blocked)
    call = next((c for c in s.calls if c.call == body.call), None)
    if call is None or body.event != "PreToolUse":
        return s
    match body.ruling:
        case "deny":
            return _with_call(s, body.call, denied=body.reason or NOT_ALLOWED)
        case "modify":
            amended = (*call.amended, body.hook)  # all others are asked about what it is now
            changes = {"arguments": body.arguments or {}, "approved": (), "amended": amended}
            return _with_call(s, body.call, ruled=amended, **changes)
        case "allow":
            return _with_call(s, body.call, ruled=(*call.ruled, body.hook))
        case "hold":
            return s


def _fold_approval(s: RunState, body: e.ApprovalRequested | e.ApprovalDecided) -> RunState:
    if isinstance(body, e.ApprovalRequested):
        return _with_call(s, body.call, approval=body)
    call = next((c for c in s.calls if c.call == body.call), None)
    if call is None or call.approval is None or call.status != "pending":
        return s
    asked, freed = call.approval, {"status": "requested", "on": None}
    match body.status:
        case "approved" if body.edited:  # the other hooks have not seen these arguments
            return _with_call(
                s, body.call, arguments=body.arguments, ruled=(), amended=(), approved=(asked.hook,), **freed
            )
        case "approved":
            return _with_call(s, body.call, approved=(*call.approved, asked.hook), **freed)
        case "denied":
            why = f" The reason: {body.reason}" if body.reason else ""
            return _with_call(s, body.call, denied=f"{DENIED}{why}", **freed)
        case "expired":
            expired = s.expired or asked.on_timeout == "fail"
            return replace(_with_call(s, body.call, denied=TOO_LATE, **freed), expired=expired)
        case "cancelled":
            return s


def _paid(total: str | None, more: str | None) -> str | None:
    """Add decimals; a total with an unknown part is itself unknown."""
    return None if total is None or more is None else f"{Decimal(total) + Decimal(more):f}"


def _added(total: Usage | None, more: Usage | None) -> Usage | None:
    return more if total is None else total if more is None else total + more


def _with_call(s: RunState, call: str, **changes: Any) -> RunState:
    return replace(s, calls=tuple(replace(c, **changes) if c.call == call else c for c in s.calls))
