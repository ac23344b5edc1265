"""Finds in a thread what stands in the window for long texts: look-alikes of frames take milliseconds to find."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager

from agent_core.context.entries import WindowEntry, texts_of
from agent_core.context.frames import Frames, use_of
from agent_core.context.window import Window
from agent_core.domain.events import (
    Fact,
    FactBody,
    MessageCompleted,
    MessageCorrected,
    MessageReceived,
    StepStarted,
    ToolCompleted,
)
from agent_core.domain.inbound import Inbound
from agent_core.domain.messages import Part, Text, ToolCall, ToolResult

LONG = 8_000
"""Characters of texts, in however many parts, from which on they leave the event loop: 2 ms of work for the worst."""
MANY = 500
"""Facts of a log, likewise."""


async def ready(frames: Frames, parts: Sequence[Part], results: Sequence[Part] = ()) -> bool:
    """Have *frames* know what stands for the *parts* of messages and the *results* of tools, if they are long.

    Return whether they are.
    """
    of_people, of_tools = _texts(parts, results)
    if sum(map(len, of_people)) + sum(map(len, of_tools)) <= LONG:
        return False
    if frames.marker:
        await asyncio.to_thread(_search, frames, of_people, of_tools)
    return True


@asynccontextmanager
async def ready_within(frames: Frames, inbound: Inbound) -> AsyncGenerator[None]:
    """Do as `ready` for a message that may be refused, or wait: what is not in the window at the end is forgotten.

    One with a long history is not folded here.
    """
    parts = inbound.all_parts if len(inbound.history) <= MANY else ()
    is_long = await ready(frames, parts)
    try:
        yield
    finally:
        if is_long:
            of_people, of_tools = _texts(parts, ())
            frames.forget(of_people)
            frames.forget(of_tools, of_tools=True)


async def load(entry: WindowEntry, frames: Frames, read_file: Callable[[str], Awaitable[bytes | None]]) -> None:
    """Give *entry* the files that its request JSON still needs; long texts are searched for frames in a thread."""
    if not (wanted := entry.files):
        return
    read = {blob: await read_file(blob) for blob in wanted}
    files = {blob: data for blob, data in read.items() if data is not None}
    if frames.marker and sum(len(files.get(blob, b"")) for blob in texts_of(entry.message.parts)) > LONG:
        await asyncio.to_thread(entry.load, files, frames)
    else:
        entry.load(files, frames)


async def ready_for(window: Window, facts: Iterable[Fact]) -> bool:
    """Do as `ready` for what *facts* say that are about to be applied to *window*."""
    return await ready_for_bodies(window, [fact.body for fact in facts if fact.parent_run is None])


async def ready_for_bodies(window: Window, bodies: Sequence[FactBody]) -> bool:
    """Do as `ready` for facts that are about to be appended; answers of models stand as they are."""
    answers = window.answers | {body.message for body in bodies if isinstance(body, StepStarted)}
    others = [body for body in bodies if not (isinstance(body, MessageCompleted) and body.message in answers)]
    results = [part for body in others if isinstance(body, ToolCompleted) for part in body.parts]
    return await ready(window.frames, [part for body in others for part in parts_of(body)], results)


def is_long(facts: Sequence[Fact]) -> bool:
    """Return whether a window is not folded from *facts* on the event loop: they are many, or their texts are long."""
    if len(facts) > MANY:
        return True
    left = LONG
    for fact in facts:
        parts = fact.body.parts if isinstance(fact.body, ToolCompleted) else parts_of(fact.body)
        left -= sum(len(part.text) for part in parts if isinstance(part, Text))
    return left < 0


def parts_of(body: FactBody) -> Sequence[Part]:
    """Return what a fact says as a message."""
    match body:
        case MessageReceived(parts=parts) | MessageCorrected(parts=parts) | MessageCompleted(parts=parts):
            return parts
        case _:
            return ()


def _texts(parts: Sequence[Part], results: Sequence[Part]) -> tuple[list[str], list[str]]:
    """Return the texts of people and those of tools."""
    of_people = [part.text for part in parts if isinstance(part, Text)]
    of_tools = [part.text for part in results if isinstance(part, Text)]
    for part in parts:  # a person's message may have a tool's output as its content
        if isinstance(part, ToolCall):
            of_tools.append(use_of(part))
        elif isinstance(part, ToolResult):
            of_tools.extend(each.text for each in part.parts if isinstance(each, Text))
    return of_people, of_tools


def _search(frames: Frames, of_people: Sequence[str], of_tools: Sequence[str]) -> None:
    frames.ready(of_people)
    frames.ready(of_tools, of_tools=True)
