"""OpenAI's rules for a request of Chat Completions."""

from collections.abc import Sequence
from typing import cast

from agent_core.testing.models.failing import RuleBroken
from agent_core.testing.models.prefix import Json, dicts
from agent_core.testing.models.rules_responses import check_parameters, invalid, missing

_KNOWN = """
model messages tools tool_choice stream stream_options store reasoning_effort response_format temperature top_p
max_tokens max_completion_tokens metadata parallel_tool_calls n stop seed user frequency_penalty
presence_penalty logit_bias logprobs top_logprobs modalities audio prediction prompt_cache_key
prompt_cache_options prompt_cache_retention safety_identifier service_tier verbosity web_search_options
function_call functions moderation
"""
FIELDS = frozenset(_KNOWN.split())
_ROLES = ("system", "assistant", "user", "function", "tool", "developer")


def check(body: Json) -> None:
    """Raise `RuleBroken` for the first rule that *body* breaks."""
    for field in body:
        if field not in FIELDS:
            raise RuleBroken(f"Unknown parameter: '{field}'.", param=field, code="unknown_parameter")
    for field in ("model", "messages"):
        if body.get(field) is None:
            raise missing(field)
    for n, tool in enumerate(dicts(body.get("tools"))):
        function = tool.get("function")
        if tool.get("type") == "function" and (
            not isinstance(function, dict) or not cast("Json", function).get("name")
        ):
            raise missing(f"tools[{n}].function")
        if isinstance(function, dict):
            check_parameters(n, cast("Json", function))
    messages = dicts(body["messages"])
    if not messages:
        raise RuleBroken("Invalid 'messages': empty array. Expected an array with minimum length 1.", param="messages")
    for n, message in enumerate(messages):
        if message.get("role") not in _ROLES:
            raise invalid(f"messages[{n}].role", message.get("role"), _ROLES)
        empty = message.get("content") is None and not (message.get("tool_calls") or message.get("refusal"))
        if empty:
            raise RuleBroken(
                "Invalid value for 'content': expected a string, got null.", param=f"messages.[{n}].content"
            )
    _check_pairs(messages)


def _check_pairs(messages: Sequence[Json]) -> None:
    """Check that a message with calls is followed by the results of all of them, and that no other results exist."""
    open_: list[str] = []
    for n, message in enumerate(messages):
        if message["role"] == "tool":
            if message.get("tool_call_id") not in open_:
                raise RuleBroken(
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
                    "'tool_calls'.",
                    param=f"messages.[{n}].role",
                )
            open_.remove(message["tool_call_id"])
            continue
        _check_none(open_, n)
        open_ = [str(call.get("id")) for call in dicts(message.get("tool_calls"))]
    _check_none(open_, len(messages))


def _check_none(calls: Sequence[str], n: int) -> None:
    if calls:
        raise RuleBroken(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(calls)}",
            param=f"messages.[{n}].role",
        )
