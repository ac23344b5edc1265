"""Outputs: what a client sends for the calls that it executes itself."""

import asyncio
from collections.abc import Collection, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from agent_core import events as e
from agent_core.agents import Agent
from agent_core.controls import Controls, Defaults, Override, StepRule, check
from agent_core.errors import InvalidInput
from agent_core.loop.state import replay
from agent_core.loop.waiting import CallState
from agent_core.messages import Text, clean
from agent_core.runtime.calls import Calls
from agent_core.runtime.dispatcher import Dispatcher
from agent_core.runtime.segments import Segments
from agent_core.runtime.session_cache import SessionCache
from agent_core.store import log, runs
from agent_core.store.log import RunRef, SessionKey
from agent_core.store.store import Store

MAX_OUTPUTS = 100


class ToolOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a client call: its *output*, text or any JSON, or an *error* for the model."""

    call: str
    output: Any = None
    error: str | None = None


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to the controls of a run that is resumed.

    *next* is for its next step alone, *rules* for the steps that they name and *defaults* for all later ones. The
    *tool_context* replaces the run's own; it is passed to the tools and never shown.
    """

    next: Override | None = None
    rules: tuple[StepRule, ...] | None = None
    defaults: Defaults | None = None
    tool_context: dict[str, Any] | None = None

    def check(self, tools: Collection[str]) -> None:
        """Raise `InvalidInput` when a run with *tools* cannot follow them."""
        if self.rules is not None and self.defaults is not None and self.defaults.step_rules is not None:
            raise InvalidInput("step_rules", "they are in `defaults` too; give them once.")
        if self.next is not None:
            check(self.next, tools, at="")
        if self.defaults is not None:
            check(self.defaults, tools, at="defaults.")
        check(Controls(step_rules=self.rules, tool_context=self.tool_context), tools, at="")

    @property
    def facts(self) -> Sequence[e.FactBody]:
        """Return the facts that record them."""
        defaults = self.defaults
        if self.rules is not None:
            defaults = replace(defaults or Defaults(), step_rules=self.rules)
        return [e.ControlsChanged(next=self.next, defaults=defaults)] if self.next or defaults else []

    def __repr__(self) -> str:
        return f"Changes({self.facts})"


NO_CHANGES = Changes()


class Outputs:
    """Receives the outputs of client calls."""

    def __init__(self, store: Store, cache: SessionCache, segments: Segments, dispatcher: Dispatcher) -> None:
        self._store, self._cache, self._segments, self._dispatcher = store, cache, segments, dispatcher

    async def submit(self, run: str, outputs: Sequence[ToolOutput], changes: Changes | None = None) -> None:
        """Complete calls of *run* with *outputs*, all of them or none; see `Core.submit`."""
        if not 1 <= len(outputs) <= MAX_OUTPUTS:
            raise InvalidInput("outputs", f"between 1 and {MAX_OUTPUTS} outputs.")
        ref, calls = await self._store.read(lambda connection: _calls(connection, run))
        open_calls = {call.call: call for call in calls if call.status == "pending" and call.on == "client"}
        cached = await self._cache.get(ref.session_id, ref)
        agent = await self._segments.agent_of(ref, cached)
        calls_of, changes = self._segments.calls(ref, agent, cached), changes or NO_CHANGES
        changes.check(agent.tools)
        are_open = all(
            output.call in open_calls for output in outputs
        )  # else the transaction raises, and writes nothing
        pending = (
            self._end(calls_of, agent, open_calls[output.call] if are_open else None, output) for output in outputs
        )
        ends = await asyncio.gather(*pending)
        await self._store.submit(
            run, ends, changes.facts, changes.tool_context, lambda done: self._dispatcher.dispatch(done.run)
        )

    async def _end(
        self, calls: Calls, agent: Agent, call: CallState | None, output: ToolOutput
    ) -> Sequence[e.FactBody]:
        parts = (Text(_text(output)),)
        outcome = "done" if output.error is None else "failed"
        if call is None:  # the transaction raises the exact error
            return [e.ToolCompleted(call=output.call, outcome=outcome, parts=parts, truncated=False)]
        return await calls.result(agent.tools[call.name], call, outcome, parts)


def _calls(connection: Any, run: str) -> tuple[RunRef, Sequence[CallState]]:
    ref, _ = runs.find(connection, run)
    place = SessionKey(ref.session, ref.session_id)
    return ref, replay(ref.id, log.facts_of_run(connection, place, ref.id, ref.first_seq, None)).waiting.calls


def _text(output: ToolOutput) -> str:
    if output.error is not None:
        return clean(output.error)
    return clean(output.output) if isinstance(output.output, str) else msgspec.json.encode(output.output).decode()
