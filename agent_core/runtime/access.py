"""Who may do what, by key, and what is forgotten of a person."""

import hashlib
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace
from sqlalchemy import Connection

from agent_core.clock import Clock
from agent_core.errors import NotFound, SessionBusy
from agent_core.ids import new_id
from agent_core.messages import Actor
from agent_core.objects import (
    SCOPES,
    KeyChanges,
    KeyObject,
    Operation,
    OperationEntry,
    Page,
    Revocation,
    RevocationKind,
    Scope,
    SigningKey,
    StoredKey,
)
from agent_core.runtime.roster import cursor_key
from agent_core.store import access, catalog, erasing, sessions
from agent_core.store.database import Scrubbing
from agent_core.store.erasing import ForgottenPerson
from agent_core.store.store import Store

SECRET_BYTES = 32
PREFIX = "pk_"


class Access:
    """API keys, revocations, and what operators did."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def create_key(
        self, *, name: str, scopes: Collection[Scope], by: Actor, shared: str | None, expires_at: int | None
    ) -> tuple[StoredKey, str]:
        """Make a key and return it with its secret, which is kept nowhere; *shared* is the actor id of its maker.

        Without *shared* the key acts under an id of its own.
        """
        id, now = new_id("key"), self._store.clock.now()
        secret = _secret(id)
        made = KeyObject(
            id=id,
            name=name,
            actor=shared or f"operator:{id}",
            scopes=tuple(scope for scope in SCOPES if scope in scopes),
            created_at=now,
            created_by=by,
            expires_at=expires_at,
        )
        key = StoredKey(object=made, digest=digest_of(secret))
        await self._store.write(access.add_key, key)
        return key, secret

    async def keys(self, *, limit: int = 50, cursor: str | None = None) -> Page[KeyObject]:
        """Return keys, oldest first, those that are revoked too."""
        after = cursor_key(cursor)
        return await self._store.read(access.listed_keys, limit=limit, after=after)

    async def usable_keys(self) -> Sequence[StoredKey]:
        """Return every key that is not revoked."""
        return await self._store.read(access.usable_keys)

    async def key(self, id: str) -> KeyObject:
        """Return a key; raises `NotFound`."""
        return (await self._store.read(access.find_key, id)).object

    async def change_key(self, id: str, changes: KeyChanges) -> StoredKey:
        """Change a key; raises `NotFound`, also for a revoked one."""
        if isinstance(changes.scopes, tuple):
            scopes = changes.scopes
            changes = replace(changes, scopes=tuple(scope for scope in SCOPES if scope in scopes))
        return await self._store.write(access.change_key, id, changes)

    async def rotate_key(self, id: str, *, grace: int) -> tuple[StoredKey, str]:
        """Give a key another secret, and return both; the old one works for *grace* seconds. Raises `NotFound`."""
        secret, now = _secret(id), self._store.clock.now()
        until = now + 1000 * grace
        digest = digest_of(secret)
        key = await self._store.write(access.rotate_key, id, digest, now=now, until=until)
        return key, secret

    async def revoke_key(self, id: str) -> StoredKey:
        """Revoke a key for good; raises `NotFound`, also for a revoked one."""
        now = self._store.clock.now()
        return await self._store.write(access.revoke_key, id, now=now)

    async def note_used(self, used: Mapping[str, int]) -> None:
        """Note when keys were last used, in milliseconds by their ids."""
        await self._store.write(access.note_keys_used, used)

    async def add_signing_key(self, key: SigningKey) -> SigningKey:
        """Register a key that signs visitors' tokens, with an id and a time of its own; raises `Conflict`."""
        made = replace(key, id=new_id("sign"), created_at=self._store.clock.now())
        await self._store.write(access.add_signing_key, made)
        return made

    async def signing_keys(self, *, limit: int = 50, cursor: str | None = None) -> Page[SigningKey]:
        """Return the keys that sign visitors' tokens, oldest first."""
        after = cursor_key(cursor)
        return await self._store.read(access.listed_signing_keys, limit=limit, after=after)

    async def every_signing_key(self) -> Sequence[SigningKey]:
        """Return all keys that sign visitors' tokens."""
        return await self._store.read(access.every_signing_key)

    async def remove_signing_key(self, id: str) -> None:
        """Remove a key that signs visitors' tokens; raises `NotFound`."""
        await self._store.write(access.remove_signing_key, id)

    async def revoke(self, kind: RevocationKind, subject: str) -> Revocation:
        """Revoke a token, the tokens of an actor, or visitors' access to a session, from now on."""
        now = self._store.clock.now()
        return await self._store.write(access.add_revocation, kind, subject, now=now)

    async def revocations(self, *, limit: int = 50, cursor: str | None = None) -> Page[Revocation]:
        """Return revocations, newest first."""
        before = cursor_key(cursor)
        return await self._store.read(access.listed_revocations, limit=limit, before=before)

    async def revocation(self, id: str) -> Revocation:
        """Return a revocation; raises `NotFound`."""
        return await self._store.read(access.find_revocation, id)

    async def revoked_since(self, at: int) -> Sequence[Revocation]:
        """Return what was revoked since *at*, in milliseconds."""
        return await self._store.read(access.revocations_since, at)

    async def tidy(self, before: int) -> None:
        """Remove the revocations from before *before* that have nothing left to revoke."""
        await self._store.write(access.tidy_revocations, before)

    async def note(self, *, actor: Actor, route: str, about: str | None, result: int) -> None:
        """Add a line to the record of operations."""
        done = Operation(at=self._store.clock.now(), actor=actor, route=route, object=about, result=result)
        await self._store.write(access.add_operation, done)

    async def operations(self, *, after: int = 0, limit: int = 500) -> Sequence[OperationEntry]:
        """Return lines of the record of operations after the line *after*, in order."""
        return await self._store.read(access.listed_operations, after=after, limit=limit)


def digest_of(secret: str) -> bytes:
    """Return what is kept of *secret*: a hash. It is random and long, so that no slow one is needed."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _secret(id: str) -> str:
    return f"{PREFIX}{id}_{secrets.token_urlsafe(SECRET_BYTES)}"


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
        places = await self._store.read(erasing.find, actor)
        # First the records: once the sessions are gone, what belongs to them could not be found.
        feedback = await self._store.write(erasing.forget, who, places.opened)
        gone, late = await self._each(places.opened, lambda id: self._delete(id, stop))
        changed, busy = await self._each(places.named, lambda id: self._redact(id, who, cancel))
        # Ends of runs, and decisions, that came meanwhile.
        await self._store.write(erasing.forget, who, places.opened)
        await self._forget_prompts()
        places_left = 0 if also is None else await self._store.write(also, actor)
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
            await self._store.write(catalog.set_aside_prompts, clock.now())
            await clock.sleep(catalog.SETTLED)
            await self._store.write(catalog.settle_prompts, clock.now())

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
            for run in await self._store.read(erasing.own_runs, session, who.id):
                with suppress(NotFound):
                    await cancel(run)
            return await self._store.write(erasing.redact, session, who)

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
