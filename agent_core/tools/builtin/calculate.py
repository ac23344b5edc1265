"""Arithmetic that cannot do anything else: bounded in length, depth, size and time."""

import ast
import math
import re
from collections.abc import Callable
from decimal import Context, Decimal, Inexact, localcontext
from fractions import Fraction
from typing import Any

import simpleeval  # pyright: ignore[reportMissingTypeStubs] - it ships none

from agent_core.tools.base import ToolError
from agent_core.tools.functions import tool

MAX_LENGTH = 500
MAX_BITS = 4096
"""Largest whole number, about 1,200 digits: far below where Python's own arithmetic becomes slow."""
MAX_PLACES = 30
EXACT_DIGITS = 28
DIGITS = 15
Number = Fraction | float

_NUMBER = r"(?:\d++(?:\.\d*+)?+|\.\d++)(?:[eE][+-]?\d++)?+(?![\w.])"
FORM = re.compile(rf"(?:\s*+(?:{_NUMBER}|[A-Za-z]\w*+|\*\*|//|[-+*/%(),]))++\s*+", re.ASCII)
# What people write, in Python's operators: caret, multiplication, division and minus sign.
SIGNS = str.maketrans({"^": "**", "\u00d7": "*", "\u00f7": "/", "\u2212": "-"})
NODES = (ast.BinOp, ast.UnaryOp, ast.Call, ast.Name, ast.Constant)


@tool(title="Calculating", title_done="Calculated", concurrency_safe=True)
async def calculate(expression: str) -> str | ToolError:
    """Calculate an arithmetic expression and return the number.

    Operators: + - * / // (whole division) % (remainder) ** (power) and parentheses. Functions: abs, round, floor,
    ceil, min, max, sqrt, exp, log (natural, or log(x, base)), log2, log10, sin, cos, tan, asin, acos, atan
    (radians). Constants: pi, e. Write numbers without thousands separators.

    Args:
        expression: At most 500 characters, such as `2 * (3 + 4) ** 2`.
    """
    if len(expression) > MAX_LENGTH:
        return ToolError(f"The expression is too long: {len(expression):,} characters, at most {MAX_LENGTH} are read.")
    try:
        return _formatted(_bounded(_evaluated(" ".join(expression.translate(SIGNS).split()))))
    except ZeroDivisionError:
        return ToolError("Division by zero: the expression has no value.")
    except OverflowError:
        return ToolError("A number in this calculation becomes too large.")
    except (RecursionError, MemoryError):
        return ToolError("The expression is nested too deeply; calculate its parts one by one.")
    except (ValueError, TypeError) as error:
        return ToolError(f"This cannot be calculated: {error}.")
    except (SyntaxError, simpleeval.InvalidExpression):
        return ToolError(
            f"`{expression[:100]}` is not arithmetic. Use numbers, + - * / // % ** and parentheses, pi, e, and the "
            f"functions {', '.join(FUNCTIONS)}; for example `2 * (3 + 4) ** 2`."
        )


def _evaluated(expression: str) -> object:
    if not FORM.fullmatch(expression):
        raise SyntaxError(expression)

    def literal(node: ast.Constant) -> Number:
        if not isinstance(node.value, float):
            return _bounded(node.value)
        if not math.isfinite(node.value):
            raise OverflowError
        # From the text, for 0.1 is one tenth; what is too small for a float would take its time.
        return Fraction(ast.get_source_segment(expression, node) or "0") if node.value else Fraction(0)

    evaluator: Any = simpleeval.SimpleEval(operators=OPERATORS, functions=FUNCTIONS, names={"pi": math.pi, "e": math.e})
    # The library also reads strings, attributes, conditions and more: arithmetic needs none of it.
    evaluator.nodes = {kind: read for kind, read in evaluator.nodes.items() if kind in NODES}
    evaluator.nodes[ast.Constant] = literal
    return evaluator.eval(expression, previously_parsed=ast.parse(expression, mode="eval").body)


def _formatted(number: Number) -> str:
    """Return *number* in digits: exactly where 28 are enough, else to 15."""
    if isinstance(number, Fraction) and number.denominator == 1:
        return str(number.numerator)
    with localcontext(Context(prec=EXACT_DIGITS)) as context:
        exact = isinstance(number, Fraction)
        value = Decimal(number.numerator) / number.denominator if exact else Decimal(number)
        if not exact or context.flags[Inexact]:
            context.prec = DIGITS
            value = +value
        value = value.normalize()
    return f"{value:f}" if -DIGITS < value.adjusted() <= DIGITS else f"{value:e}"


def _bounded(value: object) -> Number:
    """Return *value* as a number of bearable size: exact as long as it can be, or a finite float."""
    match value:
        case complex():
            raise ValueError("the result is not a real number")
        case bool():
            raise TypeError("the result is not a number")
        case int():
            return _bounded(Fraction(value))
        case Fraction() if max(value.numerator.bit_length(), value.denominator.bit_length()) <= MAX_BITS:
            return value
        case Fraction() if value.denominator != 1:
            return _bounded(float(value))
        case float() if math.isfinite(value):
            return value
        case Fraction() | float():
            raise OverflowError
        case _:
            raise TypeError("the result is not a number")


def _binary(function: Callable[[Any, Any], object]) -> Callable[[object, object], Number]:
    return lambda a, b: _bounded(function(_bounded(a), _bounded(b)))


def _negative(value: object) -> Number:
    return -_bounded(value)


def _power(a: Number, b: Number) -> object:
    if isinstance(a, float) or isinstance(b, float) or b.denominator != 1:
        return float(a) ** float(b)
    # An estimate of the result's bits, at most twice too high, before the time is spent.
    bits = max(a.numerator.bit_length(), a.denominator.bit_length())
    if bits <= 1 or bits * abs(b) <= 2 * MAX_BITS:
        return a ** int(b)
    if a.denominator == 1 and b > 0:
        raise OverflowError
    return float(a) ** float(b)


def _round(number: Number, places: Number = Fraction(0)) -> Number:
    if places != int(places) or abs(places) > MAX_PLACES:
        raise ValueError(f"`round` takes a whole number of places, at most {MAX_PLACES}")
    return _bounded(round(number, int(places)))


OPERATORS: dict[type[ast.AST], Callable[..., object]] = {
    ast.Add: _binary(lambda a, b: a + b),
    ast.Sub: _binary(lambda a, b: a - b),
    ast.Mult: _binary(lambda a, b: a * b),
    ast.Div: _binary(lambda a, b: a / b),
    ast.FloorDiv: _binary(lambda a, b: a // b),
    ast.Mod: _binary(lambda a, b: a % b),
    ast.Pow: _binary(_power),
    ast.USub: _negative,
    ast.UAdd: _bounded,
}
FUNCTIONS: dict[str, Callable[..., object]] = {
    "abs": abs,
    "round": _round,
    "floor": math.floor,
    "ceil": math.ceil,
    "min": min,
    "max": max,
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
    "log2": math.log2,
    "log10": math.log10,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "asin": math.asin,
    "acos": math.acos,
    "atan": math.atan,
}
