"""The tables of access: API keys, keys of sites, revocations, and the record of what operators did."""
# SQLModel types `__tablename__` as a declared_attr, though a string is what it takes:
# pyright: reportAssignmentType=false

from typing import Any

from sqlalchemy import BigInteger, Column, ForeignKey, Index, LargeBinary, SmallInteger, String, UniqueConstraint
from sqlmodel import Field, SQLModel

from agent_core.store.tables import Key


def _key() -> Any:
    return Field(default=None, sa_column=Column(Key, primary_key=True, autoincrement=True))


def _project() -> Any:
    return Field(default=None, sa_column=Column(Key, ForeignKey("project.key", ondelete="CASCADE"), nullable=False))


def _time(*, nullable: bool = False) -> Any:
    return Field(default=None, sa_column=Column(BigInteger, nullable=nullable))


def _hash(*, nullable: bool = False) -> Any:
    return Field(default=None, sa_column=Column(LargeBinary, nullable=nullable))


class ApiKeyRow(SQLModel, table=True):
    """An API key: *digest* is the SHA-256 of its secret, *previous* that of the one before, valid for a while.

    *actor* is the id that it acts under, *scopes* are words with spaces between them. A revoked key keeps its row, so
    that records can name it.
    """

    __tablename__ = "api_key"
    key: int | None = _key()
    project: int = _project()
    id: str = Field(sa_column=Column(String(40), nullable=False, unique=True))
    name: str = Field(sa_column=Column(String(100), nullable=False))
    actor: str = Field(sa_column=Column(String(60), nullable=False))
    scopes: str = Field(sa_column=Column(String(100), nullable=False))
    digest: bytes = _hash()
    previous: bytes | None = _hash(nullable=True)
    previous_until: int | None = _time(nullable=True)
    created_at: int = _time()
    created_by: bytes = _hash()
    expires_at: int | None = _time(nullable=True)
    used_at: int | None = _time(nullable=True)
    rotated_at: int | None = _time(nullable=True)
    revoked_at: int | None = _time(nullable=True)


class SigningKeyRow(SQLModel, table=True):
    """A public key that signs visitors' tokens: *jwk* is JSON of it, *kid* the name by which a token finds it.

    *agents* is JSON of the ids for which it signs, null for every agent.
    """

    __tablename__ = "signing_key"
    __table_args__ = (UniqueConstraint("project", "kid"),)
    key: int | None = _key()
    project: int = _project()
    id: str = Field(sa_column=Column(String(40), nullable=False, unique=True))
    name: str = Field(sa_column=Column(String(100), nullable=False))
    kid: str = Field(sa_column=Column(String(200), nullable=False))
    algorithm: str = Field(sa_column=Column(String(8), nullable=False))
    jwk: bytes = _hash()
    created_at: int = _time()
    created_by: bytes = _hash()
    agents: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))


class RevocationRow(SQLModel, table=True):
    """What holds no more since *at*: *kind* is `token`, `actor` or `session`, *subject* its id."""

    __tablename__ = "revocation"
    __table_args__ = (UniqueConstraint("project", "kind", "subject"), Index("ix_revocation_at", "at"))
    key: int | None = _key()
    project: int = _project()
    id: str = Field(sa_column=Column(String(40), nullable=False, unique=True))
    kind: str = Field(sa_column=Column(String(8), nullable=False))
    subject: str = Field(sa_column=Column(String(200), nullable=False))
    at: int = _time()


class OperationRow(SQLModel, table=True):
    """A line of the record of operations: who did what to which object, with which result. Append-only."""

    __tablename__ = "operation"
    key: int | None = _key()
    project: int = _project()
    at: int = _time()
    actor: bytes = _hash()
    route: str = Field(sa_column=Column(String(120), nullable=False))
    object: str | None = Field(default=None, sa_column=Column(String(200), nullable=True))
    result: int = Field(sa_column=Column(SmallInteger, nullable=False))
