"""The tables of the store."""

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    String,
    Text,
    TextClause,
    UniqueConstraint,
    text,
)
from sqlmodel import Field, SQLModel

# SQLModel types `__tablename__` as a declared_attr, though a string is what it takes:
# pyright: reportAssignmentType=false


# SQLite counts up by itself only in a column of type INTEGER; Postgres needs 64 bits there.
Key = BigInteger().with_variant(Integer, "sqlite")
DEFAULT_PROJECT = 1
ACTIVE_ROOT = text("parent IS NULL AND status IN ('running', 'waiting', 'requires_action')")
QUEUED_ROOT = text("parent IS NULL AND status = 'queued'")
CHILD = text("parent IS NOT NULL")
OPEN = text("status = 'open'")
NOTHING_STORED = text("stored = 0")
DUE = text("status IN ('queued', 'running', 'waiting', 'requires_action')")

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
SQLModel.metadata.naming_convention = NAMING


def _key() -> Any:
    return Field(default=None, sa_column=Column(Key, primary_key=True, autoincrement=True))


def _partial(where: TextClause, name: str, *columns: str, unique: bool = False) -> Index:
    """Index the rows that *where* names; `migrations/env.py` does so for Postgres, imported only there."""
    return Index(name, *columns, unique=unique, sqlite_where=where)


def _ref(target: str, *, nullable: bool = False) -> Any:
    return Field(default=None, sa_column=Column(Key, ForeignKey(target, ondelete="CASCADE"), nullable=nullable))


def _big(*, nullable: bool = False, default: int | None = None) -> Any:
    return Field(default=default, sa_column=Column(BigInteger, nullable=nullable))


def _bytes(*, nullable: bool = False) -> Any:
    return Field(default=None, sa_column=Column(LargeBinary, nullable=nullable))


class ProjectRow(SQLModel, table=True):
    """A tenant; every other row belongs to one."""

    __tablename__ = "project"
    key: int | None = _key()
    name: str = Field(sa_column=Column(String(200), nullable=False, unique=True))


class AgentRow(SQLModel, table=True):
    """An agent: its definitions are in `agent_version`, *version* is the newest; *source* says `file` or `api`.

    *max_runs* and *quotas* are the newest definition's, here because every start of a run, and every message, reads
    them; *quotas* are JSON, None are the defaults.
    """

    __tablename__ = "agent"
    __table_args__ = (UniqueConstraint("project", "name"),)
    key: int | None = _key()
    project: int = _ref("project.key")
    id: str = Field(sa_column=Column(String(40), nullable=False, unique=True))
    name: str = Field(sa_column=Column(String(200), nullable=False))
    source: str = Field(sa_column=Column(String(8), nullable=False))
    version: int = Field(sa_column=Column(Integer, nullable=False))
    max_runs: int | None = Field(default=None, sa_column=Column(Integer, nullable=True))
    quotas: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))


class AgentVersionRow(SQLModel, table=True):
    """One definition of an agent, as JSON; never changed."""

    __tablename__ = "agent_version"
    agent: int = Field(sa_column=Column(Key, ForeignKey("agent.key", ondelete="CASCADE"), primary_key=True))
    version: int = Field(sa_column=Column(Integer, primary_key=True))
    definition: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    created_at: int = _big()


class SnapshotRow(SQLModel, table=True):
    """A frozen prompt prefix, named by the hash of its content."""

    __tablename__ = "snapshot"
    project: int = Field(sa_column=Column(Key, ForeignKey("project.key", ondelete="CASCADE"), primary_key=True))
    hash: str = Field(sa_column=Column(String(32), primary_key=True))
    content: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


class SessionRow(SQLModel, table=True):
    """A durable conversation.

    *next_seq* numbers its log, *window_seq* is where its window begins, *snapshot* is its own prompt prefix and
    *prefix* the one in force since the latest `snapshot.frozen` (a run may bring its own instructions). *noted* are the
    seqs, as JSON, of the facts that the next run shows the model. *shared*: others than the *actor* have written.
    *redactions* counts the deletions of a person's data from its log: what was read before the latest is outdated.
    """

    __tablename__ = "session"
    __table_args__ = (UniqueConstraint("project", "address"), Index(None, "project", "actor"))
    key: int | None = _key()
    project: int = _ref("project.key")
    id: str = Field(sa_column=Column(String(40), nullable=False, unique=True))
    address: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    agent: int = _ref("agent.key")
    agent_version: int = Field(sa_column=Column(Integer, nullable=False))
    actor: str = Field(sa_column=Column(String(200), nullable=False))
    actor_kind: str = Field(sa_column=Column(String(8), nullable=False))
    about: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))
    title: str | None = Field(default=None, sa_column=Column(String(200), nullable=True))
    closed: bool = Field(sa_column=Column(SmallInteger, nullable=False))
    snapshot: str = Field(sa_column=Column(String(32), nullable=False))
    prefix: str = Field(sa_column=Column(String(32), nullable=False))
    next_seq: int = _big(default=1)
    window_seq: int = _big(default=1)
    noted: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
    shared: bool = Field(default=False, sa_column=Column(SmallInteger, nullable=False, server_default=text("0")))
    redactions: int = Field(default=0, sa_column=Column(Integer, nullable=False, server_default=text("0")))


class EventRow(SQLModel, table=True):
    """A fact: *type* is the number in `store.codes`, *data* its body's JSON."""

    __tablename__ = "event"
    __table_args__ = {"sqlite_with_rowid": False}
    session: int = Field(sa_column=Column(Key, ForeignKey("session.key", ondelete="CASCADE"), primary_key=True))
    seq: int = Field(sa_column=Column(BigInteger, primary_key=True))
    run: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    type: int = Field(sa_column=Column(SmallInteger, nullable=False))
    time: int = _big()
    data: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


class RunRow(SQLModel, table=True):
    """A run. *input_seq* orders the session's queue; *due_at* is when it must be looked at again.

    *actor* (a number, see `quotas.key_of`) and *queued_at* order the queue of all sessions; *charged* are the
    numbers of those whose quotas it uses, 8 bytes each. *asker* is JSON of the `Actor` who asked, without a name.
    """

    __tablename__ = "run"
    __table_args__ = (
        _partial(ACTIVE_ROOT, "uq_run_active_root", "session", unique=True),
        _partial(QUEUED_ROOT, "ix_run_queued_root", "session", "input_seq"),
        _partial(DUE, "ix_run_open", "status", "due_at"),
        Index("ix_run_session", "session"),
        _partial(CHILD, "ix_run_parent", "parent"),
    )
    key: int | None = _key()
    project: int = _ref("project.key")
    id: str = Field(sa_column=Column(String(40), nullable=False, unique=True))
    session: int = _ref("session.key")
    agent: int = _ref("agent.key")
    agent_version: int = Field(sa_column=Column(Integer, nullable=False))
    parent: int | None = _ref("run.key", nullable=True)
    status: str = Field(sa_column=Column(String(16), nullable=False))
    epoch: int = Field(sa_column=Column(Integer, nullable=False))
    owner: str | None = Field(default=None, sa_column=Column(String(40), nullable=True))
    due_at: int | None = _big(nullable=True)
    input_seq: int = _big()
    first_seq: int = _big()
    last_seq: int | None = _big(nullable=True)
    snapshot: str = Field(sa_column=Column(String(32), nullable=False))
    options: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
    actor: int = Field(default=0, sa_column=Column(BigInteger, nullable=False, server_default=text("0")))
    queued_at: int = Field(default=0, sa_column=Column(BigInteger, nullable=False, server_default=text("0")))
    charged: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
    asker: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))


class ServedRow(SQLModel, table=True):
    """When a queued run of an *actor* (as in `run`) and an agent was started last, in milliseconds."""

    __tablename__ = "served"
    __table_args__ = (Index("ix_served_at", "at"),)
    actor: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    agent: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    at: int = _big()


class QuotaRow(SQLModel, table=True):
    """What one *subject* (see `quotas.key_of`) has used of an agent.

    *minute* and *day* number the periods in which the counts were last changed; `…_before` are those of the period
    before. *cost* is in billionths of a dollar, *stored* the bytes of runs that ended and were not deleted.
    """

    __tablename__ = "quota"
    __table_args__ = (_partial(NOTHING_STORED, "ix_quota_day", "day"),)
    agent: int = Field(sa_column=Column(Key, ForeignKey("agent.key", ondelete="CASCADE"), primary_key=True))
    subject: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    minute: int = _big()
    minute_messages: int = _big()
    minute_messages_before: int = _big()
    day: int = _big()
    messages: int = _big()
    messages_before: int = _big()
    sessions: int = _big()
    sessions_before: int = _big()
    tokens: int = _big()
    tokens_before: int = _big()
    cost: int = _big()
    cost_before: int = _big()
    stored: int = _big()


class ReceiptRow(SQLModel, table=True):
    """An idempotency key that was used: per session (messages) or per agent (runs)."""

    __tablename__ = "receipt"
    __table_args__ = (Index("ix_receipt_run", "run"), {"sqlite_with_rowid": False})
    scope: str = Field(sa_column=Column(String(8), primary_key=True))
    owner: int = Field(sa_column=Column(BigInteger, primary_key=True))
    name: str = Field(sa_column=Column(String(200), primary_key=True))
    project: int = _ref("project.key")
    digest: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    run: int = _ref("run.key")
    seq: int = _big()
    message: str = Field(sa_column=Column(String(60), nullable=False))


class ChangeRow(SQLModel, table=True):
    """An idempotency key of a session that was used for a change without a run; *seq* is the fact of the change."""

    __tablename__ = "change"
    session: int = Field(sa_column=Column(Key, ForeignKey("session.key", ondelete="CASCADE"), primary_key=True))
    name: str = Field(sa_column=Column(String(200), primary_key=True))
    kind: str = Field(sa_column=Column(String(8), nullable=False))
    seq: int = _big()


class ApprovalRow(SQLModel, table=True):
    """An approval: a question to people about one exact call, and its outcome.

    *asked* are the arguments as the model gave them, *arguments* those that may run, both as JSON; *digest* names what
    may run. *votes* are JSON; with *remembered* the tool is allowed for the rest of the conversation.
    """

    __tablename__ = "approval"
    __table_args__ = (
        _partial(OPEN, "ix_approval_open", "key"),
        Index("ix_approval_session", "session", "hook", "tool"),
        Index("ix_approval_run", "run", "status"),
    )
    key: int | None = _key()
    project: int = _ref("project.key")
    id: str = Field(sa_column=Column(String(40), nullable=False, unique=True))
    session: int = _ref("session.key")
    run: int = _ref("run.key")
    call: str = Field(sa_column=Column(String(60), nullable=False))
    step: int = Field(sa_column=Column(Integer, nullable=False))
    hook: str = Field(sa_column=Column(String(60), nullable=False))
    tool: str = Field(sa_column=Column(String(64), nullable=False))
    digest: str = Field(sa_column=Column(String(64), nullable=False))
    asked: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    arguments: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    request: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    status: str = Field(sa_column=Column(String(10), nullable=False))
    votes: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    remembered: bool = Field(sa_column=Column(SmallInteger, nullable=False))
    requested_at: int = _big()
    expires_at: int = _big()
    decided_at: int | None = _big(nullable=True)
    decided_by: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
    reason: str | None = Field(default=None, sa_column=Column(Text, nullable=True))


class AuditRow(SQLModel, table=True):
    """A line of the audit log of approvals: append-only, and kept when the session is deleted.

    *kind* is one of `approvals.AUDITED`, *surface* and *place* say where, *data* is JSON.
    """

    __tablename__ = "approval_audit"
    __table_args__ = (Index("ix_approval_audit_approval", "approval"),)
    key: int | None = _key()
    project: int = _ref("project.key")
    approval: str = Field(sa_column=Column(String(40), nullable=False))
    session: str = Field(sa_column=Column(String(40), nullable=False))
    run: str = Field(sa_column=Column(String(40), nullable=False))
    at: int = _big()
    kind: str = Field(sa_column=Column(String(10), nullable=False))
    actor: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
    surface: str | None = Field(default=None, sa_column=Column(String(20), nullable=True))
    place: str | None = Field(default=None, sa_column=Column(String(200), nullable=True))
    data: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))


class BlobRow(SQLModel, table=True):
    """Stored bytes: results beyond their limit, and rows; they count for *run*. A fork has a row of its own."""

    __tablename__ = "blob"
    __table_args__ = (UniqueConstraint("id", "session"), Index("ix_blob_session", "session"))
    key: int | None = _key()
    project: int = _ref("project.key")
    id: str = Field(sa_column=Column(String(40), nullable=False))
    session: int | None = _ref("session.key", nullable=True)
    mime: str = Field(sa_column=Column(String(100), nullable=False))
    data: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    run: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))


class ResultRow(SQLModel, table=True):
    """Rows that a tool returned, whole in *blob* as JSON, with their *columns* and *count*; their handle is `r<n>`."""

    __tablename__ = "result"
    session: int = Field(sa_column=Column(Key, ForeignKey("session.key", ondelete="CASCADE"), primary_key=True))
    n: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))
    run: int | None = _ref("run.key", nullable=True)
    call: str = Field(sa_column=Column(String(60), nullable=False))
    blob: str = Field(sa_column=Column(String(40), nullable=False))
    count: int = Field(sa_column=Column(Integer, nullable=False))
    columns: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


class RenderRow(SQLModel, table=True):
    """Where in the log the render *id* was shown: the *seq* of its `render.shown`. A fork has a row of its own."""

    __tablename__ = "render"
    __table_args__ = (Index("ix_render_id", "id"),)
    session: int = Field(sa_column=Column(Key, ForeignKey("session.key", ondelete="CASCADE"), primary_key=True))
    seq: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    id: str = Field(sa_column=Column(String(60), nullable=False))


class WorkerRow(SQLModel, table=True):
    """A live process on Postgres: *beat_at* is the time of its last heartbeat, by the database's clock.

    *kind* is `web` (drives nothing), `worker` (serves nothing) or `both`; *room* is how many more runs it may drive,
    *protocol* the newest stored form of runs that it knows.
    """

    __tablename__ = "worker"
    id: str = Field(sa_column=Column(String(40), primary_key=True))
    host: str = Field(sa_column=Column(String(200), nullable=False))
    pid: int = Field(sa_column=Column(Integer, nullable=False))
    kind: str = Field(sa_column=Column(String(8), nullable=False))
    protocol: int = Field(sa_column=Column(Integer, nullable=False))
    room: int = Field(sa_column=Column(Integer, nullable=False))
    running: int = Field(sa_column=Column(Integer, nullable=False))
    started_at: int = _big()
    beat_at: int = _big()


class LiveRow(SQLModel, table=True):
    """Live events of an open message, for readers at other processes; gone with the message's end.

    One row per run and flush; *n* grows within an epoch. The table is unlogged: a crash loses unfinished text only.
    """

    __tablename__ = "live"
    session: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    run: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    epoch: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))
    n: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    data: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


class KeptRow(SQLModel, table=True):
    """A value that processes share, never replaced; names with a colon, of requests that count once, go in time."""

    __tablename__ = "kept"
    name: str = Field(sa_column=Column(String(40), primary_key=True))
    value: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


WAITING = text("seq IS NULL")


def _text_key(length: int) -> Any:
    return Field(sa_column=Column(String(length), primary_key=True))


class BranchRow(SQLModel, table=True):
    """A session, *source*, that goes on as another, *target*: a copy in which its newest message is said again."""

    __tablename__ = "branch"
    __table_args__ = (Index("ix_branch_target", "target"),)
    source: int = Field(
        sa_column=Column(Key, ForeignKey("session.key", ondelete="CASCADE"), primary_key=True, autoincrement=False)
    )
    target: int = Field(sa_column=Column(Key, ForeignKey("session.key", ondelete="CASCADE"), nullable=False))


class SpendingRow(SQLModel, table=True):
    """What the model calls of one *actor* in one *session* used on one UTC *day*, counted since 1970-01-01.

    Ids are text: the row stays when what they name is deleted. *actor* is empty where it is unknown or was deleted,
    *session* where it was deleted. *run* is the key of the run that was billed last, so that each counts once.

    *unmeasured* and *unpriced* count the calls whose tokens, or price, are unknown. A sum holds what is known; it is
    null as long as nothing is. Money is in billionths of a dollar.
    """

    __tablename__ = "spending"
    __table_args__ = (Index("ix_spending_session", "session"), {"sqlite_with_rowid": False})
    day: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    agent: str = _text_key(40)
    channel: str = _text_key(40)
    actor: str = _text_key(200)
    session: str = _text_key(40)
    project: int = Field(sa_column=Column(Key, ForeignKey("project.key", ondelete="CASCADE"), nullable=False))
    run: int = _big()
    runs: int = _big()
    steps: int = _big()
    unmeasured: int = _big()
    unpriced: int = _big()
    input: int | None = _big(nullable=True)
    output: int | None = _big(nullable=True)
    reasoning: int | None = _big(nullable=True)
    cache_read: int | None = _big(nullable=True)
    cache_write_short: int | None = _big(nullable=True)
    cache_write_long: int | None = _big(nullable=True)
    cost: int | None = _big(nullable=True)
    uncached_cost: int | None = _big(nullable=True)


class FileRow(SQLModel, table=True):
    """A file that an *actor* sent; its bytes, and its *text*, are blobs. A fork has a row of its own.

    *seq* is the message that took it, None while it waits for one: after a day it is removed. *agent* is the id of the
    one that it was sent to, None for an operator's. *size* is bytes, *stored* what the file counts for, with its text;
    *charged* are the numbers of those whose quotas that uses, as in `run`.
    """

    __tablename__ = "file"
    __table_args__ = (
        UniqueConstraint("id", "session"),
        Index("ix_file_session", "session"),
        Index("ix_file_waiting", "created_at", sqlite_where=WAITING),
    )
    key: int | None = Field(default=None, sa_column=Column(Key, primary_key=True, autoincrement=True))
    project: int = Field(sa_column=Column(Key, ForeignKey("project.key", ondelete="CASCADE"), nullable=False))
    id: str = Field(sa_column=Column(String(40), nullable=False))
    session: int | None = Field(
        default=None, sa_column=Column(Key, ForeignKey("session.key", ondelete="CASCADE"), nullable=True)
    )
    seq: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    agent: str | None = Field(default=None, sa_column=Column(String(40), nullable=True))
    actor: str = Field(sa_column=Column(String(200), nullable=False))
    actor_kind: str = Field(sa_column=Column(String(8), nullable=False))
    name: str = Field(sa_column=Column(String(200), nullable=False))
    mime: str = Field(sa_column=Column(String(100), nullable=False))
    size: int = _big()
    text: str | None = Field(default=None, sa_column=Column(String(40), nullable=True))
    pages: int | None = Field(default=None, sa_column=Column(Integer, nullable=True))
    stored: int = _big()
    charged: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
    created_at: int = _big()


class FeedbackRow(SQLModel, table=True):
    """A person's feedback on a run: one per person, the newest.

    *stored* are the bytes that its comment counts for, *charged* the numbers of those whose quotas that uses, as in
    `run`; both are null where none does.
    """

    __tablename__ = "feedback"
    run: int = Field(sa_column=Column(Key, ForeignKey("run.key", ondelete="CASCADE"), primary_key=True))
    kind: str = _text_key(8)
    actor: str = _text_key(200)
    name: str | None = Field(default=None, sa_column=Column(String(200), nullable=True))
    rating: str = Field(sa_column=Column(String(4), nullable=False))
    comment: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    created_at: int = _big()
    charged: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
    stored: int | None = _big(nullable=True)


class DroppedPromptRow(SQLModel, table=True):
    """The hash of a prompt that runs of a deleted session brought: it goes too unless others have it.

    *aside_at* is when it was set aside, in milliseconds; null before that.
    """

    __tablename__ = "dropped_prompt"
    hash: str = _text_key(32)
    aside_at: int | None = _big(nullable=True)


class ApiKeyRow(SQLModel, table=True):
    """An API key: *digest* is the SHA-256 of its secret, *previous* that of the one before, valid for a while.

    *actor* is the id that it acts under, *scopes* are words with spaces between them. A revoked key keeps its row, so
    that records can name it.
    """

    __tablename__ = "api_key"
    key: int | None = _key()
    project: int = _ref("project.key")
    id: str = Field(sa_column=Column(String(40), nullable=False, unique=True))
    name: str = Field(sa_column=Column(String(100), nullable=False))
    actor: str = Field(sa_column=Column(String(60), nullable=False))
    scopes: str = Field(sa_column=Column(String(100), nullable=False))
    digest: bytes = _bytes()
    previous: bytes | None = _bytes(nullable=True)
    previous_until: int | None = _big(nullable=True)
    created_at: int = _big()
    created_by: bytes = _bytes()
    expires_at: int | None = _big(nullable=True)
    used_at: int | None = _big(nullable=True)
    rotated_at: int | None = _big(nullable=True)
    revoked_at: int | None = _big(nullable=True)


class SigningKeyRow(SQLModel, table=True):
    """A public key that signs visitors' tokens: *jwk* is JSON of it, *kid* the name by which a token finds it.

    *agents* is JSON of the ids for which it signs, null for every agent.
    """

    __tablename__ = "signing_key"
    __table_args__ = (UniqueConstraint("project", "kid"),)
    key: int | None = _key()
    project: int = _ref("project.key")
    id: str = Field(sa_column=Column(String(40), nullable=False, unique=True))
    name: str = Field(sa_column=Column(String(100), nullable=False))
    kid: str = Field(sa_column=Column(String(200), nullable=False))
    algorithm: str = Field(sa_column=Column(String(8), nullable=False))
    jwk: bytes = _bytes()
    created_at: int = _big()
    created_by: bytes = _bytes()
    agents: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))


class RevocationRow(SQLModel, table=True):
    """What holds no more since *at*: *kind* is `token`, `actor` or `session`, *subject* its id."""

    __tablename__ = "revocation"
    __table_args__ = (UniqueConstraint("project", "kind", "subject"), Index("ix_revocation_at", "at"))
    key: int | None = _key()
    project: int = _ref("project.key")
    id: str = Field(sa_column=Column(String(40), nullable=False, unique=True))
    kind: str = Field(sa_column=Column(String(8), nullable=False))
    subject: str = Field(sa_column=Column(String(200), nullable=False))
    at: int = _big()


class OperationRow(SQLModel, table=True):
    """A line of the record of operations: who did what to which object, with which result. Append-only."""

    __tablename__ = "operation"
    key: int | None = _key()
    project: int = _ref("project.key")
    at: int = _big()
    actor: bytes = _bytes()
    route: str = Field(sa_column=Column(String(120), nullable=False))
    object: str | None = Field(default=None, sa_column=Column(String(200), nullable=True))
    result: int = Field(sa_column=Column(SmallInteger, nullable=False))


def _text(length: int, *, nullable: bool = False) -> Any:
    return Field(default=None, sa_column=Column(String(length), nullable=nullable))


class ToolRow(SQLModel, table=True):
    """A defined tool: its definitions are in `tool_version`, *version* is the newest; *source* says `file` or `api`."""

    __tablename__ = "tool"
    __table_args__ = (UniqueConstraint("project", "name"),)
    key: int | None = _key()
    project: int = _ref("project.key")
    id: str = Field(sa_column=Column(String(40), nullable=False, unique=True))
    name: str = _text(64)
    source: str = _text(8)
    version: int = Field(sa_column=Column(Integer, nullable=False))
    created_at: int = _big()
    updated_at: int = _big()


class ToolVersionRow(SQLModel, table=True):
    """One definition of a tool, as JSON; never changed."""

    __tablename__ = "tool_version"
    tool: int = Field(sa_column=Column(Key, ForeignKey("tool.key", ondelete="CASCADE"), primary_key=True))
    version: int = Field(sa_column=Column(Integer, primary_key=True))
    definition: bytes = _bytes()
    created_at: int = _big()


class SecretRow(SQLModel, table=True):
    """A secret by its *name*; *sealed* opens with the key of the project's secrets alone."""

    __tablename__ = "secret"
    __table_args__ = (UniqueConstraint("project", "name"),)
    key: int | None = _key()
    project: int = _ref("project.key")
    name: str = _text(64)
    sealed: bytes = _bytes()
    created_at: int = _big()
    updated_at: int = _big()


class McpServerRow(SQLModel, table=True):
    """An MCP server: its *definition* as JSON, *source* says `file` or `api`.

    *listing* is what the latest discovery that succeeded said, at *listed_at*; *accepted* what of it agents may use,
    None until there was one: with `on_change: hold` a changed tool stays as it was accepted. *error* says why the
    latest discovery failed, at *failed_at*; None after one that succeeded. *due_at* is when the next one is due.
    *login* are the tokens of an operator's login, sealed, *login_state* is what may be known of it, as JSON; until
    *login_lease* one process alone renews them.
    """

    __tablename__ = "mcp_server"
    __table_args__ = (UniqueConstraint("project", "name"),)
    key: int | None = _key()
    project: int = _ref("project.key")
    id: str = Field(sa_column=Column(String(40), nullable=False, unique=True))
    name: str = _text(64)
    source: str = _text(8)
    definition: bytes = _bytes()
    listing: bytes | None = _bytes(nullable=True)
    listed_at: int | None = _big(nullable=True)
    accepted: bytes | None = _bytes(nullable=True)
    error: str | None = _text(2_000, nullable=True)
    failed_at: int | None = _big(nullable=True)
    login: bytes | None = _bytes(nullable=True)
    login_state: bytes | None = _bytes(nullable=True)
    login_lease: int | None = _big(nullable=True)
    due_at: int = _big()
    created_at: int = _big()
    updated_at: int = _big()


class RevisionRow(SQLModel, table=True):
    """How often the rows of a *kind* (`tools`, `mcp`, `secrets`) have changed: other processes compare it."""

    __tablename__ = "revision"
    project: int = Field(sa_column=Column(Key, ForeignKey("project.key", ondelete="CASCADE"), primary_key=True))
    kind: str = Field(sa_column=Column(String(16), primary_key=True))
    n: int = _big()
