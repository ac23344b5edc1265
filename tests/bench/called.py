"""What a tool call costs by the kind of the tool, many at once, and what many tools add to a request."""

import asyncio
import shutil
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from agent_core.agents import Definition
from agent_core.channels import Inbound
from agent_core.clock import SystemClock
from agent_core.controls import Abilities
from agent_core.core import Core
from agent_core.mcp.connections import McpConnected
from agent_core.messages import Actor, Text, text_of
from agent_core.net.fetch import Fetch
from agent_core.providers.anthropic import prefix_of
from agent_core.providers.base import Request
from agent_core.servers import McpServer
from agent_core.store.database import SqliteDatabase
from agent_core.testing import ScriptedProvider, call, say, step_of
from agent_core.testing.scripted import Answer
from agent_core.tools.base import CallContext, Done, Tool
from agent_core.tools.functions import tool
from tests.agent_core.routing import shop_tool
from tests.agent_core.stage import results
from tests.agent_core.tools.http.calling import calling
from tests.bench.table import Goal, Row

# Issue 27 sets what must be; the aims are ours.
FUNCTION, MCP = Goal(must=2, aim=1, of="value"), Goal(must=10, aim=5, of="value")
PARALLEL, REQUEST = Goal(must=1.5, aim=1.2), Goal(must=1.01, aim=1)
ANN = Actor("ann", "user")
AT_ONCE, SLOWEST = 20, 0.1
ROUTED, MANY = 41, 500
SERVER = ("-m", "agent_core.testing.mcp")
CONTEXT = CallContext("call_1", "ses_1", "run_1", ANN, "api", SystemClock(), lambda _text: None)
_TEXT = {"text": "hi"}
Ask = Callable[[], Awaitable[object]]


class Pair(NamedTuple):
    """The same call through Parley, and through the bare client."""

    ours: Ask
    bare: Ask


async def rows(*, rounds: int, asks: int, folder: Path, template: Path) -> list[Row]:
    """Measure *asks* calls in each of so many *rounds*; the database is a copy of *template* in *folder*."""
    database = folder / "called.db"
    await asyncio.to_thread(shutil.copy, template, database)
    found = await _in_runs(database, rounds, asks)
    async with over_http() as pair:
        found.append(await _by_turns("an HTTP tool's call, p50", pair, "a bare httpx2 call", None, rounds, asks))
    for name, opened in (("HTTP", mcp_over_http), ("stdio", mcp_over_stdio)):
        async with opened() as pair:
            title = f"an MCP tool's call over {name}, p50"
            found.append(await _by_turns(title, pair, "the SDK's client", MCP, rounds, asks))
    return found


async def _by_turns(title: str, pair: Pair, against: str, goal: Goal | None, rounds: int, asks: int) -> Row:
    """Measure both by turns, each after a call that opens what stays open."""
    await pair.bare()
    await pair.ours()
    ours, base = list[float](), list[float]()
    for _ in range(rounds):
        base.append(median([await timed(pair.bare) for _ in range(asks)]))
        ours.append(median([await timed(pair.ours) for _ in range(asks)]))
    return Row(title, "ms", ours, base, against, goal)


async def timed(ask: Ask) -> float:
    begin = time.perf_counter()
    await ask()
    return time.perf_counter() - begin


@asynccontextmanager
async def over_http() -> AsyncGenerator[Pair]:
    """Give a call of an HTTP tool, whose requests are checked and guarded, and the bare request."""
    async with calling() as api, httpx2.AsyncClient() as client:
        definition = api.definition(description="List the orders.")
        api.kind.check(definition)
        made = api.kind.tool(definition, {})

        async def ours() -> None:
            assert isinstance(await made.call({}, CONTEXT), Done)

        async def bare() -> None:
            (await client.get(definition.config["url"])).raise_for_status()

        yield Pair(ours, bare)


@asynccontextmanager
async def mcp_over_http() -> AsyncGenerator[Pair]:
    """Give a call of a tool of an MCP server that is another process, in the modern era over HTTP."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, *SERVER, "--era", "modern", "--port", "0", stdout=asyncio.subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        url = (await child.stdout.readline()).decode().strip()
        async with mcp_pair(McpServer(name="sample", url=url), url) as pair:
            yield pair
    finally:
        child.kill()
        await child.wait()


@asynccontextmanager
async def mcp_over_stdio() -> AsyncGenerator[Pair]:
    """Give a call of a tool of an MCP server over stdio; each side has a child process of its own."""
    args = (*SERVER, "--era", "modern")
    server = McpServer(name="sample", transport="stdio", command=sys.executable, args=args)
    async with mcp_pair(server, StdioServerParameters(command=sys.executable, args=list(args))) as pair:
        yield pair


@asynccontextmanager
async def mcp_pair(server: McpServer, reached: Any) -> AsyncGenerator[Pair]:
    hosts = () if server.url is None else (server.url.split("/")[2],)
    fetch = Fetch(hosts)
    connections = McpConnected(fetch)
    try:
        async with Client(reached) as client:

            async def ours() -> None:
                assert isinstance(await connections.call(server, "echo", _TEXT, CONTEXT, {}), Done)

            async def bare() -> None:
                assert not (await client.call_tool("echo", _TEXT)).is_error

            yield Pair(ours, bare)
    finally:
        await connections.close()
        await fetch.close()


async def _in_runs(database: Path, rounds: int, asks: int) -> list[Row]:
    """Measure what needs whole runs: calls one after the other and at once, and the bytes of requests."""
    provider = ScriptedProvider(_calls, able=Abilities(searches=True))
    tools = {each.spec.name: each for each in (*plain_tools(), *many_tools())}
    core = Core(SqliteDatabase(database), providers={"scripted": provider}, tools=tools, default_model="scripted")
    await core.start()
    try:
        own = tuple(each.spec.name for each in plain_tools())
        for name, offered in (("caller", own), ("bare", ()), ("routed", names(ROUTED)), ("many", names(MANY))):
            await core.agents.create(Definition(name=name, instructions="Be brief.", tools=offered))
        native = Definition(name="native", instructions="Be brief.", tools=names(MANY), router="native")
        await core.agents.create(native)
        await run(core, "caller", "look 1")
        found = dict[str, list[float]](none=[], each=[], one=[], all=[])
        for _ in range(rounds):
            found["none"].append(await run(core, "caller", "look 0"))
            found["each"].append(await run(core, "caller", f"look {asks}") / asks)
            found["one"].append(await run(core, "caller", "wait 1"))
            found["all"].append(await run(core, "caller", f"wait {AT_ONCE}"))
        sizes = {name: [float(await size(core, provider, name))] for name in ("bare", "routed", "many", "native")}
        sizes["deferred"] = [float(len(prefix_of(provider.requests[-1].snapshot, loads=True)))]
    finally:
        await core.stop()
    each = f"a function tool's call, a run with {asks} one after the other divided by them"
    at_once = f"a run with {AT_ONCE} parallel calls of {SLOWEST * 1000:.0f} ms each"
    few, many = (f"request of an agent with {count} tools, routed" for count in (ROUTED, MANY))
    return [
        Row(each, "ms", found["each"], found["none"], "a run without a call", FUNCTION),
        Row(at_once, "ms", found["all"], found["one"], "a run with one of them", PARALLEL),
        Row(few, "bytes", sizes["routed"], sizes["bare"], "one without tools"),
        Row(many, "bytes", sizes["many"], sizes["routed"], f"one with {ROUTED}", REQUEST),
        Row(
            f"request of an agent with {MANY} tools, native, less what is deferred",
            "bytes",
            sizes["native"],
            sizes["many"],
            "routed",
        ),
        Row(
            f"request of an agent with {MANY} tools, native, to Anthropic",
            "bytes",
            sizes["deferred"],
            sizes["many"],
            "routed",
        ),
    ]


def plain_tools() -> tuple[Tool, ...]:
    @tool(concurrency_safe=False)
    async def look(n: int) -> str:
        """Look something up."""
        return f"{n} is fine"

    @tool(concurrency_safe=True)
    async def wait(n: int) -> str:
        """Wait for a slow server."""
        await asyncio.sleep(SLOWEST)
        return f"{n} is fine"

    return (look, wait)


def many_tools() -> tuple[Tool, ...]:
    return tuple(shop_tool(name) for name in names(MANY))


def names(count: int) -> tuple[str, ...]:
    return tuple(f"get_item{n:03}" for n in range(count))


def _calls(request: Request) -> Answer:
    """Make as many calls as the question, such as `look 3`, says; then all of them must be done."""
    asked = [text_of(entry.message.parts) for entry in request.messages if entry.message.role == "user"]
    name, _, count = asked[-1].partition(" ")
    if step_of(request) or not int(count):
        done = [result for result in results(request) if result.outcome == "done"]
        assert len(done) == int(count), f"{len(done)} of the calls of `{asked[-1]}` are done."
        return (say("Fine."),)
    return tuple(call(name, n=n) for n in range(int(count)))


async def run(core: Core, agent: str, text: str) -> float:
    """Return the seconds of a run on a new session, which must complete."""
    session = (await core.open_session(agent=agent, actor=ANN)).id
    begin = time.perf_counter()
    receipt = await core.receive(session, Inbound(parts=(Text(text),), actor=ANN))
    done = await core.settled(receipt.run, timeout=60)
    seconds = time.perf_counter() - begin
    assert done.status == "completed", done.error
    return seconds


async def size(core: Core, provider: ScriptedProvider, agent: str) -> int:
    """Return the bytes of tools and system text in a request to the API of `anthropic`."""
    await run(core, agent, "look 0")
    return len(prefix_of(provider.requests[-1].snapshot))
