"""Tables beside those of the log: what was spent, which outlives those it names; and which sessions go on as others."""
# SQLModel types `__tablename__` as a declared_attr, though a string is what it takes:
# pyright: reportAssignmentType=false

from typing import Any

from sqlalchemy import BigInteger, Column, ForeignKey, Index, String
from sqlmodel import Field, SQLModel

from agent_core.store.tables import Key


def _text(length: int) -> Any:
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
    agent: str = _text(40)
    channel: str = _text(40)
    actor: str = _text(200)
    session: str = _text(40)
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
