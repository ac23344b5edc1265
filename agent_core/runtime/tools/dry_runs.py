"""Dry runs: an operator's call of one tool outside of any session. What a tool writes is written."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from agent_core.clock import Clock
from agent_core.controls import check_tool_context
from agent_core.ids import new_id
from agent_core.messages import Actor, CallOutcome, Part, Text, clean, text_of
from agent_core.schemas import problems
from agent_core.tools.base import CallContext, Done, Elicitation, ForeignError, Outcome, Pending, Tool, ToolError, use

CHANNEL = "api"
MAX_PROGRESS = 100
"""Lines of progress that are returned."""
_CANCEL_TIMEOUT = 0.5


class DryRunRender(msgspec.Struct, frozen=True, kw_only=True):
    """What a dry run would show to people."""

    kind: str
    title: str | None
    text: str


class DryRun(msgspec.Struct, frozen=True, kw_only=True):
    """How a dry run ended: *text* is what a model would read of its *parts*, cut as for a model if *truncated*.

    *call* is the id that the tool got, its idempotency key; *progress* are the lines that it showed meanwhile.
    """

    call: str
    outcome: CallOutcome
    text: str
    parts: tuple[Part, ...]
    renders: tuple[DryRunRender, ...]
    truncated: bool
    progress: tuple[str, ...]
    duration_ms: int


async def dry_run(
    tool: Tool, arguments: dict[str, Any], *, by: Actor, clock: Clock, tool_context: Mapping[str, Any] | None = None
) -> DryRun:
    """Call *tool* for *by*, with the checks, the timeout and the cut of a run; raises `InvalidInput`.

    No hook is asked, and there are no rows of a session.
    """
    check_tool_context(tool_context)
    call, progress = new_id("call"), list[str]()
    context = CallContext(
        call=call,
        session="",
        run="",
        actor=by,
        channel=CHANNEL,
        clock=clock,
        progress=lambda line: progress.append(clean(line)) if len(progress) < MAX_PROGRESS else None,
        tool_context=tool_context or {},
    )
    began = time.perf_counter()
    outcome = await asyncio.to_thread(_unfit, tool, arguments) or await _called(tool, arguments, context)
    milliseconds = int((time.perf_counter() - began) * 1000)
    ended, parts, renders = _end(tool, outcome)
    shown, truncated = _cut(parts, tool.spec.result_limit)
    return DryRun(
        call=call,
        outcome=ended,
        text=text_of(shown),
        parts=shown,
        renders=renders,
        truncated=truncated,
        progress=tuple(progress),
        duration_ms=milliseconds,
    )


def _unfit(tool: Tool, arguments: dict[str, Any]) -> ToolError | None:
    faults = problems(tool.spec.parameters, arguments)
    listed = "; ".join(map(str, faults))
    return ToolError(f"The arguments do not fit the schema of `{tool.spec.name}`: {listed}") if faults else None


async def _called(tool: Tool, arguments: dict[str, Any], context: CallContext) -> Outcome | None:
    """Return the outcome, None when *tool* did not answer in time; one that ignores its end is left alone."""
    name, work = tool.spec.name, asyncio.ensure_future(use(tool, arguments, context))
    try:
        await asyncio.wait((work,), timeout=tool.spec.timeout)
    finally:
        if not work.done():
            work.cancel()
            await asyncio.wait((work,), timeout=_CANCEL_TIMEOUT)
            work.add_done_callback(lambda done: done.cancelled() or done.exception())
    if not work.done() or work.cancelled():
        return None
    try:
        return work.result()
    except ForeignError as error:
        return ToolError(f"`{name}` failed: {error}")


def _end(tool: Tool, outcome: Outcome | None) -> tuple[CallOutcome, Sequence[Part], tuple[DryRunRender, ...]]:
    match outcome:
        case Done(parts, renders):
            shown = tuple(DryRunRender(kind=each.kind, title=each.title, text=clean(each.text)) for each in renders)
            texts = () if text_of(parts) else tuple(Text(each.text) for each in shown)
            return "done", (*parts, *texts), shown
        case ToolError(message, unknown):
            return "unknown" if unknown else "failed", (Text(message),), ()
        case Elicitation(title):
            return "failed", (Text(f"It asks a person, which only a run can: {title}"),), ()
        case Pending(on):
            return "failed", (Text(f"It waits for something ({on}), which only a run can."),), ()
        case None:
            text = f"`{tool.spec.name}` did not answer within {tool.spec.timeout:g} s."
            return "unknown" if tool.spec.effect == "write" else "failed", (Text(text),), ()


def _cut(parts: Sequence[Part], limit: int) -> tuple[tuple[Part, ...], bool]:
    """Return *parts* with at most *limit* characters of text, and whether that is less than there was."""
    length, left, result = 0, limit, list[Part]()
    for part in parts:
        if not isinstance(part, Text):
            result.append(part)
            continue
        text = clean(part.text)
        length += len(text)
        if left > 0:
            result.append(Text(text[:left]))
        left -= len(text)
    if length <= limit:
        return tuple(result), False
    return (*result, Text(f"[Cut after {limit} of {length} characters.]")), True
