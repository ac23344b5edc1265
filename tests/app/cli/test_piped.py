"""`parley chat` in a pipe: lines that no person edits, each answered before the next one."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from agent_core.clock import SystemClock
from agent_core.core import Core
from agent_core.errors import ConfigError
from agent_core.messages import Actor
from agent_core.testing import ScriptedProvider, by_step, call, say
from app.cli.chat.conversation import chosen_agent
from app.cli.chat.piped import Piped
from channels.terminal import Terminal
from tests.agent_core.asking import Till, asks
from tests.app.processes import Shell
from tests.cases import for_each
from tests.polling import PATIENCE

ANN = Actor("ann", "user", "Ann")
PAYS = by_step((say("Paying."), call("pay", amount=5)), (say("Paid."),))


class Pipes:
    """Standard output and standard error, and a pipe of lines into a conversation."""

    def __init__(self) -> None:
        self.out = self.aside = ""
        self.terminal = Terminal(ANN, write=self._write, note=self._note, live=False)

    def _write(self, text: str) -> None:
        self.out += text

    def _note(self, text: str) -> None:
        self.aside += text

    async def send(self, core: Core, *lines: str) -> bool:
        session = (await core.open_session(agent="assistant", actor=ANN)).id
        piped = Piped(core, self.terminal, SystemClock(), agent="assistant", session=session)
        async with asyncio.timeout(PATIENCE):
            return await piped.answer_all(each(lines))


async def each(lines: tuple[str, ...]) -> AsyncIterator[str]:
    for line in lines:
        yield line


async def paying(make_core, provider: ScriptedProvider) -> tuple[Core, Till]:
    """Return a core whose assistant asks before it pays."""
    till = Till()
    tools = till.tools()
    definition = {"hooks": (asks(),), "tools": tuple(tool.spec.name for tool in tools)}
    return await make_core(provider, tools=tools, definition=definition), till


@pytest.fixture
def pipes() -> Pipes:
    return Pipes()


async def test_blank_lines_are_skipped_and_quit_leaves(make_core, pipes):
    """Spaces alone, `/stop` with nothing to stop and `/help` send nothing; after `/quit` nothing more is read."""
    provider = ScriptedProvider([[say("One.")], [say("Two.")]])
    core = await make_core(provider)
    assert await pipes.send(core, "first", "   ", "/stop", "/help", "second", "/quit", "third")
    assert pipes.out == "One.\nTwo.\n"
    assert len(provider.requests) == 2
    assert "there is no answer to stop" in pipes.aside
    assert "starts a new conversation" in pipes.aside


async def test_a_pipe_answers_a_question(make_core, pipes):
    """`y` in the pipe decides the question before it: the answer goes on, and the next line has its own."""
    core, till = await paying(make_core, ScriptedProvider(PAYS))
    assert await pipes.send(core, "Pay", "y")
    assert till.paid == [5]
    assert pipes.out == "Paying.\nPaid.\n"
    assert pipes.aside.count("(waits for a decision") == 1
    assert pipes.aside.count("· pay … asks") == pipes.aside.count("· pay … approved by Ann, done") == 1


async def test_a_pipe_stops_a_run_that_waits(make_core, pipes):
    """`/stop` ends a run whose question is open; the lines after it are answered, and the exit code says so."""
    core, till = await paying(make_core, ScriptedProvider([[say("Paying."), call("pay", amount=5)], [say("Hello.")]]))
    assert not await pipes.send(core, "Pay", "/stop", "Hello?")
    assert till.paid == []
    assert pipes.out.endswith("Hello.\n")


async def test_a_pipe_queues_a_message_during_a_question(make_core, pipes):
    """A line that is no decision is queued, and answered once the question is decided by a later line."""
    steps = [[call("pay", amount=5)], [say("Paid.")], [say("For tea.")]]
    core, till = await paying(make_core, ScriptedProvider(steps))
    assert await pipes.send(core, "Pay", "What for?", "y")
    assert till.paid == [5]
    assert "(queued: " in pipes.aside
    assert pipes.out == "Paid.\nFor tea.\n"


async def test_a_question_that_stays_open_is_no_success(make_core, pipes):
    """A pipe that ends while its run waits did not get its answer."""
    core, _ = await paying(make_core, ScriptedProvider(PAYS))
    assert not await pipes.send(core, "Pay")


async def test_slashes_in_a_pipe(make_core, pipes):
    """An unknown command is named and not sent; two slashes send a message that begins with one; `/new` begins."""
    provider = ScriptedProvider([[say("One.")], [say("Two.")]])
    core = await make_core(provider)
    assert not await pipes.send(core, "/foo bar", "//etc is full", "/new", "Hi")
    assert "unknown command `/foo`; `/help` lists them" in pipes.aside
    texts = [
        [getattr(part, "text", None) for part in request.messages[-1].message.parts] for request in provider.requests
    ]
    assert texts == [["/etc is full"], ["Hi"]]
    assert len((await core.sessions(actor="ann")).items) == 2


async def test_a_pipe_continues_an_earlier_conversation(make_core, pipes):
    """`/sessions` numbers one's own conversations, and `/sessions 2` continues the one before."""
    provider = ScriptedProvider([[say("One.")], [say("Two.")], [say("Three.")]])
    core = await make_core(provider)
    assert await pipes.send(core, "first", "/new", "second", "/sessions", "/sessions 2", "third")
    assert "(continues ses_" in pipes.aside
    assert [len(request.messages) for request in provider.requests] == [1, 1, 3]
    assert not await pipes.send(core, "/sessions ses_gone")


async def test_a_process_goes_on_after_a_line_that_was_no_message(shell: Shell):
    """In a pipe of a real process spaces, `/stop` and an unknown command do not drop the lines after them."""
    code, out, err = await shell.run("chat", typed="What is 6 * 7?\n  \n/stop\n/foo\nWhat is 2 + 3?\n/quit\n1 + 1\n")
    assert (code, "\x1b" in out + err) == (1, False)
    assert "6 * 7 is 42." in out
    assert "2 + 3 is 5." in out
    assert "1 + 1" not in out
    assert "unknown command `/foo`" in err
    assert not (shell.data / "chat_history").exists()


@for_each(
    "names, asked, found",
    [
        (("shop", "assistant"), None, "assistant"),
        (("shop",), None, "shop"),
        (("shop", "desk"), "desk", "desk"),
        (("shop", "desk"), None, "desk, shop"),
        (("shop", "renamed*"), None, "shop"),
        ((), None, "no agent"),
    ],
)
async def test_the_agent_to_talk_to(names, asked, found):
    """Without `--agent` it is `assistant`, else the only one of the files or at all; of several the names are listed.

    A star marks an agent whose file is gone.
    """

    async def every() -> list[SimpleNamespace]:
        return [
            SimpleNamespace(definition=SimpleNamespace(name=name), source="api" if "*" in name else "file")
            for name in names
        ]

    port: Any = SimpleNamespace(agents=SimpleNamespace(all=every))
    if found in names:
        assert await chosen_agent(port, asked) == found
    else:
        with pytest.raises(ConfigError, match=found):
            await chosen_agent(port, asked)
