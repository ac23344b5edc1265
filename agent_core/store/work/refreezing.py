"""Refreezing in the store: a session takes up the newest version of its agent. One transaction's work."""

from typing import Literal

import msgspec
from sqlalchemy import Connection, bindparam, update

from agent_core import events as e
from agent_core.agents import Snapshot
from agent_core.errors import SessionClosed
from agent_core.events import Fact
from agent_core.store import log
from agent_core.store.log import SESSION
from agent_core.store.statements import Statement
from agent_core.store.work import sessions
from agent_core.store.work.catalog import keep_snapshot
from agent_core.store.work.sessions import BusySession, SessionRef, StaleAgent, StaleSession

RefreezeReason = Literal["idle", "compaction", "asked"]
_MOVE = Statement(
    update(SESSION)
    .where(SESSION.c.key == bindparam("b_session"))
    .values(agent_version=bindparam("b_version"), snapshot=bindparam("b_snapshot"), prefix=bindparam("b_prefix"))
)


class Refreeze(msgspec.Struct, frozen=True, kw_only=True):
    """What a session is to take up: the newest *version* of its agent, with the *snapshot* that this makes here."""

    version: int
    snapshot: Snapshot
    reason: RefreezeReason

    def prefix_after(self, snapshot: str, prefix: str) -> str:
        """Return the prompt in force in a session of *snapshot* that takes this up, in which *prefix* is in force.

        If the session's own prompt is unchanged, that of a run stays in force until the next run.
        """
        return prefix if snapshot == self.snapshot.hash else self.snapshot.hash


class Refrozen(msgspec.Struct, frozen=True):
    """The session as it is afterwards, and the fact that says so, if its prompt is another one now."""

    ref: SessionRef
    facts: list[Fact] = []


def moves(session: SessionRef, wanted: Refreeze, *, after: int, is_busy: bool) -> bool:
    """Return whether a locked *session* is to be moved to what is *wanted*, False if it is there already.

    Raises `StaleAgent` if its agent has a newer version, `BusySession` while it *is_busy*, and `StaleSession` if it has
    facts beyond the seq *after*, up to which it was found to be due.
    """
    if session.newest_version != wanted.version:
        raise StaleAgent
    if (session.agent_version, session.snapshot) == (wanted.version, wanted.snapshot.hash):
        return False
    if is_busy:
        raise BusySession
    if session.newest != after:
        raise StaleSession
    return True


def refreeze(connection: Connection, session: SessionRef, wanted: Refreeze, *, now: int) -> Refrozen:
    """Move a locked, idle *session* to the version and the prompt that are *wanted*.

    The log gets a fact only if the prompt is another than the one in force: thinking survives an equal one.
    """
    new, prefix = wanted.snapshot.hash, wanted.prefix_after(session.snapshot, session.prefix)
    if session.snapshot != new:
        keep_snapshot(connection, wanted.snapshot)
    moved = {"b_version": wanted.version, "b_snapshot": new, "b_prefix": prefix}
    _MOVE.run(connection, b_session=session.key, **moved)
    ref = msgspec.structs.replace(session, agent_version=wanted.version, snapshot=new, prefix=prefix)
    if prefix == session.prefix:
        return Refrozen(ref)
    first = log.take_seqs(connection, session.key, 1)
    frozen = e.SnapshotFrozen(hash=new, reason=wanted.reason)
    facts = log.write(connection, session.session_key, first, [(None, frozen)], now=now)
    return Refrozen(msgspec.structs.replace(ref, newest=first), facts)


def ask(connection: Connection, name: str, wanted: Refreeze, *, now: int) -> Refrozen:
    """Freeze the session *name* again because an operator asks for it.

    Raises `NotFound`, `SessionClosed`, `SessionBusy`, `StaleAgent`.
    """
    session = sessions.hold(connection, name)
    if session.closed:
        raise SessionClosed(f"Session `{session.id}` is closed; its prompt is not used any more.")
    sessions.refuse_busy(connection, session, "refreeze")
    if not moves(session, wanted, after=session.newest, is_busy=False):
        return Refrozen(session)
    return refreeze(connection, session, wanted, now=now)
