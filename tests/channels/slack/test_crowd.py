"""Fifty answers at once: each starts soon, no call exceeds a rate limit, and every answer is complete."""

from collections.abc import Awaitable, Callable, Sequence

import pytest

from agent_core.testing import FakeClock
from channels.slack import limits
from channels.slack.pace import LEEWAY
from channels.slack.testing import InjectedFault, SlackStandIn
from tests.channels.slack.crowds import Crowd, CrowdPlan, CrowdTalk, Leaping, crowd, leap
from tests.conftest import Fresh

# The figures are of virtual time, which is stopped during transactions of SQLite alone: Postgres' driver waits by it.
pytestmark = [pytest.mark.sqlite, pytest.mark.whole]

MINUTE = limits.RATE_WINDOW + LEEWAY
Play = Callable[[Crowd], Awaitable[None]]
Stage = Callable[..., None]


@pytest.fixture
def stage(fresh: Fresh) -> Stage:
    """Run a scenario with a crowd, on a loop whose clock leaps."""

    def on(play: Play, *, size: int, teams: Sequence[str] = ("T0001",), thinking: float = 0.5) -> None:
        async def played(clock: FakeClock, leaping: Leaping) -> None:
            with fresh() as open_database:
                async with crowd(open_database, clock, leaping, CrowdPlan(teams, size, thinking)) as gathered:
                    await play(gathered)

        leap(played)

    return on


def is_right(stand_in: SlackStandIn, talk: CrowdTalk) -> bool:
    """Return whether a thread has its whole answer once, with no stream open, and is active."""
    team, thread = stand_in.team(talk.thread.team), talk.thread
    answers = team.answers(thread.channel, thread.root)
    session = team.session(thread.channel, thread.root)
    said = " ".join(answer.text for answer in answers).split()
    is_active = session is not None and session.status == "active"
    return said == talk.words and is_active and not any(answer.streaming for answer in answers)


def is_all_right(gathered: Crowd) -> bool:
    """Return whether every thread is right."""
    return all(is_right(gathered.stand_in, talk) for talk in gathered.story.talks.values())


def refused(stand_in: SlackStandIn) -> list[str]:
    """Return what was answered with 429."""
    return [call.method for call in stand_in.calls if call.status == 429]


def test_fifty_answers_at_once_in_one_workspace(stage: Stage):
    """No call comes too often; each thread shows a sign within ten seconds, and the whole answer as soon as it ends.

    Slack's rates are the bounds: 20 streams a minute, so the others get posts; 50 updates, so most are left to the
    ends; 50 statuses, so the posts become active a minute later.
    """

    async def play(gathered: Crowd) -> None:
        figures = await gathered.answered()
        print(figures)
        assert refused(gathered.stand_in) == []
        assert is_all_right(gathered)
        assert figures.signs[39] <= 5.0  # about 1 as a rule; which thread gets a place first is the network's choice
        # Text begins within three seconds, and each of a channel's five threads may post a second after another.
        assert figures.signs[-1] <= 10.0
        assert figures.late[-1] <= 3.0
        assert figures.active[17] <= 30.0  # the streams
        assert figures.active[-1] <= MINUTE + 5.0
        assert figures.calls["chat.startStream"] == 18

    stage(play, size=50)


@pytest.mark.whole
def test_fifty_answers_that_begin_after_a_minute(stage: Stage):
    """Before there is any text, forty threads show at once that work has begun, the rest as soon as rates allow."""

    async def play(gathered: Crowd) -> None:
        figures = await gathered.answered()
        print(figures)
        assert refused(gathered.stand_in) == []
        assert is_all_right(gathered)
        assert figures.signs[39] <= 5.0
        assert figures.signs[-1] <= MINUTE + 1.0
        assert figures.late[-1] <= 3.0

    stage(play, size=50, thinking=MINUTE + 5.0)


@pytest.mark.whole
def test_two_workspaces_at_once_have_their_own_budgets(stage: Stage):
    """Twenty-five answers in each of two workspaces all show a sign at once, and more of them stream than in one."""

    async def play(gathered: Crowd) -> None:
        figures = await gathered.answered()
        print(figures)
        assert refused(gathered.stand_in) == []
        assert is_all_right(gathered)
        assert figures.signs[-1] <= 0.5
        assert figures.late[-1] <= 3.0
        assert figures.active[-1] <= 30.0
        starts = [len(gathered.stand_in.called("chat.startStream", team)) for team in ("T0001", "T0002")]
        assert starts == [18, 18]

    stage(play, size=25, teams=("T0001", "T0002"))


FAULTS = (
    InjectedFault("ratelimited", on="agents.sessions.setStatus", nth=3, seconds=7),
    InjectedFault("ratelimited", on="agents.sessions.setStatus", nth=25, times=3, seconds=7),
    InjectedFault("ratelimited", on="chat.startStream", nth=5, times=2, seconds=4),
    InjectedFault("ratelimited", on="chat.appendStream", nth=9, times=3, seconds=5),
    InjectedFault("ratelimited", on="chat.stopStream", nth=3, times=2, seconds=9),
    InjectedFault("ratelimited", on="chat.postMessage", seconds=3),
    InjectedFault("ratelimited", on="chat.update", nth=2, times=2, seconds=6),
)


@pytest.mark.whole
def test_an_unexpected_429_loses_nothing(stage: Stage):
    """When Slack accepts less than documented, calls wait as long as it asks, and no word or status is lost."""

    async def play(gathered: Crowd) -> None:
        armed = [gathered.stand_in.fault(fault) for fault in FAULTS]
        print(await gathered.answered())
        assert [each.struck for each in armed] == [each.fault.times for each in armed]
        assert len(refused(gathered.stand_in)) == sum(each.struck for each in armed)
        assert is_all_right(gathered)

    stage(play, size=22)
