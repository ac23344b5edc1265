"""The body of a request that runs an agent: the messages to answer, and how the caller gets the answer."""

from typing import Any, Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticKnownError

from agent_core import Message, Part, Text, ToolCall, ToolResult, new_id
from app.api.bodies.derived import RequestBody
from app.api.bodies.requests import (
    DEFAULT_TIMEOUT,
    MAX_TEXT,
    AnyActor,
    ControlsBody,
    FileIds,
    Id,
    Overlap,
    Words,
    WorkBody,
)


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
