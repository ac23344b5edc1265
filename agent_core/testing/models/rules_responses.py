"""OpenAI's rules for a request of Responses."""

import re
from collections.abc import Mapping, Sequence
from typing import cast

from agent_core.testing.models.failing import RuleBroken
from agent_core.testing.models.prefix import Json, dicts

_KNOWN = """
model input instructions tools tool_choice stream stream_options store include reasoning text temperature top_p
max_output_tokens max_tool_calls metadata parallel_tool_calls previous_response_id conversation prompt
prompt_cache_key prompt_cache_options prompt_cache_retention safety_identifier service_tier top_logprobs
truncation user background background_options context_management access_programs image moderation
"""
FIELDS = frozenset(_KNOWN.split())
_SIX, _FIVE = ("none", "low", "medium", "high", "xhigh", "max"), ("low", "medium", "high", "xhigh", "max")
EFFORTS: Mapping[str, Sequence[str]] = {
    r"gpt-6(\.2)?-astra|gpt-6\.[12]-sol": _FIVE,
    r"gpt-6-(sol|luna)|gpt-6\.1-terra|gpt-5\.6-(sol|terra|luna)": _SIX,
    r"gpt-5\.(2|4|5)|gpt-5\.4-(mini|nano)": _SIX[:-1],
    r"gpt-5\.1": _SIX[:-2],
    r"gpt-5(-mini|-nano)?": ("minimal", "low", "medium", "high"),
    r"o3": ("low", "medium", "high"),
}
"""The efforts that OpenAI's models were seen to take (November 2026), apart from our table, which is held to them."""
_AT_REST = r"gpt-5\.(1|2|4)(-mini|-nano)?"
"""Those that do not think unless they are asked to."""
_THOUGHTLESS = r"gpt-4(\.1|o)(-mini)?"
"""Those that do not think."""
_UNMARKED = r"gpt-[34]|gpt-5(-|$|\.[0-5])|o\d"
"""Those that take no explicit cache breakpoint."""
_DAY = re.compile(r"-\d{4}-\d{2}-\d{2}$")
_SEARCHLESS = r"gpt-[34].*|gpt-5(\.[0-3])?(-.*)?|gpt-5\.4-nano|o\d.*"
"""Those that have no search for tools."""
_ROLES = ("assistant", "system", "developer", "user")
_OUTPUT = ("output_text", "refusal")
_INPUT = ("input_text", "input_image", "input_file", "input_audio")


def check(body: Json, *, verified: bool = True) -> None:
    """Raise `RuleBroken` for the first rule that *body* breaks; *verified*: the organization may have summaries."""
    for field in body:
        if field not in FIELDS:
            raise RuleBroken(f"Unknown parameter: '{field}'.", param=field, code="unknown_parameter")
    for field in ("model", "input"):
        if body.get(field) is None:
            raise missing(field)
    if (previous := body.get("previous_response_id")) is not None:
        raise RuleBroken(
            f"Previous response with id '{previous}' not found.",
            param="previous_response_id",
            code="previous_response_not_found",
        )
    _check_tools(body)
    _check_effort(body)
    _check_thinking(body, verified=verified)
    items = dicts(body["input"])
    if isinstance(body["input"], list) and not items:
        raise RuleBroken("Invalid 'input': empty array. Expected an array with minimum length 1.", param="input")
    for n, item in enumerate(items):
        _check_item(n, item)
        _check_breakpoints(str(body["model"]), n, item)
    _check_ids(items)
    _check_pairs(items)
    _check_loaded(body, items)


def _check_tools(body: Json) -> None:
    for n, tool in enumerate(dicts(body.get("tools"))):
        if tool.get("type") is None:
            raise missing(f"tools[{n}].type")
        if tool["type"] == "function" and not tool.get("name"):
            raise missing(f"tools[{n}].name")
        if tool["type"] == "function":
            check_parameters(n, tool)
        if tool["type"] == "tool_search":
            _check_search(str(body["model"]), n, tool)


def searches(body: Json) -> bool:
    """Return whether the request has a search for tools that its client executes."""
    tools = dicts(body.get("tools"))
    return any(tool.get("type") == "tool_search" and tool.get("execution") == "client" for tool in tools)


def _check_search(model: str, n: int, tool: Json) -> None:
    """Refuse a search of a model that has none, and one of the client's that has no parameters."""
    if re.fullmatch(_SEARCHLESS, _DAY.sub("", model)):
        raise RuleBroken(f"Tool 'tool_search' is not supported with {model}.", param="tools", code="unsupported_value")
    if tool.get("execution") == "client" and not isinstance(tool.get("parameters"), dict):
        raise missing(f"tools[{n}].parameters")


def _check_loaded(body: Json, items: Sequence[Json]) -> None:
    """Refuse tools that a search loaded where there is no search, and those that could not be called."""
    for n, item in enumerate(items):
        if item.get("type") != "tool_search_output":
            continue
        if not searches(body):
            raise RuleBroken("Tool search output is given without a 'tool_search' tool.", param=f"input[{n}]")
        for m, tool in enumerate(dicts(item["tools"])):
            if tool.get("type") == "function" and not tool.get("name"):
                raise missing(f"input[{n}].tools[{m}].name")
            check_parameters(m, tool)


def _check_effort(body: Json) -> None:
    """Refuse an effort that the model does not have, and a temperature beside the thinking of one that thinks."""
    model, effort = str(body["model"]), cast("Json", body.get("reasoning") or {}).get("effort")
    name = _DAY.sub("", model)
    levels = next((levels for names, levels in EFFORTS.items() if re.fullmatch(names, name)), None)
    if levels is None:
        return
    if effort is not None and effort not in levels:
        supported = ", ".join(f"'{each}'" for each in levels[:-1]) + f", and '{levels[-1]}'"
        raise RuleBroken(
            f"Unsupported value: '{effort}' is not supported with the '{model}' model. "
            f"Supported values are: {supported}.",
            param="reasoning.effort",
            code="unsupported_value",
        )
    thinks = (effort or ("none" if re.fullmatch(_AT_REST, name) else "medium")) != "none"
    if thinks and body.get("temperature") is not None:
        raise RuleBroken("Unsupported parameter: 'temperature' is not supported with this model.", param="temperature")


def _check_thinking(body: Json, *, verified: bool) -> None:
    """Refuse what a model that does not think cannot give, and summaries for an organization without them."""
    model, reasoning = str(body["model"]), cast("Json", body.get("reasoning") or {})
    if re.fullmatch(_THOUGHTLESS, _DAY.sub("", model)):
        if reasoning:
            field = f"reasoning.{next(iter(reasoning))}"
            raise RuleBroken(
                f"Unsupported parameter: '{field}' is not supported with this model.",
                param=field,
                code="unsupported_parameter",
            )
        if "reasoning.encrypted_content" in cast("Sequence[str]", body.get("include") or ()):
            raise RuleBroken("Encrypted content is not supported with this model.", param="include")
    if reasoning.get("summary") and not verified:
        raise RuleBroken(
            "Your organization must be verified to generate reasoning summaries. Please go to: "
            "https://platform.openai.com/settings/organization/general and click on Verify Organization. If you just "
            "verified, it can take up to 15 minutes for access to propagate.",
            param="reasoning.summary",
            code="unsupported_value",
        )


def missing(field: str) -> RuleBroken:
    """Return the refusal of a request without *field*."""
    return RuleBroken(f"Missing required parameter: '{field}'.", param=field, code="missing_required_parameter")


def _check_item(n: int, item: Json) -> None:
    type_ = item.get("type", "message")
    if type_ == "message":
        role = item.get("role")
        if role not in _ROLES:
            raise invalid(f"input[{n}].role", role, _ROLES)
        allowed = _OUTPUT if role == "assistant" else _INPUT
        for m, part in enumerate(dicts(item.get("content"))):
            if part.get("type") not in allowed:
                raise invalid(f"input[{n}].content[{m}].type", part.get("type"), allowed)
        if item.get("content") is None:
            raise missing(f"input[{n}].content")
    needed = {
        "function_call": ("call_id", "name", "arguments"),
        "function_call_output": ("call_id", "output"),
        "reasoning": ("summary",),
        "tool_search_call": ("arguments",),
        "tool_search_output": ("tools",),
    }
    for field in needed.get(str(type_), ()):
        if item.get(field) is None:
            raise missing(f"input[{n}].{field}")


def _check_breakpoints(model: str, n: int, item: Json) -> None:
    """Refuse a cache breakpoint of a model that has none, or of another part than one of the input."""
    field = "prompt_cache_breakpoint"
    for key in ("content", "output"):
        for m, part in enumerate(dicts(item.get(key))):
            if (mark := part.get(field)) is None:
                continue
            param = f"input[{n}].{key}[{m}].{field}"
            if re.match(_UNMARKED, model):
                raise RuleBroken(f"Unsupported parameter: '{field}' is not supported with this model.", param=param)
            if part.get("type") not in _INPUT[:3]:
                raise RuleBroken(f"Unknown parameter: '{param}'.", param=param, code="unknown_parameter")
            mode = cast("Json", mark).get("mode") if isinstance(mark, dict) else None
            if mode != "explicit":
                raise RuleBroken(f"Invalid value: '{mode}'. Supported values are: 'explicit'.", param=f"{param}.mode")


def invalid(param: str, value: object, allowed: Sequence[str]) -> RuleBroken:
    """Return the refusal of *value* where only *allowed* ones can stand."""
    supported = ", ".join(f"'{each}'" for each in allowed[:-1]) + f" and '{allowed[-1]}'"
    return RuleBroken(
        f"Invalid value: '{value}'. Supported values are: {supported}.", param=param, code="invalid_value"
    )


def check_parameters(n: int, function: Json) -> None:
    """Refuse a *function*, the *n*-th tool, whose parameters are no plain object."""
    schema = cast("Json", function.get("parameters") or {"type": "object"})
    if schema.get("type") != "object" or {"oneOf", "anyOf", "allOf", "enum", "not"} & schema.keys():
        raise RuleBroken(
            f"Invalid schema for function '{function['name']}': schema must have type 'object' and not have "
            "'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.",
            param=f"tools[{n}].parameters",
            code="invalid_function_parameters",
        )


def _check_ids(items: Sequence[Json]) -> None:
    seen: set[str] = set()
    for item in items:
        id_ = cast("str | None", item.get("id"))
        if id_ and id_ in seen:
            raise RuleBroken(
                f"Duplicate item found with id {id_}. Remove duplicate items from your input and try again.",
                param="input",
            )
        seen.add(id_ or "")


def _check_answered(items: Sequence[Json], call: str, output: str, kind: str) -> None:
    """Check that each item of the type *call* has one of the type *output* after it, and the other way round."""
    outputs = [item.get("call_id") for item in items if item.get("type") == output]
    calls: set[object] = set()
    for item in items:
        if item.get("type") == call:
            calls.add(item.get("call_id"))
        elif item.get("type") == output and item.get("call_id") not in calls:
            raise RuleBroken(f"No tool call found for {kind} output with call_id {item.get('call_id')}.", param="input")
    for item in items:
        if item.get("type") == call and item.get("call_id") not in outputs:
            raise RuleBroken(f"No tool output found for {kind} {item.get('call_id')}.", param="input")


def _check_pairs(items: Sequence[Json]) -> None:
    """Check that calls have outputs, outputs have calls, and reasoning precedes what it led to."""
    for call, output, kind in (
        ("function_call", "function_call_output", "function call"),
        ("tool_search_call", "tool_search_output", "tool search call"),
    ):
        _check_answered(items, call, output, kind)
    for n, item in enumerate(items):
        follower = items[n + 1] if n + 1 < len(items) else {}
        alone = follower.get("type", "message") in ("function_call_output", "message") and (
            follower.get("role") != "assistant"
        )
        if item.get("type") == "reasoning" and alone:
            raise RuleBroken(
                f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item.",
                param="input",
            )
