"""JSON Schema, draft 2020-12: validate schemas, and values against them, with limits on the work. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import cache, partial
from itertools import islice
from typing import Any, cast
from urllib.parse import unquote

import msgspec

from agent_core.domain import patterns
from agent_core.errors import Fault

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
    except patterns.MatchTooCostly as error:
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
        if isinstance(pattern, str) and pattern and (fault := patterns.problem(pattern)):
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
    return not pattern or patterns.matches(pattern, text)


def _fault(message: str, *path: str) -> Any:
    from jsonschema import ValidationError  # noqa: PLC0415 - as above

    return ValidationError(message, path=path)
