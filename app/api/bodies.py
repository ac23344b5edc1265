"""What clients send: request bodies, each field checked before anything is done."""

import hashlib
from typing import Annotated, Any, Literal, Self

import msgspec
from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticKnownError

from agent_core import Actor, Controls, Message, Text
from agent_core.domain.control_checks import MAX_CONDITIONS, MAX_STEPS, MAX_TOKENS, USD
from agent_core.domain.controls import Effort
from agent_core.domain.hooks import HookEvent, HookType
from agent_core.hooks.check import MAX_HOOKS
from app.api.problems import NOT_BLANK

MAX_TEXT = 100_000
MAX_METADATA = 16_000
DEFAULT_TIMEOUT = 120.0

# At least one character that is no white space.
Words = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TEXT, pattern=NOT_BLANK)]
Id = Annotated[str, StringConstraints(min_length=1, max_length=200)]
# It stands in paths.
AgentName = Annotated[str, StringConstraints(pattern=r"^[^/\x00-\x1f\x7f]{1,100}$")]
Instructions = Annotated[str, StringConstraints(min_length=1, max_length=200_000, pattern=NOT_BLANK)]
Overlap = Literal["queue", "steer", "interrupt", "reject"]
NOT_PART_OF_THE_WORK = {"idempotency_key", "mode", "timeout", "on_disconnect"}


class Body(BaseModel):
    """A request body: nothing unknown, nothing converted."""

    model_config = ConfigDict(extra="forbid", strict=True)

    def digest(self) -> bytes:
        """Return the hash that tells whether a repeated idempotency key came with the same work."""
        work = self.model_dump(mode="json", exclude=NOT_PART_OF_THE_WORK)
        return hashlib.sha256(msgspec.json.encode(work, order="deterministic")).digest()


ToolNames = Annotated[list[Id], Field(max_length=200)]


class NamedToolBody(Body):
    """The one tool that must be called."""

    tool: Id


# The tags stand in the paths of faults, and begin with a capital: `problems` leaves those out.
ChoiceBody = Annotated[
    Annotated[Literal["auto", "none", "required"], Tag("Word")] | Annotated[NamedToolBody, Tag("Named")],
    Discriminator(lambda given: "Word" if isinstance(given, str) else "Named"),
]


class OverrideBody(Body):
    """Which tools a step may, or must, call."""

    tool_choice: ChoiceBody | None = None
    active_tools: ToolNames | None = None


class StepRuleBody(OverrideBody):
    """What holds in one step, counted from 1."""

    step: int = Field(ge=1, le=MAX_STEPS)


class StopBody(Body):
    """When a run ends before the model says so."""

    type: Literal["has_tool_call"]
    tool: Id


class BudgetBody(Body):
    """What a run may use up before it asks the model once more; `usd` is a decimal in a text."""

    usd: Annotated[str, StringConstraints(pattern=f"^{USD}$")] | None = None
    tokens: int | None = Field(default=None, ge=1, le=MAX_TOKENS)


class DefaultsBody(OverrideBody):
    """What the steps of a run may do; what is absent is asked of the next level."""

    max_steps: int | None = Field(default=None, ge=1, le=MAX_STEPS)
    max_output_tokens: int | None = Field(default=None, ge=1, le=10_000_000)
    effort: Effort | None = None
    temperature: float | None = Field(default=None, ge=0, le=2, allow_inf_nan=False)
    step_rules: list[StepRuleBody] | None = Field(default=None, max_length=MAX_STEPS)
    stop_conditions: list[StopBody] | None = Field(default=None, max_length=MAX_CONDITIONS)
    output_schema: dict[str, Any] | None = None
    budget: BudgetBody | None = None


class ControlsBody(DefaultsBody):
    """What a run may do; what is absent is asked of the agent. `tool_context` is for its tools, and shown to nobody."""

    model: Id | None = None
    tool_context: dict[str, Any] | None = None

    def value(self) -> Controls:
        """Return the core's value."""
        return msgspec.convert(self.model_dump(), Controls)


class ActorBody(Body):
    """Who acts."""

    id: Id
    kind: Literal["user", "visitor", "service", "agent"] = "user"
    name: Id | None = None

    def value(self) -> Actor:
        """Return the core's value."""
        return Actor(**self.model_dump())


AnyActor = Id | ActorBody


def actor_of(named: str | ActorBody) -> Actor:
    """Return the actor that a body names; a bare text is the id of a user."""
    return Actor(id=named, kind="user") if isinstance(named, str) else named.value()


class LimitsBody(Body):
    """Bounds of an agent."""

    max_context_messages: int | None = Field(default=200, ge=2, le=1_000_000)
    max_runs: int | None = Field(default=None, ge=1, le=1_000_000)


class WebBody(Body):
    """What the widget shows of an agent's tools."""

    show_tools: Literal["none", "names", "full"] = "names"


# The settings of channels by name: those that have no field of their own, or all of them.
ChannelsBody = Annotated[dict[Id, dict[str, Any]], Field(max_length=50)]


class SlackBody(Body):
    """Where in Slack an agent answers, and how."""

    default: bool | list[Id] = False
    channels: list[Id] = Field(default_factory=list, max_length=1000)
    follow_up: bool = True
    allow_mentions: bool = False
    external: Literal["refuse", "answer"] = "refuse"
    loading: list[Id] = Field(default_factory=list, max_length=10)


class ToolBody(Body):
    """A tool that no code here executes: the client does, or nobody (`none`), and a call of it is the answer."""

    name: Id
    kind: Literal["client", "none"]
    description: Words
    parameters: dict[str, Any]


AnyTool = Annotated[
    Annotated[Id, Tag("Name")] | Annotated[ToolBody, Tag("Declared")],
    Discriminator(lambda given: "Name" if isinstance(given, str) else "Declared"),
]


class HookBody(Body):
    """A hook: asked at `event`, of the tools that `matcher` names; what `config` may hold is its type's."""

    event: HookEvent
    type: HookType
    matcher: Id | None = None
    order: int = Field(default=0, ge=-1_000_000, le=1_000_000)
    config: dict[str, Any] = Field(default_factory=dict)
    name: Id | None = None


class AgentBody(Body):
    """A new agent."""

    name: AgentName
    instructions: Instructions
    model: Id | None = None
    fallback_models: list[Id] = Field(default_factory=list, max_length=10)
    tools: list[AnyTool] = Field(default_factory=list, max_length=200)
    hooks: list[HookBody] = Field(default_factory=list, max_length=MAX_HOOKS)
    limits: LimitsBody = LimitsBody()
    controls: ControlsBody = ControlsBody()
    web: WebBody = WebBody()
    slack: SlackBody = SlackBody()
    channels: ChannelsBody = Field(default_factory=dict)


class AgentChanges(Body):
    """What a new version of an agent changes; absent stays."""

    name: AgentName = ""
    instructions: Instructions = ""
    model: Id | None = None
    fallback_models: list[Id] = Field(default_factory=list, max_length=10)
    tools: list[AnyTool] = Field(default_factory=list, max_length=200)
    hooks: list[HookBody] = Field(default_factory=list, max_length=MAX_HOOKS)
    limits: LimitsBody = LimitsBody()
    controls: ControlsBody = ControlsBody()
    web: WebBody = WebBody()
    slack: SlackBody = SlackBody()
    channels: ChannelsBody = Field(default_factory=dict)


class SessionBody(Body):
    """A new session; a visitor's agent and actor come from the token."""

    agent: Id | None = None
    actor: AnyActor | None = None
    metadata: dict[str, Any] | None = None

    @field_validator("metadata")
    @classmethod
    def _small(cls, metadata: dict[str, Any] | None) -> dict[str, Any] | None:
        if len(msgspec.json.encode(metadata)) > MAX_METADATA:
            raise ValueError(f"at most {MAX_METADATA:,} bytes of JSON.")
        return metadata


class ForkBody(Body):
    """Where a fork ends; the end of the log when absent."""

    at: int | None = Field(None, ge=1, le=2**63 - 1)


class PostBody(Body):
    """A message to a session."""

    text: Words
    overlap: Overlap = "queue"
    idempotency_key: Id | None = None
    controls: ControlsBody | None = None


class FeedbackBody(Body):
    """What somebody thinks of a run; a visitor speaks for the token's actor."""

    rating: Literal["up", "down"]
    comment: Words | None = None
    actor: AnyActor | None = None


class TextPartBody(Body):
    """A text part."""

    type: Literal["text"]
    text: Words


class MessageBody(Body):
    """One message of a run's input."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["text"]}, {"required": ["parts"]}]})

    role: Literal["system", "user", "assistant"]
    text: Words | None = None
    parts: list[TextPartBody] | None = Field(None, min_length=1, max_length=1000)

    @field_validator("parts")
    @classmethod
    def _fit(cls, parts: list[TextPartBody] | None) -> list[TextPartBody] | None:
        """Hold one message to the bound of one text, in however many parts it comes."""
        if sum(len(part.text) for part in parts or ()) > MAX_TEXT:
            raise PydanticKnownError("string_too_long", {"max_length": MAX_TEXT})
        return parts

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.text is None) == (self.parts is None):
            raise ValueError("give either `text` or `parts`.")
        return self

    @property
    def texts(self) -> tuple[Text, ...]:
        """The parts as the core's values."""
        return (Text(self.text),) if self.text is not None else tuple(Text(p.text) for p in self.parts or ())


class RunBody(Body):
    """An agent's run: what to answer, and how to hear of it."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["input"]}, {"required": ["messages"]}]})

    input: Words | None = None
    messages: list[MessageBody] | None = Field(None, min_length=1, max_length=10_000)
    session: Id | None = None
    actor: AnyActor | None = None
    mode: Literal["stream", "wait", "background"] = "wait"
    on_disconnect: Literal["keep", "cancel"] = "keep"
    timeout: float = Field(DEFAULT_TIMEOUT, ge=0, le=3600, allow_inf_nan=False)
    overlap: Overlap = "queue"
    idempotency_key: Id | None = None
    controls: ControlsBody | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.input is None) == (self.messages is None):
            raise ValueError("give either `input` or `messages`.")
        if self.messages and self.messages[-1].role != "user":
            raise ValueError("the last of `messages` must be the user's: it is what the run answers.")
        if any(m.role == "system" for m in self._talk()):
            raise ValueError("system messages stand before all others.")
        return self

    @property
    def question(self) -> tuple[Text, ...]:
        """What the run answers."""
        return (Text(self.input),) if self.input is not None else self._talk()[-1].texts

    @property
    def history(self) -> tuple[Message, ...]:
        """What was said before the question."""
        return tuple(Message("user" if m.role == "user" else "assistant", m.texts) for m in self._talk()[:-1])

    @property
    def instructions(self) -> str | None:
        """What the leading system messages say, or None."""
        said = [part.text for m in self._leading() for part in m.texts]
        return "\n\n".join(said) or None

    def _leading(self) -> list[MessageBody]:
        given = self.messages or []
        return given[: next((n for n, m in enumerate(given) if m.role != "system"), len(given))]

    def _talk(self) -> list[MessageBody]:
        return (self.messages or [])[len(self._leading()) :]
