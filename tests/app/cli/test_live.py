"""A conversation on a terminal: keys go in, what a person sees comes out."""

import asyncio
import os
import re
from typing import Any, cast

import pytest

from agent_core.messages import Text
from agent_core.testing import FakeClock, ScriptedProvider, call, pause, say
from agent_core.tools.base import CallContext, Elicitation, NewRender
from agent_core.tools.functions import tool
from app.cli.chat.area import open_history
from app.cli.chat.conversation import Lasting
from app.cli.client import Unreachable
from tests.app.cli.seats import DOWN, ESC, PAYS, STOP, UP, paying, seated
from tests.app.processes import Shell
from tests.golden.figures import FIGURES
from tests.polling import PATIENCE, until


def texts(provider: ScriptedProvider) -> list[str]:
    """Return the last message of each request."""
    parts = [request.messages[-1].message.parts[0] for request in provider.requests]
    return [part.text for part in parts if isinstance(part, Text)]


async def test_an_answer_is_drawn_and_a_line_recalled(make_core):
    """Markdown is drawn, and "Up" brings back what was typed rather than sending a code."""
    provider = ScriptedProvider([[say("It is **bo", "ld**.\n\n- one\n")], [say("Two.")]])
    async with seated(await make_core(provider)) as seat:
        seat.press("first\r")
        await seat.shows("It is bold. • one")
        seat.press(f"{UP}\r")
        await seat.shows("Two.")
    assert texts(provider) == ["first", "first"]
    assert "**bold**" not in seat.text


async def test_pasted_lines_are_one_message(make_core):
    """Several lines that are pasted, or begun by Ctrl-J, are sent together by Enter."""
    provider = ScriptedProvider([[say("Got it.")]])
    async with seated(await make_core(provider)) as seat:
        seat.press("\x1b[200~one\r\n/two\x1b[201~\nthree\r")
        await seat.shows("Got it.")
    assert texts(provider) == ["one\n/two\nthree"]


async def test_commands_are_completed_and_unknown_ones_named(make_core):
    """Tab completes a command; one that does not exist is named and not sent, two slashes send a message."""
    provider = ScriptedProvider([[say("Sent.")]])
    async with seated(await make_core(provider)) as seat:
        seat.press("/he\t")
        await until(lambda: seat.area.message.text == "/help")
        seat.press("\r")
        await seat.shows("starts a new conversation")
        seat.press("/foo\r")
        await seat.shows("unknown command `/foo`; `/help` lists them")
        seat.press("//foo\r")
        await seat.shows("Sent.")
    assert texts(provider) == ["/foo"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("keys", "paid", "says"),
    [
        (f"\r{DOWN}\r", [5], "approved by Ann, done"),
        ("y", [5], "approved by Ann, done"),
        (f"{DOWN}{DOWN}{DOWN}\r", [], "denied by Ann"),
        (f"{UP}\r|too much\r", [], "denied by Ann (too much)"),
        ("e|\x7f\x7f\x7f3\n}\r", [3], 'approved by Ann as {"amount": 3}, done'),
    ],
    ids=["enter", "key", "arrows", "reason", "edited"],
)
async def test_a_question_is_a_list(make_core, keys, paid, says):
    """A question is decided with the arrow keys or a key, denied with a reason, or allowed with other arguments."""
    core, till = await paying(make_core, ScriptedProvider(PAYS), edit=True)
    async with seated(core) as seat:
        seat.press("Pay\r")
        await seat.shows("Deny it and say why")
        await seat.is_asked()
        first, _, second = keys.partition("|")
        seat.press(first)
        if second:
            await until(lambda: seat.area.field is not None)
            seat.press(second)
        await seat.shows(says)
        await seat.shows("Paid.")
    assert till.paid == paid
    assert seat.text.count("? May pay run?") == 1


async def test_a_flaw_in_edited_arguments_is_said(make_core):
    """Arguments that are not JSON or do not fit are refused in words, and can be corrected."""
    core, till = await paying(make_core, ScriptedProvider(PAYS), edit=True)
    async with seated(core) as seat:
        seat.press("Pay\r")
        await seat.is_asked()
        seat.press("e")
        await until(lambda: seat.area.field is not None)
        seat.press("\x7f\r")
        await seat.shows("these are not JSON")
        seat.press("\x7f" * 40 + '{"amount": "much"}\r')
        await seat.shows("arguments.amount")
        await seat.is_asked()
        seat.press("y")
        await seat.shows("Paid.")
    assert till.paid == [5]


async def test_a_form_is_asked_field_by_field(make_core):
    """A choice of several is typed by numbers or names; what does not fit is said in words, and can be mended."""
    guests = {"type": "integer", "maximum": 6}
    fields = {"guests": guests, "days": {"type": "array", "items": {"enum": ["Mon", "Tue", "Sun"]}}}
    answers: list[object] = []

    @tool(effect="write", idempotent=True)
    async def book(context: CallContext) -> Elicitation | str:
        """Book a table."""
        if context.answer is None:
            return Elicitation("For how many?", {"type": "object", "properties": fields, "required": ["guests"]})
        answers.append(context.answer.content)
        return "Booked."

    core = await make_core(ScriptedProvider([[call("book")], [say("Done.")]]), tools=(book,))
    async with seated(core) as seat:
        seat.press("Book\r")
        await seat.shows("Answer it")
        await seat.is_asked()
        seat.press("e")
        await until(lambda: seat.area.field is not None)
        seat.press("many\r")
        await seat.shows("this is to be a whole number")
        await until(lambda: seat.area.field is not None)
        seat.press("\x7f" * 9 + "40\r")
        await seat.shows("any of 1 Mon, 2 Tue, 3 Sun; numbers or names, with commas", times=2)
        await until(lambda: seat.area.field is not None)
        seat.press("1, sun\r")
        await seat.shows("40 is greater than the maximum of 6")
        await seat.is_asked()
        seat.press("e")
        await until(lambda: seat.area.field is not None)
        seat.press("\x7f\r")
        await seat.shows("1, 3 if you do not change it")
        await until(lambda: seat.area.field is not None)
        seat.press("\r")
        await seat.shows("Done.")
    assert answers == [{"guests": 4, "days": ["Mon", "Sun"]}]


async def test_a_message_can_come_before_the_decision(make_core):
    """Esc leaves the list for a message, which is queued; Esc again goes back to the question."""
    core, till = await paying(make_core, ScriptedProvider([[call("pay", amount=5)], [say("Paid.")], [say("For tea.")]]))
    async with seated(core) as seat:
        seat.press("Pay\r")
        await seat.is_asked()
        seat.press(ESC)
        await until(lambda: not seat.area.is_picking)
        seat.press("What for?\r")
        await seat.shows("(queued: answered when this conversation goes on; it waits for an approval of pay")
        seat.press(ESC)
        await until(lambda: seat.area.is_picking)
        await seat.is_asked()
        seat.press("y")
        await seat.shows("For tea.")
    assert till.paid == [5]


async def test_a_question_for_others_names_them(make_core):
    """Where the person may not decide there is no list: the screen says who may."""
    core, till = await paying(make_core, ScriptedProvider(PAYS), responders=["actor:cfo"])
    async with seated(core) as seat:
        seat.press("Pay\r")
        await seat.shows("(not yours to decide: it is for cfo)")
        assert seat.area.menu is None
    assert till.paid == []


async def test_ctrl_c_stops_and_leaves(make_core):
    """Ctrl-C ends the answer that is written and clears a draft; twice on an empty line it leaves."""
    gate = asyncio.Event()
    core = await make_core(ScriptedProvider([[say("Once upon"), pause(gate)]]))
    async with seated(core) as seat:
        seat.press("a tale\r")
        await seat.shows("Once upon")
        seat.press("a message during it")
        seat.press(STOP)
        await seat.shows("(stopped)")
        await until(lambda: not seat.area.is_working)
        assert seat.area.message.text == "a message during it"
        seat.press(STOP)
        await until(lambda: not seat.area.message.text)
        seat.press(STOP)
        await seat.shows("Ctrl-C once more leaves")
        seat.press(STOP)
        await until(lambda: not seat.area.entries.queue.qsize())


async def test_a_message_during_an_answer_is_queued(make_core):
    """What is sent while an answer is written is queued, which is said, and answered after it."""
    gate = asyncio.Event()
    provider = ScriptedProvider([[say("One"), pause(gate), say(".")], [say("Two.")]])
    async with seated(await make_core(provider)) as seat:
        seat.press("first\r")
        await seat.shows("One")
        seat.press("second\r")
        await seat.shows("(queued: answered after the answer that is being written)")
        gate.set()
        await seat.shows("Two.")
    assert texts(provider) == ["first", "second"]


async def test_an_earlier_conversation_is_picked(make_core):
    """`/sessions` lists one's own conversations, and the one that is picked is shown and goes on."""
    provider = ScriptedProvider([[say("One.")], [say("Two.")]])
    core = await make_core(provider)
    async with seated(core) as seat:
        seat.press("first\r")
        await seat.shows("One.")
        seat.press("/new\r")
        await seat.shows("(a new conversation: ")
        seat.press("/sessions\r")
        await until(lambda: seat.area.menu is not None)
        seat.press(f"{DOWN}\r")
        await seat.shows("(continues ")
        await seat.shows("One.", times=2)
        seat.press("second\r")
        await seat.shows("Two.")
    assert len(provider.requests[-1].messages) == 3


async def test_no_color_shows_the_words_of_the_model(make_core, monkeypatch):
    """With NO_COLOR the text is the model's own, made visible, and nothing has a colour."""
    monkeypatch.setenv("NO_COLOR", "1")
    core = await make_core(ScriptedProvider([[say("# Title\n\nIt is **bo", "ld**\u202e.\n\n\nEnd")]]))
    async with seated(core) as seat:
        seat.press("Hello\r")
        await seat.shows("End")
        await until(lambda: not seat.area.is_working)
    printed = seat.out.replace("\r", "")
    assert "# Title\n\nIt is **bold**\\u{202e}.\n\n\n" in printed
    assert not re.search(r"\x1b\[[\d;]*3\dm", printed)


async def test_what_was_typed_is_kept_for_its_owner(make_core, tmp_path):
    """Typed messages are in a file that others cannot read, and come back in the next conversation."""
    path = tmp_path / "state" / "chat_history"
    core = await make_core(ScriptedProvider([[say("One.")], [say("Two.")]]))
    async with seated(core, history=open_history(path)) as seat:
        seat.press("first\r")
        await seat.shows("One.")
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    async with seated(core, history=open_history(path)) as seat:
        await until(lambda: seat.area.app.is_running)
        seat.press("Hi\r")
        await seat.shows("Two.")
    assert "+first" in path.read_text()
    assert list(open_history(path).load_history_strings()) == ["Hi", "first"]


async def test_a_lost_server_is_followed_again():
    """When the server is lost the screen says so once, and the conversation goes on where it was."""

    class Port:
        after: list[int] = []  # noqa: RUF012 - of one test

        async def follow(self, session: str, *, after: int = 0):
            self.after.append(after)
            if len(self.after) < 3:
                raise Unreachable("The server does not answer.")
            yield []

    clock, said, port = FakeClock(), [], Port()
    following = Lasting(cast("Any", port), clock, said.append, lambda: None).follow("ses_1", after=4)
    batch = asyncio.ensure_future(anext(following))
    while not batch.done():
        await asyncio.sleep(0)
        clock.advance(1.0)
    assert said == ["! The server does not answer. (trying again)", "(connected again)"]
    assert port.after == [4, 4, 4]
    await following.aclose()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("words", "term", "codes"),
    [
        pytest.param((), "xterm", True, id="xterm"),
        pytest.param((), "dumb", False, id="dumb"),
        pytest.param(("What is 6 * 7?",), "xterm", True, id="once", marks=pytest.mark.whole),
    ],
)
async def test_the_command_on_a_terminal(shell: Shell, words, term, codes):
    """`parley chat` of a real process talks on a terminal until Ctrl-D; one without abilities gets no codes."""
    ours, theirs = os.openpty()
    env = {"TERM": term, "PROMPT_TOOLKIT_NO_CPR": "1", "COLUMNS": "60", "LINES": "24"}
    process = await shell.start_on(theirs, "chat", *words, **env)
    os.close(theirs)
    said, changed = bytearray(), asyncio.Event()

    def read() -> None:
        try:
            said.extend(os.read(ours, 65536))
        except OSError:  # the other end was closed
            asyncio.get_running_loop().remove_reader(ours)
        changed.set()

    def reads_keys() -> bool:  # while it prints the terminal makes "\n" of Enter
        return words != () or not codes or said.rfind(b"\x1b[?2004h") > said.rfind(b"\x1b[?2004l")

    async def shows(expected: bytes) -> None:
        async with asyncio.timeout(PATIENCE):
            while expected not in said or not reads_keys():
                changed.clear()
                await changed.wait()

    asyncio.get_running_loop().add_reader(ours, read)
    try:
        if not words:
            await shows(b"/help lists the commands")
            os.write(ours, b"What is 6 * 7?\r")
        await shows(b"is 42")
        await shows(b"demonstration")
        if not words:
            os.write(ours, b"\x04")
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
    finally:
        asyncio.get_running_loop().remove_reader(ours)
        os.close(ours)
    assert (b"\x1b[" in said) == codes
    assert (shell.data / "chat_history").exists() == (codes and not words)


@pytest.mark.parametrize(("plain", "bar"), [("", "\x1b[36m██"), ("1", "Feb      19.5  ██")])
async def test_a_chart_is_drawn_once(make_core, monkeypatch, plain, bar):
    """A chart has coloured bars, with NO_COLOR plain ones, and a screen that became wider gets it no second time."""
    monkeypatch.setenv("NO_COLOR", plain)
    gate = asyncio.Event()

    @tool(name="figure")
    async def figure() -> NewRender:
        """Show a chart."""
        return FIGURES["bar"]

    provider = ScriptedProvider([[call("figure")], [pause(gate), say("That is all.")]])
    async with seated(await make_core(provider, tools=(figure,))) as seat:
        seat.press("first\r")
        await seat.shows("Orders by month")
        seat.columns = 90
        gate.set()
        await seat.shows("That is all.")
    assert bar in seat.out
    assert ("\x1b[36m" in seat.out) == (not plain)
    assert seat.text.count("Orders by month") == 1
