"""What a model reads of a function: schema and descriptions; and what is refused."""

import threading
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from typing import Annotated, Any, Literal

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, ConfigDict, Field

from agent_core.tools.functions import FunctionTool, tool
from tests.agent_core.tools.typed import Colour, Place, Size
from tests.cases import for_each


def schema(made: FunctionTool) -> dict[str, Any]:
    Draft202012Validator.check_schema(made.spec.parameters)
    return made.spec.parameters


def google(city: str, days: int = 3):
    """Tell the weather.

    It comes from a satellite.

    Args:
        city (str): Name of the city.
        days: How far ahead.

    Returns:
        Words.
    """


def numpy(city: str, days: int = 3):
    """Tell the weather.

    It comes from a satellite.

    Parameters
    ----------
    city : str
        Name of the city.
    days
        How far ahead.
    """


def rest(city: str, days: int = 3):
    """Tell the weather.

    It comes from a satellite.

    :param city: Name of the city.
    :param days: How far ahead.
    """


@for_each("function", [google, numpy, rest])
def test_docstrings_come_in_three_styles(function):
    """Google, numpy and reST docstrings describe parameters alike; sections stay out of the description."""
    made = tool(function)
    assert made.spec.description == "Tell the weather.\n\nIt comes from a satellite."
    described = {name: each["description"] for name, each in schema(made)["properties"].items()}
    assert described == {"city": "Name of the city.", "days": "How far ahead."}


def test_a_plain_docstring_will_do():
    """Without sections the text is the description, and the parameters have none."""

    @tool
    def greet(who: str) -> str:
        """Greet *who*,
        politely.
        """  # noqa: D205 - people write like this
        return who

    assert greet.spec.description == "Greet *who*,\npolitely."
    assert schema(greet)["properties"] == {"who": {"type": "string"}}


def test_annotations_describe_and_limit():
    """`Annotated` with a Field describes a parameter and limits it; the docstring's word goes first."""

    @tool
    def pick(n: Annotated[int, Field(description="How many.", ge=1)], m: Annotated[int, Field(description="?")]):
        """Pick.

        Args:
            m: The docstring's word.
        """

    properties = schema(pick)["properties"]
    assert properties["n"] == {"type": "integer", "minimum": 1, "description": "How many."}
    assert properties["m"]["description"] == "The docstring's word."


def test_rich_types_have_schemas():
    """Literals, enums, lists, models, dataclasses, dates and unions become JSON Schema."""

    @tool
    def everything(
        *,
        one: Literal["a", "b"],
        two: Colour,
        three: list[Place],
        four: Size | None = None,
        five: dict[str, float] | None = None,
        six: date = date(2026, 1, 1),
        seven: Any = None,
        title: str = "",
    ) -> None:
        """Take everything."""

    found = schema(everything)
    assert found["required"] == ["one", "two", "three"]
    assert found["properties"]["one"]["enum"] == ["a", "b"]
    assert found["properties"]["six"] == {"type": "string", "format": "date", "default": "2026-01-01"}
    assert found["properties"]["title"] == {"type": "string", "default": ""}
    assert set(found["$defs"]) == {"Colour", "Place", "Size"}


def starred(*numbers: int):
    """Take many."""


def keywords(**numbers: int):
    """Take many."""


def positional(a: int, /):
    """Take one."""


def untyped(a):
    """Take one."""


def silent(a: int):
    return a


def unknown(a: "Nowhere"):  # type: ignore[name-defined] # noqa: F821
    """Take one."""


def odd_type(a: threading.Lock):  # type: ignore[valid-type]
    """Take a lock."""


def no_json(a: Callable[[], int]):
    """Take what has no schema."""


def yields() -> Iterator[int]:
    """Give many."""
    yield 1


class Lookahead(BaseModel):
    """A model whose pattern looks ahead."""

    model_config = ConfigDict(regex_engine="python-re")

    word: Annotated[str, Field(pattern="^(?!x)")]


def looks_ahead(a: Annotated[str, Field(pattern="^(?!x)")]):
    """Take one."""


def looks_ahead_within(a: Lookahead):
    """Take one."""


def in_default(a: int = Field(3)):
    """Take one."""


@for_each(
    "function, why",
    [
        (starred, r"`starred` cannot be a tool: it takes `\*numbers: int`; name each parameter"),
        (keywords, r"takes `\*\*numbers: int`; name each parameter"),
        (positional, "takes `a` by position only; remove the `/`"),
        (untyped, "does not say the type of `a`; annotate it, as in `a: str`"),
        (silent, "has no docstring; its first sentence"),
        (unknown, "has an annotation that cannot be read .*Nowhere.*; import the name"),
        (odd_type, "type JSON cannot hold; use plain types"),
        (no_json, "type JSON cannot hold; use plain types"),
        (yields, "it yields; return the whole result"),
        (in_default, r"has a Field as the default of `a`; write `Annotated\[\.\.\., Field\(\.\.\.\)\]`"),
        (looks_ahead, "has a rule that cannot be checked; leave it out of the annotation .*look-ahead.* not supported"),
        (
            looks_ahead_within,
            r"no call can be held to; leave it out .*\$defs\.Lookahead\.properties\.word\.pattern: no pa",
        ),
        (partial(google, "Bern"), "`partial` cannot be a tool: it is no function; decorate a `def`"),
    ],
)
def test_what_cannot_be_a_tool_says_why(function, why):
    """An unusable signature fails where it is written, naming the function and the remedy."""
    with pytest.raises(TypeError, match=why):
        tool(function)


@for_each("name", ["", "with space", "x" * 65, "naïve", "a.b"])
def test_names_fit_every_model(name):
    """A name that some model's wire refuses is refused at once; so is a function without one."""
    with pytest.raises(TypeError, match="no name for a tool"):
        tool(name=name or "<lambda>")(google)


def test_a_method_can_be_a_tool_once_it_is_bound():
    """A bound method is a function like any other."""

    class Shop:
        def price(self, item: str) -> str:
            """Tell the price."""
            return item

    assert list(tool(Shop().price).spec.parameters["properties"]) == ["item"]
