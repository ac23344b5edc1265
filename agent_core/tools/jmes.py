"""JMESPath that ends: what an expression makes is measured while it is made."""

from collections.abc import Iterator
from typing import Any

import jmespath
from jmespath.functions import Functions
from jmespath.visitor import TreeInterpreter

# The library has no types: pyright: reportMissingTypeStubs=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false


_STEPS = 2_000_000
"""Nodes visited and values measured, of about a microsecond each; a result of 150 kB takes some ten thousand."""


class _TooMuch(ValueError):
    def __init__(self, what: str) -> None:
        super().__init__(f"it makes more than {what} on the way.")


def check(expression: str) -> None:
    """Raise ValueError for an expression that cannot be read, or that calls what is no function."""
    try:
        tree = jmespath.compile(expression).parsed
    except RecursionError:
        raise ValueError("it is nested too deeply.") from None
    except ValueError as error:
        raise ValueError(f"it is no JMESPath expression: {_first_line(error)}") from None
    functions: dict[str, Any] = Functions.FUNCTION_TABLE
    for node in _nodes(tree):
        if node["type"] == "function_expression" and node["value"] not in functions:
            raise ValueError(f"`{node['value']}` is no function of JMESPath; there are {', '.join(sorted(functions))}.")


def search(expression: str, value: Any, largest: int) -> Any:
    """Return what *expression* finds in *value*; nothing that it makes has more than *largest* characters.

    Raises ValueError, of which the library's errors are kinds, TypeError and RecursionError.
    """
    return _Bounded(largest).visit(jmespath.compile(expression).parsed, value)


class _Bounded(TreeInterpreter):
    """Measures what is made of several values: a few characters of expression could double it thirty times.

    It counts a value as often as it would be written, so that one list with itself in it twice is twice as large.
    """

    def __init__(self, largest: int) -> None:
        super().__init__()
        self._largest, self._left = largest, _STEPS

    def visit(self, node: Any, *args: Any, **kwargs: Any) -> Any:
        self._spend(1)
        return super().visit(node, *args, **kwargs)

    def visit_function_expression(self, node: Any, value: Any) -> Any:
        return self._measured(super().visit_function_expression(node, value))

    def visit_multi_select_list(self, node: Any, value: Any) -> Any:
        return self._measured(super().visit_multi_select_list(node, value))

    def visit_multi_select_dict(self, node: Any, value: Any) -> Any:
        return self._measured(super().visit_multi_select_dict(node, value))

    def visit_projection(self, node: Any, value: Any) -> Any:
        return self._measured(super().visit_projection(node, value))

    def visit_value_projection(self, node: Any, value: Any) -> Any:
        return self._measured(super().visit_value_projection(node, value))

    def visit_filter_projection(self, node: Any, value: Any) -> Any:
        return self._measured(super().visit_filter_projection(node, value))

    def _measured(self, made: Any) -> Any:
        """Return *made*; raise `_TooMuch` when it is larger than it may be."""
        size, rest, count = 0, [made], 0
        while rest:
            match rest.pop():
                case str() as text:
                    size += len(text)
                case list() as items:
                    rest += items
                case dict() as fields:
                    rest += fields.values()
                    size += sum(map(len, fields))
                case _:
                    pass
            size, count = size + 1, count + 1
            if size > self._largest or count + len(rest) > self._left:
                raise _TooMuch(f"{self._largest} characters")
        self._spend(count)
        return made

    def _spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise _TooMuch(f"{_STEPS} steps")


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    rest = [tree]
    while rest:
        node = rest.pop()
        if isinstance(node, dict):
            yield node
            rest += node.get("children", ())


def _first_line(error: ValueError) -> str:
    return (str(error).splitlines() or ["unreadable"])[0][:200]
