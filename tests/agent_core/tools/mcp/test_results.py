"""Structured content beside texts: what says the same is there once, what says more is added, and both have rows."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import mcp_types as wire

from agent_core.agents import ToolDefinition
from agent_core.charts.rows import rows_in
from agent_core.mcp.client import outcome_of
from agent_core.mcp.http_client import Soft
from agent_core.messages import Text, text_of
from agent_core.servers import McpServer
from agent_core.tools.base import Done, Outcome, ToolError
from agent_core.tools.output import CatalogTool
from tests.agent_core.history import spec
from tests.agent_core.tools.mcp.stage import McpCaller
from tests.cases import for_each

ROWS = [{"id": 1}, {"id": 2}]


async def result(structured: object, *texts: str, is_error: bool = False) -> Outcome:
    blocks: list[Any] = [wire.TextContent(type="text", text=text) for text in texts]
    made = wire.CallToolResult(content=blocks, structured_content=structured, is_error=is_error)
    return await outcome_of(made, McpServer(name="shop"), "orders", McpCaller(None).context(), [])  # type: ignore[arg-type]


@for_each(
    "structured, texts, shown",
    [
        ({"id": 1}, ['{\n  "id": 1\n}'], ['{\n  "id": 1\n}']),
        ({"result": "hi"}, ["hi"], ["hi"]),
        ({"result": 7}, ["7"], ["7"]),
        ({"result": ROWS}, [json.dumps(ROWS)], [json.dumps(ROWS)]),
        ({"result": ROWS}, [json.dumps(row, indent=2) for row in ROWS], [json.dumps({"result": ROWS})]),
        ({"result": ROWS[:1]}, [json.dumps(ROWS[0])], [json.dumps({"result": ROWS[:1]})]),
        ({"result": ["a", "b"]}, ["a", "b"], ['{"result": ["a", "b"]}']),
        ({"orders": ROWS}, ["Found 2 orders."], ["Found 2 orders.", json.dumps({"orders": ROWS})]),
        ({"result": ["a", "c"]}, ["a", "b"], ["a", "b", '{"result": ["a", "c"]}']),
        ({"id": 1}, [], ['{"id": 1}']),
        ({}, ["Done."], ["Done."]),
        (None, ["Done."], ["Done."]),
    ],
)
async def test_structured_content_is_shown_unless_the_text_says_it(
    structured: object, texts: list[str], shown: list[str]
):
    """What the texts say already is not there twice, in whatever form; anything else is added as JSON."""
    outcome = await result(structured, *texts)
    assert isinstance(outcome, Done)
    assert [part.text for part in outcome.parts if isinstance(part, Text)] == shown


@for_each("texts", [["Found 2 orders."], [json.dumps(row) for row in ROWS], [json.dumps(ROWS)]])
async def test_rows_are_found_in_structured_content(texts: list[str]):
    """The rows of a result are those of its structured content, however its texts say them."""
    outcome = await result({"result": ROWS}, *texts)
    assert isinstance(outcome, Done)
    (found,) = filter(None, (rows_in(part.text) for part in outcome.parts if isinstance(part, Text)))
    assert list(found.rows) == ROWS


@for_each(
    "structured, texts, output, shown",
    [
        ({"orders": ROWS}, ["Found 2 orders."], "orders[].id", "[1,2]"),
        ({"result": ROWS}, [json.dumps(row) for row in ROWS], "result[].id", "[1,2]"),
        ({"id": 1, "token": "x"}, ['{"id": 1, "token": "x"}'], "id", "1"),
        ({"result": "hi"}, ["hi"], "result", "hi"),
    ],
)
async def test_an_output_is_applied_to_structured_content(
    structured: object, texts: list[str], output: str, shown: str
):
    """An `output` maps the structured content, and nothing of the texts is left beside it."""

    class Inner:
        spec = spec("mcp__shop__orders")

        async def call(self, *_: object) -> Outcome:
            return await result(structured, *texts)

    definition = ToolDefinition(name="orders", kind="mcp", description="", output=output)
    outcome = await CatalogTool(definition, Inner()).call({}, McpCaller(None).context())  # type: ignore[arg-type]
    assert isinstance(outcome, Done)
    assert text_of(outcome.parts) == shown


async def test_an_error_says_its_structured_content_too():
    """The model reads why a call failed, wherever the server says it."""
    assert await result({"code": 7}, "No.", is_error=True) == ToolError('No.\n\n{"code": 7}')


@for_each("kind", ["text/event-stream", "application/json"])
async def test_half_a_character_is_replaced_over_http(kind: str) -> None:
    """An answer, or a stream in any pieces, brings U+FFFD for the escape of half a character."""
    whole = b'data: {"a": "\\ud83d\\ude00 \\ud83d"}\n\n'

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(whole), 5):
            yield whole[at : at + 5]

    answer = httpx2.Response(200, headers={"content-type": kind}, content=pieces())
    soft = Soft(httpx2.MockTransport(lambda _: answer), lambda _: None)
    got = await (await soft.handle_async_request(httpx2.Request("POST", "http://mcp.test"))).aread()
    assert got == whole.replace(b'\\ud83d"', b'\\ufffd"')
