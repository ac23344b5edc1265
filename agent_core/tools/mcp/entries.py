"""Entries of a server's list of tools that are none: replaced before the SDK, which refuses a whole list for one."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Self, cast

import mcp_types as wire
from mcp.shared.message import SessionMessage
from mcp_types.jsonrpc import JSONRPCResponse
from mcp_types.methods import SERVER_RESULTS
from pydantic import BaseModel, ValidationError

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
