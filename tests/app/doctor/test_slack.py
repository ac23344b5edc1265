"""The doctor asks Slack which scopes the app was given."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from app.doctor.findings import Finding
from app.doctor.slack import slack
from app.settings import Settings
from channels.slack.testing import SlackStandIn


@pytest.fixture
async def stand_in() -> AsyncIterator[SlackStandIn]:
    made = SlackStandIn()
    async with made.serving():
        yield made


async def asked(stand_in: SlackStandIn, *, offline: bool = False, token: str | None = None) -> list[Finding]:
    """Return what the doctor finds of Slack with a bot token, that of the stand-in unless *token* is given."""
    given = {"SLACK_BOT_TOKEN": token or stand_in.team().bot_token, "SLACK_API_URL": f"{stand_in.base_url}api"}
    settings = Settings(_env_file=None, SLACK_SIGNING_SECRET="x", **given)  # type: ignore[call-arg]
    return await asyncio.to_thread(lambda: list(slack(settings, offline=offline)))


@pytest.mark.parametrize(
    ("missing", "level", "text"),
    [
        (set(), "ok", "with all its scopes"),
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
