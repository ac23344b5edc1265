"""MCP servers as child processes: started on demand, started again, bounded, and gone at the end."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import mcp_types as wire
import pytest
import structlog

from agent_core.mcp.port import McpUnavailable
from agent_core.mcp.stdio import LastWords, child_process
from agent_core.servers import FilledServer, McpServer
from agent_core.testing import FakeClock
from agent_core.tools.base import Elicitation, ElicitationAnswer, ToolError
from tests.agent_core.tools.mcp.stage import child, children, client_tasks, moved, staged, texts
from tests.polling import until

pytestmark = pytest.mark.processes

# A server of the legacy era in few lines: it answers with what the line of its script says.
_RAW = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    reply = lambda **more: print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **more}), flush=True)
    if asked["method"] == "initialize":
        reply(result={"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                      "serverInfo": {"name": "raw", "version": "1"}})
    elif asked["method"] == "tools/list":
        reply(result={"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})
    elif asked["method"] == "tools/call":
        SCRIPT
    else:
        reply(error={"code": -32601, "message": "no"})
"""


def _raw(script: str, **options: Any) -> McpServer:
    args = ("-c", _RAW.replace("SCRIPT", script))
    return McpServer(**{"name": "raw", "transport": "stdio", "command": sys.executable, "args": args, **options})


@pytest.mark.sampled(1)
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_child_is_used_asked_and_started_again(era: str) -> None:
    """A child is used asked and started again."""
    before = children()
    async with staged() as stage:
        server = child("--era", era)
        listing = await stage.connections.discover(server)
        assert {"echo", "paint"} <= {tool.name for tool in listing.tools}
        assert listing.era.startswith("2026" if era == "modern" else "2025")
        assert await asyncio.gather(*(_echo(stage, server, str(n)) for n in range(20))) == [str(n) for n in range(20)]
        assert texts(await stage.call(server, "wait", seconds=0)) == ["waited 0 s"]
        assert stage.shown == ["1 of 2: half of it"]
        asked = await stage.call(server, "paint")
        assert isinstance(asked, Elicitation)
        answer = ElicitationAnswer(True, {"colour": "red"}, asked.state)
        assert texts(await stage.call(server, "paint", answer=answer)) == ["painted red"]
        [process] = children() - before
        slow = asyncio.create_task(stage.call(server, "wait", seconds=60, repeatable=False))
        await until(lambda: len(stage.shown) == 2)
        os.kill(process, signal.SIGKILL)
        died = await slow
        assert isinstance(died, ToolError)
        assert died.unknown
        assert "ended the connection before it answered" in died.message
        assert await _echo(stage, server, "again") == "again"
    assert children() <= before


async def _echo(stage: Any, server: McpServer, text: str) -> str:
    [said] = texts(await stage.call(server, "echo", text=text))
    return said


async def test_half_a_character_in_an_answer_is_replaced() -> None:
    """What a server cut in the middle of a character arrives, as JSON escapes its half."""
    server = _raw('reply(result={"content": [{"type": "text", "text": "cut \\ud83d"}]})')
    async with staged() as stage:
        assert texts(await stage.call(server, "echo")) == ["cut \ufffd"]


async def test_a_server_that_dies_at_once_is_started_with_growing_pauses() -> None:
    """A server that dies at once is started with growing pauses."""
    clock = FakeClock()
    script = "import sys; sys.exit('cannot find key-of-the-tests')"
    server = McpServer(
        name="dead", transport="stdio", command=sys.executable, args=("-c", script), env={"KEY": "key-of-the-tests"}
    )
    async with staged(clock=clock) as stage:
        pauses: list[float] = []
        for _ in range(5):
            call = asyncio.create_task(stage.call(server, "echo"))
            await until(lambda call=call: moved(clock, pauses, most=30) or call.done())
            outcome = await call
            assert isinstance(outcome, ToolError)
            said = outcome.message
        assert "its last words: cannot find [hidden]" in said
        assert pauses == [0.5, 1.0, 2.0]


# The same server, which answers nothing before the file FREE is there.
_SLOW = f"""
import os, time
while not os.path.exists(FREE):
    time.sleep(0.01)
{_RAW}"""
_ECHO = 'reply(result={"content": [{"type": "text", "text": "said"}]})'


async def test_a_child_that_starts_slowly_is_waited_for_by_what_needs_it_next(tmp_path: Path) -> None:
    """A child has more than eleven seconds to start; a discovery that gave it up leaves it to the next one."""
    clock, before, free = FakeClock(), children(), tmp_path / "free"
    script = _SLOW.replace("FREE", repr(str(free))).replace("SCRIPT", _ECHO)
    server = McpServer(name="slow", transport="stdio", command=sys.executable, args=("-c", script))
    async with staged(clock=clock) as stage:
        first = asyncio.create_task(stage.connections.discover(server))
        await until(lambda: bool(children() - before))
        clock.advance(31)
        with pytest.raises(McpUnavailable, match="`slow` did not answer in time"):
            await first
        second = asyncio.create_task(stage.connections.discover(server))
        await clock.slept(2)  # the idleness of the client, and the limit of this discovery
        clock.advance(25)
        free.touch()
        assert (await second).tools
        assert len(children() - before) == 1


async def test_a_missing_command_is_named() -> None:
    """A missing command is named."""
    async with staged() as stage:
        with pytest.raises(McpUnavailable, match="`child` cannot be started: No such file or directory"):
            await stage.connections.discover(child(command="no-such-command-anywhere"))


async def test_a_long_line_fails_its_own_call_alone() -> None:
    """A long line fails its own call alone."""
    script = """
        if asked["params"]["name"] == "long":
            reply(result={"content": [{"type": "text", "text": "x" * 6_000_000}]})
        reply(result={"content": [{"type": "text", "text": "short"}]})
"""
    async with staged() as stage:
        outcome = await stage.call(_raw(script), "long")
        assert isinstance(outcome, ToolError)
        assert "larger than 4 MB" in outcome.message
        assert texts(await stage.call(_raw(script), "short")) == ["short"]


async def test_it_sees_little_of_the_environment_and_its_noise_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """It sees little of the environment and its noise is logged."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "the key of the process")
    script = """
        print("no JSON at all", flush=True)
        print("key is", os.environ["TOKEN"], file=sys.stderr, flush=True)
        reply(result={"content": [{"type": "text", "text": " ".join(sorted(os.environ))}]})
"""
    server = _raw(script, env={"TOKEN": "a-token-of-tests"})
    with structlog.testing.capture_logs() as logs:
        async with staged() as stage:
            [names] = texts(await stage.call(server, "environment"))
            await until(lambda: bool(logs))
    assert "TOKEN" in names.split()
    assert "ANTHROPIC_API_KEY" not in names
    assert [each["text"] for each in logs if each["event"] == "mcp.stderr"] == ["key is [hidden]"]


async def test_a_child_that_does_not_end_is_killed_with_its_own_children() -> None:
    """A child that does not end is killed with its own children."""
    script = """
        import signal, subprocess
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sub = subprocess.Popen(["sleep", "600"])
        reply(result={"content": [{"type": "text", "text": str(sub.pid)}]})
        import time
        time.sleep(600)
"""
    async with staged() as stage:
        [pid] = texts(await stage.call(_raw(script), "stay"))
    await until(lambda: not _runs(int(pid)))


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123 - a zombie that no one waits for has ended too
        return stat.read().split()[2] != "Z"


async def test_an_idle_child_is_ended() -> None:
    """An idle child is ended."""
    clock, before = FakeClock(), children()
    async with staged(clock=clock, idle=60) as stage:
        await stage.call(_raw(_ECHO), "echo", text="one")
        assert children() - before
        await clock.slept()
        clock.advance(61)
        await until(lambda: not (children() - before) and not client_tasks())


async def test_a_child_is_gone_before_the_task_that_runs_it_although_that_is_cancelled_again() -> None:
    """A child is gone before the task that runs it ends, although that is cancelled again while it waits."""
    before, runs = children(), asyncio.Event()
    server = McpServer(
        name="mute", transport="stdio", command=sys.executable, args=("-c", "import time; time.sleep(600)")
    )

    async def run() -> None:
        async with child_process(server, LastWords(server), lambda: None):
            runs.set()
            await asyncio.Event().wait()

    running = asyncio.create_task(run())
    await runs.wait()
    running.cancel()
    await until(lambda: any("_stopped" in str(task.get_coro()) for task in client_tasks()))
    running.cancel()
    await asyncio.wait((running,))
    assert running.cancelled()
    assert not client_tasks()
    assert children() <= before


async def test_a_flood_of_lines_leaves_time_for_other_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that are no messages are not parsed, and others have their time between many that come at once."""
    parsed, rounds, ended = list[bytes](), 0, asyncio.Event()

    def parse(line: bytes, **_: object) -> None:
        parsed.append(line)
        raise ValueError

    monkeypatch.setattr(wire.jsonrpc_message_adapter, "validate_json", parse, raising=True)
    script = "import sys; sys.stdout.write('noise\\n' * 8000 + '{\\n'); sys.stdout.flush(); sys.stdin.read()"
    server = McpServer(name="flood", transport="stdio", command=sys.executable, args=("-c", script))
    async with child_process(server, LastWords(server), ended.set):
        while not parsed:
            await asyncio.sleep(0)
            rounds += 1
    assert parsed == [b"{"]
    assert rounds >= 40


def test_no_secret_of_a_server_is_in_what_it_writes_to_its_standard_error() -> None:
    """Secrets are masked alone and within a text, in arguments and URLs too, and before a line is cut."""
    server = FilledServer(
        name="leaky",
        transport="stdio",
        command="leaky",
        args=("--api-key=opensesame", "postgresql://us:hunter2@db/shop", "--literal=sk-literal-123", "--verbose"),
        headers={"Authorization": "Token opensesame"},
        secrets={"K": "opensesame"},
    )
    words = LastWords(server)
    with structlog.testing.capture_logs() as logs:
        words.add(b"unknown option --api-key=opensesame --literal sk-literal-123 --verbose")
        words.add(b"login with hunter2 failed, opensesame")
        words.add(b"\xc3\xa9" * 496 + b" opensesame" * 10)
    said = [each["text"] for each in logs]
    assert said[0] == "unknown option --api-key=[secret K] --literal [hidden] --verbose"
    assert said[1] == "login with [hidden] failed, [secret K]"
    assert said[2] == "\u00e9" * 496 + " [se"
    assert words.text == " ".join(said)


def test_of_a_flood_on_the_standard_error_only_what_is_shown_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines beyond those that are logged are dropped before they are masked; the last three stay for the end."""
    looked: list[str] = []
    monkeypatch.setattr("agent_core.mcp.stdio.masked", lambda _server, text: looked.append(text) or text)
    words = LastWords(McpServer(name="loud", transport="stdio", command="loud"))
    with structlog.testing.capture_logs() as logs:
        for number in range(1000):
            words.add(str(number).encode())
    assert (len(looked), len(logs)) == (200, 201)
    assert words.text == "997 998 999"
