"""Schemas of tools' arguments as vendors of models take them; those of strangers are made so, and nothing is lost.

Vendors take an object without a choice at the top level, and names of arguments of few characters. Pure.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from agent_core.domain import patterns
from agent_core.domain.schemas import leads, target
from agent_core.errors import Fault

CHOICES = ("anyOf", "oneOf", "allOf", "enum", "not")
"""Keywords that OpenAI refuses at the top level of a tool's parameters, and Anthropic the first three of them."""
_MAX_KEY, _COUNTED = 64, 5
KEY = re.compile(rf"[A-Za-z0-9_.-]{{1,{_MAX_KEY}}}")
_OTHER = re.compile(r"[^A-Za-z0-9_.-]+")
_TO_MERGE = frozenset({*CHOICES, "$ref"})
_MERGED = _TO_MERGE | {"properties", "required"}
_BY_NAME = frozenset({"dependentRequired", "dependentSchemas", "dependencies", "if", "then", "else"})
"""Keywords that name arguments elsewhere than in `properties` and `required`."""
_VALUES = frozenset({"const", "default", "enum", "examples"})
_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose values are schemas by names."""
_MAX_PARTS = 200
"""Choices, and choices within them, that are made one object."""
Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Fitted:
    """The *shown* schema, which models are given, for what the tool's owner checks: *whole*.

    *names* are the owner's own names of arguments that are shown under others, by those.
    """

    offered: Schema
    whole: Schema
    names: Mapping[str, str] = field(default_factory=dict[str, str])

    def restored(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return *arguments* of a model under the owner's own names."""
        if not self.names:
            return arguments
        return {self.names.get(name, name): value for name, value in arguments.items()}


def unsendable(parameters: Schema) -> Fault | None:
    """Return why vendors of models would refuse *parameters*, with the path; None when they take them."""
    if choice := next((each for each in CHOICES if each in parameters), None):
        why = "vendors of models take none at the top level; write one object, and choices inside its properties."
        return Fault(f"$.{choice}", why)
    for name in _properties(parameters):
        if not KEY.fullmatch(name):
            why = f"vendors of models take names of arguments with 1 to {_MAX_KEY} letters, digits, `_`, `.` and `-`."
            return Fault(f"$.properties.{name}", why)
    return None


def fitted(parameters: Schema) -> Fitted:
    """Return what models are shown of a stranger's *parameters*, which are not nested without end.

    What cannot be checked here is left to the tool's owner. A choice among objects at the top level becomes one object
    with the arguments of all of them, whose description says which go together.
    """
    whole = checkable(parameters)
    flat = _Flattener(whole).flat(whole) if _TO_MERGE & whole.keys() else whole
    flat, names = _renamed(flat)
    # References may lead into what is now elsewhere.
    return Fitted(whole if flat is whole else checkable(flat), whole, names)


def checkable(schema: Schema) -> Schema:
    """Return *schema* without the rules that this process cannot check, such as a pattern with look-ahead.

    Lists of `items`, of drafts before 2020-12, are `prefixItems`. A schema that is all right is returned itself.
    """
    made = _checkable(schema, schema, top=True)
    return schema if made == schema else made


def _checkable(part: Any, schema: Schema, *, top: bool = False) -> Any:
    if isinstance(part, list):
        return [_checkable(each, schema) for each in cast("list[Any]", part)]
    if not isinstance(part, dict):
        return part
    made: Schema = {}
    for key, each in cast("Schema", part).items():
        if key in _VALUES:
            made[key] = each
        elif key in _MAPS and isinstance(each, dict):
            inside = cast("Schema", each)
            checkable = [name for name in inside if key != "patternProperties" or _matches(name)]
            made[key] = {name: _checkable(inside[name], schema) for name in checkable}
        elif not _is_beyond(key, each, schema, top=top):
            made[key] = _checkable(each, schema)
    if "patternProperties" in made:
        made.pop("unevaluatedProperties", None)
    if isinstance(made.get("items"), list):
        rest = made.pop("additionalItems", None)
        made["prefixItems"] = made.pop("items")
        made["items"] = {} if rest is None else rest
    return made


def _is_beyond(key: str, value: object, schema: Schema, *, top: bool) -> bool:
    """Return whether the rule *key* with this *value* is one that cannot be checked."""
    if not isinstance(value, str):
        return False
    match key:
        case "pattern":
            return not _matches(value)
        case "$id" | "$schema":
            return not top
        case "$ref" | "$dynamicRef":
            return not leads(schema, value)
        case _:
            return False


def _matches(pattern: str) -> bool:
    return not pattern or patterns.problem(pattern) is None


class _Flattener:
    """Makes one object of *schema*, whose parts may be many when each refers to others several times."""

    def __init__(self, schema: Schema) -> None:
        self._schema, self._left = schema, _MAX_PARTS

    def flat(self, part: Schema) -> Schema:
        """Return *part* as one object: its own arguments, those of all its parts, and those of each of its choices."""
        made = {key: each for key, each in part.items() if key not in _MERGED}
        properties, required = _properties(part), _names(part.get("required"))
        referred = [target(self._schema, part["$ref"])] if "$ref" in part else []
        for each in self._objects([*referred, *_list(part.get("allOf"))]):
            properties = _joined(properties, _properties(each), "allOf")
            required += _names(each.get("required"))
            if "description" in each:
                made.setdefault("description", each["description"])
        for keyword in ("anyOf", "oneOf"):
            if choices := self._objects(_list(part.get(keyword))):
                either: Schema = {}
                for each in choices:
                    either = _joined(either, _properties(each), "anyOf")
                properties = _joined(properties, either, "allOf")
                wanted = [_names(each.get("required")) for each in choices]
                required += [name for name in wanted[0] if all(name in each for each in wanted)]
                made["description"] = f"{made.get('description', '')} {_together(wanted, required)}".strip()
        made |= {"type": "object", "properties": properties, "required": list(dict.fromkeys(required))}
        return {key: each for key, each in made.items() if each or key not in ("required", "description")}

    def _objects(self, parts: Iterable[object]) -> Sequence[Schema]:
        """Return those of *parts* that an object can be, each as one object."""
        schemas: list[Schema] = []
        for each in parts:
            self._left -= 1
            if self._left >= 0 and isinstance(each, dict) and _may_be_object(cast("Schema", each)):
                schemas.append(self.flat(cast("Schema", each)))
        return schemas


def _may_be_object(part: Schema) -> bool:
    kind = part.get("type", "object")
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


def _together(wanted: Sequence[Sequence[str]], required: Sequence[str]) -> str:
    """Return in a sentence which arguments go together; empty when a choice needs none beside those *required*."""
    more = [[name for name in each if name not in required] for each in wanted]
    texts = dict.fromkeys(" with ".join(f"`{name}`" for name in each) for each in more)
    return f"Required too is one of these: {'; '.join(texts)}." if all(more) else ""


def _joined(one: Schema, other: Mapping[str, Any], how: str) -> Schema:
    """Return the arguments of both; one that they have in common, and not alike, is both or either, as *how* says."""
    made = dict(one)
    for name, each in other.items():
        made[name] = each if name not in made or made[name] == each else _both(made[name], each, how)
    return made


def _both(one: Any, other: Any, how: str) -> Any:
    values = [_values(each) for each in (one, other)]
    if how == "anyOf" and values[0] and values[1]:  # what tells choices apart, such as `kind`
        return {**_without(one), **_without(other), "enum": [*values[0], *(x for x in values[1] if x not in values[0])]}
    before: list[Any] = _list(cast("Schema", one)[how]) if isinstance(one, dict) and one.keys() == {how} else [one]
    return {how: before if other in before else [*before, other]}


def _values(schema: Any) -> list[Any]:
    if not isinstance(schema, dict):
        return []
    part = cast("Schema", schema)
    return [part["const"]] if "const" in part else _list(part.get("enum"))


def _without(schema: Schema) -> Schema:
    return {key: each for key, each in schema.items() if key not in ("const", "enum")}


def _renamed(schema: Schema) -> tuple[Schema, Mapping[str, str]]:
    """Return *schema* with names of arguments that vendors take, and the owner's names by those."""
    properties = _properties(schema)
    names: dict[str, str] = {}
    for name in properties:
        if not KEY.fullmatch(name):
            plain = _OTHER.sub("_", name).strip("_")[:_MAX_KEY] or "argument"
            new, n = plain, 2
            while new in properties or new in names:
                new, n = f"{plain[: _MAX_KEY - _COUNTED]}_{n}", n + 1
            names[new] = name
    if not names:
        return schema, {}
    news = {old: new for new, old in names.items()}
    made = {key: each for key, each in schema.items() if key not in _BY_NAME}
    made["properties"] = {news.get(name, name): _called(name, each, news) for name, each in properties.items()}
    if "required" in schema:
        made["required"] = [news.get(name, name) for name in _names(schema["required"])]
    return made, names


def _called(name: str, schema: Any, news: Mapping[str, str]) -> Any:
    """Return *schema* with the owner's *name* in its description, if it is shown under another."""
    if name not in news or not isinstance(schema, dict):
        return schema
    part = cast("Schema", schema)
    return {**part, "description": f"{part.get('description', '')} (`{name}`)".strip()}


def _properties(schema: Schema) -> Schema:
    properties = schema.get("properties")
    return cast("Schema", properties) if isinstance(properties, dict) else {}


def _names(value: object) -> list[str]:
    return [each for each in _list(value) if isinstance(each, str)]


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
