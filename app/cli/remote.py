"""The core's methods that a conversation needs, over HTTP: `parley chat` uses them while a server runs."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from datetime import datetime
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from agent_core.channels import Inbound
from agent_core.clock import Clock
from agent_core.errors import ConfigError
from agent_core.events import LIVE, TERMINAL, Event, Fact, Live, RunWaiting
from agent_core.ids import new_id
from agent_core.messages import Actor, text_of
from agent_core.objects import Decision, Page, Receipt, RunObject, SessionObject, may_respond
from app.cli.client import Client, Frame, ServerRefused, ServerUnavailable, Unreachable, client_of, no_server, segment
from app.settings import Settings

T = TypeVar("T", bound=msgspec.Struct)
PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0, 5.0, 10.0, 10.0)
"""Seconds between the retries of a request that found no server."""
_SETTLED = frozenset(cls.type for cls in (*TERMINAL, RunWaiting))


class Remote:
    """The core's methods over HTTP, for one conversation; failed requests that are safe to repeat are retried."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self.approvals, self.agents = RemoteApprovals(self.call), RemoteAgents(client)

    async def open_session(self, *, agent: str, actor: Actor) -> SessionObject:
        """Open a session with *agent* (id or name)."""
        body = {"agent": agent, "actor": msgspec.to_builtins(actor)}
        # Not retried: after a lost answer a second session would be opened, and the first one never used.
        return _object(SessionObject, await self.call("POST", "/v1/sessions", body, pauses=()))

    async def session(self, id: str) -> SessionObject:
        """Return a session."""
        return _object(SessionObject, await self.call("GET", f"/v1/sessions/{segment(id)}"))

    async def sessions(self, *, actor: str, limit: int) -> Page[SessionObject]:
        """Return the sessions that *actor* opened, newest first."""
        page = await self.call("GET", "/v1/sessions", actor=actor, limit=limit)
        return Page(tuple(_object(SessionObject, each) for each in page["items"]), page["next_cursor"])

    async def receive(self, session: str, inbound: Inbound) -> Receipt:
        """Post a message; its idempotency key makes a retry safe when the answer was lost."""
        body: dict[str, Any] = {
            "text": text_of(inbound.parts),
            "overlap": inbound.overlap,
            "idempotency_key": inbound.key or new_id("key"),
        }
        if inbound.controls.tool_context:
            body["controls"] = {"tool_context": inbound.controls.tool_context}
        receipt = await self.call("POST", f"/v1/sessions/{segment(session)}/messages", body)
        return Receipt(session=session, message=receipt["message_id"], run=receipt["run_id"], seq=receipt["seq"])

    async def cancel(self, run: str, *, by: Actor) -> RunObject:  # noqa: ARG002 - the server takes the key's holder
        """Cancel a run."""
        run_object = await self.call("POST", f"/v1/runs/{segment(run)}/cancel")
        return _object(RunObject, {"structured": None, **run_object, **run_object["output"]})

    def follow(self, session: str, *, after: int = 0) -> AsyncGenerator[list[Event]]:
        """Yield batches of the session's events beyond seq *after*, reconnecting as often as needed."""
        return self._follow(f"/v1/sessions/{segment(session)}/events", after, None)

    def follow_run(self, run: str, *, after: int = 0) -> AsyncGenerator[list[Event]]:
        """Yield batches of the events of a run until it ends or waits."""
        return self._follow(f"/v1/runs/{segment(run)}/events", after, run)

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        pauses: Sequence[float] = PAUSES,
        **query: str | int,
    ) -> Any:
        """Return the answer's JSON, retrying after each of *pauses*; raise `ServerRefused` or `Unreachable`."""
        for pause in (*pauses, None):
            with suppress(Unreachable, ServerUnavailable):
                return await self._client.call(method, path, body=body, **query)
            if pause is not None:
                await self._clock.sleep(pause)
        raise Unreachable(f"The server at {self._client.address} does not answer; look whether it still runs.")

    async def _follow(self, path: str, after: int, run: str | None) -> AsyncGenerator[list[Event]]:
        """Follow, and reconnect after the last fact when a connection breaks; the end of *run* ends it, None never."""
        settled, failures = False, 0
        while not settled:
            with suppress(Unreachable, ServerUnavailable):
                async with aclosing(self._client.frames(path, after=after)) as batches:
                    async for frames in batches:
                        failures = 0
                        batch = [event for frame in frames if (event := read_frame(frame)) is not None]
                        for event in batch:
                            after = event.seq if isinstance(event, Fact) else after
                            settled = _is_settled(settled, event, run)
                        if batch:
                            yield batch
            if not settled:
                if failures == len(PAUSES):
                    address = self._client.address
                    raise Unreachable(f"The connection to {address} was lost; the answer may continue there.")
                await self._clock.sleep(PAUSES[failures])
                failures += 1


class _Approval(msgspec.Struct):
    """The fields of an approval that decide whose vote counts, and how it was decided."""

    status: str
    responders: tuple[str, ...]
    asker: Actor | None
    speakers: tuple[Actor, ...]


class _Name(msgspec.Struct):
    """The name of an agent."""

    name: str


class _Agent(msgspec.Struct):
    """What is known here of an agent."""

    definition: _Name
    source: str


class RemoteAgents:
    """The agents of the server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def all(self) -> Sequence[_Agent]:
        """Return all of them."""
        return [_Agent(msgspec.convert(each, _Name), each["source"]) async for each in self._client.items("/v1/agents")]


class RemoteApprovals:
    """Where approvals are decided, over HTTP by *call*."""

    def __init__(self, call: Callable[[str, str, Any], Awaitable[Any]]) -> None:
        self._call = call

    async def get(self, id: str, /) -> _Approval:
        """Return an approval."""
        return msgspec.convert(await self._call("GET", f"/v1/approvals/{segment(id)}", None), _Approval)

    async def decide(self, decision: Decision, /) -> _Approval:
        """Send a vote in the person's own name, or as the operator (by the key) where only an operator may decide."""
        path, by = f"/v1/approvals/{segment(decision.approval)}", decision.by
        approval = await self.get(decision.approval)
        person = replace(by, is_operator=False)
        may_by_key = may_respond(approval.responders, approval.asker, by, approval.speakers)
        named = not may_by_key or may_respond(approval.responders, approval.asker, person, approval.speakers)
        body = {
            "approved": decision.approved,
            "remember": decision.remember,
            "surface": decision.surface,
            "reason": decision.reason,
            "arguments": decision.arguments,
            "actor": msgspec.to_builtins(by.actor) if named else None,
        }
        return msgspec.convert(await self._call("POST", path, body), _Approval)


async def running_server(settings: Settings) -> Client | None:
    """Return a client, to be closed, of the server that PARLEY_URL or PARLEY_DATA names; None when none runs.

    Raises ConfigError when PARLEY_URL names one that does not answer.
    """
    try:
        client = client_of(settings)
    except ConfigError:
        if settings.url is not None:
            raise
        return None
    try:
        await client.call("GET", "/healthz")
    except (Unreachable, ServerRefused, ValueError):  # a ValueError: what answers does not speak JSON
        await client.aclose()
        if settings.url is not None:
            raise no_server(settings) from None
        return None
    return client


class _Envelope(msgspec.Struct):
    """The fields that every event has besides its own."""

    time: datetime
    run: str | None = None
    parent_run: str | None = None
    session: str = ""


_ENVELOPE = msgspec.json.Decoder(_Envelope)


def read_frame(frame: Frame) -> Event | None:
    """Return the event of *frame*; None for a live event of a later version."""
    envelope = _ENVELOPE.decode(frame.data)
    place = {"session": envelope.session, "run": envelope.run, "parent_run": envelope.parent_run}
    time = _milliseconds(envelope.time)
    if frame.id is not None:
        return Fact(seq=frame.id, type=frame.type, raw=frame.data, time=time, **place)
    if frame.type not in LIVE:
        return None
    return Live(body=msgspec.json.decode(frame.data, type=LIVE[frame.type]), time=time, **place)


def _is_settled(settled: bool, event: Event, run: str | None) -> bool:  # noqa: FBT001 - the fold's state
    """Return whether *run* has ended or waits, as of *event*; a session (None) never ends."""
    if event.run != run or not isinstance(event, Fact):
        return settled
    return event.type in _SETTLED


def _object(cls: type[T], fields: dict[str, Any]) -> T:
    """Return the core's value of a JSON object, whose times are text."""
    times = {
        name: _milliseconds(datetime.fromisoformat(value))
        for name, value in fields.items()
        if name.endswith("_at") and isinstance(value, str)
    }
    return msgspec.convert({**fields, **times}, cls)


def _milliseconds(time: datetime) -> int:
    return round(time.timestamp() * 1000)
