"""What was said in a thread before the agent was called, or between two calls.

A session remembers how far it has looked, by the `ts` of a message: its watermark. When a thread cannot be read in
time, the message goes ahead of it, and the next call makes up for what is after the watermark.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol
from weakref import WeakValueDictionary

import msgspec
import structlog
from msgspec import structs

from agent_core.channels import Context, Inbound
from agent_core.clock import Clock
from agent_core.core import Core
from agent_core.errors import NotFound, ParleyError
from agent_core.messages import Actor
from agent_core.objects import AgentObject, Receipt, SessionObject
from channels.slack import api as f
from channels.slack import limits
from channels.slack.api import Json, Replies
from channels.slack.intake import is_ours, written
from channels.slack.outbox import QUESTION, marked
from channels.slack.pace import Installation
from channels.slack.people import (
    Conversations,
    Lately,
    People,
    Person,
    Quote,
    author_of,
    beside,
    names_in,
    quotes,
    readable,
)
from channels.slack.settings import PROMPTS, Slack, Thread, route, settings_of

MAX_MESSAGES = 50
"""Messages that are quoted at once, the newest ones; the root of the thread comes on top of them."""
LENGTH = 20_000
"""Characters that they have together."""
ONE = 4_000
"""Characters of one message; of what it forwards as many again."""
CARRIED = 12_000
"""Characters of what a message to the agent carries besides its words; of what it forwards as many again."""
PAGE = 200
PAGES = 10
"""Pages of a thread that are read in search of its newest messages."""
_NO_THREAD = ("thread_not_found", "message_not_found")
_SEEN, _AHEAD = "slack_seen", "slack_ahead"
_MAX_AHEAD = 50
_USER = re.compile(r"<@([UW][A-Z0-9]{1,30})(?:\|[^<>]*)?>")
_SPEAKS = frozenset({None, "bot_message", "file_share", "thread_broadcast", "me_message"})


def at(ts: str) -> tuple[int, int]:
    """Return when a message was written, to compare by."""
    seconds, _, rest = ts.partition(".")
    return int(seconds), int(rest or 0)


@dataclass(frozen=True, slots=True)
class Watermark:
    """How far a session has looked: up to *seen*, and the messages *ahead* of it that it has taken in all the same."""

    seen: str | None = None
    ahead: tuple[str, ...] = ()

    @classmethod
    def of(cls, metadata: Mapping[str, Any]) -> "Watermark":
        """Return the watermark that a session's *metadata* hold."""
        return cls(metadata.get(_SEEN), tuple(metadata.get(_AHEAD) or ()))

    @property
    def newest(self) -> tuple[int, int]:
        """When the newest message was written that the session knows."""
        return max((at(ts) for ts in (*self.ahead, *([self.seen] if self.seen else []))), default=(0, 0))

    def covers(self, ts: str) -> bool:
        """Return whether the session has looked as far as *ts*."""
        return self.seen is not None and at(ts) <= at(self.seen)

    def knows(self, ts: str) -> bool:
        """Return whether the session has looked as far as *ts*, or has taken it in ahead of that."""
        return ts in self.ahead or self.covers(ts)

    def moved(self, ts: str) -> "Watermark":
        """Return it once all up to *ts* is known."""
        return self if self.covers(ts) else Watermark(ts, tuple(each for each in self.ahead if at(each) > at(ts)))

    def passed(self, ts: str) -> "Watermark":
        """Return it once *ts* is taken in, and what lies before it is not known."""
        return self if self.covers(ts) else replace(self, ahead=(*self.ahead, ts)[-_MAX_AHEAD:])

    @property
    def metadata(self) -> dict[str, Any]:
        """The change of a session's metadata that keeps it."""
        return {_SEEN: self.seen, _AHEAD: list(self.ahead) or None}


@dataclass(frozen=True, slots=True)
class Look:
    """What was found after a watermark, as *context*; the newest message of it is *newest*."""

    context: tuple[Context, ...]
    newest: str | None


async def look(
    installation: Installation, people: People, thread: Thread, mark: Watermark, *, before: str | None, until: float
) -> Look:
    """Read what others said in *thread* after *mark*, and *before* a message; raises a `SlackFailure`.

    Names are given to those who are known by the event loop's time *until*.
    """
    messages, older = await _read(installation, thread, mark.seen)
    skipped = {*mark.ahead, *([before] if before else [])}
    earlier = [each for each in messages if before is None or at(each["ts"]) < at(before)]
    wanted = [each for each in earlier if _is_new_to_it(each, installation, mark, skipped)]
    newest = max((each["ts"] for each in messages), key=at, default=None)
    bounded = _bounded(wanted, thread.root)
    left_out = older + len(wanted) - len(bounded)
    if not left_out:
        return Look(await as_context(installation, people, bounded, until=until), newest)
    note = Context(text=f"{left_out} more messages of this thread are left out here.", source="note")
    opening = 1 if wanted and wanted[0]["ts"] == thread.root else 0
    first, rest = await asyncio.gather(
        as_context(installation, people, bounded[:opening], until=until),
        as_context(installation, people, bounded[opening:], until=until),
    )
    return Look((*first, note, *rest), newest)


async def after(installation: Installation, thread: Thread, ts: str) -> list[Json]:
    """Return the newest messages of *thread* that were written after the one at *ts*; raises a `SlackFailure`."""
    messages, _ = await _read(installation, thread, ts)
    return [each for each in messages if at(each["ts"]) > at(ts)]


async def exists(installation: Installation, thread: Thread, ts: str) -> bool:
    """Return whether the message at *ts* is in *thread* now; raises a `SlackFailure`."""
    seconds, micros = at(ts)
    before = f"{seconds - 1}.999999" if not micros else f"{seconds}.{micros - 1:06}"
    try:
        page = await _page(installation, thread, oldest=before)
    except f.TargetMissing as error:
        if error.reason not in _NO_THREAD:
            raise
        return False
    return any(each["ts"] == ts and each.get("subtype") != "tombstone" for each in page.messages)


async def as_context(
    installation: Installation, people: People, messages: Sequence[Json], *, until: float
) -> tuple[Context, ...]:
    """Return *messages* of Slack's as context for the model, with the names that are known by *until*.

    There is one for each message at least, its own words; what it forwards follows it, each by its own author.
    """
    quoted = [quotes(each, ONE) for each in messages]
    legible = [[each for n, each in enumerate(quote) if each.lines or (not n and len(quote) == 1)] for quote in quoted]
    names = await people.names(installation, names_in(each for quote in quoted for each in quote), until=until)
    return tuple(
        _context(each, author_of(quote[0], names), names)
        for quote, remaining in zip(quoted, legible, strict=True)
        for each in remaining
    )


async def carried(installation: Installation, people: People, message: Json, *, until: float) -> tuple[Context, ...]:
    """Return what *message* carries besides its words as context for the model, with the names known by *until*."""
    attached = beside(message, CARRIED)
    if not attached:
        return ()
    sender = Quote(str(message.get("user") or ""), "", ())
    names = await people.names(installation, names_in((sender, *attached)), until=until)
    note = Context(text="The message that comes next carries what is quoted here:", source="note")
    return note, *(_context(each, author_of(sender, names), names) for each in attached)


def attached(context: Iterable[Context]) -> tuple[Context, ...]:
    """Return *context* as what belongs to the message that comes next, and is deleted with it."""
    return tuple(msgspec.structs.replace(each, attached=True) for each in context)


async def _read(installation: Installation, thread: Thread, oldest: str | None) -> tuple[list[Json], int]:
    """Return the newest messages of a thread after *oldest*, its root before them, and how many lie between."""
    cursor = None
    messages: list[Json] = []
    dropped = 0
    for _ in range(PAGES):
        page = await _page(installation, thread, oldest=oldest, cursor=cursor)
        known_ts = {each["ts"] for each in messages}
        messages += [each for each in page.messages if each["ts"] not in known_ts]
        surplus = max(0, len(messages) - 2 * PAGE)
        del messages[1 : 1 + surplus]
        dropped += surplus
        cursor = page.cursor
        if cursor is None:
            break
    return messages, dropped


async def _page(
    installation: Installation, thread: Thread, *, oldest: str | None, cursor: str | None = None
) -> Replies:
    space, api = installation.space, installation.space.api
    where = (thread.channel, thread.root)
    return await space.call(
        "conversations.replies", thread.channel, api.replies, *where, oldest=oldest, cursor=cursor, limit=PAGE
    )


def _is_new_to_it(message: Json, installation: Installation, mark: Watermark, skipped: Collection[str]) -> bool:
    """Return whether *message* is something that others said, or asked through us, and the session does not know."""
    is_known = mark.covers(message["ts"]) or message["ts"] in skipped
    is_others = not is_ours(message, installation.me) or (marked(message) or "").startswith(QUESTION)
    return not is_known and message.get("subtype") in _SPEAKS and is_others


def _bounded(messages: list[Json], root: str) -> list[Json]:
    """Return the root, if it is among *messages*, and as many of the newest as there is room for."""
    opening = messages[:1] if messages and messages[0]["ts"] == root else []
    bounded: list[Json] = []
    room = LENGTH
    for each in reversed(messages[len(opening) :][-MAX_MESSAGES:]):
        room -= _size(each)
        if room < 0:
            break
        bounded.append(each)
    return [*opening, *reversed(bounded)]


def _size(message: Json) -> int:
    return sum(len(line.text) for quote in quotes(message, ONE) for line in quote.lines)


def mentioned_in(text: str) -> list[str]:
    """Return the people that the mrkdwn *text* mentions."""
    return _USER.findall(text)


def _context(quote: Quote, sender: str, names: Mapping[str, str]) -> Context:
    """Return what *sender* wrote, or forwarded of someone else, as context."""
    text = readable(quote.lines, lambda mrkdwn: written(mrkdwn, names))
    head = f"[forwarded by {sender}]\n" if quote.forwarded else ""
    return Context(text=f"{head}{text}", author=author_of(quote, names))


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
        method = "assistant.threads.setSuggestedPrompts"
        await space.call(method, channel, space.api.set_prompts, channel, items or PROMPTS)

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
    title = " ".join(words.split())[: limits.SESSION_TITLE] or None
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


AGE = 60_000
"""Milliseconds for which what Slack said of a group is taken for true."""


@dataclass(frozen=True, slots=True)
class Belonging:
    """The groups that a user is *of*; *sure* unless Slack did not answer for all of them in time."""

    of: tuple[str, ...]
    sure: bool = True


class Groups:
    """The members of the user groups that this process was asked about lately."""

    def __init__(self, clock: Clock, notes: Notes) -> None:
        self._notes, self._members_of = notes, Lately[tuple[str, str], frozenset[str]](clock, AGE)

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
        if (members := self._members_of.get(key)) is None:
            members = frozenset(await space.call("usergroups.users.list", None, space.api.usergroup_users, group))
            self._members_of.note(key, members)
        return members
