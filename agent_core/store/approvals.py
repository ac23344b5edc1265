"""The audit log of approvals, append-only. Each function is one transaction's work."""

import hashlib
import zlib
from collections.abc import Collection, Sequence
from typing import Any, Literal

import msgspec
from sqlalchemy import Connection, Select, bindparam, func, insert, select, update

from agent_core import events as e
from agent_core.agent.state import call_key
from agent_core.events import Fact, FactBody
from agent_core.messages import Actor
from agent_core.objects import ApprovalObject, ApprovalStatus, AuditEntry, AuditKind, Page, Vote
from agent_core.store import log
from agent_core.store.catalog import AGENT
from agent_core.store.database import literal, page_of, required
from agent_core.store.log import RUN, SESSION, RunRef, SessionKey, table_of
from agent_core.store.tables import DEFAULT_PROJECT, ApprovalRow, AuditRow

_AUDIT = table_of(AuditRow)
_ADD = insert(_AUDIT).values({x.name: bindparam(f"b_{x.name}") for x in _AUDIT.c if x.name != "key"})


def note(
    connection: Connection,
    names: tuple[str, str, str],
    kind: AuditKind,
    *,
    now: int,
    actor: Actor | None = None,
    surface: str | None = None,
    place: str | None = None,
    data: dict[str, Any] | None = None,
) -> None:
    """Add a line to the audit log, about the approval, session and run of these *names*."""
    approval, session, run = names
    connection.execute(
        _ADD,
        {
            "b_project": DEFAULT_PROJECT,
            "b_approval": approval,
            "b_session": session,
            "b_run": run,
            "b_at": now,
            "b_kind": kind,
            "b_actor": msgspec.json.encode(actor) if actor else None,
            "b_surface": surface,
            "b_place": place,
            "b_data": msgspec.json.encode(data) if data else None,
        },
    )


def names_of(approval: ApprovalObject) -> tuple[str, str, str]:
    """Return the names that a line about *approval* has."""
    return approval.id, approval.session, approval.run


def has_entry(
    connection: Connection, approval: str, kind: AuditKind, *, actor: Actor | None, surface: str, place: str | None
) -> bool:
    """Return whether there is an equal line."""
    return bool(having_entry(connection, (approval,), kind, actor=actor, surface=surface, place=place))


def having_entry(
    connection: Connection,
    approvals: Collection[str],
    kind: AuditKind,
    *,
    actor: Actor | None,
    surface: str,
    place: str | None,
) -> set[str]:
    """Return those of *approvals* that have an equal line."""
    query = select(_AUDIT.c.approval, _AUDIT.c.actor, _AUDIT.c.place).where(
        _AUDIT.c.approval.in_(approvals), _AUDIT.c.kind == kind, _AUDIT.c.surface == surface
    )
    wanted = (msgspec.json.encode(actor) if actor else None, place)
    rows = connection.execute(query)
    return {row.approval for row in rows if (bytes(row.actor) if row.actor else None, row.place) == wanted}


def audit_entries(connection: Connection, *, after: int, limit: int, approval: str | None = None) -> list[AuditEntry]:
    """Return up to *limit* lines after the line *after*, in order."""
    query = select(_AUDIT).where(_AUDIT.c.project == DEFAULT_PROJECT, _AUDIT.c.key > after)
    query = query.order_by(_AUDIT.c.key).limit(limit)
    if approval is not None:
        query = query.where(_AUDIT.c.approval == approval)
    return [_entry(row) for row in connection.execute(query)]


def _entry(row: Any) -> AuditEntry:
    return AuditEntry(
        seq=row.key,
        approval=row.approval,
        session=row.session,
        run=row.run,
        at=row.at,
        kind=row.kind,
        actor=msgspec.json.decode(row.actor, type=Actor) if row.actor else None,
        surface=row.surface,
        place=row.place,
        data=msgspec.json.decode(row.data) if row.data else None,
    )


APPROVAL = table_of(ApprovalRow)
Seen = Literal["delivered", "opened"]
_COLUMNS = (
    APPROVAL,
    SESSION.c.id.label("session_id"),
    RUN.c.id.label("run_id"),
    AGENT.c.id.label("agent_id"),
)
_SELECT = (
    select(*_COLUMNS)
    .join(SESSION, SESSION.c.key == APPROVAL.c.session)
    .join(RUN, RUN.c.key == APPROVAL.c.run)
    .join(AGENT, AGENT.c.key == RUN.c.agent)
    .where(APPROVAL.c.project == DEFAULT_PROJECT)
)
_BY_ID = _SELECT.where(APPROVAL.c.id == bindparam("b_id"))
_OPEN_OF_RUN = _SELECT.where(APPROVAL.c.run == bindparam("b_run"), APPROVAL.c.status == literal("open"))
_VERSIONS = select(APPROVAL.c.id, APPROVAL.c.votes).where(APPROVAL.c.status == literal("open"))
_FIRST_END = select(func.min(APPROVAL.c.expires_at)).where(
    APPROVAL.c.run == bindparam("b_run"), APPROVAL.c.status == literal("open")
)
_SETTLED = ("status", "votes", "remembered", "digest", "arguments", "decided_at", "decided_by", "reason")
_INSERT = insert(APPROVAL).values({str(x.name): bindparam(f"b_{x.name}") for x in APPROVAL.c if x.name != "key"})
_SET = (
    update(APPROVAL)
    .where(APPROVAL.c.key == bindparam("b_key"), APPROVAL.c.status == literal("open"))
    .values({name: bindparam(f"b_{name}") for name in _SETTLED})
    .returning(APPROVAL.c.key)
)
_BOUND = select(APPROVAL.c.votes, APPROVAL.c.request).where(
    APPROVAL.c.session == bindparam("b_session"),
    APPROVAL.c.hook == bindparam("b_hook"),
    APPROVAL.c.tool == bindparam("b_tool"),
    APPROVAL.c.status == literal("approved"),
    APPROVAL.c.remembered == literal(1),
)


class Owner(msgspec.Struct, frozen=True):
    """Which sessions: those of an *actor* (an id) of one of these *kinds* with an *agent* (an id)."""

    actor: str
    kinds: Collection[str]
    agent: str


class Held(msgspec.Struct, frozen=True):
    """An approval as the table has it: its row's key, the keys of its run and session, and what clients read."""

    key: int
    run: int
    session: int
    object: ApprovalObject


def digest(tool: str, arguments: dict[str, Any]) -> str:
    """Return what names one exact call: a hash of the tool's name and the canonical JSON of the arguments."""
    return hashlib.sha256(call_key(tool, arguments)).hexdigest()


def find(connection: Connection, id: str) -> Held:
    """Return the approval named *id*; raises `NotFound`."""
    return _held(required(connection.execute(_BY_ID, {"b_id": id}), "approval", id))


def listed(
    connection: Connection,
    *,
    status: ApprovalStatus | None,
    session: str | None,
    run: str | None,
    owner: Owner | None,
    limit: int,
    after: int | None,
) -> Page[ApprovalObject]:
    """Return up to *limit* approvals, oldest first, with a key above *after*."""
    query: Select[Any] = _SELECT
    state = literal("open") if status == "open" else status
    wanted = {APPROVAL.c.status: state, SESSION.c.id: session, RUN.c.id: run}
    for column, value in wanted.items():
        query = query if value is None else query.where(column == value)
    if owner is not None:
        of = select(AGENT.c.key).where(AGENT.c.id == owner.agent).correlate(None).scalar_subquery()
        query = query.where(SESSION.c.actor == owner.actor, SESSION.c.actor_kind.in_(owner.kinds))
        query = query.where(SESSION.c.agent == of)
    return page_of(connection, query, APPROVAL.c.key, lambda row: _held(row).object, limit=limit, after=after)


def versions(connection: Connection) -> dict[str, str]:
    """Return every open approval by id with its version, which changes with each vote."""
    return {row.id: f"{zlib.crc32(row.votes):08x}" for row in connection.execute(_VERSIONS)}


def follow(connection: Connection, run: RunRef, bodies: Sequence[FactBody], *, now: int) -> None:
    """Update the rows after a run's facts: approvals requested, and approvals cancelled."""
    for body in bodies:
        match body:
            case e.ApprovalRequested():
                _ask(connection, run, body, now=now)
            case e.ApprovalDecided(status="cancelled"):
                held = find(connection, body.approval)
                settle(connection, held, "cancelled", now=now, by=body.by, reason=body.reason)
            case _:
                continue


def first_end(connection: Connection, run: int) -> int | None:
    """Return when the first open approval of a run expires, in milliseconds."""
    return connection.execute(_FIRST_END, {"b_run": run}).scalar()


def expire(connection: Connection, run: RunRef, now: int) -> list[Fact]:
    """Expire the overdue approvals of *run*, and return the facts."""
    late = [
        held
        for row in connection.execute(_OPEN_OF_RUN, {"b_run": run.key})
        if (held := _held(row)).object.expires_at <= now
    ]
    facts: list[Fact] = []
    for held in late:
        decided = settle(connection, held, "expired", now=now)
        if decided is not None:
            facts += record(connection, run, [decided], now=now)
    return facts


def settle(
    connection: Connection,
    held: Held,
    status: ApprovalStatus,
    *,
    now: int,
    by: Actor | None = None,
    reason: str | None = None,
    surface: str | None = None,
) -> e.ApprovalDecided | None:
    """Settle an open approval; return the fact, None when it was settled before.

    *held* has the arguments and the votes that count.
    """
    seen = held.object
    remembered = status == "approved" and all(vote.remember for vote in seen.votes if vote.approved)
    if not _write(connection, held, status, remembered=remembered, now=now, by=by, reason=reason):
        return None
    assert status != "open"
    note(connection, names_of(seen), status, now=now, actor=by, surface=surface, data=_audited(seen, reason))
    return e.ApprovalDecided(
        approval=seen.id,
        call=seen.call,
        tool=seen.tool,
        arguments=seen.arguments,
        status=status,
        by=by,
        reason=reason,
        edited=seen.is_edited,
        surface=surface,
    )


def keep_votes(connection: Connection, held: Held) -> None:
    """Store the votes and arguments of *held*, which stays open."""
    _write(connection, held, "open", remembered=False, now=None, by=None, reason=None)


def record(connection: Connection, run: RunRef, bodies: Sequence[FactBody], *, now: int) -> list[Fact]:
    """Write facts of *run* that come from outside it; its session is locked."""
    first = log.take_seqs(connection, run.session, len(bodies))
    return log.write(
        connection, SessionKey(run.session, run.session_id), first, [(run, body) for body in bodies], now=now
    )


def grants(connection: Connection, session: int, hook: str, tool: str) -> list[tuple[Vote, ...]]:
    """Return the votes of each approval that allowed *tool* for the rest of a session."""
    rows = connection.execute(_BOUND, {"b_session": session, "b_hook": hook, "b_tool": tool})
    return [msgspec.json.decode(row.votes, type=tuple[Vote, ...]) for row in rows]


def seen(
    connection: Connection,
    id: str,
    kind: Seen,
    *,
    now: int,
    surface: str,
    place: str | None,
    by: Actor | None,
) -> None:
    """Record where an approval was shown, once per person and place; raises `NotFound`."""
    approval = find(connection, id).object
    if not has_entry(connection, id, kind, actor=by, surface=surface, place=place):
        note(connection, names_of(approval), kind, now=now, actor=by, surface=surface, place=place)


def unopened(connection: Connection, ids: Collection[str], *, surface: str, by: Actor) -> list[str]:
    """Return those of *ids* that are open and that *by* has not opened on *surface*."""
    query = select(APPROVAL.c.id).where(APPROVAL.c.id.in_(ids), APPROVAL.c.status == literal("open"))
    opened = having_entry(connection, ids, "opened", actor=by, surface=surface, place=None)
    return [id for id in connection.execute(query).scalars() if id not in opened]


def _audited(seen: ApprovalObject, reason: str | None) -> dict[str, Any]:
    data: dict[str, Any] = {"arguments": seen.arguments}
    if seen.is_edited:
        data["asked"] = seen.asked
    return data | ({"reason": reason} if reason else {})


def _ask(connection: Connection, run: RunRef, body: e.ApprovalRequested, *, now: int) -> None:
    arguments = msgspec.json.encode(body.arguments)
    values: dict[str, Any] = {
        "project": DEFAULT_PROJECT,
        "id": body.approval,
        "session": run.session,
        "run": run.key,
        "call": body.call,
        "step": body.step,
        "hook": body.hook,
        "tool": body.tool,
        "digest": digest(body.tool, body.arguments),
        "asked": arguments,
        "arguments": arguments,
        "request": msgspec.json.encode(body),
        "status": "open",
        "votes": b"[]",
        "remembered": False,
        "requested_at": now,
        "expires_at": now + int(body.timeout_s * 1000),
        "decided_at": None,
        "decided_by": None,
        "reason": None,
    }
    connection.execute(_INSERT, {f"b_{name}": value for name, value in values.items()})
    data = {
        "tool": body.tool,
        "arguments": body.arguments,
        "responders": list(body.responders),
        "quorum": body.quorum,
        "deliver_to": list(body.deliver_to),
    }
    names = (body.approval, run.session_id, run.id)
    note(connection, names, "requested", now=now, actor=body.by, data=data)


def _write(
    connection: Connection,
    held: Held,
    status: str,
    *,
    remembered: bool,
    now: int | None,
    by: Actor | None,
    reason: str | None,
) -> bool:
    seen = held.object
    done = connection.execute(
        _SET,
        {
            "b_key": held.key,
            "b_status": status,
            "b_votes": msgspec.json.encode(seen.votes),
            "b_remembered": remembered,
            "b_digest": digest(seen.tool, seen.arguments),
            "b_arguments": msgspec.json.encode(seen.arguments),
            "b_decided_at": now,
            "b_decided_by": msgspec.json.encode(by) if by else None,
            "b_reason": reason,
        },
    )
    return done.first() is not None


def _held(row: Any) -> Held:
    request = msgspec.json.decode(row.request, type=e.ApprovalRequested)
    is_unfilled = request.form is not None and row.status == "open"
    approval = ApprovalObject(
        id=row.id,
        session=row.session_id,
        run=row.run_id,
        agent=row.agent_id,
        call=row.call,
        step=row.step,
        tool=row.tool,
        arguments=request.given if is_unfilled else msgspec.json.decode(row.arguments),
        asked=msgspec.json.decode(row.asked) if request.form is None else request.given,
        digest=row.digest,
        title=request.title,
        detail=request.detail,
        status=row.status,
        responders=request.responders,
        quorum=request.quorum,
        votes=msgspec.json.decode(row.votes, type=tuple[Vote, ...]),
        edit=request.edit,
        remember=request.remember,
        deliver_to=request.deliver_to,
        on_timeout=request.on_timeout,
        asker=request.by,
        speakers=request.speakers,
        requested_at=row.requested_at,
        expires_at=row.expires_at,
        decided_by=msgspec.json.decode(row.decided_by, type=Actor) if row.decided_by else None,
        decided_at=row.decided_at,
        reason=row.reason,
        form=request.form,
        parameters=request.parameters,
    )
    return Held(row.key, row.run, row.session, approval)
