"""lifecycle: what Slack's session of a thread says of it: processing, active or suspended."""

import asyncio
from contextlib import suppress

import structlog

from channels.slack.thread import Thread
from channels.slack.web_api import failures as f
from channels.slack.web_api.pace import Lane
from channels.slack.web_api.workspaces import Workspace

METHOD = "agents.sessions.setStatus"
LOADING = "assistant.threads.setStatus"
TRIES = 5
"""Times that an end is told before Slack's own hour has to end it."""
_log = structlog.get_logger("parley.slack")


class Sign:
    """The status of one thread while an answer is shown. An answer does not fail because its sign does."""

    def __init__(self, space: Workspace, thread: Thread) -> None:
        self._space, self._thread = space, thread
        self._place: asyncio.Task[None] | None = None
        self._setting: asyncio.Task[None] | None = None
        self._said: str | None = None
        self._begun = False

    @property
    def _is_active(self) -> bool:
        return self._said == "active"

    def told(self, status: str) -> None:
        """Note that a stream has set the status by itself."""
        self._said, self._begun = status, True

    def begin(self) -> None:
        """Say `processing` as soon as the workspace's budget allows it; nobody waits for that."""
        self._begun = True
        if self._setting is not None and not self._setting.done():
            return
        self._place = asyncio.create_task(self._admit(Lane.FIRST))
        self._setting = asyncio.create_task(self._set_when(self._place))

    async def end(self, status: str) -> None:
        """Say how things stand when all is shown, unless a stream said it last; nothing older comes behind it."""
        await self.drop()
        if status == self._said or not self._begun:
            return
        for n in range(TRIES):
            await self._admit(Lane.LIFECYCLE)
            if await self._set(status, again=2.0**n):
                return

    async def drop(self) -> None:
        """Give up what waits; what is on its way comes to its end."""
        if self._place is not None and self._setting is not None:
            self._place.cancel()
            await asyncio.gather(self._setting, return_exceptions=True)

    async def _set_when(self, place: asyncio.Task[None]) -> None:
        with suppress(asyncio.CancelledError):
            await place
            self._said = None
            await self._set("processing", title=self._thread.title)
            if not self._is_active:
                await self._load()
            self._said = None  # whether these or what a stream said meanwhile came first nobody knows

    async def _load(self) -> None:
        """Show the agent's own words for that it works; where Slack has no place or time for them nothing is lost."""
        space, thread = self._space, self._thread
        if not thread.loading or space.pacer.nearly_spent(LOADING, space.team):
            return
        await space.pacer.admit(LOADING, space.team, thread.channel, Lane.EDIT, thread=thread.address)
        try:
            await space.api.set_loading(thread.channel, thread.root, thread.loading)
        except f.SlackFailure as error:
            _log.info("slack.no_loading", team=space.team, reason=error.reason)
            if isinstance(error, f.Limited):
                space.pacer.penalty(LOADING, space.team, error.retry_after)

    async def _admit(self, lane: Lane) -> None:
        space, thread = self._space, self._thread
        await space.pacer.admit(METHOD, space.team, thread.channel, lane, thread=thread.address)

    async def _set(self, status: str, *, title: str | None = None, again: float = 1.0) -> bool:
        """Tell whether that is done, or not to be done at all: else all wait for as long as Slack says, or *again*."""
        space, thread = self._space, self._thread
        try:
            warning = await space.api.set_status(thread.channel, thread.root, status, title=title)
        except f.SlackFailure as error:
            _log.info("slack.no_status", team=space.team, status=status, reason=error.reason)
            if not isinstance(error, (f.Limited, f.NotSent, f.Uncertain)):
                return True
            space.pacer.penalty(METHOD, space.team, error.retry_after if isinstance(error, f.Limited) else again)
            return False
        if warning:
            _log.info("slack.status_warning", team=space.team, warning=warning)
        return True
