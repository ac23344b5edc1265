"""Forgetting: what one person left is deleted, here and in what others keep."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from sqlalchemy import Connection

from agent_core.clock import Clock
from agent_core.errors import NotFound, SessionBusy
from agent_core.store import catalog, erasing, sessions
from agent_core.store.database import Scrubbing
from agent_core.store.erasing import ForgottenPerson
from agent_core.store.store import Store

REASON = "the person's data is deleted"
PAUSES = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Seconds before each attempt at a session whose runs are ending: about six in all."""
TABLES = (
    "session", "event", "run", "receipt", "change", "feedback", "approval", "approval_audit", "blob", "revocation",
    "operation", "place", "delivery", "card", "result", "render", "upload",
    "spending", "file", "snapshot", "dropped_prompt",
)  # fmt: skip
"""Where something of a person may have been, those of the channels too."""


class Forgotten(msgspec.Struct, frozen=True, kw_only=True):
    """What was deleted of a person: *sessions* that they opened, *messages* of theirs in those of others, and so on.

    *facts* were changed, *places* are where channels had them. *remaining* are the sessions that were busy: deleted
    again a little later, they are done too.
    """

    pseudonym: str
    sessions: int
    messages: int
    facts: int
    approvals: int
    feedback: int
    places: int
    remaining: tuple[str, ...]


Cancel = Callable[[str], Awaitable[object]]
"""Cancels a run, or stops a session, by its id."""
Also = Callable[[Connection, str], int]
"""Deletes what is kept of an actor, in a transaction, and returns how much that was."""


class Forgetting:
    """Deletes one person's data."""

    def __init__(self, store: Store, forget_session: Callable[[str], None]) -> None:
        """*forget_session* removes a session from the memory of this process."""
        self._store, self._forget_session = store, forget_session

    async def forget(
        self, actor: str, pseudonym: str, *, stop: Cancel, cancel: Cancel, also: Also | None = None
    ) -> Forgotten:
        """Delete the data of *actor*, whose place in records *pseudonym* takes; running work of theirs ends first.

        *stop* ends all runs of a session, *cancel* one run; *also* deletes what others keep in the same database.
        """
        who = ForgottenPerson(actor, pseudonym)
        places = await self._store.read(lambda connection: erasing.find(connection, actor))
        # First the records: once the sessions are gone, what belongs to them could not be found.
        feedback = await self._store.write(lambda connection: erasing.forget(connection, who, places.opened))
        gone, late = await self._each(places.opened, lambda id: self._delete(id, stop))
        changed, busy = await self._each(places.named, lambda id: self._redact(id, who, cancel))
        # Ends of runs, and decisions, that came meanwhile.
        await self._store.write(lambda connection: erasing.forget(connection, who, places.opened))
        await self._forget_prompts()
        places_left = 0 if also is None else await self._store.write(lambda connection: also(connection, actor))
        if isinstance(database := self._store.database, Scrubbing):
            await database.scrub(TABLES)
        return Forgotten(
            pseudonym=pseudonym,
            sessions=len(gone),
            messages=sum(each.messages for each in changed),
            facts=sum(each.facts for each in changed),
            approvals=sum(each.approvals for each in changed),
            feedback=feedback,
            places=places_left,
            remaining=(*late, *busy),
        )

    async def _forget_prompts(self) -> None:
        """Delete the prompts that runs of deleted sessions brought, of an attempt that was cut off too."""
        if await self._store.read(catalog.is_any_dropped):
            clock = self._store.clock
            await self._store.write(lambda connection: catalog.set_aside_prompts(connection, clock.now()))
            await clock.sleep(catalog.SETTLED)
            await self._store.write(lambda connection: catalog.settle_prompts(connection, clock.now()))

    async def _each(self, names: Sequence[str], work: Callable[[str], Awaitable[Any]]) -> tuple[list[Any], list[str]]:
        """Return the results of *work* for each session of *names*, and those that stayed busy."""
        done, late = list[Any](), list[str]()
        for id in names:
            try:
                done.append(await work(id))
            except SessionBusy:
                late.append(id)
            except NotFound:  # deleted by someone else just now
                continue
        return done, late

    async def _delete(self, session: str, stop: Cancel) -> None:
        async def attempt() -> None:
            await stop(session)
            await self._store.write(lambda connection: sessions.delete(connection, sessions.hold(connection, session)))

        await retried(self._store.clock, attempt)
        self._forget_session(session)

    async def _redact(self, session: str, who: ForgottenPerson, cancel: Cancel) -> erasing.RedactedSession:
        async def attempt() -> erasing.RedactedSession:
            for run in await self._store.read(lambda connection: erasing.own_runs(connection, session, who.id)):
                with suppress(NotFound):
                    await cancel(run)
            return await self._store.write(lambda connection: erasing.redact(connection, session, who))

        changed = await retried(self._store.clock, attempt)
        self._forget_session(session)
        return changed


async def retried(clock: Clock, attempt: Callable[[], Awaitable[Any]], pauses: Sequence[float] = PAUSES) -> Any:
    """Return what *attempt* returns once the session is idle; raises `SessionBusy` when it stays busy."""
    for pause in pauses:
        await clock.sleep(pause)
        with suppress(SessionBusy):
            return await attempt()
    return await attempt()
