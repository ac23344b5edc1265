"""A Slack user's name, whether they are of the workspace, a guest or from outside; who is in a channel."""

import asyncio
import re
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from agent_core import Clock
from channels.slack.inbound.block_text import named
from channels.slack.inbound.intake import part
from channels.slack.web_api import failures as f
from channels.slack.web_api.client import Identity, Json
from channels.slack.web_api.pace import Lane
from channels.slack.web_api.workspaces import Installation

Kind = Literal["member", "guest", "stranger", "bot", "unknown"]
METHOD = "users.info"
CHANNEL_METHOD = "conversations.info"
AGE = 3_600_000
"""Milliseconds for which what Slack said of a person is taken for true."""
MAX_CHANNEL_AGE = 300_000
"""Milliseconds for which what Slack said of a channel is taken for true; each message of it says so again."""
SIZE = 10_000
MAX_NAME = 80
"""Characters of a name, as many as quotations show of one."""
MAX_EMAIL = 320
"""Characters of an address, as RFC 3696 counts them."""
MAX_NAMES = 25
"""People who are looked up for one message; those beyond are called by their ids."""
Key = tuple[str, str]
_COLON = re.compile(r":+(?=\s|$)")


@dataclass(frozen=True, slots=True)
class Person:
    """A person: *team* is the workspace that they belong to. Of those who are *unknown* Slack says nothing.

    *email* is known of the workspace's own people and guests, and only with the scope `users:read.email`. *timezone* is
    the IANA name of theirs.
    """

    id: str
    name: str
    team: str
    kind: Kind = "member"
    email: str | None = None
    timezone: str | None = None

    @property
    def outside(self) -> bool:
        """Whether they are not the workspace's own people, as far as is known."""
        return self.kind in ("guest", "stranger", "unknown")


class People:
    """The people whom this process looked up lately. All requests for the same person share one call."""

    def __init__(self, clock: Clock, *, size: int = SIZE) -> None:
        self._clock, self._size = clock, size
        self._cache: OrderedDict[Key, tuple[int, Person]] = OrderedDict()
        self._asking: dict[Key, asyncio.Task[Person]] = {}

    async def find(self, installation: Installation, user: str) -> Person:
        """Return who *user* is; raises a `SlackFailure`. A caller who gives up leaves the answer to the next one."""
        if (person := self.cached(installation, user)) is not None:
            return person
        key = (installation.me.team, user)
        if (asking := self._asking.get(key)) is None:
            asking = self._asking[key] = asyncio.create_task(self._ask(installation, user))
            asking.add_done_callback(lambda done: self._finished(key, done))
        return await asyncio.shield(asking)

    async def names(self, installation: Installation, users: Iterable[str], *, until: float) -> dict[str, str]:
        """Return the names of *users* that are known by the event loop's time *until*, by their ids."""
        wanted = list(dict.fromkeys(users))[:MAX_NAMES]
        tasks = [asyncio.ensure_future(self.find(installation, user)) for user in wanted]
        if tasks:
            await asyncio.wait(tasks, timeout=max(0.0, until - asyncio.get_running_loop().time()))
        for each in tasks:
            each.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        return {person.id: person.name for person in results if isinstance(person, Person)}

    def cached(self, installation: Installation, user: str) -> Person | None:
        """Return who *user* is if Slack need not be asked."""
        at, person = self._cache.get((installation.me.team, user), (0, None))
        if person is None or self._clock.now() - at >= AGE:
            return None
        self._cache.move_to_end((installation.me.team, user))
        return person

    async def close(self) -> None:
        """Ask nothing more."""
        asking = list(self._asking.values())
        for each in asking:
            each.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    async def _ask(self, installation: Installation, user: str) -> Person:
        try:
            posted = await self._call(installation, user)
        except f.Uncertain:  # looking a person up twice does no harm
            posted = await self._call(installation, user)
        return person_of(posted, installation.me)

    async def _call(self, installation: Installation, user: str) -> Json:
        space = installation.space
        await space.pacer.admit(METHOD, space.team, None, Lane.FIRST)
        try:
            return await space.api.user(user)
        except f.Limited as error:
            space.pacer.penalty(METHOD, space.team, error.retry_after)
            raise

    def _finished(self, key: Key, done: asyncio.Task[Person]) -> None:
        del self._asking[key]
        # The error is read too: every waiter may be gone.
        if not done.cancelled() and done.exception() is None:
            self._cache[key] = (self._clock.now(), done.result())
            self._cache.move_to_end(key)
            while len(self._cache) > self._size:
                self._cache.popitem(last=False)


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
        noted, shared = self._cache.get((team, channel), (-MAX_CHANNEL_AGE, False))
        if self._clock.now() - noted < MAX_CHANNEL_AGE:
            return shared
        space = installation.space
        await space.pacer.admit(CHANNEL_METHOD, space.team, channel, Lane.FIRST)
        try:
            info = await space.api.channel(channel)
        except f.Limited as error:
            space.pacer.penalty(CHANNEL_METHOD, space.team, error.retry_after)
            raise
        shared = bool(info.get("is_ext_shared") or info.get("is_pending_ext_shared"))
        self.note(team, channel, shared=shared)
        return shared


def person_of(user: Json, me: Identity) -> Person:
    """Return the person of Slack's *user* object, as seen by the app *me*."""
    profile = part(user, "profile")
    name = user.get("real_name") or profile.get("real_name") or profile.get("display_name") or user.get("name")
    team = str(user.get("team_id") or me.team)
    kind = _kind(user, team, me)
    zone = user.get("tz")
    timezone = zone if isinstance(zone, str) else None
    return Person(str(user["id"]), called(name) or str(user["id"]), team, kind, _email(user, kind), timezone)


def _email(user: Json, kind: Kind) -> str | None:
    """Return the address that the workspace vouches for: a stranger's is what their own organisation says of them."""
    email = part(user, "profile").get("email")
    is_sure = kind in ("member", "guest") and user.get("is_email_confirmed") is not False
    return email if is_sure and isinstance(email, str) and len(email) <= MAX_EMAIL else None


def called(name: object) -> str:
    """Return a name that people gave themselves so that it ends where it seems to: quotations read `name: words`.

    To do it again changes nothing: a person who is to be forgotten is found in quotations by this name.
    """
    return " ".join(_COLON.sub("", named(name, limit=MAX_NAME)).split())


def _kind(user: Json, team: str, me: Identity) -> Kind:
    organisation = part(user, "enterprise_user").get("enterprise_id")
    akin = team == me.team or (me.enterprise is not None and organisation == me.enterprise)
    if user.get("is_bot") or user.get("is_workflow_bot") or user["id"] == "USLACKBOT":
        return "bot"
    if user.get("is_stranger") or not akin:
        return "stranger"
    return "guest" if user.get("is_restricted") or user.get("is_ultra_restricted") else "member"
