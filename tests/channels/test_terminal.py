"""What the terminal makes of typed lines and of pictures."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_core.channels import Inbound
from agent_core.errors import InvalidInput
from agent_core.events import Event
from agent_core.messages import Actor, Text
from agent_core.objects import Decision
from agent_core.testing import FakeClock
from channels.delivery import Delivery, NullOutbox
from channels.spec import (
    CallStatus,
    CallView,
    ConversationView,
    GrowingText,
    Piece,
    Question,
    RunView,
    ShownMessage,
    Stop,
)
from channels.terminal import ADDRESS, Terminal
from channels.text import HELD, end_of, exact, question_lines, visible
from tests.cases import for_each
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
        await Delivery(feed, NullOutbox(self.terminal, ADDRESS), FakeClock(), session="ses_1").run()
        return self

    async def pictures(self, *bodies: ConversationView) -> str:
        """Print pictures of one message, one after the other."""
        ref = await self.terminal.post(ADDRESS, bodies[0])
        for body in bodies[1:]:
            await self.terminal.edit(ref, body)
        return self.out


def picture(
    text: str, *calls: CallView, closed: bool = False, run: RunView | None = None, **fields
) -> ConversationView:
    """Return the picture of one answer."""
    said = ShownMessage(
        "msg_2", "assistant", "run_1", parts=(Piece("text", GrowingText.of(text)),), calls=calls, **fields
    )
    return ConversationView(recent=(said,), closed=closed, runs=(run or RunView("run_1", "running"),))


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
    """Questions, text and activity are in the order of the conversation."""
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


async def test_a_table_written_by_hand_is_printed_aligned_once_it_is_complete():
    """On a screen that only grows its rows come together; a pipe has them aligned too."""
    texts = ["Hi.\n\n| a", "Hi.\n\n| a | b |\n|--|--|\n| 10 | x |\n", "Hi.\n\n| a | b |\n|--|--|\n| 10 | x |\n\nDo"]
    paper = Paper(live=True)
    ref = await paper.terminal.post(ADDRESS, picture(texts[0], open=True))
    await paper.terminal.edit(ref, picture(texts[1], open=True))
    assert paper.out == "Hi.\n\n"
    await paper.terminal.edit(ref, picture(texts[2], open=True))
    assert paper.out == "Hi.\n\n a  b\n--  -\n10  x\n\nDo"
    pipe = Paper(live=False)
    assert await pipe.pictures(picture(texts[1], closed=True)) == "Hi.\n\n a  b\n--  -\n10  x\n\n"


async def test_a_call_is_finished_on_its_own_line():
    """A call's outcome is added where its line ends; what is below waits for it."""
    one, two = CallView("c1", "buy", "running"), CallView("c2", "sell", "done")
    failed = replace(one, status="failed")
    assert await Paper(live=True).pictures(picture("", one, two)) == "· buy … "
    assert await Paper(live=True).pictures(picture("", one, two), picture("", failed, two)) == (
        "· buy … failed\n· sell … done\n"
    )


async def test_a_waiting_call_says_so():
    """A message that was closed by a wait shows the call that waits, once, and later its outcome."""
    call, run = CallView("c1", "buy", "waiting"), RunView("run_1", "waiting")
    paper = Paper(live=True)
    waits = picture("", call, closed=True, run=run)
    bought = picture("", replace(call, status="done"), closed=True)
    assert await paper.pictures(waits, bought) == (
        "· buy … waiting\n(waits for a decision or for the result of a call)\n· buy … done\n"
    )


ASKED = Question(
    id="apr_1",
    title="May it pay?",
    tool="pay",
    arguments={"amount": 5, "to": "ann"},
    responders=("asker", "operators"),
    quorum=1,
    until=1_767_607_200_000,
    edit=True,
    remember=True,
)
WAITS = RunView("run_1", "waiting")


def asking(question: Question = ASKED, status: CallStatus = "waiting", **fields) -> ConversationView:
    """Return the picture of an answer whose call is asked about."""
    return picture("Paying.", CallView("c1", "pay", status, question=question), run=WAITS, closed=True, **fields)


async def test_a_question_is_shown_whole():
    """Title, tool, every argument, who may decide and what to type are printed; after the decision, who decided."""
    waits = asking(replace(ASKED, detail="It is final."))
    shown = await Paper(live=True).pictures(waits)
    until = next(line for line in question_lines(ASKED) if "until" in line)
    assert shown == (
        'Paying.\n· pay … asks\n? May it pay? (apr_1)\n  It is final.\n  pay\n    amount: 5\n    to: "ann"\n'
        f'{until}\n  y allows it · n [why] denies it · e {{"amount": 5, "to": "ann"}} allows it so · '
        "a allows the tool for the rest of this conversation\n(waits for a decision or for the result of a call)\n"
    )
    assert "  for the person who asked, operators, until 2026-01-05" in until
    decided = replace(ASKED, status="approved", by=ANN)
    assert (await Paper(live=True).pictures(waits, asking(decided, "done"))).startswith(
        f"{shown}· pay … approved by ann, done\n"
    )


@for_each(
    "question, status, words",
    [
        (replace(ASKED, status="denied", by=ANN, reason="Too\nmuch."), "denied", "denied by ann (Too much.)"),
        (replace(ASKED, status="expired"), "denied", "expired"),
        (replace(ASKED, status="cancelled", by=ANN), "cancelled", "cancelled by ann"),
        (replace(ASKED, status="approved", by=ANN), "waiting", "approved by ann"),
        (
            replace(ASKED, status="approved", by=ANN, edited=True, arguments={"amount": 3}),
            "failed",
            'approved by ann as {"amount": 3}, failed',
        ),
    ],
)
async def test_a_decision_is_shown_in_words(question, status, words):
    """Who decided what, with what arguments and why, is shown where the question was."""
    shown = await Paper(live=True).pictures(asking(question, status))
    assert f"· pay … {words}\n" in shown


async def test_a_quorum_counts_on_the_screen():
    """Of several who must agree it says how many did."""
    two = replace(ASKED, quorum=2, responders=("not_asker", "actor:cfo", "slack:S1"))
    shown = await Paper(live=True).pictures(asking(two), asking(replace(two, yes=1)))
    assert "for not the person who asked, cfo, slack:S1, until" in shown
    assert "; 0 of 2 said yes\n" in shown
    assert "; 1 of 2 said yes\n" in shown


def test_arguments_hide_nothing():
    """What cannot be seen in an argument or in its name is escaped, and no value can look like another line."""
    sly = {"to": "a\u200bb\n    amount: 1\x1b[2J\u202e\x9b", "x: 1, y": "Größe 🎈"}
    lines = list(question_lines(replace(ASKED, arguments=sly)))
    assert '    to: "a\\u200bb\\n    amount: 1\\u001b[2J\\u202e\\u009b"' in lines
    assert '    "x: 1, y": "Größe 🎈"' in lines
    assert [line for line in lines if not line.isprintable()] == []


@pytest.mark.whole
@given(st.dictionaries(st.text(), st.recursive(st.none() | st.booleans() | st.text(), st.lists)))
def test_exact_text_can_be_read_back(value):
    """Arguments as they are shown are the JSON of just these, all of it visible."""
    assert exact(value).isprintable()
    assert json.loads(exact(value)) == value


async def test_a_typed_line_answers_the_question():
    """While a question is open `y`, `n`, `e` and `a` decide; anything else is said, and without one so are they."""
    paper = Paper(live=True)
    await paper.pictures(asking())
    lines = ("y", "YES", "n", "n too much ", "no", "a", 'e {"amount": 3}')
    votes = [vote for line in lines if isinstance(vote := paper.terminal.parse(line), Decision)]
    assert {(vote.approval, vote.surface, vote.by.actor.id) for vote in votes} == {("apr_1", "terminal", "ann")}
    given = [(vote.approved, vote.reason, vote.remember, vote.arguments) for vote in votes]
    assert given == [
        (True, None, False, None),
        (True, None, False, None),
        (False, None, False, None),
        (False, "too much", False, None),
        (False, None, False, None),
        (True, None, True, None),
        (True, None, False, {"amount": 3}),
    ]
    for line in ("yes please", "no, too much", "why?", "a nice day"):
        assert isinstance(paper.terminal.parse(line), Inbound)
    for line in ("e", "e {", "e [1]", 'e "x"', "e " + "[" * 100_000):
        with pytest.raises(InvalidInput, match="one JSON object"):
            paper.terminal.parse(line)
    await paper.terminal.edit(paper.terminal._ref, asking(replace(ASKED, status="denied")))
    assert isinstance(paper.terminal.parse("y"), Inbound)


async def test_what_the_policy_does_not_offer_is_said():
    """Where arguments may not be corrected, or a tool not be allowed permanently, `e` and `a` are words."""
    paper = Paper(live=True)
    shown = await paper.pictures(asking(replace(ASKED, edit=False, remember=False)))
    assert "  y allows it · n [why] denies it\n" in shown
    assert [line for line in ("a", "e {}") if not isinstance(paper.terminal.parse(line), Inbound)] == []


async def test_of_several_questions_the_first_is_answered():
    """Two open questions are both shown, the keys belong to the first; once it is decided, to the second."""
    paper = Paper(live=True)
    two = replace(ASKED, id="apr_2", title="May it pay more?")
    calls = (CallView("c1", "pay", "waiting", question=ASKED), CallView("c2", "pay", "waiting", question=two))
    shown = await paper.pictures(picture("", *calls, run=WAITS, closed=True))
    assert shown.count("y allows it") == 1
    assert shown.index("May it pay?") < shown.index("y allows it") < shown.index("May it pay more?")
    first = paper.terminal.parse("y")
    assert isinstance(first, Decision)
    assert first.approval == "apr_1"
    done = replace(calls[0], question=replace(ASKED, status="approved", by=ANN))
    await paper.terminal.edit(paper.terminal._ref, picture("", done, calls[1], run=WAITS, closed=True))
    assert paper.out.index("approved by ann") < paper.out.rindex("May it pay more?") < paper.out.rindex("y allows it")
    second = paper.terminal.parse("n")
    assert isinstance(second, Decision)
    assert second.approval == "apr_2"


async def test_a_question_that_is_not_on_the_screen_is_not_answered():
    """After a call that still works a question is not shown yet, and `y` is a word."""
    paper = Paper(live=True)
    calls = (CallView("c0", "look", "running"), CallView("c1", "pay", "waiting", question=ASKED))
    assert await paper.pictures(picture("", *calls)) == "· look … "
    assert isinstance(paper.terminal.parse("y"), Inbound)


async def test_a_decision_is_asked_for_and_then_the_next_line():
    """Where a question waits the prompt comes after it, and again after the answer that follows the decision."""
    paper = Paper(live=True, prompt="> ")
    paper.terminal.typed("Pay")
    await paper.pictures(asking())
    assert paper.out.endswith("\n\n> ")
    paper.terminal.typed("y")
    await paper.pictures(picture("Done.", closed=True, run=RunView("run_1", "completed")))
    assert paper.out.endswith("> \nDone.\n\n> ")


async def test_an_answer_that_begins_again_is_marked():
    """Text that a newer try replaced is printed again from the first line that differs, after a mark."""
    paper = Paper(live=True)
    pictures = (picture("Title\nhalf a th", open=True), picture("Title\nA whole thing", open=True))
    assert await paper.pictures(*pictures) == "Title\nhalf a th\n↻\nA whole thing"


async def test_a_continued_answer_is_one_text():
    """Text that the token limit cut continues without a gap."""
    paper = await Paper(live=False).show(golden("continuation"))
    assert paper.out == "Mercury, Venus, Earth, Mars, Jupiter, Saturn, Uranus, Neptune.\n"


@for_each(
    "name, words",
    [
        ("failed", "! The model did not answer after 3 tries.\n"),
        ("cancel", "(stopped)\n"),
        ("refused", "(ended: refused)\n"),
    ],
)
async def test_an_end_is_shown_in_words(name, words):
    """A failure, a Stop and an early end are shown after what was said."""
    paper = await Paper(live=False).show(golden(name))
    assert paper.aside.endswith(words)


def test_an_answer_at_its_length_limit_says_so():
    """The stop reason `max_tokens` is shown as a sentence."""
    assert (
        end_of(RunView("run_1", "completed", reason="max_tokens")) == "(ended: the answer was cut at its length limit)"
    )


def test_a_good_end_needs_no_words():
    """Neither a run that works nor one that ended well is spoken of."""
    assert end_of(RunView("run_1", "running")) is None
    assert end_of(RunView("run_1", "completed", reason="end_turn")) is None


async def test_an_edit_of_an_older_message_is_not_printed():
    """What is above the newest message cannot be reached any more."""
    paper = Paper(live=True)
    old = await paper.terminal.post(ADDRESS, picture("one", closed=True))
    await paper.terminal.post(ADDRESS, picture("two", closed=True))
    await paper.terminal.edit(old, picture("three", closed=True))
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
    call, run = CallView("c1", f"calc{HOSTILE}\nulate", "done"), RunView("run_1", "failed", error=f"a\n{HOSTILE}")
    asked = ShownMessage("msg_1", "user", "run_1", parts=(Piece("text", GrowingText.of(HOSTILE)),))
    body = picture(f"Hi {HOSTILE}", call, closed=True, run=run)
    for live in (True, False):
        paper = Paper(live=live)
        await paper.pictures(replace(body, recent=(asked, *body.recent)))
        printed = paper.out + paper.aside
        assert [sign for sign in printed if not (sign.isprintable() or sign in "\n\t ")] == []
        assert "Hi \\u{1b}[2J" in paper.out


@given(st.text(), st.text())
def test_visible_text_grows_as_its_source_does(text, more):
    """The beginning of a text is shown alike whatever follows, so a tail can be printed alone."""
    assert visible(text + more).startswith(visible(text.rstrip(HELD)))
