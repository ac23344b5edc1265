"""Foreign code: what users of the product write; whatever it raises is one error, and ends nothing but its call."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import fields, replace
from typing import Any, TypeVar, cast

import msgspec

from agent_core.charts.made import NewRender
from agent_core.messages import LoadedTool, Part, Text, clean
from agent_core.tools.base import CallContext, Done, Elicitation, Outcome, Pending, Tool, ToolError, unshown
from agent_core.traces import words_of

T = TypeVar("T")


class ForeignError(Exception):
    """What foreign code raised: *kind* is the name of its type, the text that and its own, where it has one."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(words_of(error))
        self.kind = type(error).__name__


async def called(work: Callable[[], Awaitable[T]]) -> T:
    """Return what *work*, foreign code, returns; raises `ForeignError` for whatever it raises.

    Here, in the task that calls it: asyncio lets a `SystemExit` and a `KeyboardInterrupt` of a task end the process.
    Only a cancellation that was asked of this task goes on as one.
    """
    task = asyncio.current_task()
    try:
        return await work()
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        raise ForeignError(error) from error


async def use(tool: Tool, arguments: dict[str, Any], context: CallContext) -> Outcome:
    """Return the outcome of a call of *tool*, one that the log can hold; raises `ForeignError`."""
    outcome: object = await called(lambda: tool.call(arguments, context))
    match outcome:
        case Done(parts):
            try:
                _check(outcome)
                return replace(outcome, parts=tuple(map(_kept, parts)))
            except Exception as error:  # noqa: BLE001 - whatever it is, the tool has run
                return unshown(words_of(error))
        case ToolError():
            return _fit(outcome, ToolError) or ToolError("It failed, and its message is no text.")
        case Pending():
            return _fit(outcome, Pending) or unshown("it waits for what no call can wait for")
        case Elicitation():
            return _fit(outcome, Elicitation) or unshown("its question is none: it has no text, or no schema")
        case _:
            return unshown(f"a `{type(outcome).__name__}` is no outcome")


def _check(done: Done) -> None:
    """Raise TypeError where what *done* brings beside its parts is of another type."""
    renders, loaded, data = cast("tuple[Any, Any, Any]", (done.renders, done.loaded, done.data))
    if not all(_is_render(each) for each in renders):
        raise TypeError("its renders are none")
    if not all(isinstance(each, LoadedTool) for each in loaded):
        raise TypeError("its loaded tools are none")
    if not isinstance(data, str | None):
        raise TypeError("its data is no text")


def _is_render(value: Any) -> bool:
    if not isinstance(value, NewRender):
        return False
    of_its_own = cast("tuple[Any, ...]", (value.kind, value.text, value.title or "", value.payload))
    return all(isinstance(each, kind) for each, kind in zip(of_its_own, (str, str, str, dict), strict=True))


def _fit(outcome: Any, kind: type[T]) -> T | None:
    """Return *outcome* with whole characters in its texts; None where a field is not of the type that *kind* says."""
    given = {name: getattr(outcome, name) for name in (each.name for each in fields(outcome))}
    try:
        values = {name: clean(value) if isinstance(value, str) else value for name, value in given.items()}
        return msgspec.convert(values, kind)
    except msgspec.ValidationError:
        return None


def _kept(part: object) -> Part:
    """Return *part* as the log will have it; half characters in a text are replaced where all its texts are."""
    if isinstance(part, Text) and isinstance(cast("object", part.text), str):
        return part
    return msgspec.json.decode(msgspec.json.encode(part), type=Part)
