"""Finds in a thread what stands in the window for long texts: look-alikes of frames take milliseconds to find."""

import asyncio
from collections.abc import Iterable, Sequence

from agent_core.context.frames import Frames
from agent_core.domain.events import Fact, MessageCompleted, MessageCorrected, MessageReceived, ToolCompleted
from agent_core.domain.messages import Part, Text

LONG = 8_000
"""Characters of a text, or of all of a log, from which on they leave the event loop: 2 ms of work for the worst."""
MANY = 500
"""Facts of a log, likewise."""


async def ready(frames: Frames, parts: Iterable[Part]) -> bool:
    """Have *frames* know what stands for the long texts among the *parts* of messages; return whether there are any."""
    long = [part.text for part in parts if isinstance(part, Text) and len(part.text) > LONG]
    if long and frames.marker:
        await asyncio.to_thread(frames.ready, long)
    return bool(long)


async def ready_for(frames: Frames, facts: Iterable[Fact]) -> bool:
    """Do as `ready` for messages among *facts* that are about to be applied to a window."""
    return await ready(frames, [part for fact in facts for part in parts_of(fact)])


def is_long(facts: Sequence[Fact]) -> bool:
    """Return whether a window is not folded from *facts* on the event loop: they are many, or their texts are long."""
    if len(facts) > MANY:
        return True
    left = LONG
    for fact in facts:
        parts = fact.body.parts if isinstance(fact.body, ToolCompleted) else parts_of(fact)
        left -= sum(len(part.text) for part in parts if isinstance(part, Text))
    return left < 0


def parts_of(fact: Fact) -> Sequence[Part]:
    """Return what a *fact* says as a message."""
    match fact.body:
        case MessageReceived(parts=parts) | MessageCorrected(parts=parts) | MessageCompleted(parts=parts):
            return parts
        case _:
            return ()
