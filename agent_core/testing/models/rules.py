"""The rules of the vendors: seals on thinking, and what each wire refuses.

A seal is bound to the model and to everything before its block: tools, system, earlier messages and the earlier
blocks of its own message, thinking left out. It also names the thinking before it, so that blocks may be dropped from
the front, and never from between.
"""

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import Any, cast

from agent_core.testing.models import failing as servers
from agent_core.testing.models.asked import ModelCall
from agent_core.testing.models.caching import THINKING, Json, Position, blocks, dicts
from agent_core.testing.models.failing import FORCED_THINKING, STALE_THINKING, RuleBroken

# No secret: a seal detects a client's mistakes, nothing more. One key for all servers lets one be restarted.
_KEY = b"parley fake models"
_FIRST = bytes(16)
_LINK, _MAC = 16, 32
_ITEM = "gAAAAA"


class Chain:
    """Everything before the next block of one request, and the last thinking in it."""

    def __init__(self, model: str, positions: Sequence[Position] = ()) -> None:
        self._model = model
        self._seen = hashlib.sha256()
        self._last = _FIRST
        for position in positions:
            if position.type in THINKING and position.role == "assistant":
                self._last = _link(_seal_in(position.block))
            elif position.data is not None:
                _take(self._seen, position.data)

    def sign(self, before: Sequence[bytes], text: str) -> str:
        """Return the signature of the next thinking, *text*; *before* are the blocks of its message so far."""
        seen = self._seen.copy()
        for block in before:
            _take(seen, block)
        mac = _mac(self._model.encode(), seen.digest(), self._last, text.encode())
        signature = base64.b64encode(b"\x01" + self._last + mac).decode()
        self._last = _link(signature)
        return signature


def check(model: str, positions: Sequence[Position]) -> None:
    """Verify every thinking block among *positions*; raises `RuleBroken` for the first that does not belong."""
    seen, last = hashlib.sha256(), None
    for position in positions:
        if position.type not in THINKING or position.role != "assistant":
            if position.data is not None:
                _take(seen, position.data)
            continue
        seal = _seal_in(position.block)
        link, mac = _parts(seal)
        text = str(position.block.get("thinking") or "").encode()
        bound = hmac.compare_digest(mac, _mac(model.encode(), seen.digest(), link, text))
        if not bound or last not in (None, link):
            raise RuleBroken(f"{position.path}: {STALE_THINKING}", kind="stale_reasoning")
        last = _link(seal)


def sign_item(model: str) -> str:
    """Return the encrypted content of a reasoning item of *model*."""
    own = secrets.token_bytes(16)
    return _ITEM + base64.urlsafe_b64encode(own + _mac(model.encode(), own)).decode()


def check_items(model: str, items: Sequence[Json]) -> None:
    """Verify the encrypted content of each reasoning item; raises `RuleBroken`."""
    for item in items:
        content = item.get("encrypted_content")
        if item.get("type") != "reasoning" or content is None:
            continue
        data = _decoded(str(content).removeprefix(_ITEM), urlsafe=True)
        if not hmac.compare_digest(data[_LINK:], _mac(model.encode(), data[:_LINK])):
            raise RuleBroken(
                f"The encrypted content for item {item.get('id')} could not be verified. "
                "Reason: Encrypted content could not be decrypted or parsed.",
                code="invalid_encrypted_content",
            )


def bound(model: str, models: Collection[str] | None) -> bool:
    """Return whether the seals of *model* are checked: of all models, or of those that start with one of *models*."""
    return models is None or any(model.startswith(each) for each in models)


def reasoning_in(body: Json) -> list[Json]:
    """Return the reasoning items of a request."""
    return [item for item in dicts(body.get("input")) if item.get("type") == "reasoning"]


def _seal_in(block: Json) -> str:
    return str(block.get("signature") or block.get("data") or "")


def _parts(seal: str) -> tuple[bytes, bytes]:
    data = _decoded(seal)[1:]
    return data[:_LINK], data[_LINK:]


def _decoded(text: str, *, urlsafe: bool = False) -> bytes:
    try:
        return base64.b64decode(text, altchars=b"-_" if urlsafe else None, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _link(seal: str) -> bytes:
    return hashlib.sha256(seal.encode()).digest()[:_LINK]


def _take(seen: Any, data: bytes) -> None:
    seen.update(b"%d:" % len(data))
    seen.update(data)


def _mac(*parts: bytes) -> bytes:
    joined = b"".join(b"%d:%b" % (len(part), part) for part in parts)
    return hmac.new(_KEY, joined, hashlib.sha256).digest()


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
_PROPERTY_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_THINKING = ("adaptive", "between_tools", "disabled", "enabled")


def check_messages(call: ModelCall, positions: Sequence[Position], *, counting: bool = False) -> None:
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
        if not _PROPERTY_KEY.fullmatch(name):
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


_RESPONSES_KNOWN = """
model input instructions tools tool_choice stream stream_options store include reasoning text temperature top_p
max_output_tokens max_tool_calls metadata parallel_tool_calls previous_response_id conversation prompt
prompt_cache_key prompt_cache_options prompt_cache_retention safety_identifier service_tier top_logprobs
truncation user background background_options context_management access_programs image moderation
"""
RESPONSES_FIELDS = frozenset(_RESPONSES_KNOWN.split())
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
_RESPONSES_ROLES = ("assistant", "system", "developer", "user")
_OUTPUT = ("output_text", "refusal")
_INPUT = ("input_text", "input_image", "input_file", "input_audio")


def check_responses(body: Json, *, verified: bool = True) -> None:
    """Raise `RuleBroken` for the first rule that *body* breaks; *verified*: the organization may have summaries."""
    _check_known(body, RESPONSES_FIELDS, "input")
    if (previous := body.get("previous_response_id")) is not None:
        raise RuleBroken(
            f"Previous response with id '{previous}' not found.",
            param="previous_response_id",
            code="previous_response_not_found",
        )
    _check_response_tools(body)
    _check_effort(body)
    _check_thinking(body, verified=verified)
    items = dicts(body["input"])
    if isinstance(body["input"], list) and not items:
        raise RuleBroken("Invalid 'input': empty array. Expected an array with minimum length 1.", param="input")
    for n, item in enumerate(items):
        _check_item(n, item)
        _check_breakpoints(str(body["model"]), n, item)
    _check_ids(items)
    _check_item_pairs(items)
    _check_loaded(body, items)


def _check_response_tools(body: Json) -> None:
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


def _check_known(body: Json, known: Collection[str], said: str) -> None:
    """Refuse fields that OpenAI does not have, and a request without a model or what is *said*."""
    for field in body:
        if field not in known:
            raise RuleBroken(f"Unknown parameter: '{field}'.", param=field, code="unknown_parameter")
    for field in ("model", said):
        if body.get(field) is None:
            raise missing(field)


def missing(field: str) -> RuleBroken:
    """Return the refusal of a request without *field*."""
    return RuleBroken(f"Missing required parameter: '{field}'.", param=field, code="missing_required_parameter")


def _check_item(n: int, item: Json) -> None:
    type_ = item.get("type", "message")
    if type_ == "message":
        role = item.get("role")
        if role not in _RESPONSES_ROLES:
            raise invalid(f"input[{n}].role", role, _RESPONSES_ROLES)
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


def _check_item_pairs(items: Sequence[Json]) -> None:
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


_CHAT_KNOWN = """
model messages tools tool_choice stream stream_options store reasoning_effort response_format temperature top_p
max_tokens max_completion_tokens metadata parallel_tool_calls n stop seed user frequency_penalty
presence_penalty logit_bias logprobs top_logprobs modalities audio prediction prompt_cache_key
prompt_cache_options prompt_cache_retention safety_identifier service_tier verbosity web_search_options
function_call functions moderation
"""
CHAT_FIELDS = frozenset(_CHAT_KNOWN.split())
_CHAT_ROLES = ("system", "assistant", "user", "function", "tool", "developer")


def check_chat(body: Json) -> None:
    """Raise `RuleBroken` for the first rule that *body* breaks."""
    _check_known(body, CHAT_FIELDS, "messages")
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
        if message.get("role") not in _CHAT_ROLES:
            raise invalid(f"messages[{n}].role", message.get("role"), _CHAT_ROLES)
        empty = message.get("content") is None and not (message.get("tool_calls") or message.get("refusal"))
        if empty:
            raise RuleBroken(
                "Invalid value for 'content': expected a string, got null.", param=f"messages.[{n}].content"
            )
    _check_chat_pairs(messages)


def _check_chat_pairs(messages: Sequence[Json]) -> None:
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


BAD_KEY = "bad-key"
"""The one key that is not accepted."""


def check_request(
    call: ModelCall,
    positions: Sequence[Position],
    sealed: Collection[str] | None,
    *,
    counting: bool = False,
    server: servers.Server = "openai",
    verified: bool = True,
) -> None:
    """Raise `RuleBroken` for what the vendor of *call* would refuse.

    That of the Chat wire is *server*; OpenAI gives summaries of thinking to a *verified* organization.
    """
    _check_key(call)
    match call.wire:
        case "messages":
            check_messages(call, positions, counting=counting)
            if bound(call.model, sealed):
                check(call.model, positions)
        case "responses":
            check_responses(call.body, verified=verified)
            if bound(call.model, sealed):
                check_items(call.model, reasoning_in(call.body))
        case "chat":
            check_chat(call.body)
            servers.check(server, call.model, call.body)


def _check_key(call: ModelCall) -> None:
    key = call.headers.get("authorization", "").removeprefix("Bearer ").strip()
    if call.wire == "messages":
        key = key or call.headers.get("x-api-key", "")
        if not key:
            raise RuleBroken("x-api-key header is required", kind="auth")
        if key == BAD_KEY:
            raise RuleBroken("invalid x-api-key", kind="auth")
        return
    if not key:
        raise RuleBroken(
            "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer "
            "auth (i.e. Authorization: Bearer YOUR_KEY).",
            kind="auth",
        )
    if key == BAD_KEY:
        raise RuleBroken(
            f"Incorrect API key provided: {'*' * len(key)}. You can find your API key at "
            "https://platform.openai.com/account/api-keys.",
            code="invalid_api_key",
            kind="auth",
        )
