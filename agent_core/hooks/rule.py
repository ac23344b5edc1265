"""Rules: conditions on a call, an actor, a place or a text, evaluated without code of their own.

Where a value can be read in two ways a rule that denies takes both, and one that allows takes none: a `deny` looks into
lists and objects and at texts as they read (see `folding`), an `allow` wants every item, exactly. What cannot be
decided, such as whether a pattern is in a text that is too long for it, denies too.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal, InvalidOperation
from itertools import islice
from math import isfinite
from typing import Any, cast
from unicodedata import normalize

import msgspec
import structlog

from agent_core.domain import patterns
from agent_core.domain.folding import readings, spellings, wanted_forms
from agent_core.domain.hooks import Condition, HookEvent, RuleConfig
from agent_core.errors import InvalidInput
from agent_core.hooks.base import Allow, Deny, Occasion
from agent_core.hooks.fields import ABSENT, at, inside, items, path_of

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
