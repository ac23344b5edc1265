"""A conversation in the terminal, from typed lines to printed answers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from hashlib import sha256
from typing import Any

import httpx
import pytest

from agent_core.channels import Inbound
from agent_core.clock import SystemClock
from agent_core.core import Core
from agent_core.errors import InvalidInput, NotFound
from agent_core.messages import Actor, explanation
from agent_core.objects import Receipt
from agent_core.testing import ScriptedProvider, by_step, call, fail, pause, say
from app.cli.chat.conversation import Port, converse
from app.cli.chat.piped import answer
from app.cli.client import Client
from app.cli.remote import Remote
from app.compose import create_app
from app.serving.readers import Readers
from app.storage import ApiKey
from channels.terminal import Terminal
from tests.agent_core.asking import Till, asks
from tests.app.conftest import KEY
from tests.app.processes import PlainShell, Shell
from tests.app.served import served
from tests.polling import PATIENCE

ANN = Actor("ann", "user", "Ann")
PAYS = by_step((say("Paying."), call("pay", amount=5)), (say("Paid."),))


class Screen:
    """What was printed; `shows` waits for some of it."""

    def __init__(self, *, live: bool = True) -> None:
        self.text = ""
        self._changed = asyncio.Event()
        self.terminal = Terminal(ANN, write=self._write, note=self._write, live=live)

    def _write(self, text: str) -> None:
        self.text += text
        self._changed.set()

    async def shows(self, words: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while words not in self.text:
                self._changed.clear()
                await self._changed.wait()


class Typist:
    """Lines that a test types; `leave` is Ctrl-D."""

    def __init__(self) -> None:
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()

    def type(self, line: str) -> None:
        self._lines.put_nowait(line)

    def leave(self) -> None:
        self._lines.put_nowait(None)

    async def __aiter__(self) -> AsyncIterator[str]:
        while (line := await self._lines.get()) is not None:
            yield line


async def opened(core: Core) -> str:
    """Open a session with the assistant."""
    return (await core.open_session(agent="assistant", actor=ANN)).id


@pytest.fixture
def screen() -> Screen:
    return Screen()


@pytest.fixture
def typist() -> Typist:
    return Typist()


def talk(core: Port, screen: Screen, typist: Typist, session: str) -> asyncio.Task[None]:
    """Begin a conversation."""
    talking = converse(core, screen.terminal, SystemClock(), aiter(typist), agent="assistant", session=session)
    return asyncio.create_task(talking)


async def test_a_question_is_answered_once(make_core, screen):
    """One message gets one answer, and the exit code says that it completed."""
    core = await make_core(ScriptedProvider([[say("Good ", "morning.")]]))
    assert await answer(core, screen.terminal, SystemClock(), await opened(core), "Hello")
    assert screen.text == "Good morning.\n"


async def test_a_failure_is_shown_and_sets_the_exit_code(make_core, screen):
    """A run that fails is shown in a person's words, and sets the exit code."""
    core = await make_core(ScriptedProvider([[fail("auth", retryable=False, message="Wrong key.")]]))
    assert not await answer(core, screen.terminal, SystemClock(), await opened(core), "Hello")
    assert screen.text == f"! {explanation('auth')}\n"


async def test_nothing_cannot_be_answered(make_core, screen):
    """A blank message is refused before anything is sent."""
    core = await make_core()
    with pytest.raises(InvalidInput, match="there is nothing to answer"):
        await answer(core, screen.terminal, SystemClock(), "ses_1", " \n")


async def test_an_interrupted_question_stops_its_run(make_core, screen):
    """A Ctrl-C while a single question is answered cancels the run, wherever it works."""
    gate = asyncio.Event()
    core = await make_core(ScriptedProvider([[say("Once "), pause(gate)]]))
    session = await opened(core)
    asking = asyncio.create_task(answer(core, screen.terminal, SystemClock(), session, "Hello"))
    await screen.shows("Once ")
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert (await core.runs(session=session)).items[0].status == "cancelled"
    assert screen.text == "Once \n(stopped)\n"


async def test_a_conversation_goes_back_and_forth(make_core, screen, typist):
    """Each line is answered, until the person leaves."""
    core = await make_core(ScriptedProvider([[say("One.")], [say("Two.")]]))
    talking = talk(core, screen, typist, await opened(core))
    typist.type("first")
    await screen.shows("One.\n")
    typist.type("second")
    await screen.shows("Two.\n")
    typist.leave()
    await talking
    assert screen.text == "One.\n\nTwo.\n"


async def test_a_stop_keeps_what_was_said(make_core, screen, typist):
    """`/stop` ends the answer and keeps its beginning; without one it shows the commands."""
    gate = asyncio.Event()
    core = await make_core(ScriptedProvider([[say("Once upon"), pause(gate)]]))
    talking = talk(core, screen, typist, await opened(core))
    typist.type("a tale")
    await screen.shows("Once upon")
    typist.type("/stop")
    await screen.shows("Once upon\n(stopped)\n")
    typist.type("/stop")
    await screen.shows("there is no answer to stop")
    typist.type("/quit")
    await talking


async def test_a_new_conversation_begins_empty(make_core, screen, typist):
    """`/new` opens another session; the agent knows nothing of the one before."""
    provider = ScriptedProvider([[say("One.")], [say("Two.")]])
    core = await make_core(provider)
    talking = talk(core, screen, typist, await opened(core))
    typist.type("first")
    await screen.shows("One.\n")
    typist.type("/new")
    await screen.shows("(a new conversation: ses_")
    typist.type("")
    typist.type("second")
    await screen.shows("Two.\n")
    typist.leave()
    await talking
    assert [len(request.messages) for request in provider.requests] == [1, 1]


async def test_a_session_is_resumed_with_its_history(make_core, screen, typist):
    """A resumed conversation shows what was said before, questions included."""
    core = await make_core(ScriptedProvider([[say("One.")], [say("Two.")]]))
    session = await opened(core)
    await answer(core, Screen().terminal, SystemClock(), session, "first")
    talking = talk(core, screen, typist, session)
    await screen.shows("> first\n\nOne.\n")
    typist.type("second")
    await screen.shows("Two.\n")
    typist.leave()
    await talking


async def test_a_refusal_does_not_end_the_conversation(make_core, screen, typist):
    """What the core refuses is shown in words, and the next line is awaited."""
    core = await make_core()
    session = await opened(core)
    await core.close_session(session)
    talking = talk(core, screen, typist, session)
    typist.type("Hello?")
    await screen.shows("! ")
    typist.leave()
    await talking


async def test_a_lost_session_ends_the_conversation(make_core, screen, typist):
    """An error of the stream ends the conversation with that error."""
    core = await make_core()
    with pytest.raises(NotFound, match="ses_gone"):
        await talk(core, screen, typist, "ses_gone")


class ChatShop(Till):
    """A till, and the conversation in which it is asked for."""

    core: Core
    session: str


@pytest.fixture(params=["own core", "server"])
async def till(request, make_core, settings, tokens, screen, typist) -> AsyncIterator[Callable[..., Awaitable[Till]]]:
    """Begin a conversation with an agent that asks before it pays, with a core of its own or over HTTP."""
    async with AsyncExitStack() as stack:

        async def begin(**config) -> ChatShop:
            till = ChatShop()
            tools = till.tools()
            definition = {"hooks": (asks(**config),), "tools": tuple(tool.spec.name for tool in tools)}
            core = port = await make_core(ScriptedProvider(PAYS), tools=tools, definition=definition)
            if request.param == "server":
                readers, key = Readers(), ApiKey(sha256(KEY.encode()).digest())
                app = create_app(core, settings, tokens=tokens, api_key=key, readers=readers)
                url = await stack.enter_async_context(served(app, readers))
                headers = {"Authorization": f"Bearer {KEY}"}
                http = httpx.AsyncClient(base_url=url, headers=headers, trust_env=False, timeout=PATIENCE)
                port = Remote(Client(await stack.enter_async_context(http)), SystemClock())
            till.core, till.session = core, await opened(core)
            talking = talk(port, screen, typist, till.session)
            stack.push_async_callback(ended, talking, typist)
            typist.type("Pay")
            await screen.shows("y allows it")
            return till

        yield begin


async def ended(talking: asyncio.Task[None], typist: Typist) -> None:
    """Leave the conversation."""
    typist.leave()
    await talking


async def test_a_person_at_the_terminal_decides(till, screen, typist):
    """A question is shown whole; `y` lets the call run, in the person's own name, and the answer continues."""
    shop = await till()
    assert "? May pay run? (apr_" in screen.text
    assert "    amount: 5\n" in screen.text
    typist.type("y")
    await screen.shows("approved by Ann, done\n")
    await screen.shows("Paid.\n")
    assert shop.paid == [5]
    (line,) = [each for each in await shop.core.approvals.audit() if each.kind == "approved"]
    assert (line.surface, line.actor) == ("terminal", ANN)


async def test_a_no_has_its_reason(till, screen, typist):
    """`n` and a reason deny the call, which does not run."""
    shop = await till()
    typist.type("n too much")
    await screen.shows("denied by Ann (too much)\n")
    await screen.shows("Paid.\n")
    assert shop.paid == []


async def test_arguments_are_corrected_at_the_keyboard(till, screen, typist):
    """What does not fit is refused with the field and the question stays; what fits is what runs."""
    shop = await till(edit=True)
    assert 'e {"amount": 5} allows it so' in screen.text
    typist.type("e {")
    await screen.shows("one JSON object")
    typist.type('e {"amount": "much"}')
    await screen.shows("arguments.amount")
    typist.type('e {"amount": 3}')
    await screen.shows('approved by Ann as {"amount": 3}, done\n')
    assert shop.paid == [3]


async def test_another_person_must_decide(till, screen, typist):
    """Where the asker may not, the terminal says so, whatever key the terminal holds."""
    shop = await till(responders=["operators", "not_asker"])
    typist.type("y")
    await screen.shows("! ")
    await screen.shows("not the person who asked")
    assert shop.paid == []
    assert [each.kind for each in await shop.core.approvals.audit()] == ["requested", "refused"]


async def test_the_terminals_key_is_an_operators(till, screen, typist):
    """Where only operators are asked, the holder of the key decides."""
    shop = await till(responders=["operators"])
    typist.type("y")
    await screen.shows(", done\n")
    assert shop.paid == [5]


async def test_words_during_a_question_are_a_message(till, screen, typist):
    """A line that is no answer to the question is queued, which is said with what is waited for; it stays open."""
    shop = await till()
    typist.type("What is it for?")
    await screen.shows("(queued: answered when this conversation goes on; it waits for an approval of pay by ")
    typist.type("y")
    await screen.shows("approved by Ann, done\n")
    assert shop.paid[:1] == [5]
    assert len((await shop.core.runs(session=shop.session)).items) == 2


class HeldCore:
    """A core whose answer to a message comes once *shown* is done."""

    def __init__(self, core: Core, shown: Callable[[], Awaitable[None]]) -> None:
        self._core, self._shown = core, shown

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)

    async def receive(self, session: str, inbound: Inbound) -> Receipt:
        receipt = await self._core.receive(session, inbound)
        await self._shown()
        return receipt


async def test_a_message_whose_own_run_waits_is_not_queued(make_core, screen, typist):
    """A message that leads to a question at once is not said to wait for it."""
    tools = Till().tools()
    definition = {"hooks": (asks(),), "tools": tuple(tool.spec.name for tool in tools)}
    core = await make_core(ScriptedProvider(PAYS), tools=tools, definition=definition)
    slow: Any = HeldCore(core, lambda: screen.shows("(waits for a decision"))
    talking = talk(slow, screen, typist, await opened(core))
    typist.type("Pay")
    await screen.shows("(waits for a decision")
    typist.type("y")
    await screen.shows("Paid.")
    typist.leave()
    await talking
    assert "(queued" not in screen.text


async def test_only_ones_own_conversation_is_continued(make_core, screen, typist):
    """`/sessions ID` refuses another person's conversation, in whose name the message would be posted."""
    core = await make_core(ScriptedProvider([[say("One.")]]))
    other = (await core.open_session(agent="assistant", actor=Actor("visitor:bob", "visitor"))).id
    own = await opened(core)
    talking = talk(core, screen, typist, own)
    typist.type(f"/sessions {other}")
    await screen.shows(f"`{other}` is a conversation of `visitor:bob`")
    typist.type("Hello")
    await screen.shows("One.")
    typist.leave()
    await talking
    assert [run.session for run in (await core.runs()).items] == [own]


async def test_a_question_leaves_a_single_answer_unfinished(make_core, screen):
    """One message whose run waits for people ends with the question on the screen, and with exit code 1."""
    tools = Till().tools()
    definition = {"hooks": (asks(),), "tools": tuple(tool.spec.name for tool in tools)}
    core = await make_core(ScriptedProvider(PAYS), tools=tools, definition=definition)
    assert not await answer(core, screen.terminal, SystemClock(), await opened(core), "Pay")
    assert "(waits for a decision" in screen.text
    assert "? May pay run? (apr_" in screen.text


async def test_a_single_message_to_a_waiting_conversation_is_queued(make_core, screen):
    """One message to a conversation that waits prints at once that it is queued."""
    tools = Till().tools()
    definition = {"hooks": (asks(),), "tools": tuple(tool.spec.name for tool in tools)}
    core = await make_core(ScriptedProvider(PAYS), tools=tools, definition=definition)
    session = await opened(core)
    await answer(core, screen.terminal, SystemClock(), session, "Pay")
    asking = asyncio.create_task(answer(core, screen.terminal, SystemClock(), session, "And now?"))
    await screen.shows("(queued: answered when this conversation goes on")
    asking.cancel()
    await asyncio.wait((asking,))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("arguments", "typed", "code", "out"),
    [
        (["What is 6 * 7?"], "", 0, "6 * 7 is 42."),
        ([], "What is 6 * 7?\n\nAnd 2 + 3?\n", 0, "2 + 3 is 5."),
        (["--session", "ses_gone", "Hello"], "", 1, ""),
        (["--agent", "unknown", "Hello"], "", 1, ""),
    ],
)
async def test_the_command_answers_in_a_process_of_its_own(shell: Shell, arguments, typed, code, out):
    """Without a server `parley chat` brings its own core: answers go to standard output, an error is one line."""
    returncode, stdout, stderr = await shell.run("chat", *arguments, typed=typed)
    assert returncode == code, stderr
    assert out in stdout
    assert "\x1b" not in stdout + stderr
    if code:
        assert stderr.startswith("parley: ")
        assert stderr.count("\n") == 1


@pytest.mark.whole
async def test_the_command_imports_what_it_needs(plain_shell: PlainShell):
    """`parley chat` in a process that has imported nothing answers the same, and what it makes is its owner's alone."""
    code, out, _ = await plain_shell.run("chat", "What is 6 * 7?")
    assert (code, "6 * 7 is 42." in out) == (0, True)
    assert {path.stat().st_mode & 0o077 for path in (plain_shell.data, *plain_shell.data.iterdir())} == {0}
