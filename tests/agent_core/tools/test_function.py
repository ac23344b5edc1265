"""Function tools: a typed function with a docstring is all that a tool takes."""

import asyncio
import math
import threading
from datetime import date
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from agent_core.messages import File, Render, Text
from agent_core.testing import FakeClock
from agent_core.tools.base import CallContext, Done, Pending, Tool, ToolError
from agent_core.tools.functions import FunctionTool, tool
from tests.agent_core.raising import Mute
from tests.agent_core.stage import ANN
from tests.agent_core.tools.typed import Colour, Place, Size
from tests.cases import for_each
from tests.polling import PATIENCE


class Grade(msgspec.Struct):
    """A mark."""

    mark: int


@tool
async def add(a: int, b: int = 1) -> int:
    """Add two numbers.

    Args:
        a: The first one.
        b: The second one,
            on two lines.
    """
    return a + b


def context(progress=print) -> CallContext:
    return CallContext(
        call="call_1", session="ses_1", run="run_1", actor=ANN, channel="api", clock=FakeClock(), progress=progress
    )


async def use(made: Tool, /, **arguments: Any):
    return await made.call(arguments, context())


async def text(made: Tool, /, **arguments: Any) -> str:
    outcome = await use(made, **arguments)
    assert isinstance(outcome, Done)
    [part] = outcome.parts
    assert isinstance(part, Text)
    return part.text


def schema(made: FunctionTool) -> dict[str, Any]:
    Draft202012Validator.check_schema(made.spec.parameters)
    return made.spec.parameters


def test_a_bare_decorator_is_enough():
    """Name, description, types, defaults and descriptions come from the function itself."""
    made: Tool = add
    assert (made.spec.name, made.spec.description) == ("add", "Add two numbers.")
    assert schema(add) == {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "description": "The first one."},
            "b": {"type": "integer", "description": "The second one,\non two lines.", "default": 1},
        },
        "required": ["a"],
        "additionalProperties": False,
    }


def test_the_defaults_are_careful():
    """A tool without options reads, runs alone, and has a minute and 50,000 characters."""
    spec = add.spec
    assert (spec.effect, spec.concurrency_safe, spec.idempotent) == ("read", False, False)
    assert (spec.timeout, spec.result_limit) == (60.0, 50_000)


def test_options_are_kept():
    """Every option arrives in the spec."""

    @tool(name="post-it", effect="write", concurrency_safe=True, idempotent=True, timeout=5, result_limit=10)
    def post(text: str) -> None:
        """Post it."""

    spec = post.spec
    assert spec.name == "post-it"
    assert (spec.effect, spec.concurrency_safe, spec.idempotent) == ("write", True, True)
    assert (spec.timeout, spec.result_limit) == (5, 10)


async def test_the_function_stays_a_function():
    """What was decorated can be called as before."""
    assert await add(2, b=3) == 5


async def test_arguments_become_what_the_annotations_say():
    """A model's JSON arrives as enums, models and dates; what it left out is the function's own default."""
    got = []

    @tool
    def take(two: Colour, three: list[Place], six: date, seven: float = 0.5) -> None:
        """Take."""
        got.append((two, three, six, seven))

    await use(take, two="red", three=[{"x": 1}], six="2026-11-21")
    assert got == [(Colour.RED, [Place(x=1)], date(2026, 11, 21), 0.5)]


async def test_wrong_arguments_are_explained():
    """What does not fit even after the schema's check is reported to the model by name."""

    @tool
    def when(day: date) -> None:
        """Take a day."""

    outcome = await use(when, day="yesterday")
    assert isinstance(outcome, ToolError)
    assert outcome.message.startswith("The arguments do not fit `when`: `day`: Input should be a valid date")
    outcome = await use(when, day="2026-01-01", night=1)
    assert isinstance(outcome, ToolError)
    assert "`night`: Extra inputs" in outcome.message


async def test_parameters_may_have_any_name():
    """Names that the schema library uses itself, or that begin with an underscore, are names like others."""

    @tool
    def odd(copy: int, model_config: int, schema: int, _x: int = 4, json: int = 5, p0: int = 6) -> list[int]:
        """Take odd names."""
        return [copy, model_config, schema, _x, json, p0]

    assert list(odd.spec.parameters["properties"]) == ["copy", "model_config", "schema", "_x", "json", "p0"]
    assert await text(odd, copy=1, model_config=2, schema=3, p0=7) == "[1,2,3,4,5,7]"


async def test_the_context_is_passed_unseen():
    """A parameter annotated `CallContext` gets the call's context and is not in the schema."""

    @tool
    async def who(word: str, ctx: CallContext) -> str:
        """Say the call's id."""
        return f"{word} {ctx.call}"

    assert list(schema(who)["properties"]) == ["word"]
    assert await text(who, word="I am") == "I am call_1"
    outcome = await use(who, word="I am", ctx="forged")
    assert isinstance(outcome, ToolError)


async def test_no_parameters_are_fine():
    """A tool without parameters has an empty object as its schema."""

    @tool
    def ping() -> str:
        """Answer."""
        return "pong"

    assert schema(ping) == {"type": "object", "properties": {}, "additionalProperties": False}
    assert await text(ping) == "pong"


async def test_sync_functions_run_in_a_thread():
    """A blocking function does not hold the event loop, and may still tell its progress from its thread."""
    release, lines, threads = threading.Event(), [], []

    @tool
    def slow(ctx: CallContext) -> str:
        """Wait for the test."""
        ctx.progress("waiting")
        release.wait(PATIENCE)
        return "done"

    def progress(line):
        lines.append(line)
        threads.append(threading.current_thread())
        release.set()

    outcome = await slow.call({}, context(progress))
    assert outcome == Done((Text("done"),))
    assert lines == ["waiting"]
    assert threads == [threading.main_thread()]


async def test_async_functions_run_in_the_loop():
    """An async function is awaited where it is."""
    seen = []

    @tool
    async def here() -> None:
        """Note the loop."""
        seen.append(asyncio.get_running_loop())

    await use(here)
    assert seen == [asyncio.get_running_loop()]


async def test_a_sync_function_may_give_an_awaitable():
    """A wrapper around an async function works as one."""

    async def later(n: int) -> int:
        return n

    @tool
    def wrapped(n: int):
        """Pass it on."""
        return later(n)

    assert await text(wrapped, n=3) == "3"


async def test_exceptions_are_left_to_the_caller():
    """What a function raises comes out of the call, even where a thread would lose it."""

    @tool
    def boom() -> None:
        """Break."""
        raise LookupError("nothing there")

    @tool
    def stop() -> None:
        """Stop an iteration that does not run."""
        raise StopIteration

    with pytest.raises(LookupError, match="nothing there"):
        await use(boom)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await use(stop)


RENDER, FILE = Render("ren_1"), File("blob_1", "a.csv", "text/csv", 3)


@for_each(
    "returned, expected",
    [
        ("as it is", Done((Text("as it is"),))),
        ("", Done((Text(""),))),
        (RENDER, Done((RENDER,))),
        ((RENDER, Text("t")), Done((RENDER, Text("t")))),
        ([FILE], Done((FILE,))),
        (Done((RENDER,)), Done((RENDER,))),
        (ToolError("no"), ToolError("no")),
        (Pending("client"), Pending("client")),
        (None, Done((Text("null"),))),
        (3, Done((Text("3"),))),
        (math.nan, Done((Text("null"),))),
        ({"é": [1, 2.5, True]}, Done((Text('{"é":[1,2.5,true]}'),))),
        ([], Done((Text("[]"),))),
        ([RENDER, 1], Done((Text('[{"type":"render","render":"ren_1"},1]'),))),
        (date(2026, 1, 1), Done((Text('"2026-01-01"'),))),
        (Place(x=1), Done((Text('{"x":1,"y":0}'),))),
        (Size(2), Done((Text('{"width":2}'),))),
        (Grade(1), Done((Text('{"mark":1}'),))),
        ([Colour.RED], Done((Text('["red"]'),))),
        ({"a\ud83d": ["cut \ud83d", Grade(1)]}, Done((Text('{"a\ufffd":["cut \ufffd",{"mark":1}]}'),))),
        ({date(2026, 1, 1): ["\ud83d", math.nan]}, Done((Text('{"2026-01-01":["\ufffd",null]}'),))),
    ],
)
async def test_results_become_outcomes(returned, expected):
    """Text stays text, Parts and Outcomes stay what they are, anything else becomes JSON."""

    @tool
    async def give():
        """Give it."""
        return returned

    assert await use(give) == expected


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@for_each(
    "returned, why",
    [
        (threading.Lock(), "TypeError: a `lock` cannot be shown to a model; return text, or what JSON can hold"),
        ({Mute(): 1}, "TypeError: a `Mute` cannot be shown to a model; return text, or what JSON can hold"),
        (b"\xff", "invalid utf-8 sequence of 1 bytes from index 0"),
        (CIRCLE, "ValueError: Circular reference detected (id repeated)"),
        (
            iter(["\ud83d"]),
            "UnicodeEncodeError: 'utf-8' codec can't encode character '\\ud83d' in position 0: surrogates not allowed",
        ),
    ],
)
async def test_a_result_that_is_not_json_is_not_shown(returned: object, why: str):
    """The function ran: its call is done, and says why nothing is seen of it."""

    @tool
    async def give() -> object:
        """Give it."""
        return returned

    assert await text(give) == f"It ran; its result cannot be shown ({why})."


@given(st.integers(), st.integers())
async def test_what_fits_the_schema_fits_the_function(a, b):
    """Arguments that pass the schema run the function with just these values."""
    Draft202012Validator(add.spec.parameters).validate({"a": a, "b": b})
    assert await text(add, a=a, b=b) == str(a + b)
