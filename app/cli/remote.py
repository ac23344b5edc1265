"""The core as a conversation needs it, over HTTP: what `parley chat` talks to while a server runs."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
import msgspec
from msgspec.structs import replace

from agent_core import (
    Actor,
    Clock,
    ConfigError,
    Decision,
    Event,
    Fact,
    Inbound,
    Live,
    ParleyError,
    Receipt,
    RunObject,
    SessionObject,
    may_respond,
    new_id,
    text_of,
)
from agent_core.domain.events import LIVE, TERMINAL, RunWaiting
from app.cli.client import Refused, credential, detail_of, nobody, server_url
from app.cli.frames import Frame, Frames
from app.settings import Settings

T = TypeVar("T", bound=msgspec.Struct)
TIMEOUT = httpx.Timeout(30.0, read=60.0)
"""Seconds; a silent stream sends a comment every 15 s, so that 60 s of nothing is a lost connection."""
PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0, 5.0, 10.0, 10.0)
"""Seconds between tries to reach a server that does not answer."""
_UNAVAILABLE = frozenset({502, 503, 504})
_SETTLED = frozenset(cls.type for cls in (*TERMINAL, RunWaiting))


class Unreachable(ParleyError):
    """The server does not answer."""

    code = "unreachable"


class Remote:
    """One client's connection to a server; *http* knows its address and the key. Close *http* at the end."""

    def __init__(self, http: httpx.AsyncClient, clock: Clock) -> None:
        self._http, self._clock = http, clock
        self.approvals = Desk(self.call)

    async def open_session(self, *, agent: str, actor: Actor) -> SessionObject:
        """Open a session with *agent* (id or name)."""
        body = {"agent": agent, "actor": msgspec.to_builtins(actor)}
        # Not repeated: a lost answer would leave a session behind that nobody knows of.
        return _object(SessionObject, await self.call("POST", "/v1/sessions", body, pauses=()))

    async def session(self, id: str) -> SessionObject:
        """Return a session."""
        return _object(SessionObject, await self.call("GET", f"/v1/sessions/{_path(id)}"))

    async def receive(self, session: str, inbound: Inbound) -> Receipt:
        """Post a message; its key makes it safe to send again when the answer was lost."""
        body = {
            "text": text_of(inbound.parts),
            "overlap": inbound.overlap,
            "idempotency_key": inbound.key or new_id("key"),
        }
        found = await self.call("POST", f"/v1/sessions/{_path(session)}/messages", body)
        return Receipt(session=session, message=found["message_id"], run=found["run_id"], seq=found["seq"])

    async def cancel(self, run: str, *, by: Actor) -> RunObject:  # noqa: ARG002 - the server knows who holds the key
        """Stop a run."""
        found = await self.call("POST", f"/v1/runs/{_path(run)}/cancel")
        return _object(RunObject, {"structured": None, **found, **found["output"]})

    def follow(self, session: str, *, after: int = 0) -> AsyncGenerator[list[Event]]:
        """Yield batches of the session's events beyond seq *after*, over as many connections as it takes."""
        return self._follow(f"/v1/sessions/{_path(session)}/events", after, None)

    def follow_run(self, run: str, *, after: int = 0) -> AsyncGenerator[list[Event]]:
        """Yield batches of the events of a run until it ends or waits."""
        return self._follow(f"/v1/runs/{_path(run)}/events", after, run)

    async def call(self, method: str, path: str, body: Any = None, *, pauses: Sequence[float] = PAUSES) -> Any:
        """Return the answer's JSON; raise `Refused` with the server's own words, or `Unreachable`."""
        for pause in (*pauses, None):
            with suppress(httpx.TransportError):
                found = await self._http.request(method, path, json=body)
                if found.status_code not in _UNAVAILABLE:
                    return _checked(found).json()
            if pause is not None:
                await self._clock.sleep(pause)
        raise Unreachable(f"The server at {self._http.base_url} does not answer; look whether it still runs.")

    async def _follow(self, path: str, after: int, run: str | None) -> AsyncGenerator[list[Event]]:
        """Follow, and take up the thread where a connection broke off; *run* is the one whose end is the end."""
        settled, failures = False, 0
        while not settled:
            with suppress(httpx.TransportError):
                async with aclosing(self._stream(path, after)) as batches:
                    async for batch in batches:
                        failures = 0
                        for event in batch:
                            after = event.seq if isinstance(event, Fact) else after
                            settled = _is_settled(settled, event, run)
                        if batch:
                            yield batch
            if not settled:
                if failures == len(PAUSES):
                    raise Unreachable(f"The connection to {self._http.base_url} was lost; the answer may go on there.")
                await self._clock.sleep(PAUSES[failures])
                failures += 1

    async def _stream(self, path: str, after: int) -> AsyncGenerator[list[Event]]:
        """Yield the events of one connection, those of one read together; first nothing, when it stands."""
        headers = {"Last-Event-ID": str(after), "Accept": "text/event-stream"}
        async with self._http.stream("GET", path, headers=headers, timeout=TIMEOUT) as found:
            if found.status_code in _UNAVAILABLE:
                return
            if found.is_error:
                await found.aread()
            _checked(found)
            yield []
            frames = Frames()
            async for chunk in found.aiter_bytes():
                events = [event for frame in frames.feed(chunk) if (event := read_frame(frame)) is not None]
                if events:
                    yield events


class _Asked(msgspec.Struct):
    """What of an approval tells who may decide."""

    responders: tuple[str, ...]
    asker: Actor | None
    speakers: tuple[Actor, ...]


class Desk:
    """Where questions to people are answered, as *call* reaches it."""

    def __init__(self, call: Callable[[str, str, Any], Awaitable[Any]]) -> None:
        self._call = call

    async def decide(self, decision: Decision, /) -> None:
        """Give a vote in the person's own name; as an operator, by the key, only where operators alone are asked."""
        path, by = f"/v1/approvals/{_path(decision.approval)}", decision.by
        asked = msgspec.convert(await self._call("GET", path, None), _Asked)
        person = replace(by, is_operator=False)
        may_by_key = may_respond(asked.responders, asked.asker, by, asked.speakers)
        named = not may_by_key or may_respond(asked.responders, asked.asker, person, asked.speakers)
        given = {
            "approved": decision.approved,
            "remember": decision.remember,
            "surface": decision.surface,
            "reason": decision.reason,
            "arguments": decision.arguments,
            "actor": msgspec.to_builtins(by.actor) if named else None,
        }
        await self._call("POST", path, given)


async def running_server(settings: Settings) -> httpx.AsyncClient | None:
    """Return a connection to the server that PARLEY_URL or PARLEY_DATA names, None when none is noted there.

    Raises ConfigError when PARLEY_URL names one that does not answer.
    """
    try:
        url, key = server_url(settings), credential(settings)
    except ConfigError:
        if settings.url is not None:
            raise
        return None
    http = httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=TIMEOUT, trust_env=False)
    try:
        (await http.get("/healthz")).raise_for_status()
    except httpx.HTTPError:
        await http.aclose()
        if settings.url is not None:
            raise nobody(settings) from None
        return None
    return http


class _Envelope(msgspec.Struct):
    """What stands around an event's own fields."""

    time: datetime
    run: str | None = None
    parent_run: str | None = None
    session: str = ""


_ENVELOPE = msgspec.json.Decoder(_Envelope)


def read_frame(frame: Frame) -> Event | None:
    """Return the event of *frame*; None for a live event of a later version."""
    found = _ENVELOPE.decode(frame.data)
    place = {"session": found.session, "run": found.run, "parent_run": found.parent_run}
    time = _milliseconds(found.time)
    if frame.id is not None:
        return Fact(seq=frame.id, type=frame.type, raw=frame.data, time=time, **place)
    if frame.type not in LIVE:
        return None
    return Live(body=msgspec.json.decode(frame.data, type=LIVE[frame.type]), time=time, **place)


def _is_settled(settled: bool, event: Event, run: str | None) -> bool:  # noqa: FBT001 - the fold's state
    """Tell whether *run* has ended or waits, as of *event*; a session (None) never ends."""
    if event.run != run or not isinstance(event, Fact):
        return settled
    return event.type in _SETTLED


def _checked(found: httpx.Response) -> httpx.Response:
    if found.is_error:
        raise Refused(found.status_code, detail_of(found))
    return found


def _object(cls: type[T], found: dict[str, Any]) -> T:
    """Return the core's value of what travelled as JSON: its times are text there."""
    times = {
        name: _milliseconds(datetime.fromisoformat(value))
        for name, value in found.items()
        if name.endswith("_at") and isinstance(value, str)
    }
    return msgspec.convert({**found, **times}, cls)


def _milliseconds(time: datetime) -> int:
    return round(time.timestamp() * 1000)


def _path(id: str) -> str:
    """Return *id* as one step of a path, whatever is in it."""
    return quote(id, safe="")
