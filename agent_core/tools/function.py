"""Function tools: an ordinary typed Python function becomes something that a model may call."""

import asyncio
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, Literal, ParamSpec, TypeVar, cast, overload

import msgspec
import pydantic_core
from pydantic import ValidationError

from agent_core.agents import RESULT_LIMIT, ToolSpec
from agent_core.messages import Part, Text, all_clean
from agent_core.tools.base import (
    CallContext,
    Done,
    Elicitation,
    NewRender,
    Outcome,
    Pending,
    ToolError,
    UnfitFunction,
    unshown,
)
from agent_core.tools.signature import Signature
from agent_core.tools.thread import in_thread
from agent_core.traces import words_of

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What every model's wire takes as a tool's name."""
P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class FunctionTool(Generic[P, R]):
    """A tool made of *function*; calling it as Python does calls the function itself."""

    spec: ToolSpec
    function: Callable[P, R]
    signature: Signature

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    async def call(self, arguments: dict[str, Any], context: CallContext) -> Outcome:
        """Run with *arguments*, converted to what the annotations say.

        An async function is awaited. Any other runs in a thread, which cannot be stopped: after a cancel or a
        timeout it runs on to its end, and its result is dropped.
        """
        try:
            values = self.signature.read(arguments)
        except ValidationError as error:
            return ToolError(f"The arguments do not fit `{self.spec.name}`: {_problems(error)}")
        run = cast("Callable[..., object]", self.function)
        if inspect.iscoroutinefunction(run):
            return outcome(await run(**values, **self.signature.context_argument(context)))
        injected = self.signature.context_argument(_from_thread(context))
        result = await in_thread(partial(_no_stop, run, {**values, **injected}))
        return outcome(await result if inspect.isawaitable(result) else result)


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    title: str | None = None,
    title_done: str | None = None,
    untrusted: bool = False,
    effect: Literal["read", "write"] = "read",
    concurrency_safe: bool = False,
    idempotent: bool = False,
    timeout: float = 60.0,
    result_limit: int = RESULT_LIMIT,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(function: Callable[..., Any] | None = None, /, *, name: str | None = None, **options: Any) -> Any:
    """Make a tool of a function: bare, as `@tool`, or with options, as `@tool(effect="write")`.

    The model reads the name, the docstring's text and the parameters with their types, defaults and descriptions
    (Google, numpy or reST sections, or `Annotated[..., Field(description=...)]`). A parameter annotated
    `CallContext` gets the context of the call and stays unseen. The result becomes text: a string as it is,
    anything else as JSON; a Part, several of them, or an `Outcome` are taken as they are.

    *title* says to people what the tool does while it runs ("Looking up your order"), *title_done* afterwards ("Looked
    up your order"). *untrusted*: what it returns may have been written by strangers. *effect* `write` means that a
    second execution may do harm, *idempotent* that the function hands on `context.call` as an idempotency
    key, *concurrency_safe* that calls may run side by side; *timeout* is seconds, *result_limit* characters shown to
    the model. `UnfitFunction` is raised for a function that no schema fits.
    """

    def make(function: Callable[..., Any]) -> FunctionTool[..., Any]:
        signature = Signature.of(function)
        spec = ToolSpec(
            name=_named(name or function.__name__),
            description=signature.description,
            parameters=signature.schema,
            **options,
        )
        return FunctionTool(spec, function, signature)

    return make if function is None else make(function)


def outcome(result: object) -> Outcome:
    """Return *result* of a function as the outcome of its call."""
    match result:
        case Done() | ToolError() | Pending() | Elicitation():
            return result
        case NewRender():
            return Done((), (result,))
        case str():
            return Done((Text(result),))
        case _ if isinstance(result, Part):
            return Done((result,))
        case tuple() | list() if result and all(isinstance(each, Part) for each in cast("list[object]", result)):
            return Done(tuple(cast("list[Part]", result)))
        case _:
            return _json(result)


def _json(result: object) -> Done:
    """Return *result* as JSON; what half a character keeps from becoming UTF-8 is written with it in its place."""
    try:
        text = _written(result)
    except Exception as error:  # noqa: BLE001 - of the result's own code too, and the function has run
        try:
            text = _written(all_clean(result, _python))
        except Exception:  # noqa: BLE001 - as above
            return unshown(words_of(error).rpartition("Error serializing to JSON: ")[2])
    return Done((Text(text),))


def _written(result: object) -> str:
    """Return *result* as JSON, which has no NaN: that is null."""
    return pydantic_core.to_json(result, fallback=_builtins, inf_nan_mode="null").decode()


def _python(value: object) -> object:
    if isinstance(value, Iterator):
        raise TypeError("it has been read already.")
    return pydantic_core.to_jsonable_python(value, fallback=_builtins)


def _builtins(value: object) -> object:
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value)
    raise TypeError(f"a `{type(value).__name__}` cannot be shown to a model; return text, or what JSON can hold.")


def _no_stop(function: Callable[..., object], values: Mapping[str, object]) -> object:
    """Call *function* in its thread; a `StopIteration` would never arrive and leave the caller waiting."""
    try:
        return function(**values)
    except StopIteration as error:
        raise RuntimeError("the function raised StopIteration.") from error


def _from_thread(context: CallContext) -> CallContext:
    """Return *context* with a `progress` and `rows` that may be used in another thread, and by a loop of its own."""
    loop, progress = asyncio.get_running_loop(), context.progress

    def report(text: str) -> None:
        loop.call_soon_threadsafe(progress, text)

    async def rows(handle: str) -> list[dict[str, Any]]:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(context.rows(handle), loop))

    return replace(context, progress=report, rows=rows)


def _named(name: str) -> str:
    if not NAME.fullmatch(name):
        raise UnfitFunction(
            f"`{name}` is no name for a tool: use 1 to 64 letters, digits, `_` and `-`; `@tool(name=...)` sets it."
        )
    return name


def _problems(error: ValidationError) -> str:
    return "; ".join(
        f"`{'.'.join(str(step) for step in each['loc'])}`: {each['msg']}" for each in error.errors(include_url=False)
    )
