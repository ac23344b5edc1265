"""Whole conversations through slack-bolt and slack-sdk, by requests and by Socket Mode, at Slack's rates."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from agent_core import Core, Definition
from agent_core.providers.base import Request
from agent_core.testing import Answer, FakeClock, say, sleep
from channels.slack import limits
from channels.slack.testing import Shown, Team
from tests.channels.slack.crowding import Held, Leaping, leap
from tests.channels.slack.hearing import Rig, rigged, texts
from tests.channels.slack.showing import words
from tests.conftest import Fresh

pytestmark = pytest.mark.sqlite  # as with a crowd: the time is virtual

Play = Callable[[Rig], Awaitable[None]]
Talk = Callable[[Play, Callable[[str], Answer]], None]
LONG = [f"Sentence number {n} is here. " + ("\n\n" if n % 7 == 0 else "") for n in range(1_450)]
SLOW = [f"Part {n} of it. " for n in range(14)]


@pytest.fixture(params=["requests", "socket"])
def talk(fresh: Fresh, request: pytest.FixtureRequest) -> Talk:
    """Let people talk to an agent that answers the last thing it was told, by a clock that leaps."""
    socket = 5.0 if request.param == "socket" else None

    def on(play: Play, answer: Callable[[str], Answer]) -> None:
        def answered(asked: Request) -> Answer:
            return answer(texts(asked)[-1])

        async def played(clock: FakeClock, leaping: Leaping) -> None:
            with fresh() as open_database:
                cores: list[Core] = []

                async def make(model, *, clock: FakeClock, definition: dict) -> Core:
                    core = Core(
                        Held(open_database(), leaping),
                        providers={model.name: model},
                        tools={},
                        default_model=model.name,
                        clock=clock,
                    )
                    cores.append(core)
                    await core.start()
                    core._segments.pressure.stop()
                    await core.agents.create(Definition(name="assistant", instructions="", **definition))
                    return core

                try:
                    async with rigged(make, answer=answered, socket=socket, clock=clock, shown=True) as rig:
                        await play(rig)
                finally:
                    await cores[0].stop()

        leap(played)

    return on


async def done(rig: Rig, team: Team, root: str, n: int = 1, channel: str = "CGENERAL") -> Sequence[Shown]:
    """Return the *n* answers, or more, of a thread once nothing is open there."""

    def is_done() -> bool:
        answers, session = team.answers(channel, root), team.session(channel, root)
        is_quiet = session is not None and session.status == "active"
        return is_quiet and len(answers) >= n and not any(each.streaming for each in answers)

    await rig.stand_in.until(is_done, timeout=60)
    return team.answers(channel, root)


def spoken(pieces: Sequence[str], every: float) -> Answer:
    """Say *pieces*, with *every* seconds behind each."""
    return [item for piece in pieces for item in (say(piece), sleep(every))]


def test_a_conversation(talk: Talk):
    """A mention is answered by a stream, a reply without one too, an edit changes what waits, and Stop stops."""

    def answer(asked: str) -> Answer:
        if asked == "count":
            return spoken([f"no{n} " for n in range(1, 1_000)], 2.0)
        return spoken([f"You said {asked}", " and I ", "heard it."], 2.0)

    async def play(rig: Rig) -> None:
        team = rig.team
        root = (await team.mentions("UANN", "CGENERAL", "hello")).ts
        await rig.stand_in.until(lambda: rig.stand_in.called("chat.appendStream"))
        second = await team.says("UBEN", "CGENERAL", "secnod", root)
        await team.edits("UBEN", "CGENERAL", second.ts, "second")
        told = await done(rig, team, root, 2)
        assert [each.text for each in told] == [f"You said {said} and I heard it." for said in ("hello", "second")]
        assert len(rig.stand_in.called("chat.startStream")) == 2
        await team.says("UANN", "CGENERAL", "count", root)
        await rig.stand_in.until(lambda: "no7" in words(team.answers("CGENERAL", root)[-1].text))
        assert (await team.stops("UANN", "CGENERAL", root)).acked
        counted = words((await done(rig, team, root, 3))[-1].text)
        assert counted[-1] == "Stopped"
        assert counted[:-1] == [f"no{n}" for n in range(1, len(counted))]
        assert rig.model.open == 0

    talk(play, answer)


def test_six_minutes(talk: Talk):
    """An answer that takes six minutes is told whole, by streams none of which lives longer than Slack lets it."""

    async def play(rig: Rig) -> None:
        began = rig.clock.now()
        root = (await rig.team.mentions("UANN", "CGENERAL", "slowly")).ts
        told = await done(rig, rig.team, root, 2)
        assert rig.clock.now() - began > 360_000
        assert words(" ".join(each.text for each in told)) == words("".join(SLOW))
        assert len(told) == len(rig.stand_in.called("chat.startStream")) == 2
        assert [call.method for call in rig.stand_in.calls if not call.ok] == []

    talk(play, lambda _: spoken(SLOW, 28.0))


def test_forty_thousand_characters(talk: Talk):
    """A very long answer comes in several messages, no word lost or twice, and Slack refuses none of it."""

    async def play(rig: Rig) -> None:
        root = (await rig.team.mentions("UANN", "CGENERAL", "everything")).ts
        told = await done(rig, rig.team, root, 6)
        assert sum(map(len, LONG)) > limits.TEXT_HARD.value
        assert words(" ".join(each.text for each in told)) == words("".join(LONG))
        assert [call.method for call in rig.stand_in.calls if not call.ok] == []

    talk(play, lambda _: spoken(["".join(LONG[n : n + 25]) for n in range(0, len(LONG), 25)], 0.4))


def test_two_workspaces_at_once(talk: Talk):
    """What is asked in two workspaces in the same moment, in channels of one name, is answered where it was asked."""

    async def play(rig: Rig) -> None:
        teams = [rig.team, rig.stand_in.team("T0002")]
        asked = await asyncio.gather(*(team.mentions("UANN", "CGENERAL", f"I am of {team.id}") for team in teams))
        assert asked[0].ts == asked[1].ts
        for team, heard in zip(teams, asked, strict=True):
            (told,) = await done(rig, team, heard.ts)
            assert told.text == f"You said I am of {team.id} and I heard it."
            assert len(rig.stand_in.called("chat.startStream", team.id)) == 1

    talk(play, lambda asked: spoken([f"You said {asked}", " and I ", "heard it."], 2.0))
