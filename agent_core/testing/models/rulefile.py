"""Scripts as YAML: a list of rules, each with what it is for and what is answered."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, get_args

import yaml

from agent_core.messages import KINDS
from agent_core.providers.base import FinishReason
from agent_core.testing import script
from agent_core.testing.models import items
from agent_core.testing.models.asked import ModelCall, Wire

WIRES: tuple[str, ...] = get_args(Wire)
REASONS: tuple[str, ...] = get_args(FinishReason)
_TOKENS = ("input", "output", "reasoning", "cache_read", "cache_write_short", "cache_write_long")

Json = dict[str, Any]


class BadRules(ValueError):
    """The file of rules cannot be played; the text names the place and the remedy."""


@dataclass(frozen=True, slots=True)
class Rule:
    """An answer for the requests that contain *match*, come by *wire*, and are at *step*; None fits every one."""

    answer: items.Answer
    match: str | None = None
    wire: str | None = None
    step: int | None = None

    def fits(self, call: ModelCall) -> bool:
        return (
            (self.match is None or self.match.lower() in call.text.lower())
            and self.wire in (None, call.wire)
            and self.step in (None, call.step)
        )


def load(path: Path) -> list[Rule]:
    """Return the rules in the file at *path*; raises `BadRules`."""
    try:
        content: object = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadRules(f"{path}: cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise BadRules(f"{path}: is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, list) or not content:
        raise BadRules(f"{path}: holds a list of rules, such as `- answer: [{{say: Hello!}}]`.")
    return [_rule(f"{path}: rule {n}", each) for n, each in enumerate(cast("list[object]", content), 1)]


def by_rules(rules: list[Rule], otherwise: Callable[[ModelCall], items.Answer]) -> Callable[[ModelCall], items.Answer]:
    """Return the script that gives the answer of the first rule that fits, else that of *otherwise*."""

    def pick(call: ModelCall) -> items.Answer:
        return next((rule.answer for rule in rules if rule.fits(call)), None) or otherwise(call)

    return pick


def _rule(where: str, value: object) -> Rule:
    rule = _object(where, value, ("match", "wire", "step", "answer"))
    match, wire, step = rule.get("match"), rule.get("wire"), rule.get("step")
    if match is not None and not isinstance(match, str):
        raise BadRules(f"{where}: `match` is a text that the newest message contains; put {match!r} in quotes.")
    if wire is not None and wire not in WIRES:
        raise BadRules(f"{where}: `wire` is one of {', '.join(WIRES)}, not {wire!r}.")
    if step is not None and (not isinstance(step, int) or step < 0):
        raise BadRules(f"{where}: `step` is a number from 0 on, not {step!r}.")
    answer = rule.get("answer")
    if not isinstance(answer, list) or not answer:
        raise BadRules(f"{where}: `answer` is a list of items, such as `[{{say: Hello!}}]`.")
    given_items = cast("list[object]", answer)
    return Rule(tuple(_item(f"{where}, item {n}", each) for n, each in enumerate(given_items, 1)), match, wire, step)


def _item(where: str, entry: object) -> items.Item:
    """Make one item: the first key names it, the others belong to it."""
    if not isinstance(entry, dict) or not entry:
        raise BadRules(f"{where}: an item is `name: value`, such as `say: Hello!`; known are {', '.join(_MAKERS)}.")
    item = cast("Json", entry)
    name = next((key for key in item if key in _MAKERS), None)
    if name is None:
        raise BadRules(f"{where}: unknown item `{next(iter(item))}`; known are {', '.join(_MAKERS)}.")
    make, more = _MAKERS[name]
    others = _object(where, {key: value for key, value in item.items() if key != name}, more)
    try:
        return make(item[name], others)
    except (TypeError, ValueError, KeyError) as error:
        raise BadRules(f"{where}: `{name}` {error}") from error


def _object(where: str, value: object, fields: tuple[str, ...]) -> Json:
    if not isinstance(value, dict):
        raise BadRules(f"{where}: holds {', '.join(fields)}, not {value!r}.")
    rule = cast("Json", value)
    if unknown := [str(key) for key in rule if key not in fields]:
        raise BadRules(f"{where}: unknown `{unknown[0]}`; known here are {', '.join(fields) or 'no others'}.")
    return rule


def words(text: str) -> tuple[str, ...]:
    """Cut *text* into words, each with the space after it: the pieces in which models stream."""
    parts = text.split(" ")
    return tuple(f"{part} " for part in parts[:-1]) + ((parts[-1],) if parts[-1] or len(parts) == 1 else ())


def _pieces(value: Any) -> tuple[str, ...]:
    """Take a list as the pieces themselves, a text as its words."""
    if isinstance(value, str):
        return words(value)
    if isinstance(value, list) and all(isinstance(each, str) for each in cast("list[object]", value)):
        return tuple(cast("list[str]", value))
    raise TypeError(f"takes a text, or a list of the pieces it comes in, not {value!r}.")


def _call(value: Any, _: Json) -> items.Item:
    if isinstance(value, str):
        return script.call(value)
    fields = _of(value, ("name", "arguments", "raw"))
    if not isinstance(fields.get("name"), str):
        raise TypeError("needs the `name` of a tool.")
    if "raw" in fields:
        return script.raw_call(fields["name"], str(fields["raw"]))
    arguments: object = fields.get("arguments") or {}
    if not isinstance(arguments, dict):
        raise TypeError(f"takes `arguments` by their names, not {arguments!r}.")
    return script.call(fields["name"], **cast("Json", arguments))


def _fail(value: Any, more: Json) -> items.Item:
    wait, message = more.get("retry_after"), more.get("message")
    kind = _one_of(value, KINDS)
    return script.fail(kind, retry_after=_number(wait) if wait is not None else None, **_without_none(message=message))


def _status(value: Any, more: Json) -> items.Item:
    headers = cast("Mapping[str, object]", more.get("headers") or {})
    return items.status(_whole(value), str(more.get("body", "")), {key: str(each) for key, each in headers.items()})


def _usage(value: Any, _: Json) -> items.Item:
    return script.usage(**{key: _whole(each) for key, each in _of(value, _TOKENS).items()})


def _flat(value: Any, more: Json) -> items.Item:
    return script.flat(_whole(value), rate=_number(more.get("rate", 0)), **_without_none(text=more.get("text")))


def _of(value: Any, fields: tuple[str, ...]) -> Json:
    if not isinstance(value, dict):
        raise TypeError(f"takes {', '.join(fields)}, not {value!r}.")
    members = cast("Json", value)
    if unknown := [key for key in members if key not in fields]:
        raise TypeError(f"takes {', '.join(fields)}, not `{unknown[0]}`.")
    return members


def _one_of(value: Any, choices: tuple[str, ...]) -> Any:
    if value not in choices:
        raise ValueError(f"is one of {', '.join(choices)}, not {value!r}.")
    return value


def _number(value: Any) -> float:
    if not isinstance(value, (int, float)) or value < 0:
        raise TypeError(f"takes a number from 0 on, not {value!r}.")
    return float(value)


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"takes a whole number from 0 on, not {value!r}.")
    return value


def _without_none(**values: Any) -> Json:
    return {key: str(value) for key, value in values.items() if value is not None}


_Maker = Callable[[Any, Json], items.Item]
_MAKERS: Mapping[str, tuple[_Maker, tuple[str, ...]]] = {
    "say": (lambda value, _: script.say(*_pieces(value)), ()),
    "think": (lambda value, _: script.think(*_pieces(value)), ()),
    "redacted": (lambda _, __: items.redacted(), ()),
    "call": (_call, ()),
    "refuse": (lambda value, _: script.refuse(str(value)), ()),
    "usage": (_usage, ()),
    "sleep": (lambda value, _: script.sleep(_number(value)), ()),
    "finish": (lambda value, _: script.finish(_one_of(value, REASONS)), ()),
    "fail": (_fail, ("retry_after", "message")),
    "cut": (lambda _, __: script.cut(), ()),
    "stall": (lambda _, __: items.stall(), ()),
    "split": (lambda value, _: items.split(_whole(value)), ()),
    "native": (lambda value, _: items.native(dict(value)), ()),
    "raw": (lambda value, _: items.raw(str(value).encode()), ()),
    "status": (_status, ("body", "headers")),
    "flat": (_flat, ("rate", "text")),
}
