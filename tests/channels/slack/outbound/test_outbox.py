"""How a thread shows an answer: streamed, and each word exactly once whatever fails."""

from dataclasses import replace
from functools import partial
from itertools import count

import pytest
from structlog.testing import capture_logs

from agent_core import events as e
from agent_core.testing import FakeClock
from channels.slack.outbox import GaveUp
from channels.slack.testing import InjectedFault
from tests.channels.slack.answers import Log, Open, Showing, typical, words

pytestmark = pytest.mark.sampled(2)

WHOLE = words("Let me look at the figures. There are three of them: one two three")


def is_right(shown: Showing) -> bool:
    """Return whether the thread has the whole answer once, no message still streams, and its tool is done."""
    said = [word for word in words(shown.text) if word not in ("1", "2", "3", "count", "rows")]
    return said == WHOLE and not any(each.streaming for each in shown.answers)


async def test_an_answer_streams_with_its_tools_and_ends_with_feedback_buttons(showing: Open):
    """Text and tool come by appends to one stream, which ends with feedback buttons and the session active."""
    shown = await showing()
    assert await shown.live(typical())
    (answer,) = shown.answers
    assert is_right(shown)
    assert [(task.title, task.status) for task in answer.tasks] == [("count rows", "complete")]
    assert {button.action_id for button in answer.buttons} == {"feedback"}
    methods = [call.method for call in shown.stand_in.calls if call.method.startswith("chat.")]
    assert methods[0] == "chat.startStream"
    assert methods[-1] == "chat.stopStream"
    assert set(methods[1:-1]) == {"chat.appendStream"}
    session = shown.stand_in.team("T0001").session("CGENERAL", shown.thread.root)
    assert session is not None
    assert session.status == "active"


async def test_each_progress_text_of_a_tool_is_shown_once(showing: Open):
    """The progress of a tool is shown in its task, each text sent once, and mentions no one."""
    shown = await showing()
    log = typical()
    reported = ("row 1", "row 1", "row 2 of <!channel>")
    log.batches[4:4] = [[log.emit(e.ToolProgress(call="call_1", text=text))] for text in dict.fromkeys(reported)]
    assert await shown.live(log)
    sent = [chunk for call in shown.stand_in.called("chat.appendStream", "T0001") for chunk in call.arguments["chunks"]]
    details = [chunk["details"] for chunk in sent if "details" in chunk]
    assert [text.replace("\u200b", "") for text in details] == ["row 1", "row 2 of <!channel>"]
    assert "<!channel>" not in details[-1]
    assert is_right(shown)


async def test_a_finished_answer_is_one_post(showing: Open):
    """An answer that is over before it was shown is posted whole, without a stream."""
    shown = await showing()
    assert await shown.live(typical(), late=True)
    assert [call.method for call in shown.stand_in.calls if call.method.startswith("chat.")] == ["chat.postMessage"]
    assert is_right(shown)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("side", "first"), [("before", 1), ("after", 2)])
async def test_killed_at_every_step_of_the_ledger(showing: Open, side, first: int, whole: bool):
    """A process that dies at any write of the ledger leaves a thread that the next one completes."""
    for at in count(1) if whole else count(first, 2):  # the sides in turn
        shown = await showing()
        if not await shown.killed_and_taken_over(typical(), at, side):
            break
        assert is_right(shown), (at, side, shown.text)
        assert len(shown.answers) == 1, (at, side, shown.text)
    assert at > 10


@pytest.mark.parametrize("end", ["ratelimited", "request_lost"])
async def test_an_uncertain_append_is_not_repeated_while_its_stream_cannot_be_ended(showing: Open, end):
    """An append without an answer is followed by a stop and an update, however often the stop has to be retried."""
    shown = await showing()
    shown.stand_in.fault(InjectedFault("server_error", on="chat.appendStream", effect=True))
    shown.stand_in.fault(InjectedFault(end, on="chat.stopStream", times=3))
    assert await shown.live(typical())
    assert is_right(shown)
    assert len(shown.stand_in.called("chat.appendStream", "T0001")) == 1
    assert len(shown.stand_in.called("chat.stopStream", "T0001")) == 4


async def test_an_outage_of_minutes_makes_no_copies(showing: Open):
    """Posts without an answer, in a thread that cannot be read: at most one more, with a warning."""
    shown = await showing()
    posts = partial(shown.stand_in.called, "chat.postMessage", "T0001")
    reads = partial(shown.stand_in.called, "conversations.replies", "T0001")
    away = lambda: len(posts()) < 9 and len(reads()) < 25  # noqa: E731 - a condition
    shown.stand_in.fault(InjectedFault("server_error", on="chat.postMessage", effect=True, times=None, when=away))
    shown.stand_in.fault(InjectedFault("server_error", on="conversations.replies", times=None, when=away))
    assert await shown.live(typical(), late=True)
    assert len(shown.answers) == 2
    assert "not certain" in shown.answers[-1].text


async def test_a_thread_that_may_not_be_read_is_given_up_after_five_searches(showing: Open):
    """Without the scope to read, an answer whose post was lost has a warning; the remedy is logged once."""
    shown = await showing()
    shown.stand_in.fault(InjectedFault("request_lost", on="chat.postMessage"))
    shown.stand_in.fault(InjectedFault("refused", on="conversations.replies", code="missing_scope", times=None))
    with capture_logs() as logs:
        assert await shown.live(typical(), late=True)
    (answer,) = shown.answers
    assert "not certain" in answer.text
    assert len(shown.stand_in.called("conversations.replies", "T0001")) == 5
    (logged,) = [each for each in logs if each["event"] == "slack.unauthorised"]
    assert "missing_scope" in logged["remedy"]


async def test_a_root_posted_by_the_app_is_not_taken_for_an_answer(showing: Open):
    """The question of a slash command, which the app has posted, stays as it is when a stream's start is uncertain."""
    shown = await showing()
    root = await shown.workspace().api.post("CGENERAL", "Ann asks: How many?")
    shown.thread = replace(shown.thread, root=root)
    shown.stand_in.fault(InjectedFault("server_error", on="chat.startStream"))
    assert await shown.live(typical())
    question, *answers = shown.stand_in.team("T0001").thread("CGENERAL", root)
    assert question.text == "Ann asks: How many?"
    assert len(answers) == 1


async def test_a_recipient_whom_slack_does_not_find_is_answered_by_a_post(showing: Open):
    """A stream needs a recipient, a post does not: an unknown recipient is answered by a post."""
    shown = await showing()
    shown.stand_in.fault(InjectedFault("refused", on="chat.startStream", code="user_not_found", times=None))
    assert await shown.live(typical())
    assert is_right(shown)


async def test_deleting_the_answer_stops_the_run(showing: Open):
    """A message that was deleted while it grew is not written again, and its run is stopped."""
    shown = await showing()
    place = shown.stand_in.team().workspace.channels["CGENERAL"]

    def is_deleted() -> bool:
        for each in shown.answers:
            place.remove(place.messages[each.ts])
        return False

    shown.stand_in.fault(InjectedFault("refused", on="chat.appendStream", when=is_deleted))
    assert await shown.live(typical())
    assert (shown.stops, shown.text) == (["run_1"], "")
    assert [call.method for call in shown.stand_in.calls][-1] == "chat.stopStream"


@pytest.mark.parametrize("on", ["chat.appendStream", "chat.stopStream", "chat.update"])
async def test_one_false_word_of_a_deletion_stops_nothing(showing: Open, on: str):
    """A message that Slack says is not found, though the thread has it, is written whole; its run goes on."""
    shown = await showing()
    if on == "chat.update":
        shown.stand_in.fault(InjectedFault("refused", on="chat.startStream"))
    shown.stand_in.fault(InjectedFault("refused", on=on, code="message_not_found"))
    assert await shown.live(typical())
    assert shown.stops == []
    assert is_right(shown)


async def test_where_the_thread_cannot_be_read_a_second_word_of_a_deletion_is_believed(showing: Open):
    """Without a look at the thread the message is tried once more; then its run is stopped, and no stream is open."""
    shown = await showing()
    shown.stand_in.fault(InjectedFault("refused", on="conversations.replies", code="missing_scope", times=None))
    for on in ("chat.appendStream", "chat.update"):
        shown.stand_in.fault(InjectedFault("refused", on=on, code="message_not_found", times=None))
    assert await shown.live(typical())
    assert shown.stops == ["run_1"]
    assert not any(each.streaming for each in shown.answers)


async def test_a_stream_that_a_person_stopped_stops_its_own_run(showing: Open):
    """A stop that is noticed late cancels the run of that stream and no other; the words stay, once."""
    shown = await showing()
    shown.stand_in.fault(InjectedFault("refused", on="chat.stopStream", code="stopped_by_user", times=None))
    assert await shown.live(typical())
    assert shown.stops == ["run_1"]
    assert is_right(shown)


async def test_a_message_that_slack_always_refuses_is_given_up(showing: Open):
    """A place where nothing may be posted is given up after a few attempts."""
    shown = await showing()
    code = "restricted_action_read_only_channel"
    shown.stand_in.fault(InjectedFault("refused", on="chat.postMessage", code=code, times=None))
    with pytest.raises(GaveUp):
        await shown.live(typical(), late=True)
    assert len(shown.stand_in.called("chat.postMessage", "T0001")) == 5


async def test_a_long_tool_does_not_keep_a_stream_beyond_its_age(showing: Open):
    """While a tool runs for minutes its stream is ended in time, and the answer continues in a new one."""
    shown = await showing()
    log = typical()
    working = [[log.emit(e.ToolProgress(call="call_1", text=f"row {n}"))] for n in range(9)]
    log.batches[4:4] = working
    assert await shown.live(_Slowly(log, shown.clock, seconds=32.0))
    codes = [(call.answer or {}).get("error") for call in shown.stand_in.calls]
    assert "message_not_in_streaming_state" not in codes
    assert is_right(shown)
    assert len(shown.answers) > 1


async def test_a_long_answer_goes_on_in_further_messages(showing: Open):
    """Forty thousand characters are several messages within the limits, with no word lost or twice."""
    shown = await showing()
    log = Log()
    log.ask("All of it")
    sentences = [f"Sentence number {n} is here. " + ("\n\n" if n % 7 == 0 else "") for n in range(1_450)]
    pieces = ["".join(sentences[n : n + 50]) for n in range(0, len(sentences), 50)]
    log.say(*pieces)
    whole = "".join(sentences)
    assert len(whole) > 40_000
    log.end(whole)
    assert await shown.live(log)
    assert words(shown.text) == words(whole)
    assert len(shown.answers) > 4


async def test_a_code_fence_that_is_cut_is_closed_and_opened_again(showing: Open):
    """Code across the border of two messages is code in both."""
    shown = await showing()
    log = Log()
    log.ask("Code")
    lines = [f"line_{n} = {n}\n" for n in range(900)]
    whole = f"Here:\n\n```python\n{''.join(lines)}```\n\nThat was it."
    log.say(*(whole[n : n + 1500] for n in range(0, len(whole), 1500)))
    log.end(whole)
    assert await shown.live(log)
    sources = ["".join(b["text"] for b in each.blocks if b["type"] == "markdown") for each in shown.answers]
    assert len(sources) > 1
    assert [source for source in sources[:-1] if source.count("```") != 2] == []
    assert [word for word in words(shown.text) if word != "python"] == [w for w in words(whole) if w != "python"]


async def test_an_old_stream_is_followed_by_a_new_one(showing: Open):
    """A run of six minutes is shown by streams, none of which gets an append after Slack has expired it."""
    shown = await showing()
    log = Log()
    log.ask("Slowly")
    pieces = [f"Part {n} of it. " for n in range(12)]
    log.say(*pieces)
    log.end("".join(pieces))
    slow = _Slowly(log, shown.clock, seconds=32.0)
    assert await shown.live(slow)
    assert words(shown.text) == words("".join(pieces))
    assert len(shown.answers) == 2
    codes = [(call.answer or {}).get("error") for call in shown.stand_in.calls]
    assert "message_not_in_streaming_state" not in codes


class _Slowly(Log):
    """A log between whose batches time passes."""

    def __init__(self, log: Log, clock: FakeClock, *, seconds: float) -> None:
        super().__init__()
        self._clock, self._seconds = clock, seconds
        self._all = log.batches

    @property
    def batches(self):
        return _Passing(self._all, self._clock, self._seconds)

    @batches.setter
    def batches(self, value) -> None:
        self._all = value


class _Passing(list):
    def __init__(self, batches, clock: FakeClock, seconds: float) -> None:
        super().__init__(batches)
        self._clock, self._seconds = clock, seconds

    def __getitem__(self, index):
        found = super().__getitem__(index)
        if not isinstance(index, slice):
            return found
        return self._passing(found)

    def _passing(self, found):
        for each in found:
            self._clock.advance(self._seconds)
            yield each
