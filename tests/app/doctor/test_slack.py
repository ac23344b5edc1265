"""The doctor asks Slack which scopes the app was given."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.checks import Finding
from app.doctor import agents_of, slack
from app.own_tools import OwnTools
from app.settings import Settings
from channels.slack.testing import SlackStandIn


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder with an agent that is in Slack."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents/helper.yaml").write_text("name: helper\ninstructions: Help.\nslack: {default: true}\n", "utf-8")
    return tmp_path


@pytest.fixture
async def stand_in() -> AsyncIterator[SlackStandIn]:
    made = SlackStandIn()
    async with made.serving():
        yield made


async def asked(stand_in: SlackStandIn, *, offline: bool = False, token: str | None = None) -> list[Finding]:
    """Return what the doctor finds of Slack with a bot token, that of the stand-in unless *token* is given."""
    given = {"SLACK_BOT_TOKEN": token or stand_in.team().bot_token, "SLACK_API_URL": f"{stand_in.base_url}api"}
    settings = Settings(_env_file=None, SLACK_SIGNING_SECRET="x", **given)  # type: ignore[call-arg]
    return await asyncio.to_thread(
        lambda: list(slack(settings, agents_of(settings, OwnTools.of(settings), ()).usable.values(), offline=offline))
    )


@pytest.mark.parametrize(
    ("missing", "level", "text"),
    [
        (set(), "ok", "with all its scopes"),
        ({"files:write"}, "warn", "charts that Slack cannot draw are shown as tables"),
        ({"users:read.email"}, "warn", "tools are not given the asker's `email`"),
        ({"channels:read", "users:read.email"}, "warn", "without channels:read"),
    ],
)
async def test_the_doctor_names_the_scopes_that_are_missing(stand_in: SlackStandIn, missing, level, text):
    """A scope that the app was not given is named with what to do; the optional one says what is absent without it."""
    stand_in.team().workspace.scopes -= missing
    (found,) = await asked(stand_in)
    assert (found.level, text in found.text) == (level, True)
    assert ("parley slack manifest" in found.remedy) == bool(missing)


async def test_the_doctor_says_that_a_token_is_not_accepted(stand_in: SlackStandIn):
    """A wrong token, or no Slack at all, is a failure that holds no token; offline nothing is asked."""
    (found,) = await asked(stand_in, token="xoxb-wrong")
    assert (found.level, "invalid_auth" in found.text, "xoxb" in str(found)) == ("fail", True, False)
    (found,) = await asked(stand_in, offline=True)
    assert found.level == "ok"
    assert len(stand_in.called("auth.test")) == 1
    stand_in.base_url = "http://127.0.0.1:9/"
    (found,) = await asked(stand_in)
    assert (found.level, "SLACK_API_URL" in found.remedy) == ("fail", True)


@pytest.mark.parametrize("said", ["", "slack: {follow_up: true}\n", "slack: {channels: [C0123ABCD]}\n"])
async def test_the_doctor_says_that_no_agent_is_in_slack(stand_in: SlackStandIn, folder: Path, said: str):
    """With a bot token and no agent that has a place in Slack the doctor says what to write, also offline."""
    (folder / "agents/helper.yaml").write_text(f"name: helper\ninstructions: Help.\n{said}", "utf-8")
    (folder / "agents/broken.yaml").write_text("name: [", "utf-8")
    found = [each for each in await asked(stand_in, offline=True) if "no agent" in each.text]
    assert [(each.level, "slack: {default: true}" in each.remedy) for each in found] == [("warn", True)] * (
        "channels" not in said
    )
