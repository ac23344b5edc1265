"""Who is in a user group, as Slack said a moment ago."""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from agent_core import Clock
from channels.slack.inbound.mentions import Notes
from channels.slack.web_api import failures as f
from channels.slack.web_api.pace import Lane
from channels.slack.web_api.workspaces import Installation

METHOD = "usergroups.users.list"
AGE = 60_000
"""Milliseconds for which what Slack said of a group is taken for true."""
SIZE = 1_000


@dataclass(frozen=True, slots=True)
class Belonging:
    """The groups that a user is *of*; *sure* unless Slack did not answer for all of them in time."""

    of: tuple[str, ...]
    sure: bool = True


class Groups:
    """The members of the user groups that this process was asked about lately."""

    def __init__(self, clock: Clock, notes: Notes) -> None:
        self._clock, self._notes = clock, notes
        self._cache: OrderedDict[tuple[str, str], tuple[int, frozenset[str]]] = OrderedDict()

    async def of(self, installation: Installation, user: str, groups: Iterable[str], *, until: float) -> Belonging:
        """Return which of *groups* the *user* is in; a group without an answer from Slack by then counts as no."""
        unique = list(dict.fromkeys(groups))
        memberships = await asyncio.gather(*(self._has(installation, group, user, until) for group in unique))
        return Belonging(
            tuple(group for group, has in zip(unique, memberships, strict=True) if has), None not in memberships
        )

    async def _has(self, installation: Installation, group: str, user: str, until: float) -> bool | None:
        """Return whether *user* is in *group*; None when that may be known in a moment."""
        try:
            async with asyncio.timeout_at(until):
                return user in await self._members(installation, group)
        except (f.Limited, f.NotSent, f.Uncertain, TimeoutError) as error:
            self._notes.failure(error)
            return None
        except f.Unauthorised as error:  # the scope is missing
            self._notes.failure(error)
        except f.SlackFailure as error:
            self._notes.once("slack.no_group", group=group, error=str(error))
        return False

    async def _members(self, installation: Installation, group: str) -> frozenset[str]:
        space, key = installation.space, (installation.me.team, group)
        at, members = self._cache.get(key, (-AGE, frozenset[str]()))
        if self._clock.now() - at < AGE:
            return members
        await space.pacer.admit(METHOD, space.team, None, Lane.FIRST)
        try:
            members = frozenset(await space.api.usergroup_users(group))
        except f.Limited as error:
            space.pacer.penalty(METHOD, space.team, error.retry_after)
            raise
        self._cache[key] = (self._clock.now(), members)
        self._cache.move_to_end(key)
        while len(self._cache) > SIZE:
            self._cache.popitem(last=False)
        return members
