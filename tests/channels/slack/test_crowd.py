"""Fifty answers at once: everybody hears soon, nothing is refused for its rate, and every answer ends whole."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from agent_core.testing import FakeClock
from channels.slack.testing import SlackStandIn
from tests.channels.slack.crowding import Crowd, Leaping, Talk, crowd
from tests.conftest import Fresh

Play = Callable[[Crowd], Awaitable[None]]
Stage = Callable[..., None]


@pytest.fixture
def stage(fresh: Fresh) -> Stage:
    """Let something happen in a crowd, on a loop whose clock leaps."""

    def on(play: Play, *, size: int, teams: Sequence[str] = ("T0001",)) -> None:
        clock = FakeClock()
        leaping = Leaping(clock)

        async def played() -> None:
            with fresh() as open_database:
                async with crowd(open_database, clock, leaping, teams, size) as gathered:
                    await play(gathered)

        with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(leaping)) as runner:
            runner.run(played())

    return on


def is_right(stand_in: SlackStandIn, talk: Talk) -> bool:
    """Tell whether a thread has its whole answer once, with no stream open, and is active."""
    team, thread = stand_in.team(talk.thread.team), talk.thread
    answers = team.answers(thread.channel, thread.root)
    session = team.session(thread.channel, thread.root)
    said = " ".join(answer.text for answer in answers).split()
    is_quiet = session is not None and session.status == "active"
    return said == talk.words and is_quiet and not any(answer.streaming for answer in answers)


def refused(stand_in: SlackStandIn) -> list[str]:
    """Return what was answered with 429."""
    return [call.method for call in stand_in.calls if call.status == 429]


def test_fifty_answers_at_once_in_one_workspace(stage: Stage):
    """Forty people have a sign of life within five seconds, no call comes too often, and each answer ends whole."""

    async def play(gathered: Crowd) -> None:
        figures = await gathered.answered()
        print(figures)
        assert refused(gathered.stand_in) == []
        assert all(is_right(gathered.stand_in, talk) for talk in gathered.told.talks.values())
        assert figures.signs[39] <= 5.0

    stage(play, size=50)
