"""The events of a session: facts, which the log keeps, and live ones."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal

import msgspec

from agent_core.agents import HookEvent
from agent_core.controls import Defaults, Override
from agent_core.messages import Actor, CallOutcome, LoadedTool, Native, Part, Usage
from agent_core.schemas import defaults

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


ContextKind = Literal["clock", "thread", "memory", "knowledge", "tools", "note"]
CompactionKind = Literal["prune", "summary", "cut"]
MissCause = Literal["expired", "prefix", "tools", "system", "model", "evicted", "unknown"]


class SnapshotFrozen(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """From now on the prompt of the session begins with the snapshot *hash*."""

    type: ClassVar[str] = "snapshot.frozen"
    hash: str
    reason: str


class ContextAdded(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """A note for the model, which a step takes; *by* is its context source, *attached*: of the message that follows."""

    type: ClassVar[str] = "context.added"
    source: ContextKind
    text: str
    by: str | None = None
    attached: bool = False


class ContextCompacted(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """Older messages take less room in the window from now on; the log keeps them. Token counts are estimates.

    `cut`: the window begins at `from_seq`. `summary`: it begins with *summary*, which replaces all before `from_seq`.
    Of what a `cut` or `summary` left out, the messages that the step at `kept_seq` took stay: a run is at work on them.
    `prune`: the results of tools before `from_seq` are placeholders. *usage* and *cost* are those of the call of
    *model* that wrote the summary.
    """

    type: ClassVar[str] = "context.compacted"
    kind: CompactionKind
    from_seq: int
    tokens_before: int | None
    tokens_after: int | None
    kept_seq: int | None = None
    summary: str | None = None
    model: str | None = None
    usage: Usage | None = None
    cost: str | None = None
    uncached_cost: str | None = None

    @property
    def window_seq(self) -> int:
        """Return the seq from which on the window is built of facts after a `cut` or a `summary`."""
        return self.from_seq if self.kept_seq is None else min(self.from_seq, self.kept_seq)


class ContentLeftOut(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """A model's provider refused what entered the window from `from_seq` to `to_seq`: a note is in its place now.

    With *files*, by their ids, those alone are left out; *names* are of those that a person sent. *code* is that of the
    failed step, or `refused`.
    """

    type: ClassVar[str] = "content.left_out"
    from_seq: int
    to_seq: int
    code: str
    files: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


class CompactionFailed(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """No summary was made: the call of *model* failed as *code*, or answered with none; the window is as it was."""

    type: ClassVar[str] = "compaction.failed"
    model: str
    code: str
    message: str
    usage: Usage | None = None
    cost: str | None = None
    uncached_cost: str | None = None


class ToolsUnavailable(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """The agent has no tools of an MCP *server* now; *message* says why. Operators see it, models do not."""

    type: ClassVar[str] = "tools.unavailable"
    server: str
    message: str


class CacheMissed(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """Step *n* read fewer tokens from the prompt cache than it *expected*; *cause* is why, as far as it is known."""

    type: ClassVar[str] = "cache.missed"
    n: int
    expected: int
    read: int
    cause: MissCause


Stop = Literal["done", "tools", "length", "continue", "refused", "cancelled", "error"]
StopReason = Literal[
    "end_turn", "max_steps", "max_tokens", "stop_condition", "no_executor", "budget", "refused", "blocked"
]
FailureCode = Literal["doom_loop", "depth_limit", "provider_error", "context_overflow", "approval_expired", "lost"]
WaitingOn = Literal["approval", "client", "run"]


class SessionOpened(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    type: ClassVar[str] = "session.opened"
    agent: str
    actor: Actor


class MessageReceived(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """A message of *actor*, which the model reads with the name if *named*; *via* is the key that sent it for them."""

    type: ClassVar[str] = "message.received"
    message: str
    actor: Actor
    parts: tuple[Part, ...]
    via: Actor | None = None
    named: bool = False


class MessageCorrected(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """A message was edited to *parts*, or deleted when there are none; *corrects* is the seq of the fact that it edits.

    It replaces what no step has consumed; else the model sees it too, named after its *actor* where several write.
    """

    type: ClassVar[str] = "message.corrected"
    message: str
    parts: tuple[Part, ...]
    corrects: int = 0
    actor: Actor | None = None


class MessageCompleted(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """A stored message: `parts` replaces what was shown, *native* is its model's; or *actor* said it, for the agent."""

    type: ClassVar[str] = "message.completed"
    message: str
    role: Literal["user", "assistant"]
    parts: tuple[Part, ...]
    stop: Stop
    partial: bool = False
    native: Native | None = None
    actor: Actor | None = None


class RunQueued(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """A run is queued; `inputs` are steered messages that an ended run left to it."""

    type: ClassVar[str] = "run.queued"
    inputs: tuple[int, ...] = ()


class RunStarted(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """A run begins; `notes` are earlier facts of the session that its first step shows to the model."""

    type: ClassVar[str] = "run.started"
    epoch: int
    notes: tuple[int, ...] = ()


class RunWaiting(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    type: ClassVar[str] = "run.waiting"
    on: tuple[WaitingOn, ...]


class RunResumed(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    type: ClassVar[str] = "run.resumed"
    epoch: int
    cause: str


class RunCancelling(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """A run is to stop; with `clears` the messages that joined it and that no step consumed open no next run."""

    type: ClassVar[str] = "run.cancelling"
    by: Actor
    reason: str | None
    clears: bool = False


class RunCompleted(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """A run ended with an answer; *structured* is that answer as a value where one was asked for, else it is absent.

    It is null when the answer does not fit what was asked for.
    """

    type: ClassVar[str] = "run.completed"
    stop_reason: StopReason
    usage: Usage
    cost: str | None
    structured: Any | msgspec.UnsetType = msgspec.UNSET


class ControlsChanged(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """A resume changed the controls of a run: *next* for its next step, *defaults* for the rest of it."""

    type: ClassVar[str] = "controls.changed"
    next: Override | None = None
    defaults: Defaults | None = None


class RunFailed(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """A run ended without an answer: *message* is for the person, *detail* is for the operator."""

    type: ClassVar[str] = "run.failed"
    code: FailureCode
    message: str
    retryable: bool
    detail: str | None = None


class RunCancelled(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    type: ClassVar[str] = "run.cancelled"
    by: Actor
    reason: str | None


class StepStarted(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """An attempt of a model call; `takes` names the facts that enter the window with it.

    *cache_note* says, for the operator, what the prompt cache loses by a change since the call before it. *vision* is
    false where the model sees no pictures: it gets their names. In a draft a negative entry `-k` of `takes` means the
    k-th fact before this one in the same append; the log writes the seq in its place.
    """

    type: ClassVar[str] = "step.started"
    n: int
    attempt: int
    message: str
    takes: tuple[int, ...]
    snapshot: str
    controls: dict[str, Any] | None = None
    cache_note: str | None = None
    vision: bool = True


class StepFailed(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """An attempt of a model call failed; the next `step.started` tries again, or the run fails.

    *message* is for the operator. *usage*, *cost* and *uncached_cost* are set when something was answered, and so
    billed; *partial* when part of an answer had been shown.
    """

    type: ClassVar[str] = "step.failed"
    n: int
    attempt: int
    code: str
    message: str
    retryable: bool
    retry_after: float | None = None
    partial: bool = False
    usage: Usage | None = None
    cost: str | None = None
    uncached_cost: str | None = None


class StepCompleted(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """A model call was answered; *uncached_cost* is what its tokens would cost without a prompt cache."""

    type: ClassVar[str] = "step.completed"
    n: int
    usage: Usage
    cost: str | None
    uncached_cost: str | None = None


class ToolRequested(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """A model's request to use a tool; *raw* is what it wrote as arguments when that is not a JSON object.

    *title* says to people what the tool does while it runs, *title_done* afterwards. *via* is the router's tool that
    the model called; *name* and *arguments* are those of the tool that it meant.
    """

    type: ClassVar[str] = "tool.requested"
    call: str
    name: str
    arguments: dict[str, Any]
    index: int
    step: int
    raw: str | None = None
    title: str | None = None
    title_done: str | None = None
    via: str | None = None


class ToolStarted(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    type: ClassVar[str] = "tool.started"
    call: str


class ToolPending(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """A call waits for a person, a client or a run; for a client, *tool* and *arguments* are what it has to execute."""

    type: ClassVar[str] = "tool.pending"
    call: str
    on: WaitingOn
    approval: str | None = None
    tool: str | None = None
    arguments: dict[str, Any] | None = None


class ToolCompleted(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """The end of a call; *ref* is a *truncated* result's blob; *untrusted*: of strangers; *loaded*: tools it found."""

    type: ClassVar[str] = "tool.completed"
    call: str
    outcome: CallOutcome
    parts: tuple[Part, ...]
    truncated: bool
    ref: str | None = None
    untrusted: bool = False
    loaded: tuple[LoadedTool, ...] = ()


class RenderShown(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """A tool shows something: *kind* says what *payload* is; a surface that does not know the kind shows *text*."""

    type: ClassVar[str] = "render.shown"
    render: str
    call: str
    kind: str
    title: str | None = None
    payload: dict[str, Any]
    text: str


class TextDelta(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of an open message; `offset` counts the code points of that part so far."""

    type: ClassVar[str] = "text.delta"
    message: str
    part: int
    epoch: int
    attempt: int
    offset: int
    text: str


class ReasoningDelta(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    type: ClassVar[str] = "reasoning.delta"
    message: str
    part: int
    epoch: int
    attempt: int
    offset: int
    text: str


class ToolProgress(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    type: ClassVar[str] = "tool.progress"
    call: str
    text: str


class Heartbeat(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """Shown every 10 s while a run works."""

    type: ClassVar[str] = "heartbeat"


FactBody = (
    SessionOpened
    | SnapshotFrozen
    | ContextAdded
    | ContextCompacted
    | CompactionFailed
    | ContentLeftOut
    | CacheMissed
    | ToolsUnavailable
    | MessageReceived
    | MessageCorrected
    | MessageCompleted
    | RunQueued
    | RunStarted
    | RunWaiting
    | RunResumed
    | RunCancelling
    | RunCompleted
    | RunFailed
    | RunCancelled
    | StepStarted
    | StepFailed
    | StepCompleted
    | ToolRequested
    | ToolStarted
    | ToolPending
    | ToolCompleted
    | RenderShown
    | HookRuled
    | ApprovalRequested
    | ApprovalVoted
    | ControlsChanged
    | ApprovalDecided
)
Delta = TextDelta | ReasoningDelta
LiveBody = Delta | ToolProgress | Heartbeat

LIVE_BODIES = (TextDelta, ReasoningDelta, ToolProgress, Heartbeat)
FACTS: dict[str, type[FactBody]] = {cls.type: cls for cls in FactBody.__args__}
LIVE: dict[str, type[LiveBody]] = {cls.type: cls for cls in LIVE_BODIES}
Terminal = RunCompleted | RunFailed | RunCancelled
TERMINAL = (RunCompleted, RunFailed, RunCancelled)
_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {name: msgspec.json.Decoder(cls) for name, cls in FACTS.items()}


class Fact:
    """A fact of a session's log: envelope and body; the body is decoded from `raw` when first asked for.

    *raw* is the body's JSON as the table holds it; *time* is milliseconds since the epoch. *tool* is not in the log; it
    is for counters: the tool whose call the fact ends, where its writer had to look that up.
    """

    __slots__ = ("_body", "frames", "parent_run", "raw", "run", "seq", "session", "time", "tool", "type")
    live: ClassVar[bool] = False

    def __init__(
        self,
        *,
        seq: int,
        type: str,
        session: str,
        run: str | None,
        parent_run: str | None,
        time: int,
        raw: bytes,
        body: FactBody | None = None,
    ) -> None:
        self.seq, self.type, self.session = seq, type, session
        self.run, self.parent_run, self.time, self.raw = run, parent_run, time, raw
        self._body = body
        self.frames: dict[str, bytes] = {}
        self.tool: str | None = None

    @property
    def body(self) -> FactBody:
        if self._body is None:
            self._body = _DECODERS[self.type].decode(self.raw)
        return self._body

    def __repr__(self) -> str:
        return f"Fact({self.seq}, {self.type}, run={self.run}, {self.raw!r})"


class Live:
    """A live event: shown now, never stored."""

    __slots__ = ("body", "frames", "parent_run", "run", "session", "time")
    live: ClassVar[bool] = True

    def __init__(self, *, session: str, run: str | None, parent_run: str | None, time: int, body: LiveBody) -> None:
        self.session, self.run, self.parent_run, self.time, self.body = session, run, parent_run, time, body
        self.frames: dict[str, bytes] = {}

    @property
    def type(self) -> str:
        return self.body.type

    @property
    def raw(self) -> bytes:
        return msgspec.json.encode(self.body)

    def __repr__(self) -> str:
        return f"Live({self.type}, run={self.run}, {self.body!r})"


Event = Fact | Live


def note_tools(facts: Iterable[Fact], tools: Mapping[str, str]) -> None:
    """Note which tool each `tool.completed` among *facts* is of; *tools* are names by call."""
    for fact in facts:
        if isinstance(fact.body, ToolCompleted):
            fact.tool = tools.get(fact.body.call)
