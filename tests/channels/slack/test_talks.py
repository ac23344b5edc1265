"""Whole conversations through slack-bolt and slack-sdk, by requests and by Socket Mode, at Slack's rates."""

import asyncio
from collections.abc import Callable
from itertools import pairwise

import pytest
from structlog.testing import capture_logs

from agent_core.testing import Answer
from channels.ledger import OwnedPlace
from channels.slack import limits
from channels.slack.threads import Threads
from tests.channels.slack.answers import words
from tests.channels.slack.conversations import Play, converse, done, spoken
from tests.channels.slack.rig import Rig, texts
from tests.conftest import Fresh

pytestmark = [pytest.mark.sqlite, pytest.mark.whole]  # as with a crowd: the time is virtual

Talk = Callable[[Play, Callable[[str], Answer]], None]
LONG = [f"Sentence number {n} is here. " + ("\n\n" if n % 7 == 0 else "") for n in range(1_450)]
SLOW = [f"Part {n} of it. " for n in range(14)]


@pytest.fixture(params=["requests", "socket"])
def talk(fresh: Fresh, request: pytest.FixtureRequest) -> Talk:
    """Let people talk to an agent that answers the last message."""
    socket = 5.0 if request.param == "socket" else None

    def on(play: Play, answer: Callable[[str], Answer]) -> None:
        converse(fresh, play, lambda asked: answer(texts(asked)[-1]), socket=socket)

    return on


by_requests = pytest.mark.parametrize(
    "talk", ["requests", pytest.param("socket", marks=pytest.mark.whole)], indirect=True
)
"""For what is shown, which is the same however Slack's events come in."""


def test_a_conversation(talk: Talk):
    """A mention is answered by a stream, a reply without one too, an edit changes what waits, and Stop stops."""

    def answer(asked: str) -> Answer:
        if asked == "count":
            return spoken([f"no{n} " for n in range(1, 1_000)], 2.0)
        return spoken([f"You said {asked}", " and I ", "read it."], 2.0)

    async def play(rig: Rig) -> None:
        team = rig.team
        root = (await team.mentions("UANN", "CGENERAL", "hello")).ts
        await rig.stand_in.until(lambda: rig.stand_in.called("chat.appendStream"))
        second = await team.says("UBEN", "CGENERAL", "secnod", root)
        await team.edits("UBEN", "CGENERAL", second.ts, "second")
        shown = await done(rig, team, root, 2)
        assert [each.text for each in shown] == [f"You said {said} and I read it." for said in ("hello", "second")]
        assert len(rig.stand_in.called("chat.startStream")) == 2
        await team.says("UANN", "CGENERAL", "count", root)
        await rig.stand_in.until(lambda: "no7" in words(team.answers("CGENERAL", root)[-1].text))
        assert (await team.stops("UANN", "CGENERAL", root)).acked
        counted = words((await done(rig, team, root, 3))[-1].text)
        assert counted[-1] == "Stopped"
        assert counted[:-1] == [f"no{n}" for n in range(1, len(counted))]
        assert rig.model.open == 0

    talk(play, answer)


@pytest.mark.whole
@by_requests
def test_six_minutes(talk: Talk):
    """An answer that takes six minutes is shown whole, by streams none of which lives longer than Slack lets it."""

    async def play(rig: Rig) -> None:
        began = rig.clock.now()
        root = (await rig.team.mentions("UANN", "CGENERAL", "slowly")).ts
        shown = await done(rig, rig.team, root, 2)
        assert rig.clock.now() - began > 360_000
        assert words(" ".join(each.text for each in shown)) == words("".join(SLOW))
        assert len(shown) == len(rig.stand_in.called("chat.startStream")) == 2
        assert [call.method for call in rig.stand_in.calls if not call.ok] == []

    talk(play, lambda _: spoken(SLOW, 28.0))


@pytest.mark.whole
@by_requests
def test_forty_thousand_characters(talk: Talk):
    """A very long answer comes in several messages, no word lost or twice, and Slack refuses none of it."""

    async def play(rig: Rig) -> None:
        root = (await rig.team.mentions("UANN", "CGENERAL", "everything")).ts
        shown = await done(rig, rig.team, root, 6)
        assert sum(map(len, LONG)) > limits.TEXT_HARD
        assert words(" ".join(each.text for each in shown)) == words("".join(LONG))
        assert [call.method for call in rig.stand_in.calls if not call.ok] == []

    talk(play, lambda _: spoken(["".join(LONG[n : n + 25]) for n in range(0, len(LONG), 25)], 0.4))


def test_two_workspaces_at_once(talk: Talk):
    """What is asked in two workspaces in the same moment, in channels of one name, is answered where it was asked."""

    async def play(rig: Rig) -> None:
        teams = [rig.team, rig.stand_in.team("T0002")]
        asked = await asyncio.gather(*(team.mentions("UANN", "CGENERAL", f"I am of {team.id}") for team in teams))
        assert asked[0].ts == asked[1].ts
        for team, dispatched in zip(teams, asked, strict=True):
            (shown,) = await done(rig, team, dispatched.ts)
            assert shown.text == f"You said I am of {team.id} and I read it."
            assert len(rig.stand_in.called("chat.startStream", team.id)) == 1

    talk(play, lambda asked: spoken([f"You said {asked}", " and I ", "read it."], 2.0))


@pytest.mark.whole
@by_requests
def test_a_permanent_failure_is_retried_ever_less_often(talk: Talk, monkeypatch: pytest.MonkeyPatch):
    """A bug in one thread is logged once with its trace, is retried ever less often, and loses nothing once fixed."""
    show, tries = Threads._show, list[int]()

    async def broken(threads: Threads, place: OwnedPlace, asked: asyncio.Event) -> tuple[OwnedPlace | None, int]:
        tries.append(threads._clock.now())
        if len(tries) <= 6:
            raise RuntimeError("a bug")
        return await show(threads, place, asked)

    async def play(rig: Rig) -> None:
        monkeypatch.setattr(Threads, "_show", broken)
        with capture_logs() as logs:
            first = (await rig.team.mentions("UANN", "CGENERAL", "hello")).ts
            await rig.clock.sleep(600)
        # The second event of a mention may ask for one try more at once.
        assert [round((after - before) / 15_000) for before, after in pairwise(tries)][1:] == [2, 4, 8, 16]
        shown = [each for each in logs if each["event"] == "slack.not_shown"]
        assert [each["tries"] for each in shown] == [1, 2, 3, 4, 5, 6]
        assert [bool(each.get("exception")) for each in shown] == [True, False, False, False, False, False]
        await rig.team.says("UANN", "CGENERAL", "again", first)  # is shown at once
        answers = await done(rig, rig.team, first, 2)
        assert [each.text for each in answers] == ["You said hello", "You said again"]

    talk(play, lambda asked: spoken([f"You said {asked}"], 1.0))
