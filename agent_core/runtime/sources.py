"""Sources: ask the context sources of a run that opens, all at once and each within its bound of time."""

import asyncio
from collections.abc import Sequence
from functools import partial

import structlog
from msgspec.structs import replace

from agent_core import events as e
from agent_core.agents import Agent
from agent_core.clock import Clock
from agent_core.context.history import PromptHistory
from agent_core.context.source import ContextSource, RunOpening, Timed
from agent_core.events import Fact, FactBody
from agent_core.messages import Message, clean
from agent_core.runtime.mcp.offers import is_dynamic
from agent_core.runtime.tools.notes import ToolNotes
from agent_core.store import log
from agent_core.store.log import RunRef, SessionKey
from agent_core.store.store import Store
from agent_core.tools.base import called

TIMEOUT = 2.0
"""Seconds that the first word of an answer waits for a source, unless the source says how long; see `Timed`."""
_log = structlog.get_logger("parley.sources")


class Sources:
    """The context sources of a core, in the order in which the model reads what they give."""

    def __init__(self, store: Store, sources: Sequence[ContextSource], notes: ToolNotes) -> None:
        self._store, self._sources, self._notes = store, sources, notes

    async def asked_by(self, agent: Agent, history: PromptHistory) -> Agent:
        """Return *agent* as one whose run asks the sources, if its tools have changed; *history* is its session's."""
        if agent.has_sources or not await self._tool_changes(agent, history):
            return agent
        return replace(agent, has_sources=True)

    async def ask(
        self, run: RunRef, agent: Agent, questions: Sequence[int], history: PromptHistory
    ) -> Sequence[FactBody]:
        """Return what *run*, which answers the messages with the seqs *questions*, begins with.

        That is what has changed of its agent's tools, by its session's *history*, and what the sources give.
        """
        return [*await self._tool_changes(agent, history), *await self._ask_all(run, agent, questions)]

    async def _tool_changes(self, agent: Agent, history: PromptHistory) -> Sequence[FactBody]:
        """Return what the log lacks of the agent's tools; those of an agent that names every tool do not change."""
        return await self._notes.facts(agent, history) if is_dynamic(agent.definition) else []

    async def _ask_all(self, run: RunRef, agent: Agent, questions: Sequence[int]) -> Sequence[e.ContextAdded]:
        if not self._sources:
            return []
        place = SessionKey(run.session, run.session_id)
        facts = await self._store.read(lambda connection: log.facts_at(connection, place, questions))
        opening = _opening(run, agent, facts)
        if opening is None:
            return []
        tasks = [asyncio.create_task(_ask(source, opening)) for source in self._sources]
        try:
            await asyncio.gather(*map(partial(_within, self._store.clock), self._sources, tasks))
            pairs = zip(self._sources, tasks, strict=True)
            return [fact for source, answer in pairs for fact in _facts(source, answer)]
        finally:
            for answer in tasks:
                answer.cancel()


def _opening(run: RunRef, agent: Agent, facts: Sequence[Fact]) -> RunOpening | None:
    """Return *run* as the sources receive it; None when no message is left, such as after a deletion."""
    bodies = [fact.body for fact in facts]
    received = [body for body in bodies if isinstance(body, e.MessageReceived)]
    if not received:
        return None
    spoken = (body for body in bodies if isinstance(body, e.MessageReceived | e.MessageCorrected))
    messages = tuple(Message("user", body.parts) for body in spoken)
    return RunOpening(run.session_id, run.id, agent.id, received[-1].actor, messages)


async def _ask(source: ContextSource, opening: RunOpening) -> Sequence[e.ContextAdded]:
    """Return the facts of what *source* gives, read here: it is foreign code's too; raises `ForeignError`."""

    async def facts() -> Sequence[e.ContextAdded]:
        given, by = await source.context(opening), source.name
        return [e.ContextAdded(source=each.source, text=clean(each.text), by=by) for each in given if each.text]

    return await called(facts)


def _timeout(source: ContextSource) -> float:
    return source.timeout if isinstance(source, Timed) else TIMEOUT


async def _within(clock: Clock, source: ContextSource, answer: asyncio.Task[Sequence[e.ContextAdded]]) -> None:
    """Return when *answer* has ended, or the time of *source* has passed on *clock*."""
    timer = asyncio.ensure_future(clock.sleep(_timeout(source)))
    try:
        await asyncio.wait((answer, timer), return_when=asyncio.FIRST_COMPLETED)
    finally:
        timer.cancel()


def _facts(source: ContextSource, answer: asyncio.Task[Sequence[e.ContextAdded]]) -> Sequence[e.ContextAdded]:
    """Return the facts of one *answer*; a timeout or an error is logged, without its words, which may be secret."""
    if not answer.done():
        _log.warning("context.timeout", source=source.name, seconds=_timeout(source))
        return []
    error = asyncio.CancelledError() if answer.cancelled() else answer.exception()
    if error is not None:
        _log.warning("context.failed", source=source.name, error=getattr(error, "kind", type(error).__name__))
        return []
    return answer.result()
