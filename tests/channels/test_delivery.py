"""How a delivery shows a session: its pace, its segments, its borders."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_core import events as e
from agent_core.errors import NotFound
from agent_core.events import Event, Fact, TextDelta
from agent_core.messages import Actor, Text
from agent_core.objects import Decider, Decision
from agent_core.testing import FakeClock
from channels.delivery import Deferred, Delivery, NullOutbox, Unfinished
from channels.spec import MessageLimits, NotShown, Stop
from channels.view import EMPTY, Segment, border, cut
from tests.cases import for_each
from tests.channels.logs import NAMES, Emitter, expected, fold, golden
from tests.channels.slack.answers import ticking
from tests.channels.toy import Feed, Toy
from tests.polling import PATIENCE, until

ANN = Actor("ann", "user")
USAGE = e.Usage(None, None, None, None, None, None)


class ToyDelivery:
    """A delivery between a feed and a toy channel, on a clock moved by hand."""

    def __init__(self, limits: MessageLimits | None = None) -> None:
        self.feed, self.toy, self.clock, self.emit = Feed(), Toy(limits), FakeClock(), Emitter()
        outbox = NullOutbox(self.toy, "toy:1")
        self.delivery = Delivery(self.feed, outbox, self.clock, session="ses_1")
        self._offsets: dict[str, int] = {}

    def ask(self, *bodies, run: str = "run_1") -> None:
        self.feed.push(*(self.emit(body, run) for body in bodies))

    def start(self, message: str = "msg_2", run: str = "run_1") -> None:
        asked = e.MessageReceived(message=f"{message}?", actor=ANN, parts=(Text("?"),))
        taken = self.emit(asked, run)
        assert isinstance(taken, Fact)
        self.feed.push(taken)
        self.ask(e.RunQueued(), e.RunStarted(epoch=1), self.step(message, taken.seq), run=run)

    def step(self, message: str, *takes: int):
        return e.StepStarted(n=1, attempt=1, message=message, takes=takes, snapshot="sha256:1")

    def say(self, text: str, message: str = "msg_2", run: str = "run_1") -> None:
        offset = self._offsets.get(message, 0)
        self._offsets[message] = offset + len(text)
        delta = TextDelta(message=message, part=0, epoch=1, attempt=1, offset=offset, text=text)
        self.ask(delta, run=run)

    def said(self, text: str, message: str = "msg_2", stop: e.Stop = "done", *, partial: bool = False):
        parts = (Text(text),) if text else ()
        return e.MessageCompleted(message=message, role="assistant", parts=parts, stop=stop, partial=partial)

    def completed(self, reason: e.StopReason = "end_turn"):
        return e.RunCompleted(stop_reason=reason, usage=USAGE, cost=None)


Open = Callable[..., Awaitable[ToyDelivery]]


@pytest.fixture
async def stage() -> AsyncIterator[Open]:
    """Open a stage with a running delivery; it is cancelled with the test."""
    tasks: list[asyncio.Task[None]] = []

    async def make(limits: MessageLimits | None = None) -> ToyDelivery:
        made = ToyDelivery(limits)
        tasks.append(asyncio.create_task(made.delivery.run()))
        return made

    yield make
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def whole(stage: ToyDelivery) -> None:
    """Run a stage's delivery from the first event to the last."""
    stage.feed.end()
    await stage.delivery.run()


async def test_the_first_text_is_shown_at_once(stage: Open):
    """Nothing is posted for a run without text, and its first text is posted at once."""
    made = await stage()
    made.start()
    made.say("Hel")
    await made.toy.times(1)
    assert [(each.verb, each.text, each.closed) for each in made.toy.shown] == [("post", "Hel", False)]
    assert made.toy.address == "toy:1"


async def test_edits_are_coalesced_to_the_pace_of_the_place(stage: Open):
    """Between two edits `edit_every` seconds pass, and the edit shows the last state."""
    made = await stage()
    made.start()
    made.say("a")
    await made.toy.times(1)
    for letter in "bcdef":
        made.say(letter)
    await made.clock.slept()
    assert len(made.toy.shown) == 1
    assert await made.clock.advance_to_next() == 1.0
    await made.toy.times(2)
    assert [each.text for each in made.toy.shown] == ["a", "abcdef"]


async def test_after_a_pause_an_edit_is_immediate(stage: Open):
    """Text that comes later than `edit_every` after the last edit is shown as it comes."""
    made = await stage()
    made.start()
    made.say("a")
    await made.toy.times(1)
    await made.clock.advance_to_next()
    made.say("b")
    await made.toy.times(2)
    assert made.toy.now == {"m1": "ab"}


async def test_the_end_is_shown_at_once(stage: Open):
    """The end of a run does not wait for the next beat, and closes its message."""
    made = await stage()
    made.start()
    made.say("a")
    await made.toy.times(1)
    await made.clock.slept()
    made.ask(made.said("abc"), made.completed())
    await made.toy.times(2)
    assert [(each.text, each.closed) for each in made.toy.shown] == [("a", False), ("abc", True)]


async def test_the_last_state_is_shown_before_a_delivery_returns():
    """When the events end, what was not shown yet is."""
    made = ToyDelivery()
    made.start()
    made.say("all of it")
    await whole(made)
    assert made.toy.now == {"m1": "all of it"}


async def test_each_run_is_answered_in_a_message_of_its_own():
    """The end of a run ends a segment; the next text opens a new one."""
    made = ToyDelivery()
    for n in (1, 2):
        made.start(f"msg_{n}", f"run_{n}")
        made.ask(made.said(f"answer {n}", f"msg_{n}"), made.completed(), run=f"run_{n}")
    await whole(made)
    assert made.toy.now == {"m1": "answer 1", "m2": "answer 2"}
    assert [each for each in made.toy.shown if not (each.closed and each.verb == "post")] == []


async def test_a_wait_ends_a_segment():
    """Text after a wait is shown in a new message, while the call above it still changes."""
    made = ToyDelivery()
    made.start()
    call = e.ToolRequested(call="call_1", name="buy", arguments={}, index=0, step=1)
    made.ask(made.said("May I?", stop="tools"), call, e.ToolPending(call="call_1", on="approval"))
    made.ask(e.RunWaiting(on=("approval",)))
    running = asyncio.create_task(made.delivery.run())
    await made.toy.times(1)
    bought = e.ToolCompleted(call="call_1", outcome="done", parts=(), truncated=False)
    made.ask(e.RunResumed(epoch=2, cause="approval"), bought, made.step("msg_3"))
    made.ask(made.said("Bought.", "msg_3"), made.completed())
    made.feed.end()
    await running
    assert made.toy.now == {"m1": "May I?", "m2": "Bought."}
    edits = [each.body.recent[-1].calls[0].status for each in made.toy.shown if each.ref == "m1"]
    assert (edits[0], edits[-1]) == ("waiting", "done")


async def test_a_stop_ends_a_segment():
    """After a Stop the partial answer keeps its message, and the next answer opens another."""
    made = ToyDelivery()
    made.start()
    made.say("Once upon")
    made.ask(e.RunCancelling(by=ANN, reason=None), made.said("Once upon", stop="cancelled", partial=True))
    made.ask(e.RunCancelled(by=ANN, reason=None))
    made.start("msg_4", "run_2")
    made.say("Sorry.", "msg_4", "run_2")
    await whole(made)
    assert made.toy.now == {"m1": "Once upon", "m2": "Sorry."}
    stopped = next(each for each in made.toy.shown if each.ref == "m1" and each.closed)
    assert (stopped.body.recent[-1].partial, stopped.body.runs[0].status) == (True, "cancelled")


async def test_a_failure_without_text_is_shown():
    """A run that failed, was refused or gave a blank answer still gets its message."""
    made = ToyDelivery()
    made.start()
    made.ask(e.RunFailed(code="provider_error", message="Down.", retryable=True))
    made.start("msg_4", "run_2")
    made.ask(made.said("", "msg_4", "refused"), made.completed("refused"), run="run_2")
    made.start("msg_6", "run_3")
    made.ask(made.said("", "msg_6"), made.completed(), run="run_3")
    await whole(made)
    assert [[run.id for run in each.body.runs] for each in made.toy.shown] == [["run_1"], ["run_2"], ["run_3"]]
    assert [run.blank for run in made.toy.shown[-1].body.runs] == [True]


async def test_a_long_text_rolls_over_at_a_good_place():
    """Past the length limit a message ends with a paragraph, a line or a word, and the next one continues there."""
    made = ToyDelivery(MessageLimits(edit_every=1.0, text=20))
    made.start()
    made.ask(made.said("One two three.\n\nFour five six seven eight nine ten"), made.completed())
    await whole(made)
    assert list(made.toy.now.values()) == ["One two three.\n\n", "Four five six seven ", "eight nine ten"]


async def test_a_border_once_shown_stays(stage: Open):
    """A newer try that says something else changes the text of each message and not where they part."""
    made = await stage(MessageLimits(edit_every=1.0, text=10))
    made.start()
    made.say("0123456789abc")
    await made.toy.times(2)
    assert made.toy.now == {"m1": "0123456789", "m2": "abc"}
    again = TextDelta(message="msg_2", part=0, epoch=1, attempt=2, offset=0, text="one two three")
    made.ask(again)
    await made.clock.advance_to_next()
    await made.toy.times(4)
    assert made.toy.now == {"m1": "one two th", "m2": "ree"}


async def test_a_refused_edit_is_repaired_by_the_next(stage: Open):
    """A refused picture is retried no earlier than the refusal asks."""
    made = await stage()
    made.toy.refusals.append(NotShown("IncompleteOutbox down.", retry_after=5.0))
    made.start()
    made.say("a")
    await made.toy.times(1)
    assert not made.toy.shown
    made.ask(made.said("abc"), made.completed())
    assert await made.clock.advance_to_next() == 5.0
    await made.toy.times(2)
    assert [(each.verb, each.text, each.closed) for each in made.toy.shown] == [("post", "abc", True)]


async def test_the_end_of_a_run_does_not_wait_for_a_deferred_edit(stage: Open):
    """A deferred edit is retried after its time, but at once when its run ends."""
    made = await stage()
    made.toy.refusals.append(Deferred("Others edit.", retry_after=5.0))
    made.start()
    made.say("a")
    await made.toy.times(1)
    await made.clock.slept()
    made.ask(made.said("abc"), made.completed())
    await made.toy.times(2)
    assert [(each.verb, each.text, each.closed) for each in made.toy.shown] == [("post", "abc", True)]


async def test_a_delivery_raises_the_error_of_its_source():
    """`run` raises what the source raised, after the events before it were shown."""
    made = ToyDelivery()
    made.start()
    made.say("a")
    made.feed.end(NotFound("session", "ses_1"))
    with pytest.raises(NotFound):
        await made.delivery.run(after=3)
    assert made.toy.now == {"m1": "a"}
    assert made.feed.after == 3


@for_each("name", NAMES)
async def test_a_golden_log_is_shown_whole_after_a_restart(name):
    """A delivery that starts after the end posts each message once, and together they are the transcript."""
    made = ToyDelivery(MessageLimits(edit_every=1.0, text=20))
    made.feed.push(*golden(name))
    await whole(made)
    said = [each["text"] for each in expected(name)["transcript"] if each["role"] == "assistant"]
    assert "".join(each.text.replace("\n", "") for each in made.toy.shown) == "".join(said).replace("\n", "")
    assert [each for each in made.toy.shown if each.verb != "post"] == []


@given(data=st.data(), text=st.text(alphabet="ab \n", max_size=60), limit=st.integers(1, 15))
def test_segments_give_the_text_without_loss(data, text, limit):
    """However a text grows, its segments fit the limit, keep their borders, and joined are the text."""
    emit, limits, body, segments = Emitter(), MessageLimits(1.0, limit), EMPTY, [Segment()]
    shown = 0
    while shown < len(text):
        size = data.draw(st.integers(1, len(text)))
        delta = TextDelta(message="m", part=0, epoch=1, attempt=1, offset=shown, text=text[shown : shown + size])
        shown += size
        body = fold([emit(delta)], body)
        while (end := border(body, segments[-1], limits)) is not None:
            segments[-1:] = [Segment(segments[-1].start, end), Segment(end)]
    pictures = ["".join(said.text for said in cut(body, segment).recent) for segment in segments]
    assert "".join(pictures) == text
    assert [picture for picture in pictures if len(picture) > limit] == []


def test_a_toy_channel_fits_the_seam():
    """Four members make a channel: limits, parse, post and edit; parse distinguishes text, buttons and noise."""
    toy = Toy()
    asked = toy.parse({"from": "ann", "text": "Hi", "id": "1"})
    assert asked is not None
    assert (asked.parts, asked.key) == ((Text("Hi"),), "1")  # type: ignore[union-attr]
    assert toy.parse({"from": "ann", "button": "stop"}) == Stop(ANN)
    yes = Decision(approval="apr_1", by=Decider(actor=ANN), approved=True, surface="toy")
    assert toy.parse({"from": "ann", "button": "approve", "approval": "apr_1"}) == yes
    assert toy.parse({"from": "ann", "reaction": "wave"}) is None


async def test_a_persons_answer_has_a_message_of_its_own(stage: Open):
    """One that comes while the agent writes is posted once the agent's message is complete; no border moves."""
    made = await stage()
    made.start()
    made.say("Hel")
    await made.toy.times(1)
    reply = e.MessageCompleted(
        message="msg_9",
        role="assistant",
        parts=(Text("Me too."),),
        stop="done",
        actor=Actor("operator", "service", "Meg"),
    )
    made.feed.push(made.emit(reply, None))
    made.ask(made.said("Hello", stop="length"))
    made.ask(e.StepStarted(n=2, attempt=1, message="msg_3", takes=(), snapshot="sha256:1"))
    made.say("there", message="msg_3")
    made.ask(made.said("there", message="msg_3"), made.completed())
    await made.toy.times(4)
    assert list(made.toy.now.values()) == ["Hello", "Me too.", "there"]
    assert [each.ref for each in made.toy.shown if each.verb == "post"] == ["m1", "m2", "m3"]
    assert len([each for each in made.toy.shown if each.ref == "m2"]) == 1


async def test_a_persons_answer_is_shown_where_no_run_is_open():
    """An idle session shows it too, each one in its own message."""
    made = ToyDelivery()
    for n in (1, 2):
        said = e.MessageCompleted(
            message=f"msg_{n}", role="assistant", parts=(Text(f"{n}"),), stop="done", actor=Actor("operator", "service")
        )
        made.feed.push(made.emit(said, None))
    await whole(made)
    assert made.toy.now == {"m1": "1", "m2": "2"}


class IncompleteOutbox(NullOutbox):
    """An outbox whose first message lacks something until it is *complete*."""

    complete = False

    async def show(self, entry, picture, /) -> None:
        await super().show(entry, picture)
        if entry.n == 0 and not self.complete:
            raise Unfinished("A picture is still to come.", retry_after=2.0)


class Ending(Feed):
    """A feed whose readers see what was pushed so far, as of a session that is idle then."""

    def __init__(self) -> None:
        super().__init__()
        self.pushed: list[Event] = []

    def push(self, *events: Event) -> None:
        self.pushed += events

    async def follow(self, session, *, after=0) -> AsyncGenerator[list[Event]]:
        yield [event for event in self.pushed if isinstance(event, Fact) and event.seq > after]


async def test_a_new_run_does_not_wait_for_what_an_old_message_lacks():
    """While a message of an ended run is unfinished, the answer of the next run is shown; the end waits for both."""
    stage = ToyDelivery()
    stage.feed = feed = Ending()
    outbox = IncompleteOutbox(stage.toy, "toy:1")
    delivery = Delivery(feed, outbox, stage.clock, session="ses_1")
    stage.start()
    stage.ask(stage.said("One."), stage.completed())
    showing = asyncio.create_task(delivery.run())
    await stage.toy.times(1)
    stage.start("msg_4", run="run_2")
    stage.ask(stage.said("Two.", "msg_4"), stage.completed(), run="run_2")
    async with asyncio.timeout(PATIENCE), ticking(stage.clock):
        await until(lambda: "Two." in stage.toy.now.values())
        assert not showing.done()
        outbox.complete = True
        await showing
    assert list(stage.toy.now.values()) == ["One.", "Two."]
