"""One call of an MCP tool, made with any session: what is sent, what is asked in between, and what comes of it."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import mcp_types as wire
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter

from agent_core.servers import McpServer
from agent_core.tools.base import CallContext, Outcome
from agent_core.tools.mcp.listing import relist
from agent_core.tools.mcp.marks import CallMark
from agent_core.tools.mcp.progress import shown_by
from agent_core.tools.mcp.questions import MAX_HELD_SECONDS, AskedSoFar, LiveQuestions, Unanswerable, asked_by, taken_up
from agent_core.tools.mcp.results import outcome_of

_ROUNDS = 5
"""How often one call may ask what is declined without a person."""
SPARE = 5.0
"""Seconds beyond a call's own timeout, which its caller counts, after which the client gives up too."""
_ANSWERS: TypeAdapter[wire.CallToolResult | wire.InputRequiredResult] = TypeAdapter(
    wire.CallToolResult | wire.InputRequiredResult
)


class ToolUse:
    """One call of a tool, made with any session."""

    def __init__(
        self,
        server: McpServer,
        tool: str,
        arguments: dict[str, Any],
        context: CallContext,
        mark: CallMark,
        *,
        repeatable: bool,
    ) -> None:
        self._server, self._tool, self._arguments = server, tool, arguments
        self._context, self._mark, self._repeatable = context, mark, repeatable
        self.questions = mark.questions = LiveQuestions(taken_up(context.answer), context.clock, repeatable=repeatable)

    async def __call__(self, session: ClientSession) -> Outcome:
        asked = taken_up(self._context.answer)
        if session.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return await self._modern(session, asked)
        return await self._legacy(session, asked)

    async def _modern(self, session: ClientSession, asked: AskedSoFar) -> Outcome:
        for _ in range(_ROUNDS):
            if (following := asked.next()) is not None:
                return following.elicitation(self._server.name)
            result = await self._send(session, asked)
            if isinstance(result, wire.CallToolResult):
                return await self._outcome(result, asked.notes)
            asked = asked_by(result, asked)
        raise Unanswerable(f"it asks again and again what is declined ({'; '.join(asked.notes)})")

    async def _legacy(self, session: ClientSession, asked: AskedSoFar) -> Outcome:
        questions = self.questions
        if not self._repeatable:
            result = await self._send(session, asked, MAX_HELD_SECONDS)
            assert isinstance(result, wire.CallToolResult), "A result of the legacy era asks nothing."
            return await self._outcome(result, questions.notes)
        work = asyncio.ensure_future(self._send(session, asked))
        try:
            await asyncio.wait((work, questions.open), return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                return questions.asked().elicitation(self._server.name)
            result = work.result()
            assert isinstance(result, wire.CallToolResult), "A result of the legacy era asks nothing."
            return await self._outcome(result, questions.notes)
        finally:
            work.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await work
            questions.over.set()

    async def _send(
        self, session: ClientSession, asked: AskedSoFar, held: float = 0.0
    ) -> wire.CallToolResult | wire.InputRequiredResult:
        request = wire.CallToolRequest(
            params=wire.CallToolRequestParams(
                name=self._tool,
                arguments=self._arguments,
                input_responses=asked.responses or None,
                request_state=asked.request_state,
            )
        )
        seconds, progress = self._server.timeout_s + SPARE + held, shown_by(self._server, self._context)
        self._mark.sent = True
        try:
            return await session.send_request(request, _ANSWERS, seconds, progress_callback=progress)
        except MCPError as error:
            # A write is made again only where HTTP said too that the request was refused for its headers.
            if error.code != wire.HEADER_MISMATCH or (self._mark.status is None and not self._repeatable):
                raise
        await relist(session, self._tool)
        return await session.send_request(request, _ANSWERS, seconds, progress_callback=progress)

    async def _outcome(self, result: wire.CallToolResult, notes: Sequence[str]) -> Outcome:
        return await outcome_of(result, self._server, self._tool, self._context, notes)
