"""The facts of what hooks and people decide about a run and its calls; a part of the event union, see `events`."""

from typing import Any, ClassVar, Literal

import msgspec

from agent_core.domain.forms import defaults
from agent_core.domain.hooks import HookEvent
from agent_core.domain.messages import Actor

Ruling = Literal["allow", "deny", "modify", "hold"]


class EventBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of an event; fields with a default are optional and stay out of the JSON."""

    type: ClassVar[str]


class HookRuled(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """A hook's ruling at *event*, on *call* if there is one; *arguments* replace those of the call.

    *error* says why the hook failed or gave an invalid answer; *ruling* is then what its config sets for errors.
    """

    type: ClassVar[str] = "hook.ruled"
    hook: str
    event: HookEvent
    ruling: Ruling
    reason: str | None
    error: str | None = None
    call: str | None = None
    arguments: dict[str, Any] | None = None


class ApprovalRequested(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """People are asked about one exact call; see `ApprovalConfig` for what they may do, within *timeout_s* seconds.

    *by* is the person whose message started the run, *speakers* are the others who wrote messages in it.

    With a *form*, the JSON Schema of an object, the tool itself asks: *arguments* are what the form is filled with at
    first, and an approval answers it. *state* names the blob with what the tool needs to go on. *parameters* is the
    JSON Schema of a tool's *arguments*, for labels and fields; a long one is left out.
    """

    type: ClassVar[str] = "approval.requested"
    approval: str
    call: str
    step: int
    tool: str
    arguments: dict[str, Any]
    hook: str
    title: str
    responders: tuple[str, ...]
    quorum: int
    timeout_s: float
    status: Literal["open"]
    on_timeout: Literal["deny", "fail"] = "deny"
    detail: str | None = None
    edit: bool = False
    remember: bool = False
    deliver_to: tuple[str, ...] = ()
    by: Actor | None = None
    speakers: tuple[Actor, ...] = ()
    form: dict[str, Any] | None = None
    parameters: dict[str, Any] | None = None
    state: str | None = None

    @property
    def given(self) -> dict[str, Any]:
        """What is asked about: *arguments*, of a form its defaults alone, though old logs have invented values too."""
        return self.arguments if self.form is None else defaults(self.form)


class ApprovalVoted(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """A vote for an approval that needs several; *votes* is how many approved *arguments* so far."""

    type: ClassVar[str] = "approval.voted"
    approval: str
    call: str
    by: Actor
    arguments: dict[str, Any]
    votes: int
    quorum: int
    edited: bool = False
    surface: str | None = None


class ApprovalDecided(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of an approval; *arguments* are those that may run, *edited* if they differ from the request's."""

    type: ClassVar[str] = "approval.decided"
    approval: str
    call: str
    tool: str
    arguments: dict[str, Any]
    status: Literal["approved", "denied", "expired", "cancelled"]
    by: Actor | None = None
    reason: str | None = None
    edited: bool = False
    surface: str | None = None
