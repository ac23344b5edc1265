"""workspaces: where the app is installed, and who it is there; each bot token is asked once."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from agent_core import NotFound
from channels.slack.web_api.client import Identity, SlackApi
from channels.slack.web_api.pace import Pacer


@dataclass(slots=True)
class Workspace:
    """A workspace as this process knows it: its *api*, who we are there, what it refused, and for want of what."""

    team: str
    user: str
    bot: str
    api: SlackApi
    pacer: Pacer
    streams: bool = True
    without_streams: set[str] = field(default_factory=set[str])
    missing: set[str] = field(default_factory=set[str])


@dataclass(frozen=True, slots=True)
class Installation:
    """The app in one workspace: *me* is its bot there, *space* is what this process has of the workspace."""

    me: Identity
    space: Workspace


class Workspaces:
    """The workspaces of some bot tokens, which share one budget of calls."""

    def __init__(self, apis: Sequence[SlackApi], pacer: Pacer) -> None:
        self._unknown, self._pacer = list(apis), pacer
        self._known: dict[str, Installation] = {}
        self._asking = asyncio.Lock()

    async def find(self, team: str) -> Installation:
        """Return the installation in workspace *team*; raises `NotFound`, or a `SlackFailure` while that is unsure."""
        if team not in self._known and self._unknown:
            await self.meet()
        if (found := self._known.get(team)) is None:
            raise NotFound("installation in the workspace", team)
        return found

    async def space(self, team: str) -> Workspace:
        """Return what this process has of workspace *team*; raises what `find` raises."""
        return (await self.find(team)).space

    async def only(self) -> str | None:
        """Return the workspace if there is just one; raises a `SlackFailure` while that is unsure."""
        await self.meet()
        return next(iter(self._known)) if len(self._known) == 1 else None

    async def meet(self) -> None:
        """Ask every token that was not asked yet whose it is; raises a `SlackFailure`."""
        async with self._asking:
            while self._unknown:
                api = self._unknown[-1]
                me = await api.auth()
                self._known[me.team] = Installation(me, Workspace(me.team, me.user, me.bot, api, self._pacer))
                self._unknown.pop()
