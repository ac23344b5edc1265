"""WaitingState: the calls of a run's newest step, and what each of them waits for."""

from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from agent_core import events as e
from agent_core.agents import USE_RESOURCE
from agent_core.controls import read, refusal
from agent_core.messages import CallOutcome, Part, ToolCall, legible, used_in

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
