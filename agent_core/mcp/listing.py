"""What a server lists: entries that are no tools are replaced before the SDK, which refuses a whole list for one."""

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Self, cast

import mcp_types as wire
import msgspec
import structlog
from mcp.client.session import ClientSession
from mcp.shared.message import SessionMessage
from mcp_types.jsonrpc import JSONRPCResponse
from mcp_types.methods import SERVER_RESULTS
from pydantic import BaseModel, ValidationError

from agent_core.mcp.port import McpUnavailable, masked
from agent_core.messages import visible
from agent_core.servers import LeftOut, McpAnnotations, McpListing, McpServer, McpTool

UNREADABLE = "parley/unreadable"
"""The key of `_meta` under which a stand-in says what is wrong with the entry that it stands for."""
_LISTS = tuple({kind for (method, _), kind in SERVER_RESULTS.items() if method == "tools/list"})
_MAX_NAME = 128


@asynccontextmanager
async def readable_lists(streams: AbstractAsyncContextManager[Any]) -> AsyncGenerator[Any]:
    """Give *streams* of the SDK's transport, whose lists of tools have stand-ins for entries that are none."""
    async with streams as (reading, *others):
        yield (_ReadableStream(reading), *others)


class _ReadableStream:
    """The stream *inner* of what a server sends."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    @property
    def last_context(self) -> Any:
        """Return the sender's context of the last message, by which the SDK goes on in it."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> Any:
        return _readable(await self._inner.receive())

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        return _readable(await self._inner.__anext__())

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._inner.__aexit__(kind, error, trace)


def _readable(item: Any) -> Any:
    """Return *item* as it is, unless it is a list of tools with entries that are none."""
    answer = item.message if isinstance(item, SessionMessage) else None
    tools = answer.result.get("tools") if isinstance(answer, JSONRPCResponse) else None
    if isinstance(answer, JSONRPCResponse) and isinstance(tools, list):
        entries = cast("list[object]", tools)
        answer.result["tools"] = [
            each if (why := _problem(each)) is None else _stand_in(place, each, why)
            for place, each in enumerate(entries, 1)
        ]
    return item


def _problem(entry: object) -> str | None:
    """Return why *entry* is no tool in any era, None when it is one."""
    try:
        wire.Tool.model_validate(entry, by_name=False)
    except ValidationError as error:
        return _said(error)
    problems = [_problem_of(kind, entry) for kind in _LISTS]
    return next((each for each in problems if each is not None), None) if None not in problems else None


def _problem_of(kind: Any, entry: object) -> str | None:
    tool: type[BaseModel] = kind.model_fields["tools"].annotation.__args__[0]
    try:
        tool.model_validate(entry, by_name=False)
    except ValidationError as error:
        return _said(error)
    return None


def _said(error: ValidationError) -> str:
    first = error.errors(include_input=False, include_url=False)[0]
    where = ".".join(map(str, first["loc"]))
    return f"{f'`{where}`: ' if where else ''}{first['msg']}"


def _stand_in(place: int, entry: object, why: str) -> dict[str, Any]:
    given = cast("Mapping[str, object]", entry).get("name") if isinstance(entry, dict) else None
    name = given[:_MAX_NAME] if isinstance(given, str) and given else f"entry {place}"
    return {"name": name, "inputSchema": {"type": "object"}, "_meta": {UNREADABLE: why}}


MAX_TOOLS, MAX_PAGES, MAX_LEFT_OUT = 2_000, 50, 100
MAX_DESCRIPTION, MAX_SCHEMA = 4_000, 50_000
"""Characters of a description, and bytes of a schema as JSON."""
_MAX_TITLE, _LISTING_MAX_NAME = 200, 128
_MAX_INSTRUCTIONS = 10_000
_MAX_WHY = 500
_DEEPEST = 50
_NAME = re.compile(r"[A-Za-z0-9._/-]{1,128}")
RESOURCE_KEYS = ("parley/resource", "resource")
"""The keys of a tool's `_meta` under which a server may say what it is about; the first that is a text counts."""
_log = structlog.get_logger("parley.mcp")


async def listed(session: ClientSession, server: McpServer) -> tuple[tuple[McpTool, ...], tuple[LeftOut, ...]]:
    """Return the tools that the server lists, sorted by name, and what is left out of them, with the reasons.

    That is an entry that is no tool, an unusual or a second name, a schema that is too large or no object's. Raises
    `McpUnavailable` for a list without an end.
    """
    found: dict[str, McpTool] = {}
    left_out: list[LeftOut] = []
    cursor, cursors = None, set[str]()
    for _ in range(MAX_PAGES):
        page = await session.list_tools(params=wire.PaginatedRequestParams(cursor=cursor))
        whys = [(tool.name, _take(found, tool, server)) for tool in page.tools]
        left_out += [_left_out(server, tool, why) for tool, why in whys if why is not None]
        cursor = page.next_cursor
        if cursor is None or len(found) >= MAX_TOOLS:
            break
        if cursor in cursors:
            raise McpUnavailable(f"The list of tools of the MCP server `{server.name}` repeats itself without an end.")
        cursors.add(cursor)
    if cursor is not None:
        left_out.append(_left_out(server, "the rest", f"it lists more than {MAX_TOOLS} tools or {MAX_PAGES} pages"))
    return tuple(sorted(found.values(), key=lambda tool: tool.name)[:MAX_TOOLS]), tuple(left_out[:MAX_LEFT_OUT])


async def relist(session: ClientSession, tool: str) -> None:
    """Have *session* learn which arguments of *tool* the server wants as headers too."""
    cursor = None
    for _ in range(MAX_PAGES):
        page = await session.list_tools(params=wire.PaginatedRequestParams(cursor=cursor))
        cursor = page.next_cursor
        if cursor is None or any(each.name == tool for each in page.tools):
            return


def described(session: ClientSession, server: McpServer, tools: tuple[McpTool, ...], era: str) -> McpListing:
    """Return the listing of *tools* with what the server says of itself."""
    info = session.server_info
    return McpListing(
        tools=tools,
        era=era,
        title=_short(server, info.title or info.name, _MAX_TITLE) if info else None,
        version=_short(server, info.version, _MAX_TITLE) if info else None,
        instructions=_short(server, session.instructions, _MAX_INSTRUCTIONS),
    )


def _take(found: dict[str, McpTool], tool: wire.Tool, server: McpServer) -> str | None:
    """Add *tool* to what was *found*, or return why it is left out."""
    if isinstance(why := (tool.meta or {}).get(UNREADABLE), str):
        return f"it is no tool: {why}"
    if not _NAME.fullmatch(tool.name):
        return "its name has characters that none may, or too many"
    if tool.name in found:
        return "another one has its name"
    if (problem := _unfit(tool.input_schema)) is None:
        found[tool.name] = _tool(server, tool)
    return problem


def _tool(server: McpServer, tool: wire.Tool) -> McpTool:
    hints = tool.annotations
    title = tool.title or (hints.title if hints else None)
    return McpTool(
        name=tool.name,
        description=_short(server, tool.description, MAX_DESCRIPTION) or "",
        parameters=_canonical(tool.input_schema),
        title=_short(server, title, _MAX_TITLE),
        annotations=McpAnnotations(
            hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint
        )
        if hints
        else McpAnnotations(),
        resource=_resource(server, tool.meta or {}),
    )


def _resource(server: McpServer, meta: dict[str, Any]) -> str | None:
    marks = (meta.get(key) for key in RESOURCE_KEYS)
    return next((_short(server, mark, _LISTING_MAX_NAME) for mark in marks if isinstance(mark, str)), None) or None


def _unfit(schema: dict[str, Any]) -> str | None:
    """Return why *schema* cannot be used."""
    if not _is_shallow(schema):
        return f"its schema is nested more than {_DEEPEST} levels deep"
    if len(msgspec.json.encode(schema)) > MAX_SCHEMA:
        return f"its schema is larger than {MAX_SCHEMA // 1000} kB"
    return None if schema.get("type", "object") == "object" else "its schema is not that of an object"


def _is_shallow(schema: object) -> bool:
    level: list[object] = [schema]
    for _ in range(_DEEPEST):
        level = [child for each in level for child in _children(each)]
        if not level:
            return True
    return False


def _children(value: object) -> Sequence[object]:
    if isinstance(value, dict):
        return list(cast("dict[str, object]", value).values())
    return cast("list[object]", value) if isinstance(value, list) else ()


def _canonical(value: Any) -> Any:
    """Return a schema with its keys sorted, and no hidden characters in its texts: models read all of them.

    Servers list the same schema in another order under another era, which would break the prompt cache.
    """
    if isinstance(value, dict):
        given = cast("dict[str, Any]", value)
        return {name: _canonical(given[name]) for name in sorted(given)}
    if isinstance(value, list):
        return [_canonical(each) for each in cast("list[Any]", value)]
    return visible(value) if isinstance(value, str) else value


def _short(server: McpServer, text: str | None, limit: int) -> str | None:
    """Return *text* without hidden characters, and masked if it is cut: what is left of a secret is found no more."""
    shown = visible(text or "").strip()
    return (shown if len(shown) <= limit else masked(server, shown)[:limit]) if text else None


def _left_out(server: McpServer, tool: str, why: str) -> LeftOut:
    left = LeftOut(masked(server, visible(tool))[:_LISTING_MAX_NAME], masked(server, visible(why))[:_MAX_WHY])
    _log.warning("mcp.tool_left_out", server=server.name, tool=left.tool, reason=left.why)
    return left
