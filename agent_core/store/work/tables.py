"""Tables beside those of the log: ratings, what was spent, sessions that go on as others, files, dropped prompts."""
# SQLModel types `__tablename__` as a declared_attr, though a string is what it takes:
# pyright: reportAssignmentType=false

from typing import Any

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, LargeBinary, String, Text, UniqueConstraint, text
from sqlmodel import Field, SQLModel

from agent_core.store.tables import Key

WAITING = text("seq IS NULL")


def _text_key(length: int) -> Any:
    return Field(sa_column=Column(String(length), primary_key=True))


def _count() -> Any:
    return Field(sa_column=Column(BigInteger, nullable=False))


def _sum() -> Any:
    return Field(default=None, sa_column=Column(BigInteger, nullable=True))


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
    run: int = _count()
    runs: int = _count()
    steps: int = _count()
    unmeasured: int = _count()
    unpriced: int = _count()
    input: int | None = _sum()
    output: int | None = _sum()
    reasoning: int | None = _sum()
    cache_read: int | None = _sum()
    cache_write_short: int | None = _sum()
    cache_write_long: int | None = _sum()
    cost: int | None = _sum()
    uncached_cost: int | None = _sum()


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
    size: int = _count()
    text: str | None = Field(default=None, sa_column=Column(String(40), nullable=True))
    pages: int | None = Field(default=None, sa_column=Column(Integer, nullable=True))
    stored: int = _count()
    charged: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
    created_at: int = _count()


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
    created_at: int = _count()
    charged: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
    stored: int | None = _sum()


class DroppedPromptRow(SQLModel, table=True):
    """The hash of a prompt that runs of a deleted session brought: it goes too unless others have it.

    *aside_at* is when it was set aside, in milliseconds; null before that.
    """

    __tablename__ = "dropped_prompt"
    hash: str = _text_key(32)
    aside_at: int | None = _sum()
