"""What the terminal makes of typed lines and of pictures."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import channels.terminal
from agent_core import Actor, Event, Inbound, Text
from agent_core.testing import FakeClock
from channels.base import Body, Call, Entry, Grown, Piece, Run, Said, Stop
from channels.relay import Relay
from channels.terminal import ADDRESS, Terminal, end_of, harmless
from tests.channels.logs import golden
from tests.channels.toy import Feed

ANN = Actor("ann", "user")


class Paper:
    """What a terminal printed: *out* is everything on a screen, else the answers; *aside* the notes."""

    def __init__(self, *, live: bool, prompt: str = "") -> None:
        self.out, self.aside = "", ""
        self.terminal = Terminal(ANN, write=self._write, note=self._note, live=live, prompt=prompt)
        self._live = live

    def _write(self, text: str) -> None:
        self.out += text

    def _note(self, text: str) -> None:
        if self._live:
            self.out += text
        else:
            self.aside += text

    async def show(self, events: list[Event]) -> "Paper":
        """Print what a relay makes of *events*."""
        feed = Feed()
        feed.push(*events)
        feed.end()
        await Relay(feed, self.terminal, FakeClock(), session="ses_1", address=ADDRESS).run()
        return self

    async def pictures(self, *bodies: Body) -> str:
        """Print pictures of one message, one after the other."""
        ref = await self.terminal.post(ADDRESS, bodies[0], Entry("dlv_1", 0))
        for body in bodies[1:]:
            await self.terminal.edit(ref, body, Entry("dlv_1", 0))
        return self.out


def picture(text: str, *calls: Call, closed: bool = False, run: Run | None = None, **fields) -> Body:
    """Return the picture of one answer."""
    said = Said("msg_2", "assistant", "run_1", parts=(Piece("text", Grown.of(text)),), calls=calls, **fields)
    return Body(recent=(said,), closed=closed, runs=(run or Run("run_1", "running"),))


def test_a_line_is_a_message_a_stop_or_nothing():
    """`/stop` asks for a Stop, a blank line for nothing; anything else is said, each time with a key of its own."""
    terminal = Paper(live=True).terminal
    said = terminal.parse("  What is 6 * 7? \n")
    assert isinstance(said, Inbound)
    assert (said.parts, said.actor) == ((Text("What is 6 * 7?"),), ANN)
    assert terminal.parse("/stop\n") == Stop(ANN)
    assert terminal.parse(" \n") is None
    again = terminal.parse("What is 6 * 7?")
    assert isinstance(again, Inbound)
    assert again.key != said.key


async def test_a_conversation_reads_from_top_to_bottom():
    """Questions, text and activity stand in the order of the conversation."""
    paper = await Paper(live=True).show(golden("tools"))
    assert paper.out == (
        "> What is 6 * 7, and what time is it?\n\n"
        "Let me look.\n· calculate … done\n· current_time … done\n\n"
        "6 * 7 = 42, and it is 09:00 UTC.\n"
    )


async def test_answers_alone_go_to_a_pipe():
    """Not live, the answers are printed once and whole, and everything else goes aside."""
    paper = await Paper(live=False).show(golden("tools"))
    assert paper.out == "Let me look.\n\n6 * 7 = 42, and it is 09:00 UTC.\n"
    assert paper.aside == "> What is 6 * 7, and what time is it?\n· calculate … done\n· current_time … done\n"


async def test_a_pipe_sees_no_half_answer():
    """Not live, what a newer try cleared is never printed."""
    assert (await Paper(live=False).show(golden("retry"))).out == "Octopuses have three hearts.\n"


async def test_what_the_person_typed_is_not_printed_again():
    """The screen shows a typed line already; after its answer the next one is asked for."""
    paper = Paper(live=True, prompt="> ")
    paper.terminal.typed("First question")
    await paper.show(golden("queued"))
    assert paper.out == "The first answer.\n\n> \n\n> Second question\n\nThe second answer.\n"


async def test_text_grows_on_the_screen_by_its_tail():
    """Each edit prints what is new and nothing twice."""
    paper = Paper(live=True)
    texts = ["Once", "Once upon", "Once upon", "Once upon a time"]
    assert await paper.pictures(*(picture(text, open=True) for text in texts)) == "Once upon a time"


async def test_a_call_is_finished_on_its_own_line():
    """A call's outcome is added where its line ends; what stands below waits for it."""
    one, two = Call("c1", "buy", "running"), Call("c2", "sell", "done")
    failed = replace(one, status="failed")
    assert await Paper(live=True).pictures(picture("", one, two)) == "· buy … "
    assert await Paper(live=True).pictures(picture("", one, two), picture("", failed, two)) == (
        "· buy … failed\n· sell … done\n"
    )


async def test_a_waiting_call_says_so():
    """A message that was closed by a wait shows the call that waits; its outcome is printed anew."""
    call, run = Call("c1", "buy", "waiting"), Run("run_1", "waiting")
    paper = Paper(live=True)
    waits = picture("", call, closed=True, run=run)
    bought = picture("", replace(call, status="done"), closed=True)
    assert await paper.pictures(waits, bought) == (
        "· buy … waiting\n(waits for somebody to decide or to finish a call)\n\n↻\n· buy … done\n"
    )


async def test_an_answer_that_begins_again_is_told_apart():
    """Text that a newer try replaced is printed anew from the first line that differs, behind a mark."""
    paper = Paper(live=True)
    pictures = (picture("Title\nhalf a th", open=True), picture("Title\nA whole thing", open=True))
    assert await paper.pictures(*pictures) == "Title\nhalf a th\n↻\nA whole thing"


async def test_a_continued_answer_is_one_text():
    """Text that the token limit cut goes on without a gap."""
    paper = await Paper(live=False).show(golden("continuation"))
    assert paper.out == "Mercury, Venus, Earth, Mars, Jupiter, Saturn, Uranus, Neptune.\n"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("failed", "! The model did not answer after 3 tries.\n"),
        ("cancel", "(stopped)\n"),
        ("refused", "(ended: refused)\n"),
    ],
)
async def test_an_end_is_told_in_words(name, words):
    """A failure, a Stop and a refusal are told behind what was said."""
    paper = await Paper(live=False).show(golden(name))
    assert paper.aside.endswith(words)


def test_a_good_end_needs_no_words():
    """Neither a run that works nor one that ended well is spoken of."""
    assert end_of(Run("run_1", "running")) is None
    assert end_of(Run("run_1", "completed", reason="end_turn")) is None


async def test_an_edit_of_an_older_message_is_not_printed():
    """What stands above the newest message cannot be reached any more."""
    paper = Paper(live=True)
    old = await paper.terminal.post(ADDRESS, picture("one", closed=True), Entry("dlv_1", 0))
    await paper.terminal.post(ADDRESS, picture("two", closed=True), Entry("dlv_2", 1))
    await paper.terminal.edit(old, picture("three", closed=True), Entry("dlv_1", 0))
    assert paper.out == "one\n\ntwo\n"


async def test_an_answer_does_not_run_into_the_prompt():
    """Text that comes while a line is asked for begins on a line of its own."""
    paper = Paper(live=True, prompt="> ")
    paper.terminal.tell("(hello)")
    await paper.pictures(picture("News.", closed=True))
    assert paper.out == "(hello)\n> \nNews.\n"


HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b31m\rrm -rf /\x08\x7f\u202etxt.exe\u2066\ud800\x00"


async def test_no_words_of_a_model_command_the_terminal():
    """Escape, control and direction signs in text, tool names and errors never reach the terminal."""
    call, run = Call("c1", f"calc{HOSTILE}\nulate", "done"), Run("run_1", "failed", error=f"a\n{HOSTILE}")
    asked = Said("msg_1", "user", "run_1", parts=(Piece("text", Grown.of(HOSTILE)),))
    body = picture(f"Hi {HOSTILE}", call, closed=True, run=run)
    for live in (True, False):
        paper = Paper(live=live)
        await paper.pictures(replace(body, recent=(asked, *body.recent)))
        printed = paper.out + paper.aside
        assert all(sign.isprintable() or sign in "\n\t " or sign == "\ufffd" for sign in printed)
        assert "Hi ␛[2J" in paper.out


@given(st.text())
def test_harmless_text_loses_nothing_that_can_be_seen(text):
    """Whatever comes in, no control but line ends and tabs goes out, and printable text stays as it is."""
    shown = harmless(text)
    assert not any(ord(sign) < 32 or 0x7F <= ord(sign) < 0xA0 for sign in shown if sign not in "\n\t")
    if text.isprintable():
        assert shown == text


@given(st.text(), st.text())
def test_harmless_text_grows_as_its_source_does(text, more):
    """The beginning of a text is shown alike whatever follows, so a tail can be printed alone."""
    assert harmless(text + more) == harmless(text) + harmless(more)


def test_a_channel_fits_in_150_lines():
    """The worked example stays as small as a new channel may hope to be."""
    source = Path(channels.terminal.__file__).read_text("utf-8")
    assert len(source.splitlines()) <= 150
