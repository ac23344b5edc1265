"""What a tool's definition says, checked before it is stored: the fields that all kinds have in common; pure."""

import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from agent_core.agents import ToolDefinition
from agent_core.errors import InvalidInput
from agent_core.schemas import problems, schema_problem, unsendable
from agent_core.servers import PREFIX
from agent_core.tools.base import REPEATED, Tool, repeats
from agent_core.tools.functions import NAME
from agent_core.tools.output import OutputFailed, check_compiles, check_output, without
from agent_core.tools.toolset import KindFactory, unknown_tool

MAX_TIMEOUT = 3_600
"""Seconds of one call."""
MAX_LIMIT = 1_000_000
"""Characters of one result that a model may read."""
MAX_DESCRIPTION = 10_000
MAX_TITLE = 100
MAX_CONTEXT = 50
MAX_CONFIG = 64_000
"""Bytes of JSON, of `config`, of `preset` and of `tests`."""
MAX_TESTS = 20
_KEY = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ID = re.compile(r"tool_[A-Za-z0-9_-]{16}")


def check_definition(definition: ToolDefinition, factory: KindFactory, tools: Mapping[str, Tool]) -> None:
    """Raise `InvalidInput`, with the path of the field, for a definition that cannot work.

    *factory* is that of its kind, *tools* are the tools that need no definition. A schema takes up to a second.
    """
    _check_name(definition.name)
    _check_texts(definition)
    _check_bounds(definition)
    if definition.parameters is not None:
        check_parameters(definition.parameters)
    if definition.output is not None:
        try:
            check_output(definition.output)
        except ValueError as error:
            raise InvalidInput("output", str(error)) from None
    for name in ("config", "preset", "tests"):
        if len(msgspec.json.encode(getattr(definition, name))) > MAX_CONFIG:
            raise InvalidInput(name, f"at most {MAX_CONFIG:,} bytes of JSON.")
    factory.check(definition)
    tool = factory.tool(definition, tools)
    if tool is None and definition.kind == "python":  # an MCP server may be away now
        raise InvalidInput("config.tool", unknown_tool(str(definition.config.get("tool")), tools))
    if tool is not None:
        if not tool.spec.description.strip():
            raise InvalidInput("description", "say what the tool does, for the model to read.")
        check_preset(definition.preset, tool.spec.parameters)
        _check_tests(definition, tool.spec.parameters)


async def check_program(definition: ToolDefinition) -> None:
    """Raise `InvalidInput` for an `output` whose jq program cannot be compiled, which a process of its own tries."""
    try:
        await check_compiles(definition.output or "")
    except OutputFailed as error:
        raise InvalidInput("output", str(error)) from None


def check_parameters(parameters: dict[str, Any], path: str = "parameters") -> None:
    """Raise `InvalidInput`, at *path*, for what is no JSON Schema of an object, or refused by vendors of models."""
    if parameters.get("type") != "object":
        raise InvalidInput(path, 'a JSON Schema of an object: begin with `"type": "object"`.')
    if fault := schema_problem(parameters):
        fault = fault.within(path)
        raise InvalidInput(fault.path, f"no JSON Schema (draft 2020-12): {fault.message}")
    if fault := unsendable(parameters):
        fault = fault.within(path)
        raise InvalidInput(fault.path, fault.message)


def check_preset(preset: Mapping[str, Any], parameters: dict[str, Any]) -> None:
    """Raise `InvalidInput` for a preset of a parameter that *parameters* do not have, or that does not fit it."""
    named = parameters.get("properties")
    properties = cast("dict[str, Any]", named) if isinstance(named, dict) else {}
    for name, value in preset.items():
        path = f"preset.{name}"
        if name not in properties:
            listed = ", ".join(f"`{each}`" for each in properties) or "none"
            raise InvalidInput(path, f"there is no such parameter; the parameters are: {listed}.")
        # By the whole schema, since a reference leads to another part of it.
        alone = {key: each for key, each in parameters.items() if key in ("$defs", "definitions")}
        for fault in problems({**alone, "type": "object", "properties": {name: properties[name]}}, {name: value}, 1):
            raise InvalidInput(f"preset{fault.path.removeprefix('$')}", fault.message)


def _check_tests(definition: ToolDefinition, parameters: dict[str, Any]) -> None:
    """Refuse examples of calls that would end in another way than they say, before anything is called."""
    if len(definition.tests) > MAX_TESTS:
        raise InvalidInput("tests", f"at most {MAX_TESTS}.")
    seen = without(parameters, definition.preset)
    for place, example in enumerate(definition.tests):
        if example.outcome == "done" and (faults := problems(seen, example.arguments, 1)):
            fault = faults[0].within(f"tests[{place}].arguments")
            raise InvalidInput(fault.path, fault.message)


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise InvalidInput("name", "a tool's name has 1 to 64 letters, digits, `_` and `-`.")
    if name.startswith(PREFIX):
        raise InvalidInput("name", f"`{PREFIX}` begins the names of MCP servers' tools; choose another name.")
    if _ID.fullmatch(name):
        raise InvalidInput("name", "a name that reads like the id of a tool; choose another one.")


def _check_texts(definition: ToolDefinition) -> None:
    if len(definition.description) > MAX_DESCRIPTION:
        raise InvalidInput("description", f"at most {MAX_DESCRIPTION:,} characters.")
    for name, title in (("title", definition.title), ("title_done", definition.title_done)):
        if title is not None and not 1 <= len(title.strip()) <= MAX_TITLE:
            raise InvalidInput(name, f"a title has 1 to {MAX_TITLE} characters; leave it out for none.")
    if definition.resource is not None and not _KEY.fullmatch(definition.resource):
        raise InvalidInput("resource", "a resource has 1 to 64 letters, digits, `_` and `-`.")
    if len(definition.context) > MAX_CONTEXT:
        raise InvalidInput("context", f"at most {MAX_CONTEXT} keys.")
    for place, key in enumerate(definition.context):
        if not _KEY.fullmatch(key):
            raise InvalidInput(f"context[{place}]", "a key has 1 to 64 letters, digits, `_` and `-`.")
        if repeats(key, definition.context[:place]):
            raise InvalidInput(f"context[{place}]", REPEATED)


def _check_bounds(definition: ToolDefinition) -> None:
    if not 0 < definition.timeout_s <= MAX_TIMEOUT:  # a NaN is refused too
        raise InvalidInput("timeout_s", f"seconds above 0, at most {MAX_TIMEOUT:,}.")
    if not 1 <= definition.result_limit <= MAX_LIMIT:
        raise InvalidInput("result_limit", f"between 1 and {MAX_LIMIT:,} characters.")
