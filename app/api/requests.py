"""What clients send: request bodies, each field checked before anything is done."""

import hashlib
from typing import Annotated, Any, Literal, Self

import msgspec
from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticKnownError

from agent_core.agents import (
    MAX_CONTRACT,
    MAX_IDLE,
    MAX_TOOL_LIMIT,
    Compaction,
    Controls,
    DeclaredTool,
    Definition,
    Hook,
    Limits,
    Persona,
    gathered,
)
from agent_core.channels import Context
from agent_core.controls import (
    MAX_CONDITIONS,
    MAX_STEPS,
    MAX_TOKENS,
    USD,
    Budget,
    Defaults,
    HasToolCall,
    NamedTool,
    Override,
    StepRule,
)
from agent_core.hooks.rules import MAX_HOOKS
from agent_core.ids import new_id
from agent_core.messages import MAX_FILE, MAX_FILES, Actor, Message, Part, Text, ToolCall, ToolResult
from agent_core.quotas import MAX_QUOTA, AddressQuota, Quota, VisitorQuota
from agent_core.runtime.approvals import MAX_REASON
from agent_core.runtime.segments import MAX_OUTPUTS, Changes, ToolOutput
from app.api.problems import NOT_BLANK
from app.api.wire import OBJECT, TEXT, AgentFields, RequestBody, body_of, by_kind, one_of
from channels.slack.settings import MAX_PROMPT_MESSAGE, MAX_PROMPT_TITLE, MAX_PROMPTS, Prompt, Slack
from channels.text import one_line
from channels.web.identity import fault_of_name
from channels.web.settings import (
    MAX_DATA,
    MAX_GREETING,
    MAX_LABEL,
    MAX_ORIGINS,
    MAX_POINTS,
    MAX_PROMPT,
    MAX_TITLE,
    Anonymous,
    StartPrompt,
    Web,
    WebFiles,
)
from channels.web.settings import MAX_PROMPTS as MAX_START_PROMPTS

MAX_TEXT = 100_000
MAX_METADATA = 16_000
MAX_VISITORS_METADATA = 1_000
TITLE_LENGTH = 200
DEFAULT_TIMEOUT = 120.0

THE_PAGE = "the page around the chat, as the user's browser says it"
MAX_PAGE_CONTEXT = 2_000
"""Characters of what a page may say with a message; it stays in the window for as long as the message does."""
PageContext = Annotated[str, StringConstraints(min_length=1, max_length=MAX_PAGE_CONTEXT, pattern=NOT_BLANK)]
Words = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TEXT, pattern=NOT_BLANK)]
Id = Annotated[str, StringConstraints(min_length=1, max_length=200)]
# A part of paths.
AgentName = Annotated[str, StringConstraints(pattern=r"^[^/\x00-\x1f\x7f]{1,100}$")]
Instructions = Annotated[str, StringConstraints(min_length=1, max_length=200_000, pattern=NOT_BLANK)]
# Empty: none.
Contract = Annotated[str, StringConstraints(max_length=MAX_CONTRACT)]
FileIds = Annotated[list[Id], Field(min_length=1, max_length=MAX_FILES)]
Overlap = Literal["queue", "steer", "interrupt", "reject"]
# What a repeated request may change: how the caller waits, not what is done.
NOT_PART_OF_THE_WORK = {"idempotency_key", "mode", "timeout", "on_disconnect"}


ToolNames = Annotated[list[Id], Field(max_length=200)]


class NamedToolBody(body_of(NamedTool, {"tool": Id})):
    """The one tool that must be called."""


OVERRIDE = {
    "tool_choice": one_of(Literal["auto", "none", "required"], NamedToolBody),
    "active_tools": ToolNames,
}


class OverrideBody(body_of(Override, OVERRIDE)):
    """Which tools a step may, or must, call."""


class StepRuleBody(body_of(StepRule, {**OVERRIDE, "step": Annotated[int, Field(ge=1, le=MAX_STEPS)]})):
    """What holds in one step, counted from 1."""


class StopBody(body_of(HasToolCall, {"tool": Id})):
    """When a run ends before the model says so."""


BUDGET = {
    "usd": Annotated[str, StringConstraints(pattern=f"^{USD}$")],
    "tokens": Annotated[int, Field(ge=1, le=MAX_TOKENS)],
}


class BudgetBody(body_of(Budget, BUDGET)):
    """What a run may use up before it asks the model once more; `usd` is a decimal in a text."""


DEFAULTS = {
    **OVERRIDE,
    "max_steps": Annotated[int, Field(ge=1, le=MAX_STEPS)],
    "max_output_tokens": Annotated[int, Field(ge=1, le=10_000_000)],
    "temperature": Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)],
    "step_rules": Annotated[list[StepRuleBody], Field(max_length=MAX_STEPS)],
    "stop_conditions": Annotated[list[StopBody], Field(max_length=MAX_CONDITIONS)],
    "budget": BudgetBody,
}


class DefaultsBody(body_of(Defaults, DEFAULTS)):
    """What the steps of a run may do; a field that is absent is taken from the next level."""


class ControlsBody(body_of(Controls, {**DEFAULTS, "model": Id})):
    """What a run may do; a field that is absent is taken from the agent. `tool_context` is for its tools alone."""


class TitleBody(RequestBody):
    """The title of a conversation: one line."""

    title: Annotated[str, StringConstraints(min_length=1, max_length=TITLE_LENGTH, pattern=NOT_BLANK)]

    @field_validator("title")
    @classmethod
    def _legible(cls, title: str) -> str:
        return one_line(title)[:TITLE_LENGTH]


class BranchBody(RequestBody):
    """The message before which a conversation goes on as a copy: the visitor's own newest one."""

    message: Id


class ActorBody(body_of(Actor, {"id": Id, "name": Id})):
    """The person or service that acts."""

    kind: Literal["user", "visitor", "service", "agent"] = "user"


AnyActor = Annotated[Annotated[Id, TEXT] | Annotated[ActorBody, OBJECT], by_kind(TEXT, OBJECT)]


def actor_of(named: str | ActorBody) -> Actor:
    """Return the actor that a body names; a bare text is the id of a user."""
    return Actor(id=named, kind="user") if isinstance(named, str) else named.value()


QUOTA = {name: Annotated[int, Field(ge=1, le=MAX_QUOTA)] for name in Quota.__struct_fields__ if name != "cost_per_day"}
QUOTA |= {"cost_per_day": Annotated[str, StringConstraints(pattern=f"^{USD}$")]}


class QuotaBody(body_of(Quota, QUOTA)):
    """How much one may use of an agent; null sets no bound."""


class VisitorQuotaBody(body_of(VisitorQuota, QUOTA)):
    """How much each visitor may use of an agent; null sets no bound."""


class AddressQuotaBody(body_of(AddressQuota, QUOTA)):
    """How much all visitors from one network address may use of an agent; null sets no bound."""


LIMITS = {
    "max_context_messages": Annotated[int, Field(ge=2, le=1_000_000)],
    "max_runs": Annotated[int, Field(ge=1, le=1_000_000)],
    "visitor": VisitorQuotaBody,
    "user": QuotaBody,
    "address": AddressQuotaBody,
    "everyone": QuotaBody,
}


class LimitsBody(body_of(Limits, LIMITS)):
    """Bounds of an agent."""


PROMPT = {
    "title": Annotated[str, Field(max_length=MAX_PROMPT_TITLE)],
    "message": Annotated[str, Field(max_length=MAX_PROMPT_MESSAGE)],
}


class PromptBody(body_of(Prompt, PROMPT)):
    """A suggestion for people who have not asked yet."""


SLACK = {
    "default": one_of(bool, Annotated[list[Id], Field(max_length=1000)]),
    "channels": Annotated[list[Id], Field(max_length=1000)],
    "loading": Annotated[list[Id], Field(max_length=10)],
    "prompts": Annotated[list[PromptBody], Field(max_length=MAX_PROMPTS)],
}


# The settings of channels by name: those that have no field of their own, or all of them.
ChannelsBody = Annotated[dict[Id, dict[str, Any]], Field(max_length=50)]


class SlackBody(body_of(Slack, SLACK)):
    """Where in Slack an agent answers, and how."""


START = {
    "label": Annotated[str, Field(max_length=MAX_LABEL)],
    "prompt": Annotated[str, Field(max_length=MAX_PROMPT)],
    "icon": Annotated[str, Field(max_length=MAX_POINTS)],
}


class StartPromptBody(body_of(StartPrompt, START)):
    """A suggestion before the first message."""


class AnonymousSettingsBody(body_of(Anonymous, {"origins": Annotated[list[Id], Field(max_length=MAX_ORIGINS)]})):
    """Where people talk to an agent who have not said who they are."""


WEB_FILES = {
    "max_bytes": Annotated[int, Field(ge=1, le=MAX_FILE)],
    "max_count": Annotated[int, Field(ge=1, le=MAX_FILES)],
    "accept": Annotated[list[Id], Field(min_length=1, max_length=50)],
}


class WebFilesBody(body_of(WebFiles, WEB_FILES)):
    """The files that visitors may send."""


WEB = {
    "anonymous": AnonymousSettingsBody,
    "files": WebFilesBody,
    "title": Annotated[str, Field(max_length=MAX_TITLE)],
    "greeting": Annotated[str, Field(max_length=MAX_GREETING)],
    "avatar": Annotated[str, Field(max_length=MAX_DATA)],
    "prompts": Annotated[list[StartPromptBody], Field(max_length=MAX_START_PROMPTS)],
}


class WebBody(body_of(Web, WEB)):
    """What the web widget shows of an agent to a visitor, and whom it lets in."""


class ToolBody(body_of(DeclaredTool, {"name": Id, "description": Words})):
    """A tool without code in the server: its calls wait for the client, or (`none`) are the run's answer."""


HOOK = {
    "matcher": Id,
    "order": Annotated[int, Field(ge=-1_000_000, le=1_000_000)],
    "name": Id,
}


class HookBody(body_of(Hook, HOOK)):
    """A hook: asked at `event`, about the tools that `matcher` names; `type` says what `config` may hold."""


class PersonaBody(body_of(Persona, dict.fromkeys(Persona.__struct_fields__, Contract))):
    """Who an agent is."""


class CompactionBody(body_of(Compaction, {"model": Id})):
    """How a long conversation is made shorter."""


# What HTTP takes of an agent's fields where that is less than their types say. A field that is not here is taken as it
# is defined in `AgentFields`.
AGENT = {
    "name": AgentName,
    "instructions": Instructions,
    "model": Id,
    "fallback_models": Annotated[list[Id], Field(max_length=10)],
    "tools": Annotated[list[one_of(Id, ToolBody)], Field(max_length=MAX_TOOL_LIMIT)],
    "mcp_servers": Annotated[list[Id], Field(max_length=100)],
    "tool_limit": Annotated[int, Field(ge=0, le=MAX_TOOL_LIMIT)],
    "hooks": Annotated[list[HookBody], Field(max_length=MAX_HOOKS)],
    "limits": LimitsBody,
    "controls": ControlsBody,
    "persona": PersonaBody,
    "operating_contract": Contract,
    "idle_refreeze_s": Annotated[int, Field(ge=0, le=MAX_IDLE)],
    "compaction": CompactionBody,
    "clock": Annotated[str, Field(max_length=60)],
    "slack": SlackBody,
    "web": WebBody,
    "channels": ChannelsBody,
}


class AgentBody(body_of(AgentFields, AGENT)):
    """A new agent."""

    def value(self) -> Definition:
        """Return the definition; settings beside the fields are those of the channel with that name."""
        return msgspec.convert(gathered(self.model_dump(exclude_unset=True)), Definition)


class AgentChanges(body_of(AgentFields, AGENT, partial=True)):
    """What a new version of an agent changes; a field that is absent stays."""


class SessionBody(RequestBody):
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


class ForkBody(RequestBody):
    """Where a fork ends; the end of the log when absent."""

    at: int | None = Field(None, ge=1, le=2**63 - 1)


class WorkBody(RequestBody):
    """A request that may be repeated under its idempotency key."""

    def digest(self) -> bytes:
        """Return the hash by which a repeated idempotency key is known to come with the same work."""
        absent = {name for name in ("files", "context") if not getattr(self, name, None)}  # as before there were any
        work = self.model_dump(mode="json", exclude=NOT_PART_OF_THE_WORK | absent)
        return hashlib.sha256(msgspec.json.encode(work, order="deterministic")).digest()


class PostBody(WorkBody):
    """A message to a session: a text, files by their ids, or both.

    *context* is what the page around the chat says of where the person is; the model reads it quoted.
    """

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["text"]}, {"required": ["files"]}]})

    files: FileIds | None = None
    text: Annotated[Words | None, Field(validate_default=True)] = None
    context: PageContext | None = None
    overlap: Overlap = "queue"
    idempotency_key: Id | None = None
    controls: ControlsBody | None = None

    @field_validator("text")
    @classmethod
    def _said(cls, text: str | None, info: ValidationInfo) -> str | None:
        if text is None and not info.data.get("files"):
            raise PydanticKnownError("missing")
        return text

    @property
    def texts(self) -> tuple[Text, ...]:
        """The text as the core's part, if there is one."""
        return () if self.text is None else (Text(self.text),)

    @property
    def said_by_the_page(self) -> tuple[Context, ...]:
        """The context as the core's: a person's browser wrote it, so it is quoted."""
        return () if self.context is None else (Context(text=self.context, author=THE_PAGE, attached=True),)


class ReplyBody(RequestBody):
    """What a person says to the user in the agent's place; *name* is what the user reads as theirs."""

    text: Words
    name: Annotated[str, StringConstraints(min_length=1, max_length=80, pattern=NOT_BLANK)] | None = None
    idempotency_key: Id | None = None

    @field_validator("name")
    @classmethod
    def _seen(cls, name: str | None) -> str | None:
        if name is not None and (fault := fault_of_name(name)) is not None:
            raise ValueError(fault)
        return name


class FeedbackBody(RequestBody):
    """A person's rating of a run; a visitor's is that of the token's actor."""

    rating: Literal["up", "down"]
    comment: Words | None = None
    actor: AnyActor | None = None


class TextPartBody(RequestBody):
    """A text part."""

    type: Literal["text"]
    text: Words


class ToolOutputBody(RequestBody):
    """The use of a tool whose result is a message's content; without `output` the tool is called for it."""

    tool: Id
    input: dict[str, Any] = Field(default_factory=dict[str, Any])
    output: Words | None = None

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts as the core's values: a call, and what it returned if that is known."""
        call = ToolCall(new_id("call"), self.tool, self.input)
        return (call,) if self.output is None else (call, ToolResult(call.call, "done", (Text(self.output),)))


class MessageBody(RequestBody):
    """One message of a run's input."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": [name]} for name in ("text", "parts", "tool_output")]}
    )

    role: Literal["system", "user", "assistant"]
    text: Words | None = None
    parts: list[TextPartBody] | None = Field(None, min_length=1, max_length=1000)
    tool_output: ToolOutputBody | None = None

    @field_validator("parts")
    @classmethod
    def _fit(cls, parts: list[TextPartBody] | None) -> list[TextPartBody] | None:
        """Hold one message to the bound of one text, in however many parts it comes."""
        if sum(len(part.text) for part in parts or ()) > MAX_TEXT:
            raise PydanticKnownError("string_too_long", {"max_length": MAX_TEXT})
        return parts

    @model_validator(mode="after")
    def _one(self) -> Self:
        if sum(each is not None for each in (self.text, self.parts, self.tool_output)) != 1:
            raise ValueError("give one of `text`, `parts` and `tool_output`.")
        if self.tool_output is not None and self.role != "user":
            raise ValueError("a `tool_output` is content of a user message.")
        return self

    @property
    def content(self) -> tuple[Part, ...]:
        """The parts as the core's values, with the use of a tool if that is the content."""
        return self.texts if self.tool_output is None else self.tool_output.parts

    @property
    def texts(self) -> tuple[Text, ...]:
        """The parts as the core's values."""
        return (Text(self.text),) if self.text is not None else tuple(Text(p.text) for p in self.parts or ())


class RunBody(WorkBody):
    """An agent's run: what to answer, and how the caller gets the answer."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["input"]}, {"required": ["messages"]}]})

    input: Words | None = None
    files: FileIds | None = None
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
        if self.files and self.messages:
            raise ValueError("`files` come with `input`.")
        if self.messages and self.messages[-1].role != "user":
            raise ValueError("the last of `messages` must be the user's: it is what the run answers.")
        if any(m.role == "system" for m in self._talk()):
            raise ValueError("system messages come before all others.")
        if any(m.tool_output is not None and m.tool_output.output is None for m in self._talk()[:-1]):
            raise ValueError("only the last message may use a tool; for earlier ones give the `output` of the tool.")
        return self

    @property
    def question(self) -> tuple[Part, ...]:
        """What the run answers."""
        return (Text(self.input),) if self.input is not None else self._talk()[-1].content

    @property
    def history(self) -> tuple[Message, ...]:
        """What was said before the question."""
        return tuple(Message("user" if m.role == "user" else "assistant", m.content) for m in self._talk()[:-1])

    @property
    def instructions(self) -> str | None:
        """What the leading system messages say, or None."""
        texts = [part.text for m in self._leading() for part in m.texts]
        return "\n\n".join(texts) or None

    def _leading(self) -> list[MessageBody]:
        messages = self.messages or []
        return messages[: next((n for n, m in enumerate(messages) if m.role != "system"), len(messages))]

    def _talk(self) -> list[MessageBody]:
        return (self.messages or [])[len(self._leading()) :]


MAX_ARGUMENTS = 100_000
"""Bytes of JSON: they are stored with the approval, in the log and in the audit record."""


def _small(value: dict[str, Any]) -> dict[str, Any]:
    if len(msgspec.json.encode(value)) > MAX_ARGUMENTS:
        raise PydanticKnownError("string_too_long", {"max_length": MAX_ARGUMENTS})
    return value


class DecisionBody(RequestBody):
    """A vote on an approval; an operator whose key has the scope `approvals:as` may give it for another person.

    *surface* is where the operator's own tool got it.
    """

    approved: bool
    reason: Annotated[str, StringConstraints(min_length=1, max_length=MAX_REASON, pattern=NOT_BLANK)] | None = None
    arguments: Annotated[dict[str, Any], AfterValidator(_small)] | None = None
    remember: bool = False
    actor: AnyActor | None = None
    surface: Literal["api", "terminal"] = "api"


class OutputBody(RequestBody):
    """The output of a call that the client executed, or its error."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["output"]}, {"required": ["error"]}]})

    call: Id
    output: Any = None
    error: Words | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if ("output" in self.model_fields_set) == (self.error is not None):
            raise ValueError("give either `output` or `error`.")
        return self

    def value(self) -> ToolOutput:
        """Return the core's value."""
        return ToolOutput(call=self.call, output=self.output, error=self.error)


class OutputsBody(OverrideBody):
    """Outputs of a run's client calls: all of them are taken, or none.

    `tool_choice` and `active_tools` are for the next step alone, `step_rules` for the steps that they name and
    `defaults` for all that come; `tool_context` is passed to the tools and never shown.
    """

    outputs: list[OutputBody] = Field(min_length=1, max_length=MAX_OUTPUTS)
    step_rules: list[StepRuleBody] | None = Field(default=None, max_length=MAX_STEPS)
    defaults: DefaultsBody | None = None
    tool_context: dict[str, Any] | None = None

    def changes(self) -> Changes | None:
        """Return the core's value of what changes with the outputs; None without such."""
        values = self.model_dump(exclude={"outputs"}, exclude_none=True)
        if not values:
            return None
        next_step = {name: values.pop(name) for name in OverrideBody.model_fields if name in values}
        rules = values.pop("step_rules", None)
        return msgspec.convert({**values, "rules": rules, "next": next_step or None}, Changes)
