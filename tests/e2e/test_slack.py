"""Slack with the real server: asked in a thread, killed in the middle of its answer, stopped."""

import asyncio

import pytest

from channels.slack.testing import SlackStandIn, Team
from tests.channels.slack.block_types import taken_blocks, typed_blocks
from tests.e2e.conftest import StartServer
from tests.e2e.server import Server
from tests.e2e.test_kill import ASK, WHOLE

__all__ = ["taken_blocks", "typed_blocks"]
LONG = 60.0


def in_slack(start_server: StartServer, stand_in: SlackStandIn, *, rate: float, **settings: str) -> Server:
    """Start a server that the stand-in tells of what people say."""
    server = start_server(
        rate=rate,
        SLACK_BOT_TOKEN=stand_in.team().bot_token,
        SLACK_SIGNING_SECRET=stand_in.app.signing_secret,
        SLACK_API_URL=f"{stand_in.base_url}api",
        **settings,
    )
    stand_in.deliver_to(server.url)
    return server


def words(team: Team, root: str) -> list[str]:
    """Return the words of all that the app says in a thread."""
    return " ".join(each.text for each in team.answers("CGENERAL", root)).split()


async def done(stand_in: SlackStandIn, team: Team, root: str) -> None:
    """Return once nothing is open in a thread any more."""

    def is_done() -> bool:
        answers, session = team.answers("CGENERAL", root), team.session("CGENERAL", root)
        is_quiet = session is not None and session.status == "active"
        return bool(answers) and is_quiet and not any(each.streaming for each in answers)

    await stand_in.until(is_done, timeout=LONG)


@pytest.mark.whole
async def test_killed_in_mid_answer_the_thread_has_it_whole_and_once(
    start_server: StartServer, stand_in: SlackStandIn, team: Team
):
    """SIGKILL while an answer streams: the next start ends it in the same message, every word of it once."""
    server = in_slack(start_server, stand_in, rate=60)
    asked = await team.mentions("UANN", "CGENERAL", ASK)
    assert asked.acked
    await stand_in.until(lambda: len(words(team, asked.ts)) > 10, timeout=LONG)
    await asyncio.to_thread(server.restart)
    await stand_in.until(lambda: len(words(team, asked.ts)) >= len(WHOLE.split()), timeout=LONG)
    await done(stand_in, team, asked.ts)
    assert words(team, asked.ts) == WHOLE.split()
    assert len(team.answers("CGENERAL", asked.ts)) == 1


async def test_stop_in_slack_stops(start_server: StartServer, stand_in: SlackStandIn, team: Team):
    """Stop ends the answer and what was queued after it, and the thread is free for the next question."""
    in_slack(start_server, stand_in, rate=20)
    asked = await team.mentions("UANN", "CGENERAL", ASK)
    await stand_in.until(lambda: len(words(team, asked.ts)) > 5, timeout=LONG)
    await team.says("UANN", "CGENERAL", "and another thing", asked.ts)
    await team.stops("UANN", "CGENERAL", asked.ts)
    await done(stand_in, team, asked.ts)
    said = words(team, asked.ts)
    assert said[-1] == "Stopped."
    assert len(said) < len(WHOLE.split())
    await team.says("UANN", "CGENERAL", "What is 2 + 2?", asked.ts)
    await stand_in.until(lambda: "4." in words(team, asked.ts), timeout=LONG)


@pytest.mark.whole
async def test_on_postgres_another_process_takes_over(
    start_shared: StartServer, postgres_url: str, stand_in: SlackStandIn, team: Team
):
    """Of two processes in Slack one is killed while it answers: the other ends the answer in the same message."""
    one, two = (in_slack(start_shared, stand_in, rate=60, DATABASE_URL=postgres_url) for _ in range(2))
    stand_in.deliver_to(one.url)
    asked = await team.mentions("UANN", "CGENERAL", ASK)
    assert asked.acked
    await stand_in.until(lambda: len(words(team, asked.ts)) > 10, timeout=LONG)
    await asyncio.to_thread(one.kill)
    stand_in.deliver_to(two.url)
    await stand_in.until(lambda: len(words(team, asked.ts)) >= len(WHOLE.split()), timeout=LONG)
    await done(stand_in, team, asked.ts)
    assert words(team, asked.ts) == WHOLE.split()
    assert len(team.answers("CGENERAL", asked.ts)) == 1
    await team.says("UANN", "CGENERAL", "What is 2 + 2?", asked.ts)
    await stand_in.until(lambda: "4." in words(team, asked.ts), timeout=LONG)
