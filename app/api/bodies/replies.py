"""What clients send to a run that waits: decisions on its approvals, and outputs of the calls that they execute."""

from typing import Annotated, Any, Literal, Self

import msgspec
from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, model_validator
from pydantic_core import PydanticKnownError

from agent_core import Changes, ToolOutput
from agent_core.controls import MAX_STEPS
from agent_core.runtime.approvals import MAX_REASON
from agent_core.runtime.segments import MAX_OUTPUTS
from app.api.bodies.derived import RequestBody
from app.api.bodies.requests import AnyActor, DefaultsBody, Id, OverrideBody, StepRuleBody, Words
from app.api.problems import NOT_BLANK

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
