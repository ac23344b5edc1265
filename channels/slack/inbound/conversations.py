"""conversations: whether people of other organisations read a channel."""

from collections import OrderedDict

from agent_core import Clock
from channels.slack.web_api import failures as f
from channels.slack.web_api.pace import Lane
from channels.slack.web_api.workspaces import Installation

METHOD = "conversations.info"
MAX_AGE = 300_000
"""Milliseconds for which what Slack said of a channel is taken for true; each message of it says so again."""
SIZE = 10_000


class Conversations:
    """A cache of whether channels are shared with another organisation.

    Each event of a message says it; of a command or a shortcut Slack must be asked.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._cache: OrderedDict[tuple[str, str], tuple[int, bool]] = OrderedDict()

    def note(self, team: str, channel: str, *, shared: bool) -> None:
        """Remember what an event says of *channel*."""
        self._cache[(team, channel)] = (self._clock.now(), shared)
        self._cache.move_to_end((team, channel))
        while len(self._cache) > SIZE:
            self._cache.popitem(last=False)

    async def is_shared(self, installation: Installation, channel: str) -> bool:
        """Return whether other organisations are in *channel*; raises a `SlackFailure`."""
        team = installation.me.team
        noted, shared = self._cache.get((team, channel), (-MAX_AGE, False))
        if self._clock.now() - noted < MAX_AGE:
            return shared
        space = installation.space
        await space.pacer.admit(METHOD, space.team, channel, Lane.FIRST)
        try:
            info = await space.api.channel(channel)
        except f.Limited as error:
            space.pacer.penalty(METHOD, space.team, error.retry_after)
            raise
        shared = bool(info.get("is_ext_shared") or info.get("is_pending_ext_shared"))
        self.note(team, channel, shared=shared)
        return shared
