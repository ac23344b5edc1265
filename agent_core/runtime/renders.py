"""Renders: what a call shows to people, as facts."""

from collections.abc import Sequence

import msgspec
import structlog

from agent_core.domain.events import RenderShown
from agent_core.domain.messages import clean
from agent_core.loop.waiting import CallState
from agent_core.tools.base import NewRender

MAX_RENDER = 256_000
"""Bytes of JSON that a render may have: it is in the log, and in every stream of the session."""
_log = structlog.get_logger("parley.renders")


def shown_by(call: CallState, renders: Sequence[NewRender]) -> list[RenderShown]:
    """Return the facts that show *renders* of *call*, without those that are too large or cannot be written as JSON.

    Ids derive from the call's, so that a call which runs again after a crash shows the same renders.
    """
    found: list[RenderShown] = []
    for n, render in enumerate(renders):
        fact = RenderShown(
            render=f"ren_{call.call.partition('_')[2]}.{n + 1}",
            call=call.call,
            kind=clean(render.kind),
            title=clean(render.title) if render.title else None,
            payload=render.payload,
            text=clean(render.text),
        )
        if problem := _problem(fact):
            _log.warning("render.dropped", tool=call.name, kind=fact.kind, problem=problem)
        else:
            found.append(fact)
    return found


def _problem(fact: RenderShown) -> str | None:
    """Return why *fact* cannot be in the log, None when it can."""
    try:
        size = len(msgspec.json.encode(fact))
    except (TypeError, ValueError, OverflowError, RecursionError):  # a lone surrogate is a ValueError too
        return "not JSON"
    return f"{size} bytes" if size > MAX_RENDER else None
