"""What has happened in a run, folded from its facts: its step, its answer, its inbox, its calls, and compaction."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from agent_core import events as e
from agent_core.agents import USE_RESOURCE, Compaction
from agent_core.controls import Controls, Defaults, Override, PromptCall, Spent, merged, read, refusal
from agent_core.events import CompactionKind, Fact, FactBody
from agent_core.messages import (
    Actor,
    CallOutcome,
    Part,
    Reasoning,
    ToolCall,
    ToolResult,
    Usage,
    legible,
    text_of,
    used_in,
)

PolicyKind = Literal["summary", "cut", "off"]
MAX_FAILURES = 3
"""Failed tries after which a run compacts no more."""
OVERFLOW = "context_overflow"
TARGET = 0.6
"""Part of the threshold, less the prefix, to aim at."""
OVERFLOW_TARGET = 0.5
"""Part of the messages that did not fit; where the model's limit is unknown a few halvings find it."""
_SUMMARY_SHARE = 4
_MIN_FREED = 0.1
"""Part of the messages that a compaction has to free: the rest is all written to the cache again."""


class Tail(msgspec.Struct, frozen=True):
    """The newest *entries* of a window and the *tokens* that they take, or that leaving the others out frees."""

    entries: int
    tokens: int


class WindowFill(msgspec.Struct, frozen=True, kw_only=True):
    """How full a window is: *tokens* has the next prompt, by what the last call was counted at.

    Of them *prefix* are the snapshot's and *taken* those of what the next step consumes. Beyond *limit* a prompt does
    not fit the model, beyond *threshold* a compaction is due; None: unknown. *head* is 1 if the window begins with a
    summary, *summary* the tokens that the next one may take. *tails* begin where a person spoke, the newest first;
    *steps* where a step of the newest run began, with the messages of people that it answers, the longest first.
    *prune* says what placeholders for the results before the oldest tail free, *own* the same for all but the newest
    results, wherever they are, and *unread* for all with those of the newest step, which no call has had. Nothing of it
    is known below the threshold. *failures* counts the summaries of the session in a row that could not be made.
    """

    tokens: int
    failures: int = 0
    prefix: int = 0
    taken: int = 0
    limit: int | None = None
    threshold: int | None = None
    head: int = 0
    summary: int = 0
    tails: tuple[Tail, ...] = ()
    steps: tuple[Tail, ...] = ()
    prune: Tail | None = None
    own: tuple[Tail, ...] = ()
    unread: Tail | None = None


class Compact(msgspec.Struct, frozen=True):
    """Make the window shorter, so that at most *keep* messages from one of its borders on stay as they are.

    With *whole* a user message comes next, so that none need stay; with *inside* the newest run's own steps are
    borders, and the messages that it answers stay in any case. `prune` begins anywhere. A summary is asked for with
    *controls*, after a pause of *delay* seconds. *must*: the prompt does not fit as it is.
    """

    keep: int
    whole: bool
    kind: CompactionKind = "cut"
    controls: Controls | None = None
    delay: float = 0.0
    must: bool = False
    inside: bool = False


class CompactionState(msgspec.Struct, frozen=True):
    """How a run's compactions went: its *failures*, at which step (*failed_at*) the last one failed, -1 for none.

    *made* counts those since the open step began, *answers* whether the newest came after the step last failed. What is
    left out because a provider refused it is one too.
    """

    failures: int = 0
    failed_at: int = -1
    made: int = 0
    answers: bool = False

    @property
    def is_off(self) -> bool:
        """Return whether the run compacts no more."""
        return self.failures >= MAX_FAILURES

    def started(self) -> "CompactionState":
        """Return the state after a new step started."""
        return msgspec.structs.replace(self, made=0, answers=False)

    def overflowed(self) -> "CompactionState":
        """Return the state after a prompt did not fit; a compaction that came before did not help, so it failed."""
        failures = self.failures + (self.made > 0)
        return msgspec.structs.replace(self, failures=failures, answers=False)

    def refused(self) -> "CompactionState":
        """Return the state after a prompt failed for another reason than its length."""
        return msgspec.structs.replace(self, answers=False) if self.answers else self

    def succeeded(self) -> "CompactionState":
        """Return the state after a compaction."""
        return msgspec.structs.replace(self, made=self.made + 1, answers=True)

    def failed(self, step: int) -> "CompactionState":
        """Return the state after a summary could not be made, at *step*."""
        return msgspec.structs.replace(self, failures=self.failures + 1, failed_at=step)


def of_messages(limit: int | None, size: int, more: int, *, kind: PolicyKind, whole: bool) -> Compact | None:
    """Return what leaves half the *limit* of messages when *more* of them would exceed it, else None."""
    if limit is None or kind == "off" or size + more <= limit:
        return None
    return Compact(max(limit // 2 - more - (kind == "summary"), 0), whole, kind)


def on_overflow(fill: WindowFill | None, size: int, policy: Compaction) -> Compact | None:
    """Return what makes a prompt shorter that did not fit, None if nothing can."""
    if fill is None:
        return None
    tokens = min(fill.tokens, fill.limit or fill.tokens)
    return _best(fill, _ways(fill, size, policy.kind, whole=False, must=True), _aim(fill, tokens, OVERFLOW_TARGET))


def rests(fill: WindowFill | None, policy: Compaction) -> bool:
    """Return whether no summary is asked for, after three in a row that could not be made: each try is billed."""
    return policy.kind == "summary" and fill is not None and fill.failures >= MAX_FAILURES


def when_due(fill: WindowFill | None, size: int, policy: Compaction, *, whole: bool) -> Compact | None:
    """Return what makes a prompt shorter that is beyond its threshold, None if it is not or nothing can.

    A cut, which loses for good, is due at the model's limit alone. So is a summary that `rests`.
    """
    if fill is None:
        return None
    must = fill.limit is not None and fill.tokens > fill.limit
    if not must and rests(fill, policy):
        return None
    limit = fill.limit if policy.kind == "cut" else fill.threshold
    if limit is None or fill.tokens <= limit:
        return None
    return _best(fill, _ways(fill, size, policy.kind, whole=whole, must=must), _aim(fill, limit, TARGET))


def _aim(fill: WindowFill, tokens: int, share: float) -> int:
    """Return the tokens to aim at: the prefix, which stays, and a *share* of what *tokens* leave for messages."""
    return fill.prefix + round(max(0, tokens - fill.prefix) * share)


def _best(fill: WindowFill, ways: Iterator[tuple[Compact, int]], target: int) -> Compact | None:
    """Return the first of the *ways* that gets to *target* tokens, else the one that gets nearest."""
    candidates = list(ways)
    for way, left in candidates:
        if left <= target:
            return way
    way, left = min(candidates, key=lambda each: each[1], default=(None, 0))
    return way if fill.tokens - left >= _MIN_FREED * (fill.tokens - fill.prefix) else None


def _ways(fill: WindowFill, size: int, kind: PolicyKind, *, whole: bool, must: bool) -> Iterator[tuple[Compact, int]]:
    """Yield the ways to make room, those that lose least first, each with the tokens that are left.

    Old results become placeholders where no summary will have read them. Only where room *must* be made a run loses
    results of its own, and last of all those that it has not read.
    """
    if kind == "off":
        return
    if kind == "cut" and fill.prune:
        yield _pruned(fill, fill.prune)
    summary = min(fill.summary, fill.tokens // _SUMMARY_SHARE) if kind == "summary" else 0
    rest = fill.prefix + fill.taken + summary
    for tail in reversed(fill.tails):
        yield Compact(tail.entries, whole=False, kind=kind, must=must), rest + tail.tokens
    if whole and size > fill.head:
        yield Compact(0, whole=True, kind=kind, must=must), rest
    if not must:
        return
    for own in fill.own if kind == "cut" else ():
        yield _pruned(fill, own)
    for tail in fill.steps:
        if tail.entries or kind == "summary":
            yield Compact(tail.entries, whole=False, inside=True, kind=kind, must=True), rest + tail.tokens
    if fill.unread:
        yield _pruned(fill, fill.unread)


def _pruned(fill: WindowFill, freed: Tail) -> tuple[Compact, int]:
    return Compact(freed.entries, whole=False, kind="prune"), max(0, fill.tokens - freed.tokens)


class AnswerState(msgspec.Struct, frozen=True):
    """The last answer: its *text*, continuations joined, and why it ended (*stop*), None while a step is open.

    *continuations* counts answers in a row that the output limit cut, *reminders* answers in a row that had no content
    (*is_empty*: the last one), and *completed* whole answers since a step consumed a person's message. *results* counts
    the calls of the run that are done.
    """

    text: str = ""
    stop: e.Stop | None = None
    continuations: int = 0
    is_empty: bool = False
    reminders: int = 0
    completed: int = 0
    results: int = 0

    def opened(self, *, is_new: bool, has_message: bool) -> "AnswerState":
        """Return the state as an attempt starts: of a *new* step or not, which consumed a person's message or not."""
        continues = not is_new or self.stop in ("length", "continue")
        return replace(
            self,
            text=self.text if continues else "",
            stop=None,
            completed=0 if has_message else self.completed,
        )

    def closed(self, stop: e.Stop, parts: Sequence[Part]) -> "AnswerState":
        """Return the state after a message completed."""
        is_empty = stop == "done" and all(isinstance(part, Reasoning) for part in parts)
        return AnswerState(
            text=self.text + text_of(tuple(parts)),
            stop=stop,
            continuations=self.continuations + 1 if stop == "length" else 0,
            is_empty=is_empty,
            reminders=self.reminders + 1 if is_empty else 0,
            completed=self.completed + (stop == "done" and not is_empty),
            results=self.results,
        )

    def with_result(self) -> "AnswerState":
        """Return the state after one more call was done."""
        return replace(self, results=self.results + 1)


TOOLS_WITHHELD, CHOICE_IGNORED, CONTROLS_REFUSED = "tools_withheld", "choice_ignored", "controls_refused"
EMPTY_ANSWER = "empty_answer"
ASKED_AGAIN = frozenset({TOOLS_WITHHELD, CHOICE_IGNORED, EMPTY_ANSWER})
"""Failures after which a note asks the model for what it should have answered, at once."""
UNCOUNTED = ASKED_AGAIN | {CONTROLS_REFUSED, "stale_reasoning"}
"""Failures that have a remedy of their own and use up none of a step's retries."""


class StepState(msgspec.Struct, frozen=True):
    """The newest model call: step *n*, its attempts and failures, and the controls of this step and the next.

    *is_open* from the start of the step to its completed message, over all attempts. *paused*: it continues an answer
    that its provider paused, so that nothing new may go with it. *failures* counts those in a row of the model that it
    asks, *failure* is the newest; *remedied* are the codes of its failures that were `UNCOUNTED`. *shown*: some output
    of one of its attempts was shown. *reasoning_dropped*: earlier reasoning is left out, because the model refused it.
    *refusing_model* is one whose API refused the controls, so that it reads them in notes. *next_override* holds for
    the next step alone, *defaults* for the rest of the run.
    """

    n: int = 0
    attempt: int = 0
    message: str = ""
    is_open: bool = False
    paused: bool = False
    failures: int = 0
    failure: e.StepFailed | None = None
    remedied: tuple[str, ...] = ()
    displayed: bool = False
    reasoning_dropped: bool = False
    refusing_model: str | None = None
    controls: dict[str, Any] | None = None
    next_override: Override | None = None
    defaults: Defaults | None = None

    def is_answered_by(self, body: e.MessageCompleted) -> bool:
        """Return whether *body* is what the model said in this step; any other completed message was imported."""
        return self.is_open and body.message == self.message

    @property
    def model(self) -> str | None:
        """Return the model that the step asks."""
        return (self.controls or {}).get("model")

    def started(self, body: e.StepStarted, previous: e.Stop | None) -> "StepState":
        """Return the state after a step, or an attempt of it, started; *previous* is why the last answer stopped."""
        is_new = body.n != self.n
        switched = body.controls is not None and body.controls.get("model", self.model) != self.model
        resumes = previous == "continue" if is_new else self.paused
        keeps_override = not is_new or previous == "continue"
        return replace(
            self,
            n=body.n,
            attempt=body.attempt,
            message=body.message,
            is_open=True,
            paused=resumes and not switched,
            failures=0 if is_new or switched else self.failures,
            failure=None,
            remedied=() if is_new else self.remedied,
            displayed=self.displayed and not is_new,
            reasoning_dropped=self.reasoning_dropped and not is_new,
            controls=body.controls or self.controls,
            next_override=self.next_override if keeps_override else None,
        )

    def failed(self, body: e.StepFailed) -> "StepState":
        """Return the state after an attempt failed."""
        is_counted = body.code not in UNCOUNTED
        return replace(
            self,
            failures=self.failures + is_counted,
            failure=body,
            remedied=self.remedied if is_counted else (*self.remedied, body.code),
            refusing_model=self.model if body.code == CONTROLS_REFUSED else self.refusing_model,
            displayed=self.displayed or body.partial,
        )

    def without_failures(self) -> "StepState":
        """Return the state after an attempt succeeded."""
        return replace(self, failures=0, failure=None) if self.failures or self.failure else self

    def with_changes(self, body: e.ControlsChanged) -> "StepState":
        """Return the state after a resume changed the controls."""
        defaults = merged(body.defaults, self.defaults) if body.defaults else self.defaults
        return replace(self, next_override=body.next or self.next_override, defaults=defaults)


class CarryOver(msgspec.Struct, frozen=True):
    """What a run leaves to the next one, as seqs: *messages* to answer and *notes* to show to the model."""

    messages: tuple[int, ...] = ()
    notes: tuple[int, ...] = ()


NO_CARRY_OVER = CarryOver()


class InboxState(msgspec.Struct, frozen=True):
    """The seqs of facts that wait for a step to consume them, in the order of their arrival.

    *unconsumed* has all of them: messages, corrections and notes. The others are parts of it: *user_messages* were
    written by a person, *notes* need no step of their own, *late_corrections* correct what a step consumed before, and
    *unanswered* are those that the next run must answer if this run ends first; the run's own input is not. In a
    preview, facts that are not yet in the log have negative seqs: `-k` is the k-th from the end. *recalled* are the
    notes that the context sources gave, consumed or not; None until the sources were asked.
    """

    unconsumed: tuple[int, ...] = ()
    user_messages: tuple[int, ...] = ()
    notes: tuple[int, ...] = ()
    late_corrections: tuple[int, ...] = ()
    unanswered: tuple[int, ...] = ()
    recalled: tuple[int, ...] | None = None

    @property
    def needs_step(self) -> bool:
        """Return whether anything unconsumed needs a step of its own."""
        return not set(self.unconsumed) <= set(self.notes)

    @property
    def carry_over(self) -> CarryOver:
        """Return what is left to the next run if this one ends now, without facts that are not in the log yet.

        What the context sources gave is left out too: they are asked again for the next run.
        """
        notes = sorted({*self.notes, *self.late_corrections} - set(self.recalled or ()))
        return CarryOver(tuple(seq for seq in self.unanswered if seq > 0), tuple(seq for seq in notes if seq > 0))

    def with_inputs(self, seqs: tuple[int, ...]) -> "InboxState":
        """Return the inbox with messages that an ended run left to this one."""
        return replace(self, unconsumed=(*self.unconsumed, *seqs), user_messages=(*self.user_messages, *seqs))

    def with_message(self, seq: int, *, steered: bool) -> "InboxState":
        """Return the inbox with a message of a person; a *steered* one joined a run that had begun."""
        return replace(
            self,
            unconsumed=(*self.unconsumed, seq),
            user_messages=(*self.user_messages, seq),
            unanswered=(*self.unanswered, seq) if steered else self.unanswered,
        )

    def with_imported(self, seqs: Iterable[int], *, by_user: Iterable[int]) -> "InboxState":
        """Return the inbox with the messages of an imported history, of which some are *by_user*."""
        return replace(self, unconsumed=(*self.unconsumed, *seqs), user_messages=(*self.user_messages, *by_user))

    def with_note(self, seq: int) -> "InboxState":
        """Return the inbox with a note for the model."""
        return replace(self, unconsumed=(*self.unconsumed, seq), notes=(*self.notes, seq))

    def with_recalled(self, seq: int) -> "InboxState":
        """Return the inbox with a note that a context source gave."""
        return replace(self.with_note(seq), recalled=(*(self.recalled or ()), seq))

    def with_sources_asked(self) -> "InboxState":
        """Return the inbox of a run whose context sources were asked, whether they gave anything or not."""
        return replace(self, recalled=self.recalled or ())

    def with_earlier_notes(self, seqs: tuple[int, ...]) -> "InboxState":
        """Return the inbox with notes from before the run, which come first."""
        return replace(self, unconsumed=(*seqs, *self.unconsumed), notes=(*seqs, *self.notes))

    def corrected(self, seq: int, of: int, *, deleted: bool) -> "InboxState":
        """Return the inbox after the correction at *seq* of the message at *of*.

        A correction of an unconsumed message is consumed with it; that of a consumed one is late. A deletion takes the
        message out; if it was consumed a note informs the model.
        """
        if deleted:
            return self._without({of})
        if of in self.unconsumed:
            unanswered = (*self.unanswered, seq) if of in self.unanswered else self.unanswered
            return replace(self, unconsumed=(*self.unconsumed, seq), unanswered=unanswered)
        return replace(self, unconsumed=(*self.unconsumed, seq), late_corrections=(*self.late_corrections, seq))

    def consumed(self, seqs: Collection[int]) -> "InboxState":
        """Return the inbox after a step consumed *seqs*; everything up to the last of them is removed."""
        if not (self.unconsumed or self.user_messages or self.unanswered):
            return self
        taken = set(seqs)
        places = [index for index, seq in enumerate(self.unconsumed) if seq in taken]
        unconsumed = self.unconsumed[places[-1] + 1 :] if places else self.unconsumed
        left = set(unconsumed)
        return InboxState(
            unconsumed,
            user_messages=_without(self.user_messages, taken),
            notes=tuple(seq for seq in self.notes if seq in left),
            late_corrections=tuple(seq for seq in self.late_corrections if seq in left),
            unanswered=_without(self.unanswered, taken),
            recalled=self.recalled,
        )

    def _without(self, seqs: Collection[int]) -> "InboxState":
        return replace(
            self,
            unconsumed=_without(self.unconsumed, seqs),
            user_messages=_without(self.user_messages, seqs),
            notes=_without(self.notes, seqs),
            late_corrections=_without(self.late_corrections, seqs),
            unanswered=_without(self.unanswered, seqs),
        )


def _without(seqs: tuple[int, ...], gone: Collection[int]) -> tuple[int, ...]:
    return tuple(seq for seq in seqs if seq not in gone)


NOT_ALLOWED = "Not run: a rule of this agent does not allow this call."
DENIED = "Not run: {} did not approve this call."
TOO_LATE = "Not run: no person approved this call in time."


class FormAnswer(msgspec.Struct, frozen=True):
    """What people answered to the form of a call: *content* when *accepted*; *state* is the blob of the question's."""

    accepted: bool
    content: dict[str, Any]
    state: str | None


class CallState(msgspec.Struct, frozen=True):
    """One use of a tool: *epoch* is the run's when it was started, *repeat* its place in a row of identical calls.

    *allowed_by* are the hooks that allowed these *arguments*, *approved_for* those for which people did, and
    *modified_by* those that changed them. *via* is the router's tool that the model called. *approval* is the newest
    question to people, open or decided; *denial* says why the call will not run. *answer* is what people answered to
    its newest form, *forms* how many there were. *ends* counts the processes that ended while it ran.
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
    allowed_by: tuple[str, ...] = ()
    approved_for: tuple[str, ...] = ()
    modified_by: tuple[str, ...] = ()
    approval: e.ApprovalRequested | None = None
    denial: str | None = None
    via: str | None = None
    answer: FormAnswer | None = None
    forms: int = 0
    ends: int = 0


class WaitingState(msgspec.Struct, frozen=True):
    """The calls of the newest step, waiting for a hook, a person, a client or their execution, and the verdicts so far.

    *wanted* are calls that a person's message makes, before they are requested. *last_key* is the `call_key` of the
    newest call, *repeats* how many calls in a row had it. *start_hooks* are the hooks that let the run start;
    *blocked*: a hook denied the run or its answer; *expired*: an approval was not decided in time and its call is one
    without which the run fails. *opened* are the resources that the router has shown in the run, under the names that
    the model gave them.
    """

    calls: tuple[CallState, ...] = ()
    wanted: tuple[ToolCall, ...] = ()
    last_key: bytes = b""
    repeats: int = 0
    start_hooks: tuple[str, ...] = ()
    blocked: bool = False
    expired: bool = False
    opened: tuple[str, ...] = ()

    def open_calls(self) -> tuple[CallState, ...]:
        """Return the calls that have not ended."""
        return tuple(call for call in self.calls if call.status != "completed")

    @property
    def tools(self) -> dict[str, str]:
        """Return the tool of each open call that waits, or waited for an approval, by its call."""
        return {call.call: call.name for call in self.open_calls() if call.on or call.approval}

    def find(self, call: str) -> CallState | None:
        """Return the call with the id *call*, None if the newest step has no such call."""
        return next((each for each in self.calls if each.call == call), None)

    def without_calls(self) -> "WaitingState":
        """Return the state as a new step finds it."""
        return replace(self, calls=()) if self.calls else self

    def with_wanted(self, parts: tuple[Part, ...]) -> "WaitingState":
        """Return the state with the calls that a message of these *parts* makes and whose results it does not bring."""
        wanted = used_in(parts)
        return replace(self, wanted=wanted) if wanted else self

    def requested(self, body: e.ToolRequested, controls: dict[str, Any] | None) -> "WaitingState":
        """Return the state with a new call, denied at once where the step's *controls* do not allow it."""
        wanted = tuple(each for each in self.wanted if each.call != body.call)
        if len(wanted) < len(self.wanted):  # no step made it, so no step's controls are about it
            call = CallState(body.call, body.name, body.arguments, body.index, body.step, 1)
            return replace(self, calls=(*self.calls, call), wanted=wanted)
        key = call_key(body.name, body.arguments, body.raw)
        repeats = self.repeats + 1 if key == self.last_key else 1
        denial = refusal(read(controls), body.name) if controls else None
        call = CallState(
            body.call,
            body.name,
            body.arguments,
            body.index,
            body.step,
            repeats,
            body.raw,
            denial=denial,
            via=body.via,
        )
        return replace(self, calls=(*self.calls, call), last_key=key, repeats=repeats)

    def completed(self, body: e.ToolCompleted) -> "WaitingState":
        """Return the state after a call ended; one of `use_resource` opens what it names."""
        changed, call = self.changed(body.call, status="completed", outcome=body.outcome), self.find(body.call)
        if call is None or body.outcome != "done" or (name := opening(call)) is None:
            return changed
        return replace(changed, opened=(*self.opened, name))

    def opened_for(self, call: CallState) -> tuple[str, ...]:
        """Return the resources that are open for *call*, those among them that the same answer opens before it."""
        before = (each for each in self.calls if each.index < call.index and each.status != "completed")
        names = (opening(each) for each in before if each.denial is None and each.raw is None)
        return (*self.opened, *(name for name in names if name is not None))

    def changed(self, call: str, **changes: Any) -> "WaitingState":
        """Return the state with *changes* to one call."""
        return replace(self, calls=tuple(replace(c, **changes) if c.call == call else c for c in self.calls))

    def outlived(self) -> "WaitingState":
        """Return the state after the process ended, not by a stop, while the calls that are started ran."""
        calls = (replace(c, ends=c.ends + 1) if c.status == "started" else c for c in self.calls)
        return replace(self, calls=tuple(calls))

    def ruled(self, body: e.HookRuled) -> "WaitingState":
        """Return the state after a hook's ruling."""
        if body.call is None:
            start_hooks = (*self.start_hooks, body.hook) if body.event == "OnRunStart" else self.start_hooks
            return replace(self, start_hooks=start_hooks, blocked=self.blocked or body.ruling == "deny")
        call = self.find(body.call)
        if call is None or body.event != "PreToolUse":
            return self
        match body.ruling:
            case "deny":
                return self.changed(body.call, denial=body.reason or NOT_ALLOWED)
            case "modify":  # the other hooks, and people, allowed other arguments: all of them are asked again
                hooks = (*call.modified_by, body.hook)
                changes = {"arguments": body.arguments or {}, "approved_for": (), "modified_by": hooks}
                return self.changed(body.call, allowed_by=hooks, **changes)
            case "allow":
                return self.changed(body.call, allowed_by=(*call.allowed_by, body.hook))
            case "hold":
                return self

    def approval_requested(self, body: e.ApprovalRequested) -> "WaitingState":
        """Return the state after people were asked about a call, or for what a form of it wants."""
        call = self.find(body.call)
        forms = 0 if call is None else call.forms
        return self.changed(body.call, approval=body, forms=forms + (body.form is not None))

    def _filled_in(self, call: CallState, body: e.ApprovalDecided, state: str | None) -> "WaitingState":
        """Return the state in which *call* is made again with the answer to its form, whatever that is."""
        answer = FormAnswer(body.status == "approved", _accepted(body), state)
        return self.changed(call.call, status="requested", on=None, answer=answer)

    def decided(self, body: e.ApprovalDecided) -> "WaitingState":
        """Return the state after an approval was decided, expired or cancelled."""
        call = self.find(body.call)
        if call is None or call.approval is None or call.status != "pending":
            return self
        approval, freed = call.approval, {"status": "requested", "on": None}
        if approval.form is not None:
            return self if body.status == "cancelled" else self._filled_in(call, body, approval.state)
        match body.status:
            case "approved" if body.edited:  # the other hooks have not seen these arguments
                return self.changed(
                    body.call,
                    arguments=body.arguments,
                    allowed_by=(),
                    modified_by=(),
                    approved_for=(approval.hook,),
                    **freed,
                )
            case "approved":
                return self.changed(body.call, approved_for=(*call.approved_for, approval.hook), **freed)
            case "denied":
                who = (legible(body.by.name) or legible(body.by.id) if body.by else "") or "a person"
                why = f" The reason: {body.reason}" if body.reason else ""
                return self.changed(body.call, denial=f"{DENIED.format(who)}{why}", **freed)
            case "expired":
                expired = self.expired or approval.on_timeout == "fail"
                return replace(self.changed(body.call, denial=TOO_LATE, **freed), expired=expired)
            case "cancelled":
                return self


def opening(call: CallState) -> str | None:
    """Return the resource that *call* asks the router to show, None when it asks for something else."""
    name = call.arguments.get("name") if call.name == USE_RESOURCE else None
    return name if isinstance(name, str) else None


def _accepted(body: e.ApprovalDecided) -> dict[str, Any]:
    return body.arguments if body.status == "approved" else {}


def call_key(name: str, arguments: dict[str, Any], raw: str | None = None) -> bytes:
    """Return what identical calls share: the name and the canonical JSON of the arguments, or their raw text."""
    return msgspec.json.encode([name, arguments, raw], order="deterministic")


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
