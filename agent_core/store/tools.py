"""Tools as operators define them, and the revision that tells processes of a change."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
import structlog
from sqlalchemy import Connection, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from agent_core.agents import DefinedTool, ToolDefinition, ToolOrigin, ToolVersion
from agent_core.errors import Conflict, InvalidInput, ManagedByFile, ToolInUse
from agent_core.ids import new_id
from agent_core.store import catalog
from agent_core.store.database import required
from agent_core.store.log import table_of
from agent_core.store.tables import DEFAULT_PROJECT, ProjectRow, RevisionRow, ToolRow, ToolVersionRow

NEWER = "a newer version of Parley may have stored it; run that one"
"""What is said of a row that this version cannot read."""
RevisionKind = Literal["tools", "mcp", "secrets"]
REVISION, PROJECT = table_of(RevisionRow), table_of(ProjectRow)
# A transaction that opens a session does not wait for this lock; SQLite has one writer at a time anyway.
_ALONE = select(PROJECT.c.key).where(PROJECT.c.key == DEFAULT_PROJECT).with_for_update(key_share=True)


def lock_revisions(connection: Connection) -> None:
    """Return when no other transaction changes agents, tools, servers or secrets; none does until this one ends."""
    connection.execute(_ALONE)


def bump_revision(connection: Connection, kind: RevisionKind, project: int = DEFAULT_PROJECT) -> int:
    """Count one more change of *kind* and return their number; transactions that change it wait for one another."""
    lock_revisions(connection)
    where = (REVISION.c.project == project, REVISION.c.kind == kind)
    counted = update(REVISION).where(*where).values(n=REVISION.c.n + 1).returning(REVISION.c.n)
    revision = connection.execute(counted).scalar_one_or_none()
    if revision is None:
        connection.execute(insert(REVISION).values(project=project, kind=kind, n=1))
        return 1
    return revision


def current_revisions(connection: Connection, project: int = DEFAULT_PROJECT) -> Mapping[str, int]:
    """Return the number of changes of each kind that has ever changed."""
    rows = connection.execute(select(REVISION.c.kind, REVISION.c.n).where(REVISION.c.project == project))
    return {row.kind: row.n for row in rows}


TOOL, VERSION = table_of(ToolRow), table_of(ToolVersionRow)
_OURS = TOOL.c.project == DEFAULT_PROJECT
_SELECT = (
    select(TOOL, VERSION.c.definition)
    .join(VERSION, (VERSION.c.tool == TOOL.c.key) & (VERSION.c.version == TOOL.c.version))
    .where(_OURS)
)
_log = structlog.get_logger("parley.tools")


def everything(connection: Connection) -> Sequence[DefinedTool]:
    """Return every tool that this version can read, at its newest version, by name."""
    rows = connection.execute(_SELECT.order_by(TOOL.c.name))
    return [tool for row in rows if (tool := _readable(row)) is not None]


def find(connection: Connection, name: str) -> DefinedTool:
    """Return the tool with this id or name; raises `NotFound`, or `Conflict` if this version cannot read it."""
    row = _row(connection, name)
    tool = _readable(row)
    if tool is None:
        raise Conflict(f"The tool `{row.name}` cannot be read by this version: {NEWER}.")
    return tool


def hold(connection: Connection, name: str) -> DefinedTool:
    """Do as `find`, for a transaction that changes the tool: no other one changes any until it ends."""
    lock_revisions(connection)
    return find(connection, name)


def versions(connection: Connection, name: str) -> Sequence[ToolVersion]:
    """Return the versions of a tool, the newest first; raises `NotFound`."""
    key = _row(connection, name).key
    query = select(VERSION).where(VERSION.c.tool == key).order_by(VERSION.c.version.desc())
    return [
        ToolVersion(version=row.version, created_at=row.created_at, definition=_read(row.definition))
        for row in connection.execute(query)
    ]


def create(connection: Connection, wanted: ToolDefinition, *, now: int, source: ToolOrigin = "api") -> DefinedTool:
    """Store a new tool; raises `InvalidInput` when another has its name."""
    bump_revision(connection, "tools")
    name, times = new_id("tool"), {"created_at": now, "updated_at": now}
    values = {"project": DEFAULT_PROJECT, "id": name, "name": wanted.name, "source": source, "version": 1, **times}
    try:
        key = connection.execute(insert(TOOL).values(**values).returning(TOOL.c.key)).scalar_one()
    except IntegrityError as error:
        raise _taken(wanted) from error
    _add_version(connection, key, 1, wanted, now)
    return find(connection, name)


def change(
    connection: Connection, tool: DefinedTool, wanted: ToolDefinition, *, now: int, source: ToolOrigin = "api"
) -> DefinedTool:
    """Store *wanted* as the next version of *tool*; an equal definition makes none.

    Raises `InvalidInput` when another tool has its name, `NotFound` when *tool* was deleted meanwhile.
    """
    if wanted == tool.definition and source == tool.source:
        return tool
    bump_revision(connection, "tools")  # from here on no other transaction changes tools
    row = _row(connection, tool.id)
    version = row.version if wanted == tool.definition else row.version + 1
    values = {"version": version, "name": wanted.name, "source": source, "updated_at": now}
    try:
        connection.execute(update(TOOL).where(TOOL.c.key == row.key).values(**values))
    except IntegrityError as error:
        raise _taken(wanted) from error
    if version != row.version:
        _add_version(connection, row.key, version, wanted, now)
    return find(connection, tool.id)


def editable(tool: DefinedTool) -> DefinedTool:
    """Return *tool*; raises `ManagedByFile` when a file defines it."""
    if tool.source == "file":
        raise ManagedByFile(f"The tool `{tool.definition.name}` comes from a file: change the file and start again.")
    return tool


def delete(connection: Connection, tool: DefinedTool) -> None:
    """Remove a tool that no agent names; raises `ToolInUse` with those that do otherwise."""
    bump_revision(connection, "tools")
    check_unused(connection, tool)
    connection.execute(TOOL.delete().where(TOOL.c.project == DEFAULT_PROJECT, TOOL.c.id == tool.id))


def check_unused(connection: Connection, tool: DefinedTool) -> None:
    """Raise `ToolInUse` with the agents that name *tool*; a glob that matches it does not count."""
    name = tool.definition.name
    users = catalog.agents_with(connection, lambda made: name in made.tools)
    if users:
        listed = ", ".join(f"`{each}`" for each in users)
        raise ToolInUse(f"The tool `{name}` is in the `tools` of {listed}: take it out there first.")


def sync_files(connection: Connection, definitions: Sequence[ToolDefinition], *, whole: bool, now: int) -> None:
    """Store the tools that files define: new ones are created, changed ones get a version.

    A tool that no file defines any more is removed, as one of a Python file is, if *definitions* are *whole*: what a
    broken file defines is not known. Processes that start together do it one after the other. Raises `InvalidInput` for
    a tool that is defined over the API.
    """
    lock_revisions(connection)
    stored = {tool.definition.name: tool for tool in everything(connection)}
    unread = frozenset(connection.execute(select(TOOL.c.name).where(_OURS)).scalars()) - stored.keys()
    for wanted in definitions:
        if wanted.name in unread:  # a newer version wrote it
            continue
        tool = stored.get(wanted.name)
        if tool is None:
            create(connection, wanted, now=now, source="file")
        elif tool.source == "api":
            raise of_api(wanted.name)
        else:
            change(connection, tool, wanted, now=now, source="file")
    names = {wanted.name for wanted in definitions}
    gone = [tool.id for name, tool in stored.items() if tool.source == "file" and name not in names]
    if gone and whole:
        bump_revision(connection, "tools")
        connection.execute(TOOL.delete().where(TOOL.c.id.in_(gone)))


def _row(connection: Connection, name: str) -> Any:
    return required(connection.execute(_SELECT.where(or_(TOOL.c.id == name, TOOL.c.name == name))), "tool", name)


def of_api(name: str) -> InvalidInput:
    """Return why a file cannot define a tool *name*: one of the API has that name, and would go with the file."""
    return InvalidInput(
        "name", f"`{name}` is defined over the API; delete it there or give the file's tool another name."
    )


def _taken(wanted: ToolDefinition) -> InvalidInput:
    return InvalidInput("name", f"a tool named `{wanted.name}` is defined already; choose another name.")


def _add_version(connection: Connection, tool: int, version: int, wanted: ToolDefinition, now: int) -> None:
    content = msgspec.json.encode(wanted)
    connection.execute(insert(VERSION).values(tool=tool, version=version, definition=content, created_at=now))


def _tool(row: Any) -> DefinedTool:
    return DefinedTool(
        id=row.id,
        version=row.version,
        source=row.source,
        definition=_read(row.definition),
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def _readable(row: Any) -> DefinedTool | None:
    """Return the tool of *row*, None of one that this version cannot read, which is logged."""
    try:
        return _tool(row)
    except msgspec.MsgspecError as error:
        _log.error("tools.not_readable", tool=row.name, id=row.id, reason=str(error), remedy=NEWER)
        return None


def _read(stored: bytes) -> ToolDefinition:
    """Return a definition without the fields that a newer version added: both serve during a deploy."""
    fields: dict[str, Any] = msgspec.json.decode(stored)
    return msgspec.convert(
        {name: fields[name] for name in ToolDefinition.__struct_fields__ if name in fields}, ToolDefinition
    )
