"""What a value of JSON is."""

import math
from collections.abc import Mapping
from typing import Any, TypeGuard


def is_object(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Return whether *value* is an object of JSON."""
    return type(value) is dict or isinstance(value, Mapping)


def is_list(value: Any) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    """Return whether *value* is a list."""
    return isinstance(value, list | tuple)


def is_number(value: Any) -> TypeGuard[float]:
    """Return whether *value* is a finite number that a double holds; true and false are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) if isinstance(value, float) else value.bit_length() < MAX_BITS


MAX_BITS = 1_000


def words(text: str) -> frozenset[str]:
    """Return the words of *text*."""
    return frozenset(text.split())
