"""JSON Schema, draft 2020-12: whether one is sound, and how a value misses it. Pure."""

from collections.abc import Sequence
from typing import Any

import msgspec

_SHOWN = 5


class Problem(msgspec.Struct, frozen=True):
    """Where a value does not fit, as a JSON path from `$`, and why."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def schema_problem(schema: dict[str, Any]) -> str | None:
    """Say why *schema* is no schema, None when it is one."""
    from jsonschema import Draft202012Validator, SchemaError  # noqa: PLC0415 - three megabytes that only a check needs

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return f"{error.json_path}: {error.message}"[:500]
    return None


def problems(schema: dict[str, Any], value: Any) -> Sequence[Problem]:
    """Return how *value* misses *schema*: the first few of its faults, none when it fits."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - as above

    validator: Any = Draft202012Validator(schema)
    found = [Problem(str(error.json_path), str(error.message)) for error in validator.iter_errors(value)]
    return found[:_SHOWN]
