"""Fields that a type does not have: named for their author, and left out of what a newer version stored."""

import difflib
import re
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from typing import Any, get_args

import msgspec
from msgspec import inspect

_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_STEP = re.compile(r"\.(\w+)|\[[^\]]*\]")
MAX_FIELD_NAME = 50
"""Characters of a field's name that are repeated."""


def misfit(error: msgspec.ValidationError, kind: Any) -> tuple[str, str]:
    """Return where, such as `limits` or `hooks[0]`, and why something does not fit the type *kind*, as *error* says."""
    fault, _, place = str(error).partition(" - at ")
    where = place.strip("`").removeprefix("$")
    unknown = _UNKNOWN.fullmatch(fault)
    if unknown is not None:
        fault = unknown_field(unknown[1], fields_at(where, kind)).removesuffix(".")
    return where.removeprefix("."), fault


def misfit_in(field: str, error: msgspec.ValidationError, kind: Any) -> tuple[str, str]:
    """Return the path, such as `config.methd`, and why the value of *field* does not fit the type *kind*."""
    where, why = misfit(error, kind)
    unknown = _UNKNOWN.fullmatch(str(error).partition(" - at ")[0])
    path = ".".join(filter(None, (field, where, unknown and unknown[1][:MAX_FIELD_NAME])))
    return path, why if why.endswith(".") else f"{why}."


def unknown_field(name: str, names: Collection[str]) -> str:
    """Return the sentence about a field *name* that is none of *names*."""
    near = difflib.get_close_matches(name[:MAX_FIELD_NAME], names, n=1)
    likely = f"; did you mean `{near[0]}`?" if near else "."
    return (
        f"unknown field `{name[:MAX_FIELD_NAME]}`{likely} Known: {', '.join(f'`{each}`' for each in names) or 'none'}."
    )


def fields_at(where: str, kind: Any) -> tuple[str, ...]:
    """Return the names of the fields at *where*, a path such as `.hooks[0]`, in the type *kind*; none if unknown."""
    types: list[inspect.Type] = [inspect.type_info(kind)]
    for step in _STEP.finditer(where):
        types = [inner for each in _alternatives(types) for inner in _inner(each, step[1])]
    structs = [each for each in _alternatives(types) if isinstance(each, inspect.StructType)]
    return tuple(dict.fromkeys(field.encode_name for each in structs for field in each.fields))


def known_fields(
    value: dict[str, Any], kind: type[msgspec.Struct], groups: tuple[type[msgspec.Struct], ...]
) -> dict[str, Any]:
    """Return the fields of *value* that *kind* has, and of those in it that are one of *groups* likewise."""
    fields: dict[str, Any] = {}
    for name, group in _groups(kind, groups).items():
        if name in value:
            field = value[name]
            fields[name] = field if group is None or field is None else known_fields(field, group, groups)
    return fields


@cache
def _groups(
    kind: type[msgspec.Struct], groups: tuple[type[msgspec.Struct], ...]
) -> dict[str, type[msgspec.Struct] | None]:
    """Return the fields of *kind* with the group that each holds: to look at annotations costs a millisecond."""
    types_of = {field.name: get_args(field.type) or (field.type,) for field in msgspec.structs.fields(kind)}
    return {name: next((each for each in types if each in groups), None) for name, types in types_of.items()}


def _alternatives(types: Iterable[inspect.Type]) -> Iterator[inspect.Type]:
    for each in types:
        if isinstance(each, inspect.UnionType):
            yield from _alternatives(each.types)
        else:
            yield each


def _inner(kind: inspect.Type, field: str | None) -> Iterator[inspect.Type]:
    """Yield the types of the *field* of *kind*, or of its items."""
    match kind:
        case inspect.StructType() if field is not None:
            yield from (each.type for each in kind.fields if each.encode_name == field)
        case inspect.DictType():
            yield kind.value_type
        case inspect.ListType() | inspect.VarTupleType() | inspect.SetType() | inspect.FrozenSetType():
            yield kind.item_type
        case inspect.TupleType():
            yield from kind.item_types
        case _:
            return
