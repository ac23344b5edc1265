"""What forms begin with, and what they ask for beyond plain values: a choice of several texts."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from agent_core.domain.schemas import problems

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
