"""A defined tool around the one that its kind makes: presets that the model cannot change, and the output mapping."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from agent_core.agents import ToolDefinition, ToolSpec
from agent_core.messages import Text
from agent_core.schemas import problems
from agent_core.tools.base import CallContext, Done, Outcome, Tool, ToolError, unshown
from agent_core.tools.output import OutputFailed, mapped

_SHOWN = 100
"""Characters of an expression that an error repeats."""


class CatalogTool:
    """The tool of *definition* around *inner*, which its kind made and which has all parameters."""

    def __init__(self, definition: ToolDefinition, inner: Tool) -> None:
        self.definition, self.inner = definition, inner
        self._preset, self._output, self._parameters = definition.preset, definition.output, inner.spec.parameters
        self.spec: ToolSpec = replace(
            inner.spec, parameters=without(self._parameters, definition.preset), preset=definition.preset
        )

    async def call(self, arguments: dict[str, Any], context: CallContext) -> Outcome:
        """Run with *arguments* and the presets, checked as the definition is now: the model may know an older one."""
        presets = [name for name in self._preset if name in arguments]
        if presets:
            listed = ", ".join(f"`$.{name}`" for name in presets)
            return ToolError(f"The arguments do not fit `{self.spec.name}`: {listed}: there is no such property.")
        merged = {**arguments, **self._preset}
        if faults := problems(self._parameters, merged):
            listed = "; ".join(map(str, faults))
            return ToolError(f"The arguments do not fit `{self.spec.name}` as it is now: {listed}")
        outcome = await self.inner.call(merged, context)
        if self._output is None or not isinstance(outcome, Done):
            return outcome
        return await self._mapped(self._output, outcome)

    async def _mapped(self, expression: str, done: Done) -> Outcome:
        """Return *done* with what *expression* makes of its data, or of each text in it.

        Text that is no JSON is not shown: with `output` an author may withhold fields.
        """
        parts = list(done.parts)
        if done.data is not None:
            parts = [Text(done.data), *(part for part in parts if not isinstance(part, Text))]
        for place, part in enumerate(parts):
            if not isinstance(part, Text):
                continue
            try:
                parts[place] = Text(await mapped(expression, part.text))
            except OutputFailed as error:
                if not _is_json(part.text):
                    return unshown("it is no JSON, which the `output` of the tool is applied to")
                return unshown(f"its `output`, `{expression[:_SHOWN]}`, failed: {error}")
        return Done(tuple(parts), done.renders)


def without_new_presets(tool: Tool, frozen: ToolSpec, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return *arguments*, which fit *frozen*, without those that have become presets of *tool* since.

    The model of a conversation that froze the parameter must give it if it is required; the preset goes in its place.
    """
    if not isinstance(tool, CatalogTool):
        return arguments
    properties: dict[str, Any] = frozen.parameters.get("properties", {})
    new = properties.keys() & tool.definition.preset.keys()
    return {name: value for name, value in arguments.items() if name not in new}


def without(parameters: dict[str, Any], preset: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema *parameters* as a model sees it: without the properties that have a *preset*."""
    if not preset:
        return parameters
    properties: dict[str, Any] = parameters.get("properties", {})
    required: list[str] = parameters.get("required", [])
    left = {key: each for key, each in parameters.items() if key != "required"}
    left["properties"] = {name: each for name, each in properties.items() if name not in preset}
    names = [name for name in required if name not in preset]
    return {**left, "required": names} if names else left


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except RecursionError:  # too deep to read, so not shown; what is wrong is its depth
        return True
    except msgspec.MsgspecError:
        return False
    return True
