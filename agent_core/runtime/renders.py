"""Renders: what a call shows to people, as facts."""

from collections.abc import Sequence

import msgspec
import structlog

from agent_core.charts.made import MAX_RENDER, NewRender
from agent_core.events import RenderShown
from agent_core.loop.waiting import CallState
from agent_core.messages import clean
from agent_core.tools.base import render_id

__all__ = ["MAX_RENDER", "shown_by"]
_log = structlog.get_logger("parley.renders")


def shown_by(call: CallState, renders: Sequence[NewRender]) -> list[RenderShown]:
    """Return the facts that show *renders* of *call*, without those that are too large or cannot be written as JSON.

    Ids derive from the call's, so that a call which runs again after a crash shows the same renders.
    """
    result: list[RenderShown] = []
    for n, render in enumerate(renders):
        fact = RenderShown(
            render=render_id(call.call, n + 1),
            call=call.call,
            kind=clean(render.kind),
            title=clean(render.title) if render.title else None,
            payload=render.payload,
            text=clean(render.text),
        )
        if problem := _problem(fact):
            _log.warning("render.dropped", tool=call.name, kind=fact.kind, problem=problem)
        else:
            result.append(fact)
    return result


def _problem(fact: RenderShown) -> str | None:
    """Return why *fact* cannot be in the log, None when it can."""
    try:
        size = len(msgspec.json.encode(fact))
    except (TypeError, ValueError, OverflowError, RecursionError):  # a lone surrogate is a ValueError too
        return "not JSON"
    return f"{size} bytes" if size > MAX_RENDER else None
