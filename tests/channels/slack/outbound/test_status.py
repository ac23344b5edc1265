"""The status of a thread: in whatever order calls arrive, it does not stay on `processing`."""

import asyncio
from typing import Any

from agent_core.testing import FakeClock
from channels.slack.api import Limited
from channels.slack.pace import Pacer, Workspace
from channels.slack.settings import Thread
from channels.slack.threads import LOADING, ThreadStatus


class HeldApi:
    """An API whose answers wait for `go`."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.asked, self.go = asyncio.Event(), asyncio.Event()
        self.loading, self.loaded = asyncio.Event(), asyncio.Event()
        self.failure: Exception | None = None

    async def set_status(self, _channel: str, _root: str, status: str, *, title: str | None = None) -> None:
        self.said.append(status)
        self.asked.set()
        await self.go.wait()

    async def set_loading(self, _channel: str, _root: str, texts: tuple[str, ...]) -> None:
        self.said.append(texts[0])
        self.loading.set()
        await self.loaded.wait()
        if self.failure is not None:
            raise self.failure


def sign(api: Any, *, loading: tuple[str, ...] = (), pacer: Pacer | None = None) -> ThreadStatus:
    space = Workspace("T0001", "UPARLEY", "BPARLEY", api, pacer or Pacer(FakeClock()))
    return ThreadStatus(space, Thread("T0001", "CGENERAL", "1.0", "UANN", "T0001", loading=loading))


async def test_a_pending_processing_is_overridden_after_a_stream_ended():
    """Slack may execute the two in any order, so the end is sent once more after them."""
    api = HeldApi()
    made = sign(api)
    made.begin()
    await api.asked.wait()
    made.note("active")  # the stream ends meanwhile
    api.go.set()
    await made.end("active")
    assert api.said == ["processing", "active"]


async def test_a_status_set_by_a_stream_is_not_set_again():
    """No call is made for an end that the stream has set, nor for a status that never began."""
    api = HeldApi()
    api.go.set()
    made = sign(api)
    await made.end("active")
    made.begin()
    await api.asked.wait()
    made.note("active")
    await made.end("active")
    assert api.said == ["processing"]


async def test_pending_loading_texts_are_overridden_after_a_stream_ended():
    """Slack sets `processing` with them, too, so the end is sent once more after them."""
    api = HeldApi()
    api.go.set()
    made = sign(api, loading=("Looking",))
    made.begin()
    await api.loading.wait()
    made.note("active")  # the stream ends meanwhile
    api.loaded.set()
    await made.end("active")
    assert api.said == ["processing", "Looking", "active"]


async def test_loading_texts_are_not_set_once_the_answer_has_ended():
    """An answer that ended while `processing` was on its way needs no words for that it works."""
    api = HeldApi()
    made = sign(api, loading=("Looking",))
    made.begin()
    await api.asked.wait()
    made.note("active")
    api.go.set()
    await made.end("active")
    assert api.said == ["processing", "active"]


async def test_words_for_working_keep_to_the_budget():
    """They are left out while Slack wants none of them, and as soon as their budget is nearly spent."""
    api, pacer = HeldApi(), Pacer(FakeClock())
    api.go.set()
    api.loaded.set()
    api.failure = Limited(LOADING, 30.0)
    for _ in range(2):
        made = sign(api, loading=("Looking",), pacer=pacer)
        api.asked.clear()
        made.begin()
        await api.asked.wait()
        await made.end("active")
    assert api.said == ["processing", "Looking", "active", "processing", "active"]
