"""The session log: facts in, facts out. Every function here is one transaction's work on a sync `Connection`."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace
from sqlalchemy import ColumnElement, Connection, Select, Table, bindparam, exists, insert, select, update
from sqlalchemy.sql.dml import ReturningUpdate

from agent_core import events as e
from agent_core.errors import LostRun
from agent_core.events import Fact, FactBody
from agent_core.store.codes import CODES, TYPES
from agent_core.store.database import Statement, literal, literals
from agent_core.store.tables import EventRow, RenderRow, RunRow, SessionRow


def table_of(row: type[Any]) -> Table:
    """Return the Core table of a SQLModel class."""
    return row.__table__


EVENT, RUN, SESSION = table_of(EventRow), table_of(RunRow), table_of(SessionRow)
RENDER = table_of(RenderRow)
PARENT = RUN.alias("parent_run")


class RunRef(msgspec.Struct, frozen=True, kw_only=True):
    """What names a run to the log: keys, public ids, and the epoch of its driver; and who waits and pays for it.

    *redactions* are its session's: their number cannot change while the run is open. *asker* is who asked, as JSON of
    an `Actor` without a name, and *address* the session's: where the run's spending belongs.
    """

    key: int
    id: str
    session: int
    session_id: str
    parent: str | None
    epoch: int
    agent: int
    agent_version: int
    snapshot: str
    first_seq: int
    options: bytes | None = None
    actor: int = 0
    queued_at: int = 0
    charged: bytes | None = None
    redactions: int = 0
    asker: bytes | None = None
    address: str | None = None


class SessionKey(msgspec.Struct, frozen=True):
    """A session as the log knows it: key and public id."""

    key: int
    id: str


class Appended(msgspec.Struct, frozen=True):
    """*facts*: all of the session after `after`, own ones last; *announced*: whether the announcement was written.

    *started* is the session's next run; *freed* is the key of another's that waited for this end. It is not *whole*
    when what was missed holds a fact that only a newer version knows: then this one must not go on with the run.
    """

    facts: list[Fact]
    missed: int
    announced: bool
    started: RunRef | None = None
    freed: int | None = None
    whole: bool = True

    @property
    def fresh(self) -> list[Fact]:
        """Return the facts that this append wrote."""
        return self.facts[self.missed :]


_TAKE_SEQS = Statement(
    update(SESSION)
    .where(SESSION.c.key == bindparam("b_session"))
    .values(next_seq=SESSION.c.next_seq + bindparam("b_n"))
    .returning(SESSION.c.next_seq)
)
_FENCE = (RUN.c.key == bindparam("b_run"), RUN.c.epoch == bindparam("b_epoch"), RUN.c.status == literal("running"))


def _claimed(fence: ColumnElement[bool]) -> ReturningUpdate[tuple[int]]:
    """Take the seqs if *fence* lets the run's driver through."""
    taken = update(SESSION).where(SESSION.c.key == bindparam("b_session"), fence)
    return taken.values(next_seq=SESSION.c.next_seq + bindparam("b_n")).returning(SESSION.c.next_seq)


def _claimed_beside_others() -> ReturningUpdate[tuple[int]]:
    """Lock the session's row, then the run's: the fence reads the run as the last commit left it, not the snapshot."""
    session = select(SESSION.c.key).where(SESSION.c.key == bindparam("b_session")).with_for_update().cte("place")
    held = select(RUN.c.key).join(session, session.c.key == RUN.c.session).where(*_FENCE)
    return _claimed(exists(select(held.with_for_update(of=RUN).cte("held").c.key)))


_CLAIM = Statement(_claimed(exists(select(RUN.c.key).where(*_FENCE))), postgresql=_claimed_beside_others())
# SQLite has one writer at a time and no such lock: the words are left out there.
_LOCK = select(SESSION.c.key).where(SESSION.c.key == bindparam("b_session")).with_for_update()
_INSERT = Statement(
    insert(EVENT).values({name: bindparam(name) for name in ("session", "seq", "run", "type", "time", "data")})
)
_INSERT_RENDER = Statement(insert(RENDER).values({name: bindparam(name) for name in ("session", "seq", "id")}))
_SET_WINDOW = update(SESSION).where(SESSION.c.key == bindparam("b_session")).values(window_seq=bindparam("b_seq"))


def _read_facts() -> Select[*tuple[Any, ...]]:
    return (
        select(EVENT.c.seq, EVENT.c.type, EVENT.c.time, EVENT.c.data, RUN.c.id, PARENT.c.id)
        .select_from(EVENT.outerjoin(RUN, RUN.c.key == EVENT.c.run).outerjoin(PARENT, PARENT.c.key == RUN.c.parent))
        .where(EVENT.c.session == bindparam("b_session"))
        .order_by(EVENT.c.seq)
    )


_BETWEEN = Statement(_read_facts().where(EVENT.c.seq > bindparam("b_after"), EVENT.c.seq < bindparam("b_before")))
_PAGE = Statement(_read_facts().where(EVENT.c.seq > bindparam("b_after")).limit(bindparam("b_limit")))
_OF_RUN = Statement(
    _read_facts().where(
        EVENT.c.seq >= bindparam("b_after"), EVENT.c.seq <= bindparam("b_before"), RUN.c.id == bindparam("b_run")
    )
)
_OF_TYPE = (
    _read_facts()
    .where(
        EVENT.c.seq > bindparam("b_after"),
        EVENT.c.type.in_(literals(CODES["message.received"], CODES["message.completed"])),
    )
    .limit(bindparam("b_limit"))
)
MAX_SEQ = 2**62


def lock(connection: Connection, session: int) -> None:
    """Let no other transaction write to this session before this one ends.

    A transaction that writes to a session begins with it, or with what takes its seqs, before it reads anything.
    """
    connection.execute(_LOCK, {"b_session": session})


def take_seqs(connection: Connection, session: int, n: int) -> int:
    """Reserve *n* sequence numbers and return the first."""
    return _TAKE_SEQS.run(connection, b_session=session, b_n=n).scalar_one() - n


def append(
    connection: Connection,
    run: RunRef,
    record: Sequence[FactBody],
    announcement: Sequence[FactBody],
    *,
    after: int,
    now: int,
) -> Appended:
    """Write what happened; and what was decided, unless a fact of this run after *after* was not seen by the decider.

    *run*'s driver is the only writer of its facts but for those from outside (a message, a correction, a decision, a
    tool output, a cancel, a timeout, a child's end), and it has seen all of its own; so any other is news.
    Raises `LostRun` when the run's epoch is not *run*'s any more, or the run is not running.
    """
    count = len(record) + len(announcement)
    claimed = _CLAIM.run(connection, b_session=run.session, b_run=run.key, b_epoch=run.epoch, b_n=count).first()
    if claimed is None:
        raise LostRun(f"Run `{run.id}` has another owner now.")
    first = claimed[0] - count
    missed = (
        facts_between(connection, SessionKey(run.session, run.session_id), after, first) if first > after + 1 else []
    )
    whole = is_whole(missed, after, first)
    news = not whole or any(fact.run == run.id for fact in missed)
    if news and announcement:
        take_seqs(connection, run.session, -len(announcement))
    bodies = list(record) if news else [*record, *announcement]
    facts = write(connection, SessionKey(run.session, run.session_id), first, [(run, body) for body in bodies], now=now)
    return Appended([*missed, *facts], len(missed), announced=not news, whole=whole)


def write(
    connection: Connection,
    session: SessionKey,
    first: int,
    drafts: Sequence[tuple[RunRef | None, FactBody]],
    *,
    now: int,
) -> list[Fact]:
    """Insert *drafts* from seq *first* on and return them as facts."""
    facts: list[Fact] = []
    rows: list[dict[str, Any]] = []
    for seq, (run, draft) in enumerate(drafts, first):
        body = _placed(draft, seq) if isinstance(draft, e.StepStarted) else draft
        raw = msgspec.json.encode(body)
        run_id, parent = (run.id, run.parent) if run else (None, None)
        facts.append(
            Fact(
                seq=seq, type=body.type, session=session.id, run=run_id, parent_run=parent, time=now, raw=raw, body=body
            )
        )
        rows.append(
            {
                "session": session.key,
                "seq": seq,
                "run": run.key if run else None,
                "type": CODES[body.type],
                "time": now,
                "data": raw,
            }
        )
        if isinstance(body, e.ContextCompacted) and body.kind != "prune" and parent is None:
            connection.execute(_SET_WINDOW, {"b_session": session.key, "b_seq": body.window_seq})
        if isinstance(body, e.RenderShown):
            _INSERT_RENDER.run(connection, session=session.key, seq=seq, id=body.render)
    if len(rows) == 1:
        _INSERT.run(connection, **rows[0])
    elif rows:
        _INSERT.run_many(connection, rows)
    return facts


def facts_between(connection: Connection, session: SessionKey, after: int, before: int = MAX_SEQ) -> list[Fact]:
    """Return the facts of a session with `after < seq < before`, oldest first."""
    if before <= after + 1:
        return []
    return _facts(session, _BETWEEN.run(connection, b_session=session.key, b_after=after, b_before=before))


def is_whole(facts: Sequence[Fact], after: int, before: int) -> bool:
    """Return whether *facts* are all of a session with `after < seq < before`: only unknown types leave gaps."""
    return len(facts) == before - after - 1


def up_to_unknown(facts: Sequence[Fact], after: int) -> list[Fact]:
    """Return those of *facts*, all of a session after *after*, that precede the first one of an unknown type."""
    return [fact for seq, fact in enumerate(facts, after + 1) if fact.seq == seq]


def facts_page(connection: Connection, session: SessionKey, after: int, limit: int) -> tuple[list[Fact], int]:
    """Return up to *limit* facts of a session with `seq > after`, oldest first, and the seq that they reach to."""
    rows = _PAGE.run(connection, b_session=session.key, b_after=after, b_limit=limit)
    return _facts(session, rows), rows[-1][0] if rows else after


def facts_of_run(connection: Connection, session: SessionKey, run: str, first: int, last: int | None) -> list[Fact]:
    """Return a run's own facts; it lies between *first* and *last* (None: open end) of its session's log."""
    before = MAX_SEQ if last is None else last
    return _facts(session, _OF_RUN.run(connection, b_session=session.key, b_after=first, b_before=before, b_run=run))


def message_facts(connection: Connection, session: SessionKey, after: int, limit: int) -> list[Fact]:
    """Return up to *limit* facts that hold a message, oldest first."""
    return _facts(session, connection.execute(_OF_TYPE, {"b_session": session.key, "b_after": after, "b_limit": limit}))


def facts_at(connection: Connection, session: SessionKey, seqs: Sequence[int]) -> list[Fact]:
    """Return the facts with these *seqs*, oldest first."""
    batches = [facts_between(connection, session, seq - 1, seq + 1) for seq in sorted(set(seqs))]
    return [fact for facts in batches for fact in facts]


def _facts(session: SessionKey, rows: Any) -> list[Fact]:
    """Return *rows* as facts, without those of a newer version that works beside this one: they mean nothing here."""
    return [
        Fact(seq=seq, type=TYPES[code], session=session.id, run=run, parent_run=parent, time=time, raw=bytes(data))
        for seq, code, time, data, run, parent in rows
        if code in TYPES
    ]


def _placed(body: e.StepStarted, seq: int) -> e.StepStarted:
    """Write real seqs where a draft's `takes` points back, see `StepStarted`."""
    if all(t > 0 for t in body.takes):
        return body
    return replace(body, takes=tuple(t if t > 0 else seq + t for t in body.takes))
