"""The tables of tools that are defined, of MCP servers, and of the secrets that both refer to."""
# SQLModel types `__tablename__` as a declared_attr, though a string is what it takes:
# pyright: reportAssignmentType=false

from typing import Any

from sqlalchemy import BigInteger, Column, ForeignKey, Integer, LargeBinary, String, UniqueConstraint
from sqlmodel import Field, SQLModel

from agent_core.store.tables import Key


def _key() -> Any:
    return Field(default=None, sa_column=Column(Key, primary_key=True, autoincrement=True))


def _project() -> Any:
    return Field(default=None, sa_column=Column(Key, ForeignKey("project.key", ondelete="CASCADE"), nullable=False))


def _text(length: int, *, nullable: bool = False) -> Any:
    return Field(default=None, sa_column=Column(String(length), nullable=nullable))


def _time(*, nullable: bool = False) -> Any:
    return Field(default=None, sa_column=Column(BigInteger, nullable=nullable))


def _json(*, nullable: bool = False) -> Any:
    return Field(default=None, sa_column=Column(LargeBinary, nullable=nullable))


class ToolRow(SQLModel, table=True):
    """A defined tool: its definitions are in `tool_version`, *version* is the newest; *source* says `file` or `api`."""

    __tablename__ = "tool"
    __table_args__ = (UniqueConstraint("project", "name"),)
    key: int | None = _key()
    project: int = _project()
    id: str = Field(sa_column=Column(String(40), nullable=False, unique=True))
    name: str = _text(64)
    source: str = _text(8)
    version: int = Field(sa_column=Column(Integer, nullable=False))
    created_at: int = _time()
    updated_at: int = _time()


class ToolVersionRow(SQLModel, table=True):
    """One definition of a tool, as JSON; never changed."""

    __tablename__ = "tool_version"
    tool: int = Field(sa_column=Column(Key, ForeignKey("tool.key", ondelete="CASCADE"), primary_key=True))
    version: int = Field(sa_column=Column(Integer, primary_key=True))
    definition: bytes = _json()
    created_at: int = _time()


class SecretRow(SQLModel, table=True):
    """A secret by its *name*; *sealed* opens with the key of the project's secrets alone."""

    __tablename__ = "secret"
    __table_args__ = (UniqueConstraint("project", "name"),)
    key: int | None = _key()
    project: int = _project()
    name: str = _text(64)
    sealed: bytes = _json()
    created_at: int = _time()
    updated_at: int = _time()


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
    project: int = _project()
    id: str = Field(sa_column=Column(String(40), nullable=False, unique=True))
    name: str = _text(64)
    source: str = _text(8)
    definition: bytes = _json()
    listing: bytes | None = _json(nullable=True)
    listed_at: int | None = _time(nullable=True)
    accepted: bytes | None = _json(nullable=True)
    error: str | None = _text(2_000, nullable=True)
    failed_at: int | None = _time(nullable=True)
    login: bytes | None = _json(nullable=True)
    login_state: bytes | None = _json(nullable=True)
    login_lease: int | None = _time(nullable=True)
    due_at: int = _time()
    created_at: int = _time()
    updated_at: int = _time()


class RevisionRow(SQLModel, table=True):
    """How often the rows of a *kind* (`tools`, `mcp`, `secrets`) have changed: other processes compare it."""

    __tablename__ = "revision"
    project: int = Field(sa_column=Column(Key, ForeignKey("project.key", ondelete="CASCADE"), primary_key=True))
    kind: str = Field(sa_column=Column(String(16), primary_key=True))
    n: int = _time()
