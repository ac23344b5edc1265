"""Rules: hooks that an agent declares; and hooks made of what it names, with what of that is refused."""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from fnmatch import fnmatchcase
from itertools import islice
from math import isfinite
from typing import Any, Final, cast
from unicodedata import category, combining, normalize

import msgspec
import structlog

from agent_core import schemas as patterns
from agent_core.agents import (
    CONFIGS,
    RENDER_TOOLS,
    ApprovalConfig,
    Condition,
    Config,
    Definition,
    Hook,
    HookEvent,
    HttpConfig,
    NamedHook,
    RuleConfig,
    config_of,
    covers,
    is_glob,
)
from agent_core.channels import Channels, misfit
from agent_core.clock import Clock
from agent_core.controls import hint
from agent_core.errors import InvalidInput
from agent_core.hooks import http
from agent_core.hooks.chain import Allow, Answer, Deny, Occasion
from agent_core.hooks.http import check_http
from agent_core.net.targets import FetchRefused, TargetGuard
from agent_core.objects import check_approval
from agent_core.secrets import Secrets

# Letters and symbols without ink: fillers, the grapheme joiner, the blank of Braille, variation selectors.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U0001d159\U000e0100-\U000e01ef]"
)
_UNSEEN = frozenset({"Cc", "Cf"})
_MARKS = frozenset({"Mn", "Me"})
MAX_MARKS = 30
"""Marks on one letter that count: as many as a text may have in Unicode's stream-safe form (UAX 15); sorting more of
them takes time that grows with the square of their number."""
_SPACES = str.maketrans("", "", "\t\n\r\f\v")


def spellings(text: str) -> tuple[str, ...]:
    """Return *text* as written, in compatibility form (NFKC), without what cannot be seen, and without marks."""
    if text.isascii() and text.translate(_SPACES).isprintable():
        return (text,)
    safe = _stream_safe(text)
    seen = _seen(safe)
    return tuple(dict.fromkeys((text, normalize("NFKC", safe), seen, _bare(seen))))


def readings(text: str) -> tuple[str, ...]:
    """Return the `spellings` of *text*, and each without its case."""
    readings = spellings(text)
    return tuple(dict.fromkeys((*readings, *(each.casefold() for each in readings))))


def wanted_forms(text: str) -> tuple[str, ...]:
    """Return what to look for among the `readings` of another text; marks are kept, as an author chose them."""
    safe = _stream_safe(text)
    return tuple(dict.fromkeys((text, normalize("NFKC", safe), _seen(safe).casefold())))


def _stream_safe(text: str) -> str:
    """Return *text* without the marks of a letter beyond the `MAX_MARKS` first."""
    signs, marks = list[str](), 0
    for sign in text:
        marks = marks + 1 if combining(sign) else 0
        if marks <= MAX_MARKS:
            signs.append(sign)
    return "".join(signs)


def _seen(text: str) -> str:
    visible = "".join(sign for sign in text if sign in "\t\n\r\f\v" or category(sign) not in _UNSEEN)
    return normalize("NFKC", _BLANK.sub("", visible))


def _bare(text: str) -> str:
    """Return *text* without the marks on its letters."""
    if text.isascii():
        return text
    apart = normalize("NFD", text)
    return normalize("NFC", "".join(sign for sign in apart if not combining(sign) and category(sign) not in _MARKS))


ABSENT: Final = msgspec.UNSET
Values = list[Any]


def path_of(field: str) -> tuple[str, ...]:
    """Return the steps of `arguments.to.0`, or of the JSON Pointer `/arguments/a.b/0` (RFC 6901)."""
    if field.startswith("/"):
        return tuple(step.replace("~1", "/").replace("~0", "~") for step in field[1:].split("/"))
    return tuple(field.split("."))


def at(fields: Mapping[str, Any], path: Sequence[str]) -> Values:
    """Return all values at *path*: a step that is no index is taken into each item of a list.

    What lacks the step counts as `ABSENT`, once for each place that lacks it.
    """
    values: Values = [fields]
    for step in path:
        values = [inner for value in values for inner in _into(value, step)]
    return values


def inside(value: Any) -> Iterator[Any]:
    """Yield every text, number, boolean and null in *value*, names in objects too."""
    pending: Values = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, dict):
            pending += [part for pair in cast("dict[str, Any]", each).items() for part in pair]
        elif isinstance(each, list):
            pending += cast("Values", each)
        else:
            yield each


def items(value: Any) -> Values:
    """Return the items of *value*, those of lists in it too; *value* itself when it is no list."""
    pending, result = [value], Values()
    while pending:
        each = pending.pop()
        if isinstance(each, list):
            pending += cast("Values", each)
        else:
            result.append(each)
    return result


def _into(value: Any, step: str) -> Values:
    if isinstance(value, list) and step.isascii() and step.isdigit():
        entries, index = cast("Values", value), int(step)
        return [entries[index] if index < len(entries) else ABSENT]
    return [_named(each, step) for each in items(value)] or [ABSENT]


def _named(value: Any, step: str) -> Any:
    return cast("dict[str, Any]", value).get(step, ABSENT) if isinstance(value, dict) else ABSENT


MAX_CONDITIONS = 20
MAX_CHOICES = 1_000
MAX_TEXT = 1_000
MAX_FIELD = 200
MAX_REASON = 1_000
MAX_VALUES = 10_000
_MAX_NUMBER = 400
_OF_ACTORS = ("id", "kind", "name")
_CALL_FIELDS = {"tool", "arguments"}
_ROOTS: dict[HookEvent, set[str]] = {
    "OnRunStart": {"actor", "channel", "text"},
    "PreToolUse": {"actor", "channel", *_CALL_FIELDS},
    "PostToolUse": {"actor", "channel", *_CALL_FIELDS, "result"},
    "PreResponse": {"actor", "channel", "text"},
}
_log = structlog.get_logger("parley.hooks")


class Undecidable(Exception):
    """It cannot be decided whether a condition holds."""


async def rule(config: RuleConfig, occasion: Occasion) -> Allow | Deny | None:
    """Return what the rule decides of *occasion*, None when it does not apply.

    A condition on a field that is not there, or is null, does not hold, unless it asks for null.
    """
    # RE2 lets go of the interpreter while it searches; what denies reads a text in several ways, and texts may be long.
    if config.decision == "deny" or any(condition.operator == "MATCHES" for condition in config.conditions):
        return await asyncio.to_thread(_decide, config, occasion)
    return _decide(config, occasion)


def check_rule(path: str, config: RuleConfig, event: HookEvent | None = None) -> None:
    """Raise `InvalidInput` for a condition that could never be evaluated, at *event* if that is given."""
    if not 1 <= len(config.conditions) <= MAX_CONDITIONS:
        raise InvalidInput(f"{path}.conditions", f"1 to {MAX_CONDITIONS} conditions, which must all hold.")
    if config.reason is not None and not 1 <= len(config.reason.strip()) <= MAX_REASON:
        raise InvalidInput(f"{path}.reason", f"1 to {MAX_REASON} characters, or leave it out.")
    fields = _ROOTS.get(event, set()) if event else set[str]().union(*_ROOTS.values())
    for index, condition in enumerate(config.conditions):
        here = f"{path}.conditions[{index}]"
        _check_field(f"{here}.field", condition.field, fields, event)
        if fault := _VALUES[condition.operator](condition.value):
            raise InvalidInput(f"{here}.value", f"`{condition.operator}`: {fault}")


def _check_field(path: str, field: str, roots: set[str], event: HookEvent | None) -> None:
    root, *rest = path_of(field)
    if root not in roots:
        when = f" at `{event}`" if event else ""
        names = ", ".join(f"`{name}`" for name in sorted(roots))
        raise InvalidInput(path, f"there is no `{root[:50]}`{when}; a field begins with one of {names}.")
    if len(field) > MAX_FIELD:
        raise InvalidInput(path, f"at most {MAX_FIELD} characters.")
    if root == "arguments" and "" in rest and not field.startswith("/"):
        raise InvalidInput(path, "write it as `arguments.to`, or as `/arguments/a.b` when a name has dots.")
    if root == "actor" and not (len(rest) == 1 and rest[0] in _OF_ACTORS):
        raise InvalidInput(path, "of an actor there are `actor.id`, `actor.kind` and `actor.name`.")
    if root not in ("actor", "arguments") and rest:
        raise InvalidInput(path, f"`{root}` is a text; there is nothing in it to name.")


def _text_fault(value: Any) -> str | None:
    if isinstance(value, str) and 1 <= len(value) <= MAX_TEXT:
        return None
    return f"the value is a text of 1 to {MAX_TEXT} characters."


def _plain_fault(value: Any) -> str | None:
    if isinstance(value, str) and len(value) > MAX_TEXT:
        return f"a text has at most {MAX_TEXT} characters."
    if value is None or isinstance(value, str | int | float):
        return None
    return "it compares with a text (in quotes, if it looks like a date), a number, a boolean or null."


def _contained_fault(value: Any) -> str | None:
    return None if isinstance(value, int | float) else _text_fault(value)


def _pattern_fault(value: Any) -> str | None:
    return patterns.problem(value) if isinstance(value, str) else "the value is a regular expression, as a text."


def _choices_fault(value: Any) -> str | None:
    choices = cast("list[Any]", value) if isinstance(value, list) else []
    if not 1 <= len(choices) <= MAX_CHOICES:
        return f"the value is a list of 1 to {MAX_CHOICES} texts, numbers, booleans or nulls."
    return next(filter(None, map(_plain_fault, choices)), None)


def _number_fault(value: Any) -> str | None:
    if isinstance(value, bool) or not (isinstance(value, int) or (isinstance(value, float) and isfinite(value))):
        return "the value is a number."
    return None


_VALUES: Mapping[str, Callable[[Any], str | None]] = {
    "CONTAINS": _contained_fault,
    "STARTS_WITH": _text_fault,
    "MATCHES": _pattern_fault,
    "IN": _choices_fault,
    "EQUALS": _plain_fault,
    "GREATER_THAN": _number_fault,
}


def _decide(config: RuleConfig, occasion: Occasion) -> Allow | Deny | None:
    fields, denies, unclear = _fields(occasion), config.decision == "deny", None
    for condition in config.conditions:
        try:
            if not _holds(condition, fields, wide=denies):
                return None
        except Undecidable as error:
            unclear = unclear or f"`{condition.field}` with `{condition.operator}`: {error}"
    if denies:
        return Deny(config.reason, unclear and f"It cannot be evaluated, and so is denied: {unclear}.")
    if unclear:
        _log.warning(
            "hook.unclear", hook=occasion.hook, run=occasion.run, problem=f"It is not allowed by this: {unclear}"
        )
        return None
    return Allow(config.reason)


def _fields(occasion: Occasion) -> dict[str, Any]:
    names = ("channel", "tool", "arguments", "text", "result")
    fields = {name: getattr(occasion, name) for name in names if getattr(occasion, name) is not None}
    if occasion.wraps is not None:
        fields["tool"] = [occasion.tool, occasion.wraps]
    return fields if occasion.actor is None else {**fields, "actor": msgspec.structs.asdict(occasion.actor)}


def _holds(condition: Condition, fields: Mapping[str, Any], *, wide: bool) -> bool:
    """Return whether *condition* holds for any value of its field (*wide*), or for all of them."""
    values = at(fields, path_of(condition.field))
    present = [value for value in values if value is not ABSENT]
    if not wide and len(present) < len(values):
        return False
    if condition.operator == "CONTAINS" and not wide:
        # A list contains the value if any item equals it.
        return bool(present) and all(_contains(value, condition.value) for value in present)
    parts = list(islice((part for value in present for part in _parts(value, wide=wide)), MAX_VALUES + 1))
    if len(parts) > MAX_VALUES:
        raise Undecidable(f"it holds more than {MAX_VALUES} values")
    fits = _fit(condition, wide=wide)
    return any(map(fits, parts)) if wide else bool(parts) and all(map(fits, parts))


def _parts(value: Any, *, wide: bool) -> Iterable[Any]:
    return inside(value) if wide else items(value)


def _contains(value: Any, wanted: Any) -> bool:
    if isinstance(value, str):
        return isinstance(wanted, str) and wanted in value
    return isinstance(value, list) and _key(wanted) in {_key(item) for item in items(value)}


def _fit(condition: Condition, *, wide: bool) -> Callable[[Any], bool]:
    """Return a test of one text, number, boolean or null."""
    wanted = condition.value
    match condition.operator:
        case "CONTAINS" | "STARTS_WITH" if isinstance(wanted, str):
            begins = condition.operator == "STARTS_WITH"
            sought = wanted_forms(wanted) if wide else (wanted,)
            return lambda part: any(
                form.startswith(each) if begins else each in form
                for form in _forms(_as_text(part), wide=wide)
                for each in sought
            )
        case "MATCHES":
            return lambda part: any(_matches(wanted, form) for form in _spelled(_as_text(part), wide=wide))
        case "GREATER_THAN":
            return lambda part: part is not None and _number(part, wide=wide) > wanted
        case _:
            choices = wanted if condition.operator == "IN" else [wanted]
            keys = {key for each in choices for key in _wanted_keys(each, wide=wide)}
            return lambda part: not keys.isdisjoint(_keys(part, wide=wide))


def _matches(pattern: str, text: str) -> bool:
    try:
        return patterns.matches(pattern, text)
    except patterns.MatchTooCostly as error:
        raise Undecidable(str(error)) from None


def _forms(text: str | None, *, wide: bool) -> tuple[str, ...]:
    """Return *text*, and in a *wide* look also as it reads."""
    if text is None:
        return ()
    return readings(text) if wide else (text,)


def _spelled(text: str | None, *, wide: bool) -> tuple[str, ...]:
    """Return *text* for a pattern, which says itself whether case matters; see `_forms`."""
    if text is None:
        return ()
    return spellings(text) if wide else (text,)


def _as_text(part: Any) -> str | None:
    """Return the text of *part*, of a number or boolean its JSON; null has none."""
    return part if part is None or isinstance(part, str) else msgspec.json.encode(part).decode()


def _keys(part: Any, *, wide: bool) -> list[tuple[str, Any]]:
    """Return what *part* is compared by; in a *wide* look a number is also the text that spells it."""
    own = _key(part)
    return [own, *(("str", form) for form in _forms(_as_text(part), wide=True))] if wide else [own]


def _wanted_keys(choice: Any, *, wide: bool) -> list[tuple[str, Any]]:
    """Return the keys of *choice*; a value equals it when they share one."""
    if wide and isinstance(choice, str):
        return [("str", form) for form in wanted_forms(choice)]
    return _keys(choice, wide=wide)


def _key(part: Any) -> tuple[str, Any]:
    """Return what is equal for equal JSON: 1 is 1.0, and neither is true."""
    if isinstance(part, int | float) and not isinstance(part, bool):
        return "number", part
    return type(part).__name__, part if isinstance(part, str | bool) else None


def _number(part: Any, *, wide: bool) -> float | Decimal:
    """Return the number that *part* is, in a *wide* look also one that a text spells; raise `Undecidable`."""
    if isinstance(part, int | float) and not isinstance(part, bool):
        return part
    if wide and isinstance(part, str) and len(part) <= _MAX_NUMBER:
        try:
            read = Decimal(normalize("NFKC", part).strip())
        except InvalidOperation:
            raise Undecidable("it is no number") from None
        if not read.is_nan():
            return read
    raise Undecidable("it is no number")


NOWHERE = "No webhook can be asked from here: this core was built without a fetch, or without secrets."
QUIET = 60_000
"""Milliseconds in which no second failure of a hook is logged; it is counted."""
_MAX_LOGGED = 1_000


class HookResolvers:
    """Rules are looked at here; webhooks are asked through *fetch*, with what *secrets* opens, if there are both.

    *guard* says which addresses of webhooks will be refused. *errors* counts failures by type and event.
    """

    def __init__(
        self,
        clock: Clock,
        fetch: http.FetchPort | None = None,
        secrets: Secrets | None = None,
        guard: TargetGuard | None = None,
    ) -> None:
        self._clock, self._fetch, self._secrets, self.guard = clock, fetch, secrets, guard
        self.errors: Counter[tuple[str, str]] = Counter()
        self._logged: dict[tuple[str, str], int] = {}

    async def ask(self, named: NamedHook, occasion: Occasion) -> Answer | None:
        """Return what the hook says, None when it has nothing to say; a failure is counted and logged."""
        answer = await self._ask(named, occasion)
        if isinstance(answer, Allow | Deny) and answer.error:
            self._failed(named, occasion, answer)
        return answer

    async def _ask(self, named: NamedHook, occasion: Occasion) -> Answer | None:
        match named.config:
            case RuleConfig() as config:
                return await rule(config, occasion)
            case HttpConfig() as config:
                if self._fetch is None or self._secrets is None:
                    return http.unasked(config, NOWHERE)
                return await http.ask(config, occasion, self._fetch, self._clock, self._secrets)
            case ApprovalConfig():
                raise AssertionError("People are asked by the chain.")

    def _failed(self, named: NamedHook, occasion: Occasion, answer: Allow | Deny) -> None:
        kind = "rule" if isinstance(named.config, RuleConfig) else "http"
        self.errors[kind, occasion.event] += 1
        which, now = (occasion.agent, named.name), self._clock.now()
        if now - self._logged.get(which, now - QUIET) < QUIET:
            return
        if len(self._logged) >= _MAX_LOGGED:
            self._logged.clear()
        self._logged[which] = now
        ruling = "denied" if isinstance(answer, Deny) else "allowed, unchecked"
        _log.warning(
            "hook.failed",
            agent=occasion.agent,
            hook=named.name,
            event_of_run=occasion.event,
            run=occasion.run,
            ruling=ruling,
            error=answer.error,
        )


MAX_HOOKS = 50
MAX_NAME = 60
_OF_TOOLS = ("PreToolUse", "PostToolUse")


def check(hooks: Sequence[Hook], channels: Channels) -> None:
    """Raise `InvalidInput`, with path and remedy, when one of *hooks* is invalid; *channels* know its responders."""
    if len(hooks) > MAX_HOOKS:
        raise InvalidInput("hooks", f"at most {MAX_HOOKS}; merge some, or match more tools with one.")
    names: set[str] = set()
    for index, hook in enumerate(hooks):
        path = f"hooks[{index}]"
        _check_shape(path, hook)
        if hook.name is not None and (not hook.name.strip() or len(hook.name) > MAX_NAME):
            raise InvalidInput(f"{path}.name", f"a name has 1 to {MAX_NAME} characters.")
        name = hook.name or f"{hook.type}-{index + 1}"
        if name in names:
            raise InvalidInput(f"{path}.name", f"`{name}` is there twice; names are unique.")
        names.add(name)
        _check_config(f"{path}.config", _read(path, hook), hook.event, channels)


def check_matchers(definition: Definition, named: Sequence[str] | None = None) -> None:
    """Raise `InvalidInput` when a hook names a tool that its agent lacks: a mistyped name would guard nothing.

    *named* are the tools that its globs and names mean now. A matcher for tools that may be added later is logged as a
    warning: a glob, and a name that a glob of the agent matches.
    """
    listed = _names(definition)
    for place, matcher in unmatched(definition, named):
        if is_name(matcher) and not any(fnmatchcase(matcher, each) for each in listed):
            tools = listed if named is None else named
            names = ", ".join(f"`{name}`" for name in sorted(tools))
            problem = f"the agent has no tool `{matcher[:100]}`{hint(matcher, tools)}; its tools are: {names}."
            raise InvalidInput(f"hooks[{place}].matcher", problem)
        remedy = "correct it, unless such tools will be added later"
        _log.warning("hook.matches_nothing", agent=definition.name, hook=place + 1, matcher=matcher, remedy=remedy)


def check_addresses(hooks: Sequence[Hook], guard: TargetGuard) -> None:
    """Raise `InvalidInput` for a webhook that *guard* would refuse to ask, whatever its name resolves to."""
    for index, hook in enumerate(hooks):
        config = config_of(hook)
        if isinstance(config, HttpConfig):
            try:
                guard.check(config.url)
            except FetchRefused as error:
                raise InvalidInput(f"hooks[{index}].config.url", str(error)) from None


def warn_open(definition: Definition) -> None:
    """Log a warning for each hook that `fails_open`."""
    remedy = "write `on_error: deny` to have it block when it cannot be asked, or `on_error: allow` to accept that"
    for place in fails_open(definition.hooks):
        hook = definition.hooks[place]
        _log.warning(
            "hook.fails_open", agent=definition.name, hook=hook.name or place + 1, at=hook.event, remedy=remedy
        )


def fails_open(hooks: Sequence[Hook]) -> Sequence[int]:
    """Return the places of webhooks that decide and whose author did not say what counts when they cannot be asked."""
    return [
        index
        for index, hook in enumerate(hooks)
        if hook.type == "http" and hook.event != "OnRunComplete" and "on_error" not in hook.config
    ]


def unmatched(definition: Definition, named: Sequence[str] | None = None) -> Sequence[tuple[int, str]]:
    """Return the matchers that match no tool of the agent, each with its hook's index.

    An agent without tools has none: there is nothing to guard yet. The render tools may be its own without being named.
    Without the *named* tools a glob of the agent may mean any that it matches.
    """
    names = _names(definition)
    guarded = [*(names if named is None else named), *RENDER_TOOLS]
    return [
        (index, hook.matcher)
        for index, hook in enumerate(definition.hooks)
        if hook.matcher is not None and names and not any(_may_cover(hook, name) for name in guarded)
    ]


def is_name(matcher: str) -> bool:
    """Return whether *matcher* is a tool's name, not a glob."""
    return not is_glob(matcher)


def _may_cover(hook: Hook, listed: str) -> bool:
    """Return whether *hook* runs for a tool that *listed*, a name or a glob, means."""
    if not is_glob(listed) or hook.matcher is None:
        return covers(hook, listed)
    return is_glob(hook.matcher) or fnmatchcase(hook.matcher, listed)


def _names(definition: Definition) -> Sequence[str]:
    return [tool if isinstance(tool, str) else tool.name for tool in definition.tools]


def _check_shape(path: str, hook: Hook) -> None:
    if hook.type == "approval" and hook.event != "PreToolUse":
        raise InvalidInput(f"{path}.event", "an approval is asked for at `PreToolUse` only.")
    if hook.type == "rule" and hook.event == "OnRunComplete":
        raise InvalidInput(f"{path}.event", "a rule has nothing to decide at `OnRunComplete`; use `http`.")
    if hook.matcher is not None and hook.event not in _OF_TOOLS:
        raise InvalidInput(f"{path}.matcher", f"`{hook.event}` does not concern a tool; leave the matcher out.")
    if hook.matcher is not None and not hook.matcher.strip():
        raise InvalidInput(f"{path}.matcher", "a tool's name or a glob; leave it out for every tool.")


def _read(path: str, hook: Hook) -> Config:
    try:
        return config_of(hook)
    except msgspec.ValidationError as error:
        where, why = misfit(error, CONFIGS[hook.type])
        at = f" - at `{where}`" if where else ""
        raise InvalidInput(f"{path}.config", f"does not fit a hook of type `{hook.type}`: {why}{at}") from None


def _check_config(path: str, config: Config, event: HookEvent, channels: Channels) -> None:
    match config:
        case ApprovalConfig():
            check_approval(path, config, channels)
        case RuleConfig():
            check_rule(path, config, event)
        case HttpConfig():
            check_http(path, config)
