"""Anthropic's rules for a request of Messages."""

import re
from collections.abc import Sequence
from itertools import groupby
from typing import cast

from agent_core.testing.models.asked import ModelCall
from agent_core.testing.models.failing import FORCED_THINKING, RuleBroken
from agent_core.testing.models.prefix import THINKING, Json, Position, blocks, dicts

_KNOWN = """
model messages max_tokens system tools tool_choice stream stop_sequences metadata thinking output_config
cache_control container context_management mcp_servers service_tier inference_geo speed diagnostics fallbacks
fallback_credit_token compaction thread billing_policy user_profile_id workspace_id
"""
FIELDS = frozenset(_KNOWN.split())
SAMPLING = ("temperature", "top_p", "top_k")
NO_SAMPLING = "2026-10-21"
"""The version of the API from which sampling parameters are refused."""
MAX_MARKS = 4
_ROLES = ("user", "assistant", "system")
_CALLER = ("text", "thinking", "redacted_thinking", "tool_use")
_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_THINKING = ("adaptive", "between_tools", "disabled", "enabled")


def check(call: ModelCall, positions: Sequence[Position], *, counting: bool = False) -> None:
    """Raise `RuleBroken` for the first rule that *call* breaks; *counting* is for requests that only count tokens."""
    body = call.body
    _check_fields(body, call.headers.get("anthropic-version", ""), counting=counting)
    _check_tools(body)
    _check_choice(body)
    _check_texts(positions)
    _check_marks(body, positions)
    messages = dicts(body.get("messages"))
    _check_roles(messages)
    _check_pairs(messages)
    _check_paused(messages)
    _check_last(messages)


def _check_fields(body: Json, version: str, *, counting: bool) -> None:
    if not version:
        raise RuleBroken("anthropic-version: header is required")
    for field in body:
        allowed = field in FIELDS or (field in SAMPLING and version < NO_SAMPLING)
        if not allowed:
            raise RuleBroken(f"{field}: Extra inputs are not permitted")
    for field in ("model", "messages") if counting else ("model", "max_tokens", "messages"):
        if body.get(field) is None:
            raise RuleBroken(f"{field}: Field required")
    if not isinstance(body["messages"], list):
        raise RuleBroken("messages: Input should be a valid list")
    most = body.get("max_tokens")
    if not counting and (not isinstance(most, int) or isinstance(most, bool) or most < 0):
        raise RuleBroken("max_tokens: Input should be a valid integer greater than or equal to 0")
    thinking = body.get("thinking")
    if thinking is not None and (not isinstance(thinking, dict) or cast("Json", thinking).get("type") not in _THINKING):
        raise RuleBroken(f"thinking: Input tag should be one of {', '.join(map(repr, _THINKING))}")


def _check_tools(body: Json) -> None:
    names = [tool.get("name") for tool in dicts(body.get("tools"))]
    if len(set(names)) != len(names):
        raise RuleBroken("tools: Tool names must be unique.")
    for n, tool in enumerate(dicts(body.get("tools"))):
        schema = tool.get("input_schema")
        own = tool.get("type") in (None, "custom")
        if own and (not isinstance(schema, dict) or cast("Json", schema).get("type") != "object"):
            raise RuleBroken(f"tools.{n}.custom.input_schema.type: Input should be 'object'")
        if own:
            _check_schema(n, cast("Json", schema))
        if tool.get("defer_loading") and tool.get("cache_control"):
            raise RuleBroken(f"tools.{n}.custom: Tool with defer_loading=true cannot have cache_control set.")
    _check_deferred(body)


def _check_deferred(body: Json) -> None:
    """Refuse tools of which all are deferred, and references to tools that are not: those are there already."""
    tools = dicts(body.get("tools"))
    deferred = {tool.get("name") for tool in tools if tool.get("defer_loading")}
    if tools and len(deferred) == len(tools):
        raise RuleBroken("tools: At least one tool must have defer_loading=false.")
    for n, message in enumerate(dicts(body.get("messages"))):
        for m, block in enumerate(blocks(message.get("content"))):
            for content in blocks(block.get("content")) if block.get("type") == "tool_result" else ():
                if content.get("type") == "tool_reference" and content.get("tool_name") not in deferred:
                    raise RuleBroken(
                        f"messages.{n}.content.{m}: Tool reference '{content.get('tool_name')}' not found in available "
                        "tools"
                    )


def _check_schema(n: int, schema: Json) -> None:
    if {"oneOf", "allOf", "anyOf"} & schema.keys():
        raise RuleBroken(
            f"tools.{n}.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"
        )
    for name in cast("Json", schema.get("properties") or {}):
        if not _KEY.fullmatch(name):
            raise RuleBroken(
                f"tools.{n}.custom.input_schema.properties: Property keys should match pattern "
                "'^[a-zA-Z0-9_.-]{1,64}$'"
            )


def _check_choice(body: Json) -> None:
    """Refuse a choice of a tool that is not there, and one that forces a call from a model that thinks."""
    choice, thinking = cast("Json", body.get("tool_choice") or {}), cast("Json", body.get("thinking") or {})
    names = [tool.get("name") for tool in dicts(body.get("tools"))]
    if choice.get("type") == "tool" and choice.get("name") not in names:
        raise RuleBroken(f"tool_choice.name: Tool '{choice.get('name')}' not found in provided tools")
    if choice.get("type") in ("any", "tool") and thinking.get("type", "disabled") != "disabled":
        raise RuleBroken(FORCED_THINKING, kind="controls_refused")


def _check_texts(positions: Sequence[Position]) -> None:
    for position in positions:
        if position.type != "text" or position.data is not None:
            continue
        where = "system" if position.tier == "system" else "messages"
        if position.block.get("cache_control"):
            raise RuleBroken(f"{position.path}.text: cache_control cannot be set for empty text blocks")
        blank = bool(position.block.get("text"))
        raise RuleBroken(
            f"{where}: text content blocks must {'contain non-whitespace text' if blank else 'be non-empty'}"
        )


def _check_marks(body: Json, positions: Sequence[Position]) -> None:
    marked = [position for position in positions if position.block.get("cache_control")]
    count = len(marked) + bool(body.get("cache_control"))
    if count > MAX_MARKS:
        raise RuleBroken(f"A maximum of {MAX_MARKS} blocks with cache_control may be provided. Found {count}.")
    short = False
    for position in marked:
        if position.type in THINKING:
            raise RuleBroken(f"{position.path}.{position.type}.cache_control: Extra inputs are not permitted")
        long = cast("Json", position.block["cache_control"]).get("ttl") == "1h"
        if long and short:
            raise RuleBroken(
                f"{position.path}.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' "
                "cache_control block. Note that blocks are processed in the following order: `tools`, `system`, "
                "`messages`."
            )
        short = short or not long


def _check_roles(messages: Sequence[Json]) -> None:
    if not messages:
        raise RuleBroken("messages: at least one message is required")
    for n, message in enumerate(messages):
        role, content = message.get("role"), blocks(message.get("content"))
        if role not in _ROLES:
            raise RuleBroken(f"messages.{n}.role: Input should be 'user', 'assistant' or 'system'")
        if not content:
            raise RuleBroken(
                f"messages.{n}: all messages must have non-empty content except for the optional final "
                "assistant message"
            )
        types = [block.get("type") for block in content]
        if role == "assistant" and "document" in types:
            raise RuleBroken(f"messages.{n}.content: `document` blocks are not permitted in `assistant` messages")
        if role == "user" and (wrong := {"tool_use", *THINKING} & {str(type_) for type_ in types}):
            raise RuleBroken(f"messages.{n}: `{min(wrong)}` blocks can only be in `assistant` messages")
        if role == "assistant" and "tool_result" in types:
            raise RuleBroken(f"messages.{n}: `tool_result` blocks can only be in `user` messages")
        if role == "system" and (n == 0 or messages[n - 1].get("role") == "assistant"):
            raise RuleBroken(f"messages.{n}: role 'system' must follow a 'user' message")
    if messages[0].get("role") != "user":
        raise RuleBroken('messages: first message must use the "user" role')


def _check_pairs(messages: Sequence[Json]) -> None:
    """Take each run of messages of one role as one: the results of its calls come first in the next one."""
    spoken = [(n, message) for n, message in enumerate(messages) if message.get("role") != "system"]
    open_: list[str] = []
    at = 0
    for role, run in groupby(spoken, key=lambda each: each[1].get("role")):
        group = list(run)
        content = [block for _, message in group for block in blocks(message.get("content"))]
        if role == "user":
            _check_results(group[0][0], content, open_, at)
            open_ = []
        else:
            _check_results(group[0][0], [], open_, at)
            open_ = [str(block.get("id")) for block in content if block.get("type") == "tool_use"]
            at = group[-1][0]
            if len(set(open_)) != len(open_):
                raise RuleBroken(f"messages.{at}: `tool_use` ids must be unique")
    _check_results(len(messages), [], open_, at)


def _check_results(n: int, content: Sequence[Json], calls: Sequence[str], at: int) -> None:
    first = len(content)
    for m, block in enumerate(content):
        if block.get("type") != "tool_result":
            first = min(first, m)
            continue
        id_ = block.get("tool_use_id")
        if id_ not in calls:
            raise RuleBroken(
                f"messages.{n}.content.{m}: unexpected `tool_use_id` found in `tool_result` blocks: {id_}. Each "
                "`tool_result` block must have a corresponding `tool_use` block in the previous message."
            )
        if m > first:
            raise RuleBroken(f"messages.{n}.content.{m}: `tool_result` blocks must come first in the content")
    answered = [str(block.get("tool_use_id")) for block in content if block.get("type") == "tool_result"]
    if twice := next((id_ for id_ in answered if answered.count(id_) > 1), None):
        raise RuleBroken(
            f"messages.{n}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: "
            f"{twice}"
        )
    if missing := [id_ for id_ in calls if id_ not in answered]:
        raise RuleBroken(
            f"messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the next "
            "message."
        )


def _check_paused(messages: Sequence[Json]) -> None:
    """Refuse anything between the call of a server's tool and its result, but results of the client's tools.

    A paused answer ends with such a call: only the answer that continues it may follow.
    """
    open_: dict[str, str] = {}
    for n, message in enumerate(messages):
        content = blocks(message.get("content"))
        if open_ and any(block.get("type") != "tool_result" for block in content if message.get("role") != "assistant"):
            id_, name = next(iter(open_.items()))
            raise RuleBroken(
                f"messages.{n - 1}: `{name}` tool use with id `{id_}` was found without a corresponding "
                f"`{name}_tool_result` block",
                kind="stale_reasoning",
            )
        for block in content if message.get("role") == "assistant" else ():
            if block.get("type") == "server_tool_use":
                open_[str(block.get("id"))] = str(block.get("name"))
            open_.pop(str(block.get("tool_use_id")), None)


def _check_last(messages: Sequence[Json]) -> None:
    """Refuse a last message of the assistant, unless it is a paused answer: one that ends with a server's tool."""
    last = messages[-1]
    if last.get("role") == "assistant" and blocks(last.get("content"))[-1].get("type") in _CALLER:
        raise RuleBroken(
            "This model does not support assistant message prefill. The conversation must end with a user message."
        )
