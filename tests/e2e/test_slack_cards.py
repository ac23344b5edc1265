"""Questions to people with the real server: cards, decided by another process, alive or killed meanwhile."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from channels.slack.testing import SlackStandIn, Team, VisibleMessage
from tests.e2e.conftest import StartServer
from tests.e2e.server import Server, prepare, serving
from tests.e2e.test_slack import LONG, done, in_slack, words

pytestmark = pytest.mark.whole

ASKS_FIRST = """
hooks:
  - event: PreToolUse
    type: approval
    matcher: calculate
    config: { responders: [operators], timeout_s: 3600, deliver_to: ["slack:CDATA"] }
"""


@pytest.fixture
def start_careful(tmp_path_factory: pytest.TempPathFactory, template: Path) -> Iterator[StartServer]:
    """Start servers, each in a folder of its own, whose assistant asks people before it calculates."""
    with ExitStack() as servers:

        def start(**settings) -> Server:
            home = prepare(tmp_path_factory.mktemp("home"), template)
            with (home / "agents" / "assistant.yaml").open("a", encoding="utf-8") as file:
                file.write(ASKS_FIRST)
            return servers.enter_context(serving(home, **settings))

        yield start


async def decide(server: Server) -> None:
    """Say yes over HTTP to what is asked."""
    async with server.client() as http:
        (asked,) = (await http.get("/v1/approvals", params={"status": "open"})).json()["items"]
        said = await http.post(f"/v1/approvals/{asked['id']}", json={"approved": True})
        assert said.status_code == 200, said.text


def cards(team: Team, root: str) -> list[VisibleMessage]:
    """Return the cards that have buttons."""
    found = [*team.answers("CGENERAL", root), *team.top("CDATA")]
    return [each for each in found if any(button.action_id == "approval_approve" for button in each.buttons)]


async def suspended(stand_in: SlackStandIn, team: Team, root: str) -> None:
    """Return once people are asked, and the thread says that it waits."""

    def is_suspended() -> bool:
        session = team.session("CGENERAL", root)
        return session is not None and session.status == "suspended" and len(cards(team, root)) == 2

    await stand_in.until(is_suspended, timeout=LONG)


async def answered(stand_in: SlackStandIn, team: Team, root: str) -> None:
    """Return once no card has buttons, and the answer is there."""
    await stand_in.until(lambda: not cards(team, root) and "42." in words(team, root), timeout=LONG)
    await done(stand_in, team, root)
    assert words(team, root).count("42.") == 1


async def test_decided_by_another_process_the_thread_continues(
    start_careful: StartServer, postgres_url: str, stand_in: SlackStandIn, team: Team
):
    """A process that knows no Slack takes the decision; the one that does shows the answer, alive or after a kill."""
    one = in_slack(start_careful, stand_in, rate=60, DATABASE_URL=postgres_url)
    two = start_careful(rate=60, DATABASE_URL=postgres_url)
    first = await team.mentions("UANN", "CGENERAL", "What is 6 * 7?")
    await suspended(stand_in, team, first.ts)
    await decide(two)
    await answered(stand_in, team, first.ts)
    second = await team.mentions("UANN", "CGENERAL", "What is 6 * 7?")
    await suspended(stand_in, team, second.ts)
    await asyncio.to_thread(one.kill)
    await decide(two)
    await asyncio.to_thread(one.start)
    await answered(stand_in, team, second.ts)
