"""What MCP servers list: paged, cleaned, canonical, bounded; and servers that lie."""

from collections.abc import Callable
from typing import Any

import pytest
import structlog

from agent_core.listings import cleaned
from agent_core.mcp.port import McpUnavailable
from agent_core.servers import FilledServer, McpAnnotations, McpListing
from agent_core.testing.mcp import FakeMcp, FakeTool, sample_tools
from agent_core.testing.mcp.server import Era
from tests.agent_core.tools.mcp.stage import server_of, staged
from tests.cases import for_each

EMPTY: dict[str, Any] = {"type": "object", "properties": {}}


async def _listing(fake: FakeMcp) -> McpListing:
    async with fake, staged(fake.host) as stage:
        return await stage.connections.discover(server_of(fake))


async def test_five_hundred_tools_come_in_pages() -> None:
    """Five hundred tools come in pages."""
    tools = [FakeTool(f"tool_{n:03}", "One of many.") for n in reversed(range(500))]
    fake = FakeMcp(tools, page=50, instructions="Be kind.\u202e", name="many")
    listing = await _listing(fake)
    assert [tool.name for tool in listing.tools] == [f"tool_{n:03}" for n in range(500)]
    assert (listing.era, listing.title, listing.version, listing.instructions) == (
        "2026-07-28",
        "Many",
        "1.0",
        "Be kind.",
    )
    assert len(fake.asked_for("tools/list")) == 10


async def test_the_same_list_reads_the_same_in_both_eras() -> None:
    """The same list reads the same in both eras."""
    modern, legacy = [await _listing(FakeMcp(sample_tools(), era=era)) for era in ("modern", "legacy")]
    assert (modern.tools, legacy.era) == (legacy.tools, "2025-11-25")


async def test_texts_are_cleaned_and_cut_and_schemas_are_canonical() -> None:
    """Texts are cleaned and cut and schemas are canonical."""
    schema = {
        "type": "object",
        "properties": {
            "b": {"type": "string", "description": "Hid\u200bden", "enum": ["k\u200bept"]},
            "a": {"title": "\u202eTitle", "type": "integer"},
        },
    }
    more = {"title": "A \u2066title", "_meta": {"parley/resource": "orders", "resource": "other"}}
    hints = {"readOnlyHint": True, "idempotentHint": False}
    tool = FakeTool("one", "Look\U000e0041\U000e0042 here. " + "x" * 5000, schema, annotations=hints, more=more)
    [found] = (await _listing(FakeMcp([tool]))).tools
    assert found.description.startswith("Look here. xxx")
    assert len(found.description) == 4000
    assert (found.title, found.resource) == ("A title", "orders")
    assert found.annotations == McpAnnotations(read_only=True, idempotent=False)
    assert list(found.parameters["properties"]) == ["a", "b"]
    assert found.parameters["properties"]["a"]["title"] == "Title"
    assert found.parameters["properties"]["b"] == {
        "description": "Hidden",
        "enum": ["kept"],
        "type": "string",
    }


async def test_a_secret_that_a_text_is_cut_in_is_masked_before() -> None:
    """Nothing of a secret is left where a description is cut in the middle of it."""
    fake = FakeMcp([FakeTool("one", "x" * 3995 + " opensesame")])
    async with fake, staged(fake.host) as stage:
        server = FilledServer(name="fake", url=fake.url, secrets={"K": "opensesame"})
        [tool] = (await stage.connections.discover(server)).tools
    assert tool.description == "x" * 3995 + " [sec"


async def test_what_cannot_be_used_is_left_out_with_a_warning() -> None:
    """What cannot be used is left out with a warning."""
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(60):
        deep = {"type": "object", "properties": {"a": deep}}
    large = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(3000)}}
    tools = [
        FakeTool("good", "The first."),
        FakeTool("good", "The second."),
        FakeTool("bad name"),
        FakeTool("x" * 129),
        FakeTool("deep", parameters=deep),
        FakeTool("large", parameters=large),
    ]
    with structlog.testing.capture_logs() as logs:
        listing = await _listing(FakeMcp(tools))
    assert [(tool.name, tool.description) for tool in listing.tools] == [("good", "The first.")]
    assert [each["event"] for each in logs] == ["mcp.tool_left_out"] * 5


def _more(cursor: str | None) -> dict[str, Any]:
    n = int(cursor or 0)
    return {"tools": [{"name": f"t{n}", "inputSchema": EMPTY}], "nextCursor": str(n + 1)}


async def test_a_list_without_an_end_is_cut() -> None:
    """A list without an end is cut."""
    fake = FakeMcp(listing=_more)
    assert len((await _listing(fake)).tools) == 50
    assert len(fake.asked_for("tools/list")) == 50


@for_each(
    "listing, said",
    [
        (lambda _cursor: {"tools": [], "nextCursor": "again"}, "repeats itself"),
        (lambda _cursor: {"tools": "none"}, "what the protocol does not allow"),
        (lambda _cursor: {}, "what the protocol does not allow"),
        (lambda _cursor: {"tools": [{"name": "x" * 4_100_000, "inputSchema": EMPTY}]}, "larger than 4 MB"),
    ],
)
@for_each("era", ["modern", "legacy"])
async def test_a_lying_server_is_unavailable(era: Any, listing: Callable[[str | None], Any], said: str) -> None:
    """A lying server is unavailable."""
    with pytest.raises(McpUnavailable, match=said):
        await _listing(FakeMcp(era=era, listing=listing))


@for_each("era", ["modern", "legacy"])
async def test_an_entry_that_is_no_tool_is_named_and_the_others_are_kept(era: Era) -> None:
    """A description of a wrong type, a schema that is a text, and a number cost no other tool its place."""
    bad = [{"name": "odd", "description": 5, "inputSchema": EMPTY}, {"name": "texty", "inputSchema": "object"}, 7]

    def lists(_cursor: str | None) -> dict[str, Any]:
        return {"tools": [{"name": "good", "inputSchema": EMPTY}, *bad, {"name": "fine", "inputSchema": EMPTY}]}

    with structlog.testing.capture_logs() as logs:
        found = await _listing(FakeMcp(sample_tools(), era=era, listing=lists))
    assert [tool.name for tool in found.tools] == ["fine", "good"]
    assert [each.tool for each in found.left_out] == ["odd", "texty", "entry 4"]
    assert found.left_out[0].why == "it is no tool: `description`: Input should be a valid string"
    assert [each.tool for each in cleaned(found).left_out] == ["odd", "texty", "entry 4"]
    assert [each["tool"] for each in logs if each["event"] == "mcp.tool_left_out"] == ["odd", "texty", "entry 4"]
