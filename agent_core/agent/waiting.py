"""What a run has in hand: its step, its answer so far, its inbox, and the calls it waits for."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from agent_core import events as e
from agent_core.agents import USE_RESOURCE
from agent_core.controls import Defaults, Override, merged, read, refusal
from agent_core.messages import CallOutcome, Part, Reasoning, ToolCall, legible, text_of, used_in


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
