"""Asking: the facts by which a call waits for people, since a hook, a rule or the tool itself asks them."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec import json
from msgspec.structs import replace

from agent_core.domain import events as e
from agent_core.domain.agents import ToolSpec
from agent_core.domain.forms import defaults, is_choice_of_several
from agent_core.domain.hooks import ApprovalConfig
from agent_core.domain.messages import Actor, legible, visible
from agent_core.domain.schemas import schema_problem
from agent_core.domain.shorten import shorten
from agent_core.ids import new_id
from agent_core.loop.waiting import CallState

FORM_TIME = 7 * 24 * 3600.0
"""Seconds that a form is open. The wait holds no connection and no process."""
MAX_FORMS = 10
"""Forms that one call may show, one after the other."""
MAX_FIELDS = 30
MAX_TITLE, MAX_DETAIL = 150, 2_000
MAX_TOOL_TITLE = 60
MAX_PARAMETERS = 8_000
"""Bytes of JSON of a schema that a question holds: it is stored with each."""
_FORM = "parley:form"
_VALUES = frozenset({"const", "default", "enum", "examples"})
"""Keywords of a schema whose values are no schemas."""
_PLAIN = frozenset({"string", "integer", "number", "boolean"})


def question(spec: ToolSpec, name: str) -> str:
    """Return what people are asked before a call of the tool *name*; the name stands there whatever its title says.

    A title that an MCP server gives is not shown: it could say anything.
    """
    title = legible(spec.title)[:MAX_TOOL_TITLE] if spec.source != "mcp" else ""
    return f"Allow “{title}” ({name})?" if title else f"May {name} run?"


def held(
    hook: str, config: ApprovalConfig, call: CallState, spec: ToolSpec, actors: tuple[Actor | None, Sequence[Actor]]
) -> Sequence[e.FactBody]:
    """Return the facts by which *hook* holds *call* until people decided; *actors* are who asked, and all who spoke."""
    asker, speakers = actors
    config = with_presets(config, spec)
    approval = new_id("apr")
    return [
        e.HookRuled(hook=hook, event="PreToolUse", ruling="hold", reason=None, call=call.call),
        e.ApprovalRequested(
            approval=approval,
            call=call.call,
            step=call.step,
            tool=call.name,
            arguments=call.arguments,
            hook=hook,
            title=config.title or question(spec, call.name),
            responders=config.responders,
            quorum=config.quorum,
            timeout_s=config.timeout_s,
            status="open",
            on_timeout=config.on_timeout,
            detail=config.detail,
            edit=config.edit,
            remember=config.remember,
            deliver_to=config.deliver_to,
            by=asker,
            speakers=tuple(each for each in speakers if each != asker),
            parameters=_parameters(spec),
        ),
        e.ToolPending(call=call.call, on="approval", approval=approval),
    ]


def _parameters(spec: ToolSpec) -> dict[str, Any] | None:
    """Return the schema of the tool's arguments for a card, None where it is long or says nothing.

    Titles that an MCP server gives are left out: another name for an argument could say anything.
    """
    schema = _untitled(spec.parameters) if spec.source == "mcp" else spec.parameters
    return schema if schema.get("properties") and len(json.encode(schema)) <= MAX_PARAMETERS else None


def _untitled(schema: Any) -> Any:
    match schema:
        case dict():
            each = cast("dict[str, Any]", schema).items()
            # A property may be called `title`: then this is a schema, not a text.
            others = {key: value for key, value in each if key != "title" or not isinstance(value, str)}
            return {key: value if key in _VALUES else _untitled(value) for key, value in others.items()}
        case list():
            return [_untitled(value) for value in cast("list[Any]", schema)]
        case _:
            return schema


def with_presets(config: ApprovalConfig, spec: ToolSpec) -> ApprovalConfig:
    """Return *config* with a *detail* that says what the call's arguments do not: what it wraps, and its presets."""
    lines = [] if spec.wraps is None else [f"{spec.name} runs {spec.wraps}."]
    lines += [f"Preset: {name} = {json.encode(value).decode()}" for name, value in spec.preset.items()]
    if not lines:
        return config
    return replace(config, detail="\n".join(filter(None, (config.detail, *lines)))[:MAX_DETAIL])


def form(
    call: CallState,
    texts: tuple[str, str | None],
    schema: dict[str, Any],
    state: str | None,
    actors: tuple[Actor | None, Sequence[Actor]],
) -> Sequence[e.FactBody]:
    """Return the facts by which the tool of *call* asks the person who asked for the run to fill in a form.

    *texts* is a title and more of it, which a stranger may have written; *state* is the blob with the tool's own.
    """
    asker, speakers = actors
    approval, (title, detail), form = new_id("apr"), map(_printable, texts), _legible(schema)
    long = len(title) > MAX_TITLE
    return [
        e.ApprovalRequested(
            approval=approval,
            call=call.call,
            step=call.step,
            tool=call.name,
            arguments=defaults(form),
            hook=_FORM,
            title=shorten(title, MAX_TITLE) or f"{call.name} asks you something.",
            responders=("asker",) if asker is not None else ("operators",),
            quorum=1,
            timeout_s=FORM_TIME,
            status="open",
            detail="\n\n".join(filter(None, (title if long else "", detail)))[:MAX_DETAIL] or None,
            edit=True,
            by=asker,
            speakers=tuple(each for each in speakers if each != asker),
            form=form,
            state=state,
        ),
        e.ToolPending(call=call.call, on="approval", approval=approval),
    ]


def is_form(schema: Mapping[str, Any]) -> bool:
    """Return whether people can fill *schema* in: texts, numbers, choices of one or several, yes or no."""
    fields = cast("object", schema.get("properties"))
    if schema.get("type") != "object" or not isinstance(fields, dict):
        return False
    plain = all(_is_plain(each) for each in cast("dict[str, object]", fields).values())
    names = "".join(map(str, cast("dict[str, object]", fields)))
    if visible(names) != names:
        return False
    return plain and len(schema["properties"]) <= MAX_FIELDS and schema_problem(dict(schema)) is None


def _is_plain(field: object) -> bool:
    if not isinstance(field, dict):
        return False
    schema = cast("dict[str, Any]", field)
    kind: object = schema.get("type")
    return is_choice_of_several(schema) if kind == "array" else isinstance(kind, str) and kind in _PLAIN


def _printable(text: str | None) -> str:
    return visible(text or "").strip()


def _legible(value: Any) -> Any:
    """Return the JSON *value* without hidden characters in its texts."""
    if isinstance(value, dict):
        return {key: _legible(each) for key, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_legible(each) for each in cast("list[Any]", value)]
    return visible(value) if isinstance(value, str) else value
