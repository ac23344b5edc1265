"""Where the app is installed, and its identity there; each bot token is looked up once."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog

from agent_core import NotFound
from channels.slack.web_api.client import Identity, SlackApi
from channels.slack.web_api.failures import NoStreaming, SlackFailure, Unauthorised
from channels.slack.web_api.pace import Pacer

NO_UPLOADS = 600
"""Seconds after which files are tried again that Slack did not take: storage is cleared, and scopes are given."""
_log = structlog.get_logger("parley.slack")


@dataclass(slots=True)
class Workspace:
    """A workspace as this process knows it: *user* and *bot* are the app's ids, *missing* what it was warned of."""

    team: str
    user: str
    bot: str
    api: SlackApi
    pacer: Pacer
    streams: bool = True
    without_streams: set[str] = field(default_factory=set[str])
    missing: set[str] = field(default_factory=set[str])
    no_uploads_until: int = 0

    def can_stream(self, channel: str) -> bool:
        """Return whether to begin a stream in *channel*: Slack takes them there, and the budget is not nearly spent."""
        refused = not self.streams or channel in self.without_streams
        return not refused and not self.pacer.nearly_spent("chat.startStream", self.team)

    def note_no_stream(self, channel: str, error: SlackFailure) -> None:
        """Record that Slack refused a stream in *channel*."""
        if isinstance(error, NoStreaming):
            if error.everywhere:
                self.streams = False
            else:
                self.without_streams.add(channel)
        _log.info("slack.no_stream", team=self.team, reason=error.reason)

    def can_upload(self, now: int) -> bool:
        """Return whether files are taken here, as far as is known *now* (milliseconds)."""
        return now >= self.no_uploads_until

    def note_no_uploads(self, error: SlackFailure, now: int) -> None:
        """Record that Slack takes no files here, for `NO_UPLOADS` seconds; the reason is logged once per process."""
        self.no_uploads_until = now + NO_UPLOADS * 1000
        if isinstance(error, Unauthorised):
            self.log_missing(error)
        elif error.reason not in self.missing:
            self.missing.add(error.reason)
            _log.warning("slack.no_uploads", team=self.team, reason=error.reason)

    def log_missing(self, error: Unauthorised) -> None:
        """Log the permission that is missing, once per process."""
        if str(error) not in self.missing:
            self.missing.add(str(error))
            _log.error("slack.unauthorised", team=self.team, remedy=str(error))


@dataclass(frozen=True, slots=True)
class Installation:
    """The app in one workspace: *me* is its bot there, *space* is what this process has of the workspace."""

    me: Identity
    space: Workspace


class Workspaces:
    """The workspaces of some bot tokens, which share one budget of calls."""

    def __init__(self, apis: Sequence[SlackApi], pacer: Pacer) -> None:
        self._unknown, self._pacer = list(apis), pacer
        self._installations: dict[str, Installation] = {}
        self._asking = asyncio.Lock()

    async def find(self, team: str) -> Installation:
        """Return the installation in workspace *team*; raises `NotFound`, or a `SlackFailure` while that is unsure."""
        if team not in self._installations and self._unknown:
            await self.identify()
        if (installation := self._installations.get(team)) is None:
            raise NotFound("installation in the workspace", team)
        return installation

    async def space(self, team: str) -> Workspace:
        """Return what this process has of workspace *team*; raises what `find` raises."""
        return (await self.find(team)).space

    async def only(self) -> str | None:
        """Return the workspace if there is just one; raises a `SlackFailure` while that is unsure."""
        await self.identify()
        return next(iter(self._installations)) if len(self._installations) == 1 else None

    async def identify(self) -> None:
        """Ask every token that was not asked yet whose it is; raises a `SlackFailure`."""
        async with self._asking:
            while self._unknown:
                api = self._unknown[-1]
                me = await api.auth()
                self._installations[me.team] = Installation(me, Workspace(me.team, me.user, me.bot, api, self._pacer))
                self._unknown.pop()
