"""What controls a model's call: the model, its settings and its cache; and what of it is refused."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from difflib import get_close_matches
from itertools import chain
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from agent_core.errors import InvalidInput
from agent_core.messages import Usage
from agent_core.schemas import is_closed, output_problem

LostPart = Literal["all", "snapshot", "messages"]
"""What is not read any more: the whole prompt, what follows the first change in the snapshot, or the messages."""


class PromptCall(msgspec.Struct, frozen=True, kw_only=True):
    """A model call: when it was asked, in ms, of which *model* (`provider:name`), with what.

    *entries* is how many messages the window had, *controls* are those of its step, as recorded. *usage* is unknown
    until the call was answered.
    """

    time: int
    model: str
    snapshot: str
    entries: int
    controls: dict[str, object]
    usage: Usage

    @property
    def prompt(self) -> int | None:
        """Return the tokens of the whole prompt, None if the provider did not count its uncached part."""
        cached = (self.usage.cache_read, self.usage.cache_write_short, self.usage.cache_write_long)
        return None if self.usage.input is None else self.usage.input + sum(count or 0 for count in cached)


class Caching(msgspec.Struct, frozen=True, kw_only=True):
    """How the prompt cache of one model works.

    *least* is the fewest tokens that it keeps, *short_s* and *long_s* the seconds since the last use for which it keeps
    what was written as short and as long. *exact*: writes are billed, so that it is known to the token what the next
    call reads; else the cache is free to write and kept as well as it goes.

    *strips*: the API leaves thinking out from before a new user message. *budgets* are the tokens of thinking by effort
    where they are asked for, and are part of the messages then; *room* those of an answer without `max_output_tokens`.
    """

    vendor: Literal["anthropic", "openai"]
    least: int
    short_s: int
    long_s: int
    exact: bool = True
    strips: bool = False
    budgets: Mapping[str, int] = {}
    room: int = 0

    def thinking(self, controls: Mapping[str, object]) -> int:
        """Return the tokens of thinking that a call with *controls*, as recorded, asks for; 0 where it asks for none.

        A forced choice of a tool, and a tool loop that began without thinking, may still leave it out.
        """
        room = controls.get("max_output_tokens")
        room = min(room, self.room or room) if isinstance(room, int) else self.room
        return thinking_budget(str(controls.get("effort")), room, self.budgets)


class CacheChange(msgspec.Struct, frozen=True):
    """A control or a part of the prompt that differs between two calls: its *name*, from what to what, and the loss."""

    name: str
    before: str
    now: str
    loses: LostPart


def thinking_budget(effort: str, room: int, budgets: Mapping[str, int]) -> int:
    """Return the tokens of thinking for *effort* in an answer of at most *room*; 0 when too few are left for any."""
    budget = min(budgets.get(effort, 0), room // 2)
    return budget if budgets and budget >= min(budgets.values()) else 0


def changes(before: PromptCall, now: PromptCall, sent: tuple[Any, Any], caching: Caching) -> list[CacheChange]:
    """Return what differs between two calls and is part of what their prompts are cached under, the worst loss first.

    *sent* are the tool choices that the API got. The vendors differ: to Anthropic effort, thinking and its budget, the
    form of the answer and the tool choice are part of the messages; to OpenAI effort and the form are part of the whole
    prompt, and the tool choice is part of none. Of a call *before* whose controls the log does not name the snapshot
    alone is compared.
    """
    if not before.model:
        return [CacheChange("snapshot", before.snapshot, now.snapshot, "snapshot")] * (before.snapshot != now.snapshot)
    is_openai = caching.vendor == "openai"
    lost: LostPart = "all" if is_openai else "messages"
    changes: list[CacheChange] = []
    if before.model != now.model:
        changes.append(CacheChange("model", before.model, now.model, "all"))
    if before.snapshot != now.snapshot:
        changes.append(CacheChange("snapshot", before.snapshot, now.snapshot, "snapshot"))
    for name in ("effort", "output_schema"):
        old, new = before.controls.get(name), now.controls.get(name)
        if old != new:
            changes.append(CacheChange(name, _as_text(old), _as_text(new), lost))
    old, new = (call.controls.get("max_output_tokens") for call in (before, now))
    if old != new and caching.thinking(before.controls) != caching.thinking(now.controls):
        changes.append(CacheChange("max_output_tokens", _as_text(old), _as_text(new), "messages"))
    if sent[0] != sent[1] and not is_openai:
        changes.append(CacheChange("tool_choice", _as_text(sent[0]), _as_text(sent[1]), "messages"))
    order: tuple[LostPart, ...] = ("all", "snapshot", "messages")
    return sorted(changes, key=lambda change: order.index(change.loses))


def _as_text(value: object) -> str:
    """Return *value* of a control for a sentence; a schema is not repeated."""
    match value:
        case None:
            return "unset"
        case str():
            return value
        case dict():
            return "another schema"
        case _:
            return str(getattr(value, "tool", value))


MAX_NAME = 64
"""Characters of a name that are compared, those of the longest tool: the time grows with their square."""


def hint(name: str, names: Iterable[str]) -> str:
    """Return ` (did you mean …?)` with the one of *names* that is most like *name*, empty when none is."""
    matches = get_close_matches(name[:MAX_NAME], list(names), 1)
    return f" (did you mean `{matches[0]}`?)" if matches else ""


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


MAX_STEPS = 200
MAX_TEMPERATURE = 2
MAX_CONDITIONS = 100
MAX_TOKENS = 10**12
MAX_TOOL_CONTEXT = 64_000
"""Bytes of JSON: it is stored with every run that sets it."""
USD = r"[0-9]{1,9}(\.[0-9]{1,9})?"
"""A decimal amount."""


def check(controls: Override, tools: Collection[str], at: str = "controls.") -> None:
    """Raise `InvalidInput` if an agent with *tools* cannot follow *controls*; *at* is the prefix of the field paths."""
    _check_choice(controls, tools, at)
    if isinstance(controls, Defaults):
        _check_numbers(controls, at)
        _check_rules(controls, tools, at)
        for index, condition in enumerate(controls.stop_conditions or ()):
            _check_known(f"{at}stop_conditions[{index}].tool", [condition.tool], tools)
        if len(controls.stop_conditions or ()) > MAX_CONDITIONS:
            raise InvalidInput(f"{at}stop_conditions", f"at most {MAX_CONDITIONS}.")
        if controls.output_schema is not None and (problem := output_problem(controls.output_schema)):
            raise InvalidInput(f"{at}output_schema", problem)
        if controls.budget is not None:
            _check_budget(controls.budget, f"{at}budget")
    if isinstance(controls, Controls):
        check_tool_context(controls.tool_context, at)


def check_tool_context(tool_context: Mapping[str, Any] | None, at: str = "") -> None:
    """Raise `InvalidInput` if *tool_context* is more than a run may bring for its tools."""
    if len(msgspec.json.encode(tool_context)) > MAX_TOOL_CONTEXT:
        raise InvalidInput(f"{at}tool_context", f"at most {MAX_TOOL_CONTEXT:,} bytes of JSON.")


def _check_numbers(controls: Defaults, at: str) -> None:
    if controls.max_steps is not None and not 1 <= controls.max_steps <= MAX_STEPS:
        raise InvalidInput(f"{at}max_steps", f"between 1 and {MAX_STEPS}.")
    if controls.max_output_tokens is not None and controls.max_output_tokens < 1:
        raise InvalidInput(f"{at}max_output_tokens", "at least 1.")
    if controls.temperature is not None and not 0 <= controls.temperature <= MAX_TEMPERATURE:
        raise InvalidInput(f"{at}temperature", f"between 0 and {MAX_TEMPERATURE}.")


def _check_rules(controls: Defaults, tools: Collection[str], at: str) -> None:
    steps: set[int] = set()
    for index, rule in enumerate(controls.step_rules or ()):
        path = f"{at}step_rules[{index}]."
        if not 1 <= rule.step <= MAX_STEPS:
            raise InvalidInput(f"{path}step", f"between 1 and {MAX_STEPS}: steps are counted from 1.")
        if rule.step in steps:
            raise InvalidInput(f"{path}step", f"there is a rule for step {rule.step} already; merge them.")
        if rule.tool_choice is None and rule.active_tools is None:
            raise InvalidInput(path[:-1], "set `tool_choice` or `active_tools`, or remove the rule.")
        steps.add(rule.step)
        _check_choice(rule, tools, path)


def _check_choice(controls: Override, tools: Collection[str], at: str) -> None:
    """Check that a choice names tools of the agent, and none that the same level forbids."""
    choice, active = controls.tool_choice, controls.active_tools
    if active is not None:
        _check_known(f"{at}active_tools", active, tools)
        if len(set(active)) < len(active):
            raise InvalidInput(f"{at}active_tools", "name each tool once.")
    if isinstance(choice, NamedTool):
        _check_known(f"{at}tool_choice.tool", [choice.tool], tools)
        if active is not None and choice.tool not in active:
            raise InvalidInput(f"{at}tool_choice.tool", f"`{choice.tool}` is not among the `active_tools`.")
    if is_forced(choice) and not (tools if active is None else active):
        raise InvalidInput(f"{at}tool_choice", "a call cannot be required where no tool may be called.")


def _check_known(path: str, names: Sequence[str], tools: Collection[str]) -> None:
    for name in names:
        if name not in tools:
            has = listed(sorted(tools)) or "none"
            raise InvalidInput(path, f"the agent has no tool `{name}`{hint(name, tools)}; its tools are: {has}.")


def _check_budget(budget: Budget, path: str) -> None:
    if budget.usd is None and budget.tokens is None:
        raise InvalidInput(path, "set `usd`, `tokens` or both.")
    if budget.usd is not None and (not re.fullmatch(USD, budget.usd) or not Decimal(budget.usd)):
        raise InvalidInput(f"{path}.usd", 'an amount above 0 as a decimal text, such as "0.50".')
    if budget.tokens is not None and not 1 <= budget.tokens <= MAX_TOKENS:
        raise InvalidInput(f"{path}.tokens", f"between 1 and {MAX_TOKENS}.")
