"""The bus on Postgres: one connection that listens and reads, one that writes, both reopened when they are lost."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, cast

import asyncpg  # pyright: ignore[reportMissingTypeStubs] - it has none
import msgspec
import structlog
from sqlalchemy import Connection, TextClause, text

from agent_core.counters import histogram
from agent_core.errors import ParleyError, Unavailable
from agent_core.events import Fact, Live
from agent_core.ids import new_id
from agent_core.store.codes import CODES
from agent_core.store.database import Database
from agent_core.store.hub import Hub
from agent_core.store.log import RunRef
from agent_core.store.postgres.dsn import for_asyncpg
from agent_core.store.postgres.incoming import Incoming
from agent_core.store.postgres.outgoing import Batch, Outgoing

CHANNEL = "parley"
NAMES = {"read": "parley-bus", "write": "parley-bus-write"}
"""What the connections call themselves: the listening ones of the others are counted."""
GAP = 0.015
"""Seconds between two flushes, at least; one and a half times what a flush takes, if that is more."""
BREATH = 0.005
"""Seconds between two readings, at least: what several processes publish in that time is read at once."""
POLL = 1.5
"""Seconds after which everything watched is read without a notification: one may be lost."""
TIDY = 30.0
TIMEOUT = 5.0
LAST = 2.0
_PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0)

_log = structlog.get_logger("parley.bus")
_ENTRIES = msgspec.json.Decoder(list[Any])

# One statement is one transaction: the notifications go out with the rows that they speak of.
_FLUSH = f"""
WITH over AS (
    DELETE FROM live USING unnest($1::bigint[], $2::bigint[], $3::int[], $4::bigint[]) AS o(session, run, epoch, n)
    WHERE live.session = o.session AND live.run = o.run AND live.epoch = o.epoch AND live.n <= o.n
), kept AS (
    INSERT INTO live (session, run, epoch, n, data)
    SELECT * FROM unnest($5::bigint[], $6::bigint[], $7::int[], $8::bigint[], $9::bytea[])
)
SELECT pg_notify('{CHANNEL}', note) FROM unnest($10::text[]) AS note
"""  # noqa: S608 - the channel is our own word
# The subqueries are sorted so that Postgres looks each session up by the key of its log.
_BEGIN = f"""
SELECT w.id, s.key, s.next_seq - 1, r.key, r.id, p.id, e.seq, e.type, e.time, e.data
FROM unnest($1::text[]) AS w(id) JOIN session s ON s.id = w.id
LEFT JOIN run r ON r.session = s.key AND r.status = 'running'
LEFT JOIN run p ON p.key = r.parent
LEFT JOIN LATERAL (
    SELECT seq, type, time, data FROM event
    WHERE session = s.key AND run = r.key AND type IN ({CODES["step.started"]}, {CODES["message.completed"]})
    ORDER BY seq DESC LIMIT 1
) e ON true
"""  # noqa: S608 - the codes are our own numbers
_LEARN = """
SELECT w.id, s.key, e.seq, e.type, e.time, e.data, e.run, r.id, p.id
FROM unnest($1::text[], $2::bigint[]) AS w(id, seq) LEFT JOIN session s ON s.id = w.id
LEFT JOIN LATERAL (
    SELECT seq, type, time, data, run FROM event WHERE session = s.key AND seq > w.seq ORDER BY seq
) e ON true
LEFT JOIN run r ON r.key = e.run LEFT JOIN run p ON p.key = r.parent
ORDER BY w.id, e.seq
"""
_SHOW = """
SELECT c.run, l.epoch, l.n, l.data
FROM unnest($1::bigint[], $2::bigint[], $3::int[], $4::bigint[]) AS c(session, run, epoch, n)
CROSS JOIN LATERAL (
    SELECT epoch, n, data FROM live
    WHERE session = c.session AND run = c.run AND (live.epoch, live.n) > (c.epoch, c.n) ORDER BY epoch, n
) l
ORDER BY c.run, l.epoch, l.n
"""
_OTHERS = f"""
SELECT count(*) FROM pg_stat_activity
WHERE application_name = '{NAMES["read"]}' AND datname = current_database() AND pid <> pg_backend_pid()
"""  # noqa: S608 - the name is our own word
# A flush may be deleting the same rows: what is locked is left to it, so that neither waits for the other.
_TIDY = text("""
DELETE FROM live WHERE ctid IN (
    SELECT ctid FROM live WHERE (run, epoch) IN (
        SELECT DISTINCT run, epoch FROM live EXCEPT SELECT key, epoch FROM run WHERE status = 'running'
    ) FOR UPDATE SKIP LOCKED
)
""")


class _Outage:
    """Says once that the database is away, and once that it is back."""

    def __init__(self) -> None:
        self._away: dict[str, int] = {}

    def begin(self, who: str, error: BaseException) -> float:
        """Return how many seconds to wait before the next try."""
        if not self._away:
            _log.warning("bus.lost", error=type(error).__name__)
        tries = self._away[who] = self._away.get(who, 0) + 1
        return _PAUSES[min(tries, len(_PAUSES)) - 1]

    def end(self, who: str) -> None:
        if self._away.pop(who, 0) and not self._away:
            _log.info("bus.back")


class PostgresBus:
    """Publishes what happens here to the other processes on the Postgres at *url*, and receives what happens there.

    *database* is the same, for what is cleared away now and then. Two connections besides those of *database*.
    *flushes* are the seconds that each flush took, and *rows* what they wrote of text, for those who watch.
    """

    def __init__(self, url: str, database: Database) -> None:
        self._url, self._database = for_asyncpg(url), database
        self._name = new_id("bus")
        self._outgoing = Outgoing()
        self._incoming = Incoming(self._outgoing)
        self._flush_wanted, self._read_wanted, self._listening, self._ended = (asyncio.Event() for _ in range(4))
        self._outage = _Outage()
        self.flushes, self.rows = histogram("parley_bus_flush_seconds", "Flushes to the other processes."), 0
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, hub: Hub, wake: Callable[[int], None], interrupt: Callable[[int], object]) -> None:
        """Begin to listen; raises `Unavailable` when the database does not let us."""
        self._hub, self._wake, self._interrupt = hub, wake, interrupt
        self._incoming.hub = hub
        works = (self._forever("write", self._write), self._forever("read", self._read), self._tidy_up())
        self._tasks = [asyncio.create_task(work, name="parley-bus") for work in works]
        try:
            async with asyncio.timeout(TIMEOUT):
                await self._listening.wait()
        except TimeoutError:
            await self.stop()
            raise Unavailable(
                "The database does not let this process listen; connect to it without a pooler."
            ) from None

    async def stop(self) -> None:
        """Flush what is pending, and stop listening."""
        self._ended.set()
        self._flush_wanted.set()
        self._read_wanted.set()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=LAST)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def facts(self, facts: Sequence[Fact]) -> None:
        if self._outgoing.facts(facts):
            self._flush_wanted.set()
        self._incoming.facts(facts)

    def live(self, run: RunRef, event: Live) -> bool:
        ours, tells = self._outgoing.live(run, event)
        if tells:
            self._flush_wanted.set()
        return ours

    def release(self, run: RunRef) -> None:
        if self._outgoing.release(run.id, run.epoch):
            self._hub.release(run.session_id, run.id)

    def wake(self, run: int) -> None:
        self._outgoing.ask("ring", run)
        self._flush_wanted.set()

    def interrupt(self, run: int) -> None:
        self._outgoing.ask("interrupt", run)
        self._flush_wanted.set()

    def join(self, session: str) -> None:
        self._incoming.join(session)

    async def reach(self, session: str, seq: int) -> None:
        reached = self._incoming.reached(session, seq)
        if reached is None:
            return
        self._read_wanted.set()
        try:
            async with asyncio.timeout(TIMEOUT):
                await reached
        except TimeoutError:
            raise Unavailable("The database does not answer; try again in a moment.") from None

    def leave(self, session: str) -> None:
        self._incoming.leave(session)

    async def _forever(self, who: str, work: Callable[[Any], Awaitable[None]]) -> None:
        """Have *work* use a connection, and another one when that is lost."""
        while not self._ended.is_set():
            try:
                connection = await _connected(self._url, NAMES[who])
                try:
                    await work(connection)
                finally:
                    await connection.close(timeout=LAST / 2)
            except Exception as error:  # noqa: BLE001 - whatever it is, the next connection may do better
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._outage.begin(who, error)):
                        await self._ended.wait()

    async def _write(self, connection: Any) -> None:
        """Flush what there is: at once, or a gap after the last flush began; longer when the database is slow."""
        await connection.execute("SET synchronous_commit TO off")
        while True:
            await self._flush_wanted.wait()
            if connection.is_closed():
                return
            self._flush_wanted.clear()
            began = _now()
            batch = self._outgoing.take(self._hub)
            if not batch.is_empty:
                await self._flush(connection, batch)
                self.flushes.observe(_now() - began)
                self.rows += len(batch.rows)
            self._outage.end("write")
            if self._ended.is_set():
                return
            duration = _now() - began
            await asyncio.sleep(max(GAP - duration, duration / 2))

    async def _flush(self, connection: Any, batch: Batch) -> None:
        over, rows = batch.over, batch.rows
        try:
            await connection.execute(
                _FLUSH,
                *([getattr(each, name) for each in over] for name in ("session", "run", "epoch", "n")),
                *([getattr(each, name) for each in rows] for name in ("session", "run", "epoch", "n", "data")),
                batch.notes(self._name),
            )
        except BaseException:
            self._outgoing.failed(batch)
            self._flush_wanted.set()
            raise

    async def _read(self, connection: Any) -> None:
        """Read what notifications name, and everything watched from time to time."""
        await connection.add_listener(CHANNEL, self._on_notification)
        connection.add_termination_listener(self._cut)
        await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, f"{self._name}[]")
        self._outgoing.publish_again()
        look = _now()
        while not self._ended.is_set():
            if _now() >= look:
                self._listen(has_listeners=await connection.fetchval(_OTHERS) > 0)
                self._incoming.read_all()
                look = _now() + POLL
            began = _now()
            self._read_wanted.clear()
            await self._catch_up(connection)
            self._outage.end("read")
            self._listening.set()
            await asyncio.sleep(BREATH - (_now() - began))
            if not self._incoming.is_behind:
                with suppress(TimeoutError):
                    async with asyncio.timeout(look - _now()):
                        await self._read_wanted.wait()
            if connection.is_closed():
                raise ConnectionError

    async def _catch_up(self, connection: Any) -> None:
        """Read what the watched sessions have that was not passed on: facts first, then live rows."""
        if new := self._incoming.take_new():
            self._incoming.begin(new, await connection.fetch(_BEGIN, new))
        stale = self._incoming.take_stale()
        if stale[0]:
            self._incoming.learn(await connection.fetch(_LEARN, *stale))
        events = self._incoming.take_runs()
        if events[0]:
            self._incoming.show(events[1], await connection.fetch(_SHOW, *events))

    def _on_notification(self, _connection: Any, _process: int, _channel: str, payload: str) -> None:
        sender, bracket, rest = payload.partition("[")
        if sender == self._name:
            return
        self._listen(has_listeners=True)
        for entry in _entries(bracket + rest):
            match entry:
                case ["fact", str(session), int(seq), *_]:
                    self._incoming.notified_of_facts(session, seq)
                case ["live", int(run), *_]:
                    self._incoming.notified_of_rows(run)
                case ["ring", int(run), *_]:
                    self._wake(run)
                case ["interrupt", int(run), *_]:
                    self._interrupt(run)
                case _:
                    continue  # a newer version's word
        if self._incoming.is_behind:
            self._read_wanted.set()

    def _cut(self, _connection: Any) -> None:
        self._read_wanted.set()

    def _listen(self, *, has_listeners: bool) -> None:
        if self._outgoing.listen(has_listeners=has_listeners):
            self._flush_wanted.set()

    async def _tidy_up(self) -> None:
        """Clear away the rows that a crash left: of runs that ended, or that another process drives now."""
        while not self._ended.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(TIDY):
                    await self._ended.wait()
                    return
            with suppress(ParleyError):  # away: the next time will do
                await self._database.write(lambda connection: _run(connection, _TIDY))


async def _connected(url: str, name: str) -> Any:
    driver = cast("Any", asyncpg)
    names = {"application_name": name}
    return await driver.connect(url, timeout=TIMEOUT, command_timeout=TIMEOUT, server_settings=names)


def _entries(payload: str) -> list[Any]:
    try:
        return _ENTRIES.decode(payload)
    except msgspec.DecodeError:
        return []  # a newer version's words


def _now() -> float:
    return asyncio.get_running_loop().time()


def _run(connection: Connection, statement: TextClause) -> None:
    connection.execute(statement)
