"""What every question from Slack goes through: who asks, which agent answers, what was said before, the core.

Slack waits three seconds for its acknowledgement. What Slack itself must be asked has half of that; then the question
goes ahead without it.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Protocol
from weakref import WeakValueDictionary

import structlog
from msgspec import structs

from agent_core import (
    Actor,
    AgentObject,
    Core,
    Inbound,
    NotFound,
    ParleyError,
    Receipt,
    SessionObject,
)
from channels.slack.inbound.context import Look, Watermark, exists, look, mentioned_in
from channels.slack.inbound.people import Conversations, People, Person
from channels.slack.settings import PROMPTS, Slack, route, settings_of
from channels.slack.thread import Thread
from channels.slack.web_api import failures as f
from channels.slack.web_api import limits
from channels.slack.web_api.pace import Lane
from channels.slack.web_api.workspaces import Installation

TIMEOUT = 1.5
"""Seconds that Slack has to say who a person is and what was said before."""
NAMING = 0.1
"""The last of them, which are not waited for names."""
MAX_NOTED = 1_000
NO_AGENT = "No agent answers here. My operator can name this channel, {channel}, in the settings of one."
OUTSIDE = "I answer only people of the workspace that runs me."
SHARED = "People of other organisations are in this channel, and I answer where only my own can read it."
UNSURE_PLACE = (
    "I cannot see whether people of other organisations are in this channel, so I do not answer this here; my operator "
    "finds the reason in my log. Mention me instead."
)
UNKNOWN = "I cannot see who you are, so I do not answer; my operator finds the reason in my log."
CLOSED = "This conversation was closed. Begin a new one, and I am there."
_log = structlog.get_logger("parley.slack")


class Shows(Protocol):
    """Shows answers in Slack."""

    async def want(self, session: str, thread: Thread) -> None:
        """Note that *session* is to be answered in *thread*, before its message is taken in."""
        ...

    def show(self, session: str) -> None:
        """Show *session* from now on."""
        ...


class NotNow(ParleyError):
    """What must be known first is not known in time; the same is welcome again."""

    code = "not_now"


class Notes:
    """What is logged once."""

    def __init__(self) -> None:
        self._noted: set[str] = set()

    def once(self, event: str, **more: str) -> None:
        """Log *event* unless it was logged before."""
        if (noted := f"{event} {more}") not in self._noted and len(self._noted) < MAX_NOTED:
            self._noted.add(noted)
            _log.warning(event, **more)

    def failure(self, error: ParleyError | TimeoutError) -> None:
        """Log what Slack did not answer; once if that does not pass, as with a scope that is missing."""
        if isinstance(error, f.Unauthorised):
            self.once("slack.refused", method=error.method, error=str(error))
        else:
            _log.info("slack.not_in_time", error=str(error) or "no answer in time")


class Mentions:
    """Asks agents in the name of people in Slack."""

    def __init__(
        self, core: Core, shows: Shows, people: People, conversations: Conversations, *, timeout: float = TIMEOUT
    ) -> None:
        self.core, self.shows, self.people, self.notes = core, shows, people, Notes()
        self.conversations = conversations
        self._timeout = timeout
        self._orders: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def until(self) -> float:
        """Return the event loop's time up to which Slack may be waited for, from now on."""
        return asyncio.get_running_loop().time() + self._timeout

    async def agent(self, session: SessionObject | None, thread: Thread) -> AgentObject | None:
        """Return who answers in *thread*: the agent that does already, else the one whose place this is."""
        if session is not None:
            with suppress(NotFound):
                return await self.core.agents.get(session.agent)
        agents = {agent.definition.name: agent for agent in await self.core.agents.all()}
        return agents.get(route((each.definition for each in agents.values()), thread.team, thread.channel) or "")

    async def home(self, installation: Installation, user: str, channel: str) -> None:
        """Suggest to *user* what the agent suggests that answers in their Messages tab; raises a `SlackFailure`."""
        me = installation.me
        agent = await self.agent(None, Thread(me.team, channel, "", user, me.team, me.enterprise, is_dm=True))
        prompts = settings_of(agent.definition).prompts if agent is not None else ()
        items = [{"title": each.title, "message": each.message} for each in prompts]
        space = installation.space
        await space.pacer.admit("assistant.threads.setSuggestedPrompts", space.team, channel, Lane.EDIT)
        await space.api.set_prompts(channel, items or PROMPTS)

    async def who(self, installation: Installation, user: str, slack: Slack, until: float) -> Person:
        """Return who *user* is; raises `NotNow` when that decides whether they are answered, and may be known soon."""
        try:
            async with asyncio.timeout_at(until):
                return await self.people.find(installation, user)
        except (f.SlackFailure, TimeoutError) as error:
            self.notes.failure(error)
            if slack.external == "answer" or isinstance(error, f.Unauthorised):
                return Person(user, user, installation.me.team, "unknown")
        raise NotNow(f"Slack does not say who `{user}` is.")

    async def place(self, installation: Installation, channel: str, slack: Slack, until: float) -> str | None:
        """Return why an agent with these settings answers no one in *channel*, if so; raises `NotNow` as `who` does."""
        if slack.external == "answer" or channel.startswith("D"):
            return None
        try:
            async with asyncio.timeout_at(until):
                return SHARED if await self.conversations.is_shared(installation, channel) else None
        except f.TargetMissing:
            return None  # the app is not in it, so it can say nothing there
        except (f.SlackFailure, TimeoutError) as error:
            self.notes.failure(error)
            if isinstance(error, f.Unauthorised):
                return UNSURE_PLACE
        raise NotNow(f"Slack does not say who is in `{channel}`.")

    async def names(self, installation: Installation, text: str, until: float) -> dict[str, str]:
        """Return the names of those whom the mrkdwn *text* mentions; what we are called ourselves is no question."""
        others = [user for user in mentioned_in(text) if user != installation.me.user]
        return await self.people.names(installation, others, until=until)

    async def look(
        self, installation: Installation, thread: Thread, mark: Watermark, *, before: str | None, until: float
    ) -> Look | None:
        """Return what was said after *mark* and *before* a message; None when Slack does not say it in time.

        Raises `TargetMissing` when the thread is not there for us.
        """
        try:
            async with asyncio.timeout_at(until):
                return await look(installation, self.people, thread, mark, before=before, until=until - NAMING)
        except f.TargetMissing:
            raise
        except (f.SlackFailure, TimeoutError) as error:
            self.notes.failure(error)
            return None

    async def is_gone(self, installation: Installation, thread: Thread, ts: str, until: float) -> bool:
        """Return whether the message at *ts* was deleted; not so when Slack does not say it in time."""
        try:
            async with asyncio.timeout_at(until):
                return not await exists(installation, thread, ts)
        except (f.SlackFailure, TimeoutError) as error:
            self.notes.failure(error)
            return False

    @asynccontextmanager
    async def order(self, thread: Thread, until: float) -> AsyncGenerator[None]:
        """Let the messages of a thread be taken in one after the other, as far as time allows."""
        order = self._orders.setdefault(thread.address, asyncio.Lock())
        held = False
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                held = await order.acquire()
        try:
            yield
        finally:
            if held:
                order.release()

    async def ask(self, thread: Thread, session: SessionObject | None, inbound: Inbound) -> Receipt:
        """Receive *inbound*. That it is to be shown is noted before, so that a kill in between loses nothing.

        In a channel others can join the thread, so the model reads who wrote each message.
        Raises what `Core.receive` raises.
        """
        if session is None:
            name, address = thread.agent or "", thread.address
            session = await self.core.open_session(agent=name, actor=inbound.actor, address=address)
        await self.shows.want(session.id, thread)
        receipt = await self.core.receive(session.id, structs.replace(inbound, shared=not thread.is_dm))
        self.shows.show(session.id)
        return receipt


def refusal(person: Person, slack: Slack, *, shared: bool = False) -> str | None:
    """Return what an agent with these settings answers *person* instead of an answer, if it does not answer them.

    In a channel that is *shared* with other organisations it answers no one.
    """
    if slack.external == "answer":
        return None
    if person.outside:
        return UNKNOWN if person.kind == "unknown" else OUTSIDE
    return SHARED if shared else None


def asked_by(thread: Thread, person: Person, agent: AgentObject, words: str) -> Thread:
    """Return *thread* with who is answered, who answers, and *words* as the title of its session."""
    title = " ".join(words.split())[: limits.SESSION_TITLE.value] or None
    team = thread.user_team if person.kind == "unknown" else person.team
    slack, name = settings_of(agent.definition), agent.definition.name
    about = replace(thread, user_team=team, title=title, agent=name)
    return replace(about, allow_mentions=slack.allow_mentions, loading=slack.loading)


def actor(installation: Installation, user: str, name: str | None = None) -> Actor:
    """Return *user* as the core knows them: no two workspaces share one."""
    return Actor(f"slack:{installation.me.team}:{user}", "user", name)


def tool_context(thread: Thread, person: Person) -> dict[str, str]:
    """Return what tools are given of *person*, who asks in *thread*: what Slack has signed or says, never the model."""
    context = {
        "slack_user": person.id,
        "slack_user_team": thread.user_team if person.kind == "unknown" else person.team,
        "slack_user_kind": person.kind,
        "slack_team": thread.team,
        "slack_channel": thread.channel,
        "slack_thread": thread.root,
    }
    return {**context, "email": person.email} if person.email else context


def own_name(installation: Installation, agent: AgentObject | None) -> Mapping[str, str]:
    """Return how we are called where we are mentioned."""
    return {installation.me.user: agent.definition.name} if agent else {}
