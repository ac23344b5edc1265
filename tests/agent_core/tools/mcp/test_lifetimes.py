"""How connections to MCP servers live: restarts, changes of era, news of changes, idleness, and their end."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from agent_core.mcp.client import Link
from agent_core.mcp.port import McpUnavailable
from agent_core.mcp.stdio import ChildCarrier
from agent_core.servers import McpServer
from agent_core.testing import FakeClock
from agent_core.testing.mcp import FakeCall, FakeMcp, FakeTool, McpAsked, sample_tools
from agent_core.tools.base import ToolError
from tests.agent_core.tools.mcp.stage import child, children, client_tasks, moved, server_of, sockets, staged, texts
from tests.cases import for_each
from tests.polling import until

ERAS = ["modern", "legacy"]


@pytest.fixture(params=ERAS)
async def fake(request: pytest.FixtureRequest) -> AsyncIterator[FakeMcp]:
    async with FakeMcp(sample_tools(), era=request.param) as fake:
        yield fake


async def test_calls_go_on_after_the_server_was_away(fake: FakeMcp) -> None:
    """Calls go on after the server was away."""
    async with staged(fake.host) as stage:
        server = server_of(fake)
        assert texts(await stage.call(server, "echo", text="one")) == ["one"]
        await fake.stop()
        away = await stage.call(server, "echo", text="two", repeatable=False)
        assert isinstance(away, ToolError)
        assert "`fake` cannot be reached" in away.message
        assert not away.unknown
        await fake.start()
        assert texts(await stage.call(server, "echo", text="three")) == ["three"]


async def test_a_forgotten_session_is_opened_again_unseen() -> None:
    """A forgotten session is opened again unseen."""
    async with FakeMcp(sample_tools(), era="legacy") as fake, staged(fake.host) as stage:
        server = server_of(fake)
        await stage.call(server, "echo", text="one")
        fake.forget_sessions()
        assert texts(await stage.call(server, "echo", text="two", repeatable=False)) == ["two"]
        assert len(fake.asked_for("initialize")) == 2


@for_each("before, after", [("legacy", "modern"), ("modern", "legacy")])
async def test_a_server_that_changes_its_era_is_found_again(before: str, after: str) -> None:
    """A server that changes its era is found again."""
    async with FakeMcp(sample_tools(), era="both") as fake, staged(fake.host) as stage:
        server = server_of(fake)
        for era in (before, after):
            fake.protocol.era = era  # pyright: ignore[reportAttributeAccessIssue] - a text of two
            fake.forget_sessions()
            assert texts(await stage.call(server, "echo", text=era)) == [era]
        listing = await stage.connections.discover(server)
        assert listing.era.startswith("2026" if after == "modern" else "2025")


async def test_the_era_is_found_once(fake: FakeMcp) -> None:
    """The era is found once."""
    async with staged(fake.host) as stage:
        server = server_of(fake)
        await asyncio.gather(*(stage.call(server, "echo", text="hi") for _ in range(5)))
        assert len(fake.asked_for("server/discover")) == 1
        assert len(fake.asked_for("initialize")) == (fake.protocol.era == "legacy")


async def test_changes_are_followed_until_forgotten(fake: FakeMcp) -> None:
    """Changes are followed until forgotten."""
    async with staged(fake.host) as stage:
        server, changes = server_of(fake), list[int]()
        stage.connections.follow(server, lambda: changes.append(1))
        await until(lambda: fake.followers == 1)
        for n in (1, 2):
            fake.tools.append(FakeTool(f"new_{n}"))
            await fake.changed()
            await until(lambda seen=n: len(changes) == seen)
        assert "new_2" in {tool.name for tool in (await stage.connections.discover(server)).tools}
        await stage.connections.forget("fake")
        await until(lambda: fake.followers == 0)
        assert texts(await stage.call(server, "echo", text="on")) == ["on"]


async def test_news_may_come_on_the_stream_of_a_call() -> None:
    """A server of the modern era may say in a call that its list has changed, as fastmcp does, which has no session."""
    news = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}

    async def grow(call: FakeCall) -> str:
        await call.send(news)
        return "grown"

    async with FakeMcp([FakeTool("grow", answer=grow)], era="modern") as fake, staged(fake.host) as stage:
        server, changes = server_of(fake), list[int]()
        await stage.connections.discover(server)
        stage.connections.follow(server, lambda: changes.append(1))
        await until(lambda: fake.followers == 1)
        assert texts(await stage.call(server, "grow")) == ["grown"]
        await until(lambda: changes == [1])


async def test_news_are_followed_again_after_the_server_was_away(fake: FakeMcp) -> None:
    """News are followed again after the server was away."""
    clock, changes = FakeClock(), list[int]()
    async with staged(fake.host, clock=clock) as stage:
        stage.connections.follow(server_of(fake), lambda: changes.append(1))
        await until(lambda: fake.followers == 1)
        await fake.stop()
        await fake.start()
        # The list may have changed meanwhile: that counts as a change.
        await until(lambda: moved(clock) or bool(changes))
        await until(lambda: fake.followers == 1)
        seen = len(changes)
        await fake.changed()
        await until(lambda: len(changes) > seen)


async def test_a_server_without_news_is_not_followed() -> None:
    """A server without news is not followed."""
    async with FakeMcp(sample_tools()) as fake, staged(fake.host) as stage:
        fake.protocol.news = False
        stage.connections.follow(server_of(fake), lambda: None)
        await until(lambda: bool(fake.asked_for("server/discover")) and not client_tasks())
        assert not fake.asked_for("subscriptions/listen")


async def test_an_idle_session_is_closed_and_opened_again() -> None:
    """An idle session is closed and opened again."""
    clock = FakeClock()
    async with FakeMcp(sample_tools(), era="legacy") as fake, staged(fake.host, clock=clock, idle=60) as stage:
        server = server_of(fake)
        await stage.call(server, "echo", text="one")
        assert fake.sessions == 1
        await clock.slept()
        clock.advance(61)
        await until(lambda: fake.sessions == 0 and not client_tasks())
        assert texts(await stage.call(server, "echo", text="two")) == ["two"]


async def test_another_definition_under_the_same_name_is_another_connection(fake: FakeMcp) -> None:
    """Another definition under the same name is another connection."""
    async with staged(fake.host) as stage:
        for key in ("first", "second"):
            assert texts(await stage.call(server_of(fake, headers={"X-Key": key}), "echo", text="hi")) == ["hi"]
            assert fake.asked_for("tools/call")[-1].headers["x-key"] == key


async def test_news_are_followed_with_the_newest_definition(fake: FakeMcp) -> None:
    """After a secret was changed the news come over the new connection, and none is left of the one before."""
    changes = list[int]()
    async with staged(fake.host) as stage:
        before, after = (server_of(fake, headers={"X-Key": key}) for key in ("first", "second"))
        await stage.connections.discover(before)
        stage.connections.follow(before, lambda: changes.append(1))
        await until(lambda: fake.followers == 1)
        await stage.connections.discover(after)
        await until(lambda: len(_listening(fake, "second")) == 1 and fake.followers == 1)
        await fake.changed()
        await until(lambda: bool(changes))
    await until(lambda: fake.followers == 0)


def _listening(fake: FakeMcp, key: str) -> list[McpAsked]:
    method = "subscriptions/listen" if fake.protocol.era == "modern" else "initialize"
    return [each for each in fake.asked_for(method) if each.headers["x-key"] == key]


async def test_a_closed_link_opens_nothing() -> None:
    """A link that was closed starts no process for what still uses it."""
    clock, before = FakeClock(), children()
    link = Link(child(), ChildCarrier(child(), clock), clock, 60)
    await link.close()
    with pytest.raises(McpUnavailable, match="was closed"):
        await link.discover()
    await link.follow(lambda: None)
    assert children() == before


async def test_calls_of_an_earlier_definition_end_as_they_would_have(fake: FakeMcp) -> None:
    """A changed secret breaks off no call; runs with the earlier one and with the new one do not disturb each other."""
    go = asyncio.Event()

    async def held(_call: FakeCall) -> str:
        await go.wait()
        return "written"

    fake.tools.append(FakeTool("hold", answer=held))
    async with staged(fake.host) as stage:
        before, after = (server_of(fake, headers={"X-Key": key}) for key in ("first", "second"))
        write = asyncio.create_task(stage.call(before, "hold", repeatable=False))
        await until(lambda: bool(fake.asked_for("tools/call")))
        for server, key in ((after, "second"), (before, "first"), (after, "second"), (before, "first")):
            assert texts(await stage.call(server, "echo", text=key)) == [key]
            assert fake.asked_for("tools/call")[-1].headers["x-key"] == key
        go.set()
        assert texts(await write) == ["written"]
        await until(lambda: fake.protocol.era == "modern" or fake.sessions == 1)
        await stage.call(before, "echo", text="late")
        await stage.call(after, "echo", text="on")
        opened = [each.headers["x-key"] for each in fake.asked_for("server/discover")]
        assert opened == ["first", "second", "first"]


async def test_a_call_of_an_earlier_definition_is_waited_for_until_its_timeout() -> None:
    """A connection that is given up is closed at the latest when its calls should have ended."""
    clock = FakeClock()
    async with FakeMcp(sample_tools(), era="legacy") as fake, staged(fake.host, clock=clock) as stage:
        write = asyncio.create_task(stage.call(server_of(fake), "wait", seconds=60, repeatable=False))
        await until(lambda: bool(stage.shown))
        await stage.call(server_of(fake, headers={"X-Key": "second"}), "echo", text="hi")
        await until(lambda: clock.sleepers > 0)
        clock.advance(35)
        await asyncio.sleep(0)
        assert not write.done()
        clock.advance(10)
        outcome = await write
        assert isinstance(outcome, ToolError)
        assert outcome.unknown


async def test_a_server_that_never_answers_is_given_up_in_time() -> None:
    """A server that never answers is given up in time."""
    clock = FakeClock()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    silent = await asyncio.start_server(accept, "127.0.0.1", 0)
    host = f"127.0.0.1:{silent.sockets[0].getsockname()[1]}"
    async with silent, staged(host, clock=clock) as stage:
        asked = asyncio.create_task(stage.connections.discover(McpServer(name="mute", url=f"http://{host}/mcp")))
        await clock.slept()
        clock.advance(11)
        with pytest.raises(McpUnavailable, match="`mute` did not answer in time"):
            await asked


@pytest.mark.whole
async def test_nothing_is_left_at_the_end(fake: FakeMcp) -> None:
    """Nothing is left at the end."""
    async with staged(fake.host):
        pass
    before = sockets()
    async with staged(fake.host) as stage:
        server = server_of(fake)
        stage.connections.follow(server, lambda: None)
        await until(lambda: fake.followers == 1)
        await asyncio.gather(*(stage.call(server, "echo", text=str(n)) for n in range(50)))
        slow = asyncio.create_task(stage.call(server, "wait", seconds=60))
        await until(lambda: bool(stage.shown))
    assert isinstance(await slow, ToolError)
    await until(lambda: fake.streams == 0)
    await until(lambda: sockets() <= before)
    with pytest.raises(McpUnavailable, match="this process is ending"):
        await stage.connections.discover(server)
