"""Controls: what a run and each of its steps may do, and the one merge of all levels. Pure."""

from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from itertools import chain
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from agent_core.domain.caching import Caching
from agent_core.domain.messages import Usage
from agent_core.domain.structured import is_closed

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
ToolKind = Literal["function", "client", "none"]
DEFAULT_MAX_STEPS = 25


class NamedTool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The one tool that must be called."""

    tool: str


ToolChoice = Literal["auto", "none", "required"] | NamedTool


class Override(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Which tools a step may, or must, call; None leaves a field to the next level.

    *tool_choice* `required` requires a call of any tool, a `NamedTool` of that one. *active_tools* are those that may
    be called; the others stay in the prompt, where they are frozen, and calls of them are refused.
    """

    tool_choice: ToolChoice | None = None
    active_tools: tuple[str, ...] | None = None


class StepRule(Override, frozen=True, kw_only=True):
    """The override for step *step* of a run, counted from 1."""

    step: int


class HasToolCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The run ends after the step that called *tool*."""

    type: Literal["has_tool_call"]
    tool: str


class Budget(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """What a run may use up before it asks the model once more: *usd*, a decimal, and *tokens* in and out."""

    usd: str | None = None
    tokens: int | None = None


class Defaults(Override, frozen=True, kw_only=True):
    """What a run may do; None leaves a field to the next level, see `merged`.

    *max_output_tokens* bounds one model call. *effort* is how hard the model thinks; one that lacks the level takes
    its nearest. *temperature* is 0 to 2, and left out for a model that takes none. *output_schema* is what the final
    answer has to fit.
    """

    max_steps: int | None = None
    max_output_tokens: int | None = None
    effort: Effort | None = None
    temperature: float | None = None
    step_rules: tuple[StepRule, ...] | None = None
    stop_conditions: tuple[HasToolCall, ...] | None = None
    output_schema: dict[str, Any] | None = None
    budget: Budget | None = None


class Controls(Defaults, frozen=True, kw_only=True):
    """All controls of an agent or a run.

    *tool_context* is passed to the tools. It may hold secrets: it is in no event, no log line and no API response.
    *include_render* is whether the prompt has the tools that show tables and charts, *prompt_caching* whether requests
    are marked for the provider's cache.
    """

    model: str | None = None
    include_render: bool | None = None
    prompt_caching: bool | None = None
    tool_context: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return f"Controls({msgspec.json.encode(without_context(self)).decode()})"


class Abilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a model's API enforces by itself, at no cost for the prompt cache; a note asks the model for the rest.

    *withholds*: `tool_choice: none`; *narrows*: a choice among some tools; *forces*: a call that must come.
    *structured* are the schemas that an answer can be held to: `any` of an object, those that are `closed`, or `none`.
    *caching* is how that cache works, None where nothing is billed for it. *listed_as* is the model's name in the model
    table, which has vendors by their kinds; empty: its own. *searches*: whether it takes tools beside the prompt that a
    search of ours loads (`router: native`). *vision*: whether the model sees pictures.
    """

    withholds: bool = True
    narrows: bool = True
    forces: bool = True
    structured: Literal["any", "closed", "none"] = "any"
    caching: Caching | None = None
    listed_as: str = ""
    searches: bool = False
    vision: bool = True


ABLE = Abilities()
UNABLE = Abilities(withholds=False, narrows=False, forces=False, structured="none")
NOTHING = Controls()


def merged(*levels: Override | None) -> Controls:
    """Merge *levels*, highest first: each field comes from the first level that sets it.

    For a step of a run the precedence is: next-step override > step rule > defaults of a resume > run > agent. Here the
    last three are merged, and `resolve` puts the other two on top. A list, a schema and a budget replace those of lower
    levels whole. Step rules are merged by their step: a rule replaces that of a lower level for the same step only.
    """
    present = [level for level in levels if level is not None and level != NOTHING]
    if not present:
        return Controls()
    fields: dict[str, Any] = {name: _first(present, name) for name in Controls.__struct_fields__}
    fields["step_rules"] = _merged_rules(present)
    return Controls(**fields)


def without_context(controls: Controls) -> Controls:
    """Return *controls* without the tools' context, which may hold secrets."""
    return replace(controls, tool_context=None)


def resolve(n: int, controls: Controls, override: Override | None, tools: Mapping[str, ToolKind]) -> Controls:
    """Return what step *n*, from 1, may do: *override* over the rule for the step over the *controls* of the run.

    See `merged` for the whole precedence. The last step withholds the *tools*, so that a run ends with an answer; but
    when a call is required, tools without executor (kind `none`) stay, since a call of one is the answer.
    """
    rule = next((rule for rule in controls.step_rules or () if rule.step == n), None)
    levels = [level for level in (override, rule, controls) if level is not None]
    choice: ToolChoice = _first(levels, "tool_choice") or "auto"
    active = _first(levels, "active_tools")
    may = [name for name in tools if active is None or name in active]
    limit = controls.max_steps or DEFAULT_MAX_STEPS
    if n >= limit:
        may = [
            name
            for name in may
            if tools[name] == "none" and is_forced(choice) and choice in ("required", NamedTool(name))
        ]
    if not may:
        choice = "none"
    elif isinstance(choice, NamedTool) and choice.tool not in may:
        choice = "auto"
    narrows = choice in ("auto", "required") and len(may) < len(tools)
    return replace(
        controls,
        max_steps=limit,
        tool_choice=choice,
        active_tools=tuple(may) if narrows else None,
        step_rules=None,
        tool_context=None,
    )


def is_forced(choice: ToolChoice | None) -> bool:
    """Return whether a call is required."""
    return choice == "required" or isinstance(choice, NamedTool)


def permitted(controls: Controls, tools: Collection[str]) -> Collection[str]:
    """Return those of *tools* that a step with *controls* may call."""
    match controls.tool_choice:
        case "none":
            return ()
        case NamedTool(name):
            return (name,)
        case _:
            return tools if controls.active_tools is None else controls.active_tools


def refusal(controls: Controls, name: str) -> str | None:
    """Return why a step with *controls* may not call the tool *name*, None when it may."""
    may = permitted(controls, (name,))
    if name in may:
        return None
    instead = f"You may call {listed(may)}." if may else "No tool may be called now."
    return f"Not run: `{name}` may not be called in this step. {instead}"


def sent(controls: Controls, able: Abilities, *, firm: bool = False) -> Controls:
    """Return the part of a step's *controls* that the model's API gets; *firm*: tools are withheld at any cost."""
    choice = controls.tool_choice
    in_note = (choice == "none" and not (able.withholds or firm)) or (is_forced(choice) and not able.forces)
    return replace(
        controls,
        tool_choice="auto" if in_note else choice,
        active_tools=controls.active_tools if able.narrows else None,
        output_schema=controls.output_schema if _is_native(controls.output_schema, able) else None,
    )


def news(
    before: Controls | None, now: Controls, able: tuple[Abilities, Abilities], tools: Collection[str]
) -> str | None:
    """Return the note on controls that the model's API does not enforce, None if the model knows them already.

    *able* are the abilities of the models of the step *before*, if there was one, and of this one.
    """
    previous = (_of_tools(before, able[0], tools), _of_form(before, able[0])) if before else ("", "")
    wanted = (_of_tools(now, able[1], tools), _of_form(now, able[1]))
    lifted = ("You may call any of your tools again, or answer.", "Your answer may have any form again.")
    changes = [text or lift for text, last, lift in zip(wanted, previous, lifted, strict=True) if text != last]
    return " ".join(("While you work on the current message:", *changes)) if changes else None


class Spent(msgspec.Struct, frozen=True):
    """What a run is known to have used: *usd*, a decimal, and *tokens* in and out; what is not known counts as nothing.

    *has_unknown*: some of it had no known cost.
    """

    usd: str = "0"
    tokens: int = 0
    has_unknown: bool = False

    def plus(self, usage: Usage, cost: str | None) -> "Spent":
        """Return what is used after a model call."""
        counts = (usage.input, usage.output, usage.cache_read, usage.cache_write_short, usage.cache_write_long)
        return Spent(
            usd=self.usd if cost is None else f"{Decimal(self.usd) + Decimal(cost):f}",
            tokens=self.tokens + sum(count or 0 for count in counts),
            has_unknown=self.has_unknown or cost is None,
        )


def is_spent(budget: Budget, spent: Spent) -> bool:
    """Return whether a run has used up its *budget*, as far as is known: an unknown figure ends no run."""
    if budget.usd is not None and Decimal(spent.usd) >= Decimal(budget.usd):
        return True
    return budget.tokens is not None and spent.tokens >= budget.tokens


def recorded(controls: Controls) -> dict[str, Any]:
    """Return *controls* as `step.started` records them."""
    return msgspec.json.decode(msgspec.json.encode(without_context(controls)))


def read(record: Mapping[str, Any]) -> Controls:
    """Return the controls that `step.started` recorded."""
    return msgspec.convert(record, Controls)


def listed(names: Collection[str]) -> str:
    """Return *names* as a list in a sentence."""
    return ", ".join(f"`{name}`" for name in names)


def _merged_rules(levels: Sequence[Override]) -> tuple[StepRule, ...] | None:
    """Return the rule of each step from the first of *levels* that has one; None if no level has a list of rules."""
    lists = [level.step_rules for level in levels if isinstance(level, Defaults) and level.step_rules is not None]
    if len(lists) <= 1:
        return lists[0] if lists else None
    by_step: dict[int, StepRule] = {}
    for rule in chain.from_iterable(lists):
        by_step.setdefault(rule.step, rule)
    return tuple(by_step.values())


def _first(levels: Sequence[Override], field: str) -> Any:
    values = (getattr(level, field, None) for level in levels)
    return next((value for value in values if value is not None), None)


def _is_native(schema: dict[str, Any] | None, able: Abilities) -> bool:
    if schema is None or able.structured == "none" or schema.get("type") != "object":
        return False
    return able.structured == "any" or is_closed(schema)


def _of_tools(controls: Controls, able: Abilities, tools: Collection[str]) -> str:
    """Return the note on tools, empty when there is nothing to say or the agent has none."""
    names = listed(permitted(controls, tools))
    match controls.tool_choice:
        case "none" if tools and not able.withholds:
            return "Call no tools any more; answer with what you know."
        case "required" if not able.forces:
            return f"Each of your next answers must be a call of {names}."
        case NamedTool(name) if not able.forces:
            return f"Your next answer must be a call of `{name}`."
        case "auto" | "required" if controls.active_tools is not None and not able.narrows:
            return f"Of your tools you may call {names} only; other calls are refused."
        case _:
            return ""


def _of_form(controls: Controls, able: Abilities) -> str:
    schema = controls.output_schema
    if schema is None or _is_native(schema, able):
        return ""
    text = msgspec.json.encode(schema).decode()
    return f"Your final answer must be one JSON value that fits this JSON Schema, and nothing else: {text}"
