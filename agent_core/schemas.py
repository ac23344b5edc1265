"""JSON Schemas: which are taken, of tools, answers and forms, and whether a value fits one."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from importlib import import_module
from itertools import islice
from typing import Any, cast
from urllib.parse import unquote

import msgspec

from agent_core.errors import Fault

MAX_PATTERN = 1_000
_MEMORY = 2**20
_WORK = 200_000_000
"""Steps of a pattern times bytes of a text: a second in the worst case, and usually 1,000 times less."""
_SYNTAX = "patterns are those of RE2, which has no look-around and no back-references"


class MatchTooCostly(Exception):
    """The text is too long for the pattern."""


def problem(pattern: str) -> str | None:
    """Return why *pattern* is invalid, None when it is valid."""
    if not 1 <= len(pattern) <= MAX_PATTERN:
        return f"a pattern has 1 to {MAX_PATTERN} characters."
    try:
        _compiled(pattern)
    except UnicodeEncodeError:
        return "no pattern: it holds half a character."
    except _re2().error as error:
        return f"no pattern ({error.args[0].decode(errors='replace')}); {_SYNTAX}."
    return None


def matches(pattern: str, text: str) -> bool:
    """Return whether *pattern* matches anywhere in *text*; raises `MatchTooCostly`."""
    compiled, data = _compiled(pattern), text.encode(errors="replace")
    if compiled.programsize * len(data) > _WORK:
        raise MatchTooCostly(f"it is too long for the pattern: {len(data)} bytes, {compiled.programsize} steps each")
    return compiled.search(data) is not None


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> Any:
    re2 = _re2()
    options = re2.Options()
    options.max_mem = _MEMORY
    options.never_capture = True
    options.log_errors = False  # they would be written to the process's stderr, with the pattern
    return re2.compile(pattern, options)


def _re2() -> Any:
    """Import RE2: three megabytes that only a pattern needs."""
    return import_module("re2")


MAX_DEPTH = 100
"""Levels of objects and lists in accepted JSON: some readers and writers cannot handle deeper ones."""
MAX_SCHEMA = 32_000
"""Bytes of a schema's JSON: it is part of each request to a model."""
MAX_PARTS = 2_000
"""Objects in a schema: half a second of checking."""
MAX_CHECKS = 100_000
"""Keywords checked against parts of one value: about a second."""
_SHOWN = 5
_MAX_LENGTH, _BEGIN, _END = 300, 100, 190
_REFERENCES = ("$ref", "$dynamicRef")
_OF_THE_WHOLE = ("$id", "$schema")
_checks_left: ContextVar[list[int]] = ContextVar("checks_left")
Object = Mapping[str, Any]
Keyword = Callable[[Any, Any, Any, Any], Iterable[Any] | None]


class _Uncheckable(Exception):
    """A schema cannot be used, or a value cannot be checked against it."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


def is_deep(value: Any) -> bool:
    """Return whether *value*, of JSON, has more than `MAX_DEPTH` levels of objects and lists."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for each in level for inner in _nested_in(each)]
        if not level:
            return False
    return any(isinstance(each, dict | list) for each in level)


def schema_problem(schema: dict[str, Any]) -> Fault | None:
    """Return why *schema* is invalid, with the path in it; None when it is valid."""
    from jsonschema import Draft202012Validator, SchemaError  # noqa: PLC0415 - three megabytes that only a check needs

    if is_deep(schema):
        return Fault("$", f"nested too deeply, more than {MAX_DEPTH} levels.")
    if len(msgspec.json.encode(schema)) > MAX_SCHEMA:
        return Fault("$", f"at most {MAX_SCHEMA:,} bytes of JSON.")
    try:
        _check_parts(schema)
        Draft202012Validator.check_schema(schema, format_checker=cast("Any", None))  # patterns are RE2 here
        _faults(schema, {}, 1)
    except SchemaError as error:
        return Fault(str(error.json_path), _short(error.message))
    except RecursionError:
        return Fault("$", "nested too deeply.")
    except _Uncheckable as error:
        return error.fault
    return None


def uncheckable(schema: dict[str, Any]) -> Fault | None:
    """Return why this module cannot check values against a tool's own *schema*; None when it can.

    For schemas from a tool's code, which are trusted to be valid: it is fast, and does not import jsonschema.
    """
    try:
        _check_parts(schema)
    except _Uncheckable as error:
        return error.fault
    return None


def problems(schema: dict[str, Any], value: Any, limit: int = _SHOWN) -> Sequence[Fault]:
    """Return how *value* fails *schema*: up to *limit* errors, none when it is valid.

    A value that cannot be checked is invalid, even if the cause is a stored schema that is older than these checks.
    """
    if is_deep(value):
        return [Fault("$", f"nested more than {MAX_DEPTH} levels deep.")]
    try:
        return _faults(schema, value, limit)
    except _Uncheckable as error:
        return [Fault("$", f"it cannot be checked, for its schema: {error.fault}")]


def _faults(schema: dict[str, Any], value: Any, limit: int) -> Sequence[Fault]:
    """Return how *value* fails *schema*; raise `_Uncheckable`."""
    from referencing.jsonschema import EMPTY_REGISTRY  # noqa: PLC0415 - as above

    _check_parts(schema)
    _checks_left.set([MAX_CHECKS])
    plain = {name: each for name, each in schema.items() if name not in _OF_THE_WHOLE}
    try:
        errors = _validator()(plain, registry=EMPTY_REGISTRY).iter_errors(value)  # a registry that fetches nothing
        return [_fault_of(error) for error in islice(errors, limit)]
    except _Uncheckable:
        raise
    except RecursionError:
        raise _Uncheckable(Fault("$", "it refers to itself without end, or is nested too deeply.")) from None
    except MatchTooCostly as error:
        raise _Uncheckable(Fault("$", f"a text is too long or complex for a pattern: {error}.")) from None
    except Exception as error:  # a reference may resolve to something that is not a schema
        raise _Uncheckable(Fault("$", f"it failed with {type(error).__name__}.")) from error


def _fault_of(error: Any) -> Fault:
    """Return *error* as a fault; of a choice among several forms it is the one of the form that was meant.

    That is the only form of the value's own type, as for a text or an object: "none of the schemas" teaches nothing.
    """
    while error.validator in ("anyOf", "oneOf") and error.context:
        others = {each.schema_path[0] for each in error.context if each.validator == "type" and not each.path}
        meant = [each for each in error.context if each.schema_path[0] not in others]
        if not meant:
            types = " or ".join(str(each.validator_value) for each in error.context)
            return Fault(str(error.json_path), _short(f"{error.instance!r} is not of type {types}"))
        if len({each.schema_path[0] for each in meant}) != 1:
            break
        error = meant[0]
    return Fault(str(error.json_path), _short(error.message))


def _check_parts(schema: dict[str, Any]) -> None:
    """Raise `_Uncheckable` for what the draft allows and this module does not support."""
    left, count = [("$", cast("Any", schema))], 0
    while left:
        path, part = left.pop()
        left += [(f"{path}{step}", inner) for step, inner in _inside(part)]
        if isinstance(part, dict):
            _check_part(path, cast("Object", part), schema)
            count += 1
            if count > MAX_PARTS:
                raise _Uncheckable(Fault("$", f"it holds more than {MAX_PARTS:,} objects."))


def _check_part(path: str, part: Object, schema: Object) -> None:
    for name in _OF_THE_WHOLE:
        if path != "$" and isinstance(part.get(name), str):
            raise _Uncheckable(Fault(f"{path}.{name}", f"`{name}` is allowed at the top level only."))
    for name in _REFERENCES:
        if isinstance(to := part.get(name), str) and not leads(schema, to):
            why = f"`{to[:_BEGIN]}` leads nowhere in the schema; refer to what is in it, as `#/$defs/…`."
            raise _Uncheckable(Fault(f"{path}.{name}", why))
    named = part.get("patternProperties")
    spelled = [("pattern", part.get("pattern")), *(("patternProperties", each) for each in _inside_of(named))]
    for name, pattern in spelled:
        if isinstance(pattern, str) and pattern and (fault := problem(pattern)):
            raise _Uncheckable(Fault(f"{path}.{name}", fault))
    if named and "unevaluatedProperties" in part:
        why = "it cannot be combined with `patternProperties` here; use `additionalProperties`."
        raise _Uncheckable(Fault(f"{path}.unevaluatedProperties", why))


def leads(schema: Object, reference: str) -> bool:
    """Return whether *reference* is a JSON pointer to a schema in *schema*: nothing is fetched from elsewhere."""
    return isinstance(target(schema, reference), dict | bool)


def target(schema: Object, reference: str) -> Any:
    """Return what *reference*, a JSON pointer, leads to in *schema*; else None."""
    if reference != "#" and not reference.startswith("#/"):
        return None
    here: Any = schema
    for step in unquote(reference[2:]).split("/") if reference[1:] else ():
        name = step.replace("~1", "/").replace("~0", "~")
        here = dict(_inside(here, bare=True)).get(name)
    return here


def _inside(value: Any, *, bare: bool = False) -> Iterator[tuple[str, Any]]:
    """Yield the children of an object or a list with their step of a JSON path; *bare*: of a JSON pointer."""
    if isinstance(value, dict):
        for name, each in cast("Object", value).items():
            yield (name if bare else f".{name}"), each
    elif isinstance(value, list):
        for index, each in enumerate(cast("list[Any]", value)):
            yield (str(index) if bare else f"[{index}]"), each


def _nested_in(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast("Object", value).values()
    return cast("list[Any]", value) if isinstance(value, list) else ()


def _inside_of(value: Any) -> Iterable[str]:
    return cast("Object", value) if isinstance(value, dict) else ()


def _short(message: object) -> str:
    """Return *message* without its middle if it is long: it begins with the value, and ends with what was expected."""
    text = str(message)
    return text if len(text) <= _MAX_LENGTH else f"{text[:_BEGIN]} … {text[-_END:]}"


@cache
def _validator() -> Any:
    """Return the draft's validator, with each keyword check counted and some replaced by faster or clearer ones."""
    from jsonschema import validators  # noqa: PLC0415 - as above

    library: Any = validators
    drafted = library.Draft202012Validator
    own: dict[str, Keyword] = {
        "additionalProperties": _additional,
        "maxItems": _few,
        "pattern": _pattern,
        "patternProperties": _by_pattern,
        "required": _required,
        "uniqueItems": _unique,
    }
    keywords = {name: partial(_counted, check) for name, check in {**drafted.VALIDATORS, **own}.items()}
    return library.extend(drafted, keywords)


def _counted(check: Keyword, validator: Any, wanted: Any, value: Any, schema: Any) -> Iterable[Any] | None:
    left = _checks_left.get()
    left[0] -= 1
    if left[0] < 0:
        raise _Uncheckable(Fault("$", f"it takes more than {MAX_CHECKS:,} checks."))
    return check(validator, wanted, value, schema)


def _additional(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[Any]:
    properties, spelled = schema.get("properties", {}), schema.get("patternProperties", {})
    for name in _inside_of(value):
        if name not in properties and not any(_matches(pattern, name) for pattern in spelled):
            if wanted is False:
                yield _fault("there is no such property.", name)
            else:
                yield from validator.descend(value[name], wanted, path=name)


def _pattern(_validator: Any, wanted: Any, value: Any, _schema: Any) -> Iterator[Any]:
    if isinstance(value, str) and not _matches(wanted, value):
        yield _fault(f"{value!r} does not match {wanted!r}")


def _by_pattern(validator: Any, wanted: Any, value: Any, _schema: Any) -> Iterator[Any]:
    for pattern, inner in wanted.items():
        for name in _inside_of(value):
            if _matches(pattern, name):
                yield from validator.descend(value[name], inner, path=name, schema_path=pattern)


def _few(_validator: Any, wanted: Any, value: Any, _schema: Any) -> Iterator[Any]:
    if isinstance(value, list) and (count := len(cast("list[Any]", value))) > wanted:
        yield _fault(f"it has {count:,} items, at most {wanted:,} are allowed.")


def _required(_validator: Any, wanted: Any, value: Any, _schema: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from (_fault("it is required.", name) for name in wanted if name not in value)


def _unique(_validator: Any, wanted: Any, value: Any, _schema: Any) -> Iterator[Any]:
    if wanted and isinstance(value, list):
        items = cast("list[Any]", value)
        if len({msgspec.json.encode(each, order="deterministic") for each in items}) < len(items):
            yield _fault("an item is there twice.")


def _matches(pattern: str, text: str) -> bool:
    return not pattern or matches(pattern, text)


def _fault(message: str, *path: str) -> Any:
    from jsonschema import ValidationError  # noqa: PLC0415 - as above

    return ValidationError(message, path=path)


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
            checkable = [name for name in inside if key != "patternProperties" or _tool_schemas_matches(name)]
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
            return not _tool_schemas_matches(value)
        case "$id" | "$schema":
            return not top
        case "$ref" | "$dynamicRef":
            return not leads(schema, value)
        case _:
            return False


def _tool_schemas_matches(pattern: str) -> bool:
    return not pattern or problem(pattern) is None


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


_FENCED = re.compile(r"\s*```(?:json)?[ \t]*\n(.*)\n```\s*", re.DOTALL | re.IGNORECASE)
_CLOSED = frozenset(
    {
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "enum",
        "const",
        "anyOf",
        "$ref",
        "$defs",
        "title",
        "description",
    }
)
Json = Mapping[str, Any]


def output_problem(schema: dict[str, Any]) -> str | None:
    """Return why *schema* cannot be used for answers, None when it can."""
    fault = schema_problem(schema)
    return f"no JSON Schema (draft 2020-12): {fault}" if fault else None


def read_answer(schema: dict[str, Any], text: str) -> tuple[Any, Sequence[str]]:
    """Return *text* parsed as JSON, and how it fails *schema*; a code fence around it is ignored."""
    fenced = _FENCED.fullmatch(text)
    try:
        value = msgspec.json.decode(fenced[1] if fenced else text)
    except msgspec.DecodeError as error:
        return None, [f"it is no JSON: {error}"]
    except RecursionError:
        return None, ["it is nested too deeply"]
    return value, [str(fault) for fault in problems(schema, value)]


def is_closed(schema: Any, *, whole: bool = False) -> bool:
    """Return whether a model's API can enforce *schema* exactly: each object lists all properties that it may have.

    *whole*: and all of them are required.
    """
    if not isinstance(schema, dict):
        return False
    fields = cast("dict[str, Any]", schema)
    if not fields.keys() <= _CLOSED:
        return False
    properties: Json = fields.get("properties", {})
    if properties or "object" in _types(fields):
        missing = properties.keys() - set(fields.get("required", ()))
        if fields.get("additionalProperties") is not False or (whole and missing):
            return False
    inner = [*properties.values(), *fields.get("$defs", {}).values(), *fields.get("anyOf", ())]
    inner += [fields["items"]] if "items" in fields else []
    return all(is_closed(each, whole=whole) for each in inner)


def _types(schema: Json) -> Sequence[str]:
    types: str | list[str] = schema.get("type", [])
    return [types] if isinstance(types, str) else types


_BOUNDS = frozenset({"minItems", "maxItems", "uniqueItems"})
_SAID = frozenset({"type", "items", "title", "description", "default"})


def defaults(form: Mapping[str, Any]) -> dict[str, Any]:
    """Return what *form* begins with: the defaults of its fields, as far as these take them, and nothing invented."""
    fields = cast("dict[str, dict[str, Any]]", form.get("properties") or {})
    given = {name: (each, each["default"]) for name, each in fields.items() if "default" in each}
    return {name: default for name, (each, default) in given.items() if not problems(each, default)}


def is_choice_of_several(field: Mapping[str, Any]) -> bool:
    """Return whether the schema *field* is a list of texts, each one of those that it names.

    They are named by `enum`, or by `anyOf` or `oneOf` as `const` with a `title`, as MCP servers write them.
    """
    items: object = field.get("items")
    if field.get("type") != "array" or not isinstance(items, dict) or field.keys() - _BOUNDS - _SAID:
        return False
    return bool(_named(cast("dict[str, Any]", items)))


def _named(items: Mapping[str, Any]) -> Sequence[str]:
    """Return the texts that *items* names; none where it asks for anything else."""
    if items.get("type", "string") != "string":
        return ()
    names: object = items.get("enum")
    titled: object = items.get("anyOf", items.get("oneOf"))
    values = list[object]()
    if isinstance(names, list) and not items.keys() - {"type", "enum", "enumNames"}:
        values = cast("list[object]", names)
    elif isinstance(titled, list) and len(items.keys() - {"type"}) == 1:
        values = [_const(each) for each in cast("list[object]", titled)]
    return cast("Sequence[str]", values) if all(isinstance(value, str) for value in values) else ()


def _const(choice: object) -> object:
    return cast("dict[str, object]", choice).get("const") if isinstance(choice, dict) else None
