"""What a test asks again and again: why a call was refused, and the state of a session."""

from collections.abc import Awaitable
from typing import Any

import pytest
from slack_sdk.errors import SlackApiError

from channels.slack.testing import SessionShown, Team

Slack = Any
"""The SDK's AsyncWebClient, whose answers may be nothing if one believes their types."""


async def refusal(call: Awaitable[Any]) -> dict[str, Any]:
    """Return the answer to a *call* that is refused."""
    with pytest.raises(SlackApiError) as caught:
        await call
    return caught.value.response.data  # pyright: ignore[reportReturnType]


async def code(call: Awaitable[Any]) -> str:
    """Return the code of the refusal."""
    return (await refusal(call))["error"]


def session(team: Team, channel: str, ts: str) -> SessionShown:
    """Return the session of a thread that has one."""
    found = team.session(channel, ts)
    assert found is not None
    return found


def status(team: Team, channel: str, ts: str) -> str:
    """Return the state of a thread's session."""
    return session(team, channel, ts).status
