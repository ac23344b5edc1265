"""The sign above a thread: whatever meets what, it does not stay on `processing`."""

import asyncio
from typing import Any

from agent_core.testing import FakeClock
from channels.slack.lifecycle import Sign
from channels.slack.pace import Pacer
from channels.slack.thread import Thread
from channels.slack.workspaces import Workspace


class Slow:
    """An API whose answers wait for `go`."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def set_status(self, _channel: str, _root: str, status: str, *, title: str | None = None) -> None:
        self.said.append(status)
        self.asked.set()
        await self.go.wait()


def sign(api: Any) -> Sign:
    space = Workspace("T0001", "UPARLEY", "BPARLEY", api, Pacer(FakeClock()))
    return Sign(space, Thread("T0001", "CGENERAL", "1.0", "UANN", "T0001"))


async def test_processing_that_is_on_its_way_when_a_stream_ends_is_ended_anew():
    """Slack may take the two in any order; so the end is said once more behind them."""
    api = Slow()
    made = sign(api)
    made.begin()
    await api.asked.wait()
    made.told("active")  # the stream ends meanwhile
    api.go.set()
    await made.end("active")
    assert api.said == ["processing", "active"]


async def test_what_a_stream_said_last_is_not_said_again():
    """An end costs no call of its own when the stream has told it, and nothing is said of what never began."""
    api = Slow()
    api.go.set()
    made = sign(api)
    await made.end("active")
    made.begin()
    await api.asked.wait()
    made.told("active")
    await made.end("active")
    assert api.said == ["processing"]
