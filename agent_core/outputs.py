"""Outputs: what a client sends for the calls that it executes itself."""

from collections.abc import Sequence
from typing import Any

import msgspec

from agent_core import events as e
from agent_core.errors import InvalidInput
from agent_core.homes import Homes
from agent_core.messages import Text, clean
from agent_core.segments import Segments
from agent_core.state import Call, replay
from agent_core.store import log, runs
from agent_core.store.log import Place, RunRef
from agent_core.store.store import Store

MAX_OUTPUTS = 100


class ToolOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a client call: its *output*, text or any JSON, or an *error* that the model is told."""

    call: str
    output: Any = None
    error: str | None = None


class Outputs:
    """Takes outputs in."""

    def __init__(self, store: Store, homes: Homes, segments: Segments) -> None:
        self._store, self._homes, self._segments = store, homes, segments

    async def submit(self, run: str, outputs: Sequence[ToolOutput], also: Sequence[e.FactBody] = ()) -> None:
        """Let the calls of *run* end with *outputs*, all of them or none; it goes on once no client call is open.

        *also* are facts that the run is told with them. Raises `NotFound`, `InvalidInput` for a call that the run does
        not wait for, `AlreadyDecided` for one that has its output.
        """
        if not 1 <= len(outputs) <= MAX_OUTPUTS:
            raise InvalidInput("outputs", f"between 1 and {MAX_OUTPUTS} outputs.")
        ref, calls = await self._store.read(lambda connection: _calls(connection, run))
        open_calls = {call.call: call for call in calls if call.status == "pending" and call.on == "client"}
        ends = [await self._end(ref, open_calls.get(given.call), given) for given in outputs]
        await self._store.submit(run, ends, also)

    async def _end(self, run: RunRef, call: Call | None, given: ToolOutput) -> Sequence[e.FactBody]:
        parts = (Text(_text(given)),)
        outcome = "done" if given.error is None else "failed"
        if call is None:  # the transaction says what is wrong with it
            return [e.ToolCompleted(call=given.call, outcome=outcome, parts=parts, truncated=False)]
        agent = await self._segments.agent_of(run, await self._homes.get(run.session_id))
        return await self._segments.calls(run, agent).result(agent.tools[call.name], call, outcome, parts)


def _calls(connection: Any, run: str) -> tuple[RunRef, Sequence[Call]]:
    ref, _ = runs.find(connection, run)
    place = Place(ref.session, ref.session_id)
    return ref, replay(ref.id, log.facts_of_run(connection, place, ref.id, ref.first_seq, None)).calls


def _text(given: ToolOutput) -> str:
    if given.error is not None:
        return clean(given.error)
    return clean(given.output) if isinstance(given.output, str) else msgspec.json.encode(given.output).decode()
