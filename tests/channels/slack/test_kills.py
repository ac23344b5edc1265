"""The process is killed at every write of the ledger, whatever it shows and how: the thread is completed each time."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from agent_core import events as e
from agent_core.messages import Text
from agent_core.testing import FakeClock
from channels.slack.figures import ChartPorts
from channels.slack.testing import InjectedFault
from tests.channels.slack.answers import ANN, BEFORE_TOOL, USAGE, Log, Side, typical
from tests.channels.slack.crowds import Leaping, leap
from tests.channels.slack.kills import KillSite, Life, PlayedAnswer, Then, ground, points
from tests.channels.slack.outbound.drawings import LONG, PICTURE, OneColour, drawing
from tests.conftest import Fresh

pytestmark = pytest.mark.sqlite  # as with a crowd: the time is virtual

Play = Callable[[KillSite], Awaitable[None]]
SIDES: tuple[Side, ...] = ("before", "after")


def plain() -> Log:
    """One step of text."""
    log = Log()
    log.ask("How many?")
    log.say("It may be ", "thirteen, ", "or rather ", "fourteen.")
    log.end("It may be thirteen, or rather fourteen.")
    return log


def repeated(log: Log, published: int) -> None:
    """Run the step again, with other words, unless it had ended."""
    before = log.batches[:published]
    if published and not any(isinstance(event.body, e.MessageCompleted) for batch in before for event in batch):
        log.batches = before
        step = e.StepStarted(n=1, attempt=2, message="msg_2", takes=(), snapshot="sha256:1")
        log.add(e.RunResumed(epoch=2, cause="lost"), step)
        log.say("Three ", "it is, ", "for certain.", epoch=2)
        log.end("Three it is, for certain.")


def long() -> Log:
    """More text than fits into two messages."""
    log = Log()
    log.ask("All of it")
    pieces = [f"Part {n} {'is shown here, ' * 160}and ends.\n\n" for n in range(7)]
    log.say(*pieces)
    log.end("".join(pieces))
    return log


def slow() -> Log:
    """Text that takes longer than a stream may live."""
    log = Log()
    log.ask("Slowly")
    pieces = [f"Part {n} of it. " for n in range(8)]
    log.say(*pieces)
    log.end("".join(pieces))
    return log


def failed() -> Log:
    """A run that fails without text."""
    log = Log()
    log.ask("How many?")
    log.add(e.RunFailed(code="provider_error", message="No answer.", retryable=True))
    return log


def stopped() -> Log:
    """A run that is stopped in the middle of a word."""
    log = Log()
    log.ask("How many?")
    log.say("One ", "two ", "thr")
    log.add(e.RunCancelling(by=ANN, reason=None))
    kept = e.MessageCompleted(
        message="msg_2", role="assistant", parts=(Text("One two thr"),), stop="done", partial=True
    )
    log.add(kept, e.RunCancelled(by=ANN, reason=None))
    return log


def waits() -> Log:
    """A run that waits for a person in the middle."""
    log = Log()
    log.ask("How many?")
    log.say("Let me **look** ", "at the figures.")
    log.add(
        log.said(BEFORE_TOOL, stop="tools"),
        e.StepCompleted(n=1, usage=USAGE, cost=None),
        e.ToolRequested(call="call_1", name="count_rows", arguments={}, index=0, step=1),
        e.ToolPending(call="call_1", on="client"),
        e.RunWaiting(on=("client",)),
    )
    log.add(
        e.ToolCompleted(call="call_1", outcome="done", parts=(Text("3"),), truncated=False),
        e.RunResumed(epoch=2, cause="output"),
        e.StepStarted(n=2, attempt=1, message="msg_3", takes=(), snapshot="sha256:1"),
    )
    log.say("There are ", "three.", message="msg_3")
    log.end("There are three.", "msg_3")
    return log


def drawn() -> Log:
    """A picture that is uploaded, and a table of which the thread has a file."""
    return drawing(("chart", PICTURE), ("table", LONG))


CHARTS = ChartPorts(OneColour())
SHOWN = "The the chart is file in this thread orders Orders csv png Region Sum First of rows whole table attached"
DRAWN = frozenset(["render", *SHOWN.split(), *(str(n) for n in range(401))])
TOOL = frozenset({"1", "2", "3", "count", "rows"})
NO_STREAMS = (InjectedFault("refused", on="chat.startStream", times=None),)
NO_BLOCKS = (InjectedFault("invalid_blocks", on="chat.update", times=None),)
SCENES = {
    "streamed": PlayedAnswer(typical, beside=TOOL),
    "posted": PlayedAnswer(typical, whole=True, beside=TOOL),
    "updated": PlayedAnswer(typical, faults=NO_STREAMS, beside=TOOL),
    "repeated": PlayedAnswer(plain, again=repeated),
    "repeated without streams": PlayedAnswer(plain, again=repeated, faults=NO_STREAMS),
    "long": PlayedAnswer(long),
    "long and posted": PlayedAnswer(long, whole=True),
    "long and updated": PlayedAnswer(long, faults=NO_STREAMS),
    "long and repaired as text": PlayedAnswer(long, faults=NO_BLOCKS),
    "long and updated as text": PlayedAnswer(long, faults=NO_STREAMS + NO_BLOCKS),
    "old": PlayedAnswer(slow, every=45.0),
    "failed": PlayedAnswer(failed, notice="No answer."),
    "stopped": PlayedAnswer(stopped, notice="Stopped."),
    "waits": PlayedAnswer(waits, rests=4, beside=TOOL),
    "drawn": PlayedAnswer(drawn, beside=DRAWN, charts=CHARTS, blocks=("image", "data_table"), files=("orders.csv",)),
    "drawn and posted": PlayedAnswer(
        drawn, whole=True, beside=DRAWN, charts=CHARTS, blocks=("image", "data_table"), files=("orders.csv",)
    ),
    "drawn and shared": PlayedAnswer(
        drawn,
        faults=(InjectedFault("invalid_blocks", block="image", times=None),),
        beside=DRAWN,
        charts=CHARTS,
        blocks=("data_table",),
        files=("orders.csv", "orders.png"),
    ),
}


TELLING = frozenset({"streamed", "posted", "updated", "repeated", "long", "stopped", "waits", "drawn"})
"""One scene for each way to write, and for what else a process may leave: the rest only mix them."""


def thens(scene: PlayedAnswer) -> tuple[Then, ...]:
    """Return in which states the next process may find an answer."""
    if scene.again is not None:
        return ("again",)
    return ("whole",) if scene.whole else ("whole", "on")


@pytest.fixture
def on_ground(fresh: Fresh) -> Callable[[Play], None]:
    """Run a scenario on a loop whose clock leaps."""

    def on(play: Play) -> None:
        async def played(clock: FakeClock, leaping: Leaping) -> None:
            with fresh() as open_database:
                async with ground(open_database, clock, leaping) as made:
                    await play(made)

        leap(played)

    return on


def cases() -> list[Any]:
    """Return each scene with each state that is found after it; outside of whole runs some with one, in turn."""
    found = []
    for n, (name, scene) in enumerate(SCENES.items()):
        states = thens(scene)
        for then in states:
            marks = () if name in TELLING and then == states[n % len(states)] else pytest.mark.whole
            found.append(pytest.param(name, then, marks=marks))
    return found


async def undisturbed(place: KillSite, scene: PlayedAnswer) -> list[str]:
    """Show *scene* without a death, and return the writes."""
    for fault in scene.faults:
        place.stand_in.fault(fault)
    case, life = await place.opened(scene), Life()
    await place.lived(case, life)
    assert case.is_right(place.stand_in)
    assert "rest" in life.writes
    return life.writes


async def recovered(place: KillSite, scene: PlayedAnswer, *deaths: tuple[int, Side], then: Then) -> None:
    """Kill processes and check that the thread is completed."""
    case = await place.killed(scene, *deaths, then=then)
    shown = [each.text for each in place.stand_in.team().answers("CGENERAL", case.thread.root)]
    assert case.is_right(place.stand_in), (deaths, shown)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "then"), cases())
def test_killed_at_every_write_of_the_ledger(on_ground: Callable[[Play], None], whole: bool, name: str, then: Then):
    """Whichever write a process died at, the next one completes the thread, every word once."""
    scene = SCENES[name]

    async def play(place: KillSite) -> None:
        for n, at in enumerate(points(await undisturbed(place, scene), whole=whole)):
            for side in SIDES if whole else SIDES[n % 2 :: 2]:
                await recovered(place, scene, (at, side), then=then)

    on_ground(play)


TWICE = [
    ("streamed", "on"),
    ("long and updated", "whole"),
    pytest.param("waits", "on", marks=pytest.mark.whole),
    pytest.param("drawn", "on", marks=pytest.mark.whole),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "then"), TWICE)
def test_killed_again_during_the_repair(on_ground: Callable[[Play], None], whole: bool, name: str, then: Then):
    """A second process that dies while it repairs the thread changes nothing either."""
    scene = SCENES[name]

    async def play(place: KillSite) -> None:
        for n, at in enumerate(points(await undisturbed(place, scene), whole=whole)):
            for second in range(1, 10) if whole else (2 + n % 5,):
                await recovered(place, scene, (at, SIDES[n % 2]), (second, SIDES[second % 2]), then=then)

    on_ground(play)
