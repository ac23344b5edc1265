"""The status of a thread's session in Slack: processing, active or suspended; and its title, once."""

import asyncio
from contextlib import suppress

import structlog

from channels.slack.thread import Thread
from channels.slack.web_api import failures as f
from channels.slack.web_api.pace import Lane
from channels.slack.web_api.workspaces import Workspace

METHOD = "agents.sessions.setStatus"
TITLE = "agents.sessions.rename"
LOADING = "assistant.threads.setStatus"
TRIES = 5
"""Attempts to set a final status, which expires in Slack after an hour, or a title."""
_log = structlog.get_logger("parley.slack")


class ThreadStatus:
    """The status of one thread while an answer is shown. No answer fails because its status cannot be set.

    The first answer of a thread *names* its session: a title that is given with a status counts only for the call that
    happens to open the session, which may as well be that of a stream.
    """

    def __init__(self, space: Workspace, thread: Thread, *, names: bool = False) -> None:
        self._space, self._thread, self._names = space, thread, names
        self._naming: asyncio.Task[None] | None = None
        self._admission: asyncio.Task[None] | None = None
        self._setting: asyncio.Task[None] | None = None
        self._current: str | None = None
        self._begun = False

    @property
    def _is_active(self) -> bool:
        return self._current == "active"

    def note(self, status: str) -> None:
        """Record that a stream has set *status* by itself."""
        self._current, self._begun = status, True

    def begin(self) -> None:
        """Set `processing` in the background, as soon as the workspace's budget allows it."""
        self._begun = True
        if self._setting is not None and not self._setting.done():
            return
        self._admission = asyncio.create_task(self._admit(Lane.FIRST))
        self._setting = asyncio.create_task(self._set_when(self._admission))
        if self._names and self._thread.title:
            self._names = False
            self._naming = asyncio.create_task(self._name(self._setting, self._thread.title))

    async def end(self, status: str) -> None:
        """Set the final *status* once all is shown, unless a stream has set it; cancel pending older calls first."""
        await self._drop_status()
        if status != self._current and self._begun:
            for n in range(TRIES):
                await self._admit(Lane.LIFECYCLE)
                if await self._set(status, again=2.0**n):
                    break
        if self._naming is not None:
            await self._naming

    async def drop(self) -> None:
        """Cancel the calls that wait for admission, and wait for one that was sent."""
        await self._drop_status()
        if self._naming is not None:
            self._naming.cancel()
            await asyncio.gather(self._naming, return_exceptions=True)

    async def _drop_status(self) -> None:
        if self._admission is not None and self._setting is not None:
            self._admission.cancel()
            await asyncio.gather(self._setting, return_exceptions=True)

    async def _set_when(self, admission: asyncio.Task[None]) -> None:
        with suppress(asyncio.CancelledError):
            await admission
            self._current = None
            await self._set("processing")
            if not self._is_active:
                await self._load()
            self._current = None  # a stream may have set a status meanwhile, and which call came first is unknown

    async def _name(self, setting: asyncio.Task[None], title: str) -> None:
        """Give the session its title, once its first status is set or given up."""
        await asyncio.wait((setting,))
        space, thread = self._space, self._thread
        for n in range(TRIES):
            await space.pacer.admit(TITLE, space.team, thread.channel, Lane.EDIT, thread=thread.address)
            try:
                await space.api.rename(thread.channel, thread.root, title)
            except (f.Limited, f.NotSent, f.Uncertain) as error:  # to repeat it does no harm
                again = error.retry_after if isinstance(error, f.Limited) else 2.0**n
                space.pacer.penalty(TITLE, space.team, again)
            except f.SlackFailure as error:
                _log.info("slack.no_title", team=space.team, reason=error.reason)
                return
            else:
                return

    async def _load(self) -> None:
        """Show the agent's loading texts, unless Slack refuses them or the budget is nearly spent."""
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

    async def _set(self, status: str, *, again: float = 1.0) -> bool:
        """Return whether *status* is set or never can be; else block the method for Slack's Retry-After or *again*."""
        space, thread = self._space, self._thread
        try:
            warning = await space.api.set_status(thread.channel, thread.root, status)
        except f.SlackFailure as error:
            _log.info("slack.no_status", team=space.team, status=status, reason=error.reason)
            if not isinstance(error, (f.Limited, f.NotSent, f.Uncertain)):
                return True
            space.pacer.penalty(METHOD, space.team, error.retry_after if isinstance(error, f.Limited) else again)
            return False
        if warning:
            _log.info("slack.status_warning", team=space.team, warning=warning)
        return True
