"""Does what a payload of Slack's asks for, by asking the core; when it returns, nothing of it can be lost."""

import asyncio
import hashlib
import json
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import structlog

from agent_core import (
    Actor,
    AgentObject,
    Clock,
    Context,
    Core,
    Inbound,
    NotFound,
    ParleyError,
    RateLimited,
    RunObject,
    SessionClosed,
    SessionObject,
    Text,
    trace_of,
)
from channels.slack.inbound import intake as i
from channels.slack.inbound.clicks import CardDisplay, Clicks
from channels.slack.inbound.commands import commanded, pointed
from channels.slack.inbound.context import Look, Watermark, after, as_context, at, attached, carried
from channels.slack.inbound.groups import Groups
from channels.slack.inbound.mentions import (
    CLOSED,
    NO_AGENT,
    TIMEOUT,
    Mentions,
    Shows,
    actor,
    asked_by,
    own_name,
    refusal,
    tool_context,
)
from channels.slack.inbound.people import Conversations, People, Person
from channels.slack.inbound.queued import say_queued
from channels.slack.inbound.recent import Deduplicator, Newest
from channels.slack.inbound.viewing import SEEN, as_note
from channels.slack.settings import settings_of
from channels.slack.thread import Thread
from channels.slack.web_api import failures as f
from channels.slack.web_api import limits
from channels.slack.web_api.client import Json
from channels.slack.web_api.pace import Lane
from channels.slack.web_api.workspaces import Installation

LATE = limits.EVENT_RETRY_2.value + limits.EVENT_RETRY_3.value
"""Seconds by which a message may come after its own edit: Slack sends again what it could not deliver."""
IN_TIME = 2_000
"""Milliseconds after which a message comes late: replies to it may have come before it, or its deletion."""
PAUSES = (2.0, 10.0, 60.0)
"""Seconds between two tries to read a thread for what came too early."""
OPEN = ("queued", "running", "waiting", "requires_action")
_EDITED = Context(text="A message of this thread that was quoted before was edited. Now it says:", source="note")
_log = structlog.get_logger("parley.slack")


class Receiver:
    """Takes in what people do in Slack."""

    def __init__(
        self, core: Core, shows: Shows, people: People, clock: Clock, cards: CardDisplay, *, timeout: float = TIMEOUT
    ) -> None:
        self._core, self._shows, self._people = core, shows, people
        self._mentions = Mentions(core, shows, people, Conversations(clock), timeout=timeout)
        self._clicks = Clicks(self._mentions, Groups(clock, self._mentions.notes), cards, self._begin)
        self._clock, self._lately, self._renames = clock, Deduplicator(clock), Newest()
        self._beside: set[asyncio.Task[None]] = set()

    async def take(self, installation: Installation, item: i.Asked) -> str | Json | None:
        """Carry out *item*, and return what only the person who asked reads, or what becomes of their form.

        Raises a `ParleyError` when nothing was kept and the same may come again.
        """
        match item:
            case i.MessagePosted():
                await self._on_message(installation, item)
            case i.Edited():
                await self._edited(installation, item)
            case i.Unfurled():
                await self._unfurled(installation, item.posted)
            case i.Deleted():
                await self._deleted(installation, item)
            case i.StopPressed():
                await self._stopped(installation, item)
            case i.Renamed():
                await self._renamed(item)
            case i.Voted():
                with suppress(NotFound):
                    by = self._actor(installation, item.user)
                    await self._core.feedback(item.run, by=by, rating="up" if item.good else "down")
            case i.Opened():
                self._begin(self._mentions.home(installation, item.user, item.channel))
            case i.Unknown():
                self.note("slack.unknown", kind=item.kind)
            case _:
                return await self._answered(installation, item)
        return None

    async def is_new(self, payload: Json) -> bool:
        """Return whether *payload* is to be taken: what people do in Slack counts once, however often it is sent.

        Events may come again; each is known by what it is about.
        """
        if payload.get("type") == "event_callback":
            return True
        whole = json.dumps(payload, sort_keys=True).encode()
        return await self._core.is_first(f"slack:{hashlib.sha256(whole).hexdigest()[:32]}")

    async def _answered(
        self, installation: Installation, item: i.Commanded | i.Pointed | i.Pressed | i.Filled
    ) -> str | Json | None:
        """Do what a person asked for who can be answered at once."""
        match item:
            case i.Commanded():
                return await commanded(self._mentions, installation, item, self._clock, self._begin)
            case i.Pointed():
                return await pointed(self._mentions, installation, item, self._begin)
            case i.Pressed():
                return await self._clicks.pressed(installation, item)
            case i.Filled():
                return await self._clicks.filled(installation, item)

    def note(self, event: str, **more: str) -> None:
        """Log *event* unless it was logged before."""
        self._mentions.notes.once(event, **more)

    async def close(self) -> None:
        """Give up what is under way beside the answers."""
        for task in self._beside:
            task.cancel()
        await asyncio.gather(*self._beside, return_exceptions=True)
        await self._people.close()

    async def _on_message(self, installation: Installation, posted: i.MessagePosted) -> None:
        """Have a message answered if it is to an agent: by name, in a direct message, or in a thread it is in."""
        thread, until = posted.thread, self._mentions.until()
        if (not posted.addressed and thread.root == posted.ts) or self._lately.knows(
            "deleted", thread.address, posted.ts
        ):
            return
        session = await self._core.find_session(thread.address)
        if session is None and not posted.addressed:
            return
        agent = await self._mentions.agent(session, thread)
        if agent is None:
            self._reply_privately(installation, posted, NO_AGENT.format(channel=thread.channel), scope=thread.channel)
            return
        if not (posted.addressed or settings_of(agent.definition).follow_up):
            return
        person = await self._mentions.who(installation, thread.user, settings_of(agent.definition), until)
        if person.kind == "bot":
            return
        self._mentions.conversations.note(thread.team, thread.channel, shared=posted.shared)
        if (words := refusal(person, settings_of(agent.definition), shared=posted.shared)) is not None:
            self._reply_privately(installation, posted, words, scope="")
            return
        late = self._clock.now() - at(posted.ts)[0] * 1000 > IN_TIME
        if late and await self._mentions.is_gone(installation, thread, posted.ts, until):
            return  # its deletion came before it, perhaps to another process
        async with self._mentions.order(thread, until):
            # Looked for again: the same message may have come twice at once.
            session = await self._core.find_session(thread.address)
            try:
                await self._take_in(installation, posted, session, agent, person, until)
            except SessionClosed:
                self._reply_privately(installation, posted, CLOSED, scope=thread.address)
                self._begin(_show_closed(installation, thread))
            except RateLimited as error:
                if not error.is_quota:
                    raise  # Slack sends it again
                self._refuse(installation, posted, error)
        if session is None and late and not thread.is_dm:
            self._begin(self._catch_up(installation, posted))

    async def _catch_up(self, installation: Installation, posted: i.MessagePosted) -> None:
        """Take in the replies that came before the late message which they reply to, and were therefore skipped."""
        for message in await self._after(installation, posted):
            event = {**message, "type": "message", "channel": posted.thread.channel}
            payload = {"type": "event_callback", "event": event, "is_ext_shared_channel": posted.shared}
            match i.read(payload, installation.me):
                case i.MessagePosted() as reply:
                    await self._on_message(installation, reply)
                case _:
                    continue

    async def _after(self, installation: Installation, posted: i.MessagePosted) -> list[Json]:
        for pause in PAUSES:
            try:
                return await after(installation, posted.thread, posted.ts)
            except (f.Uncertain, f.NotSent, f.Limited):
                await self._clock.sleep(pause)
        return await after(installation, posted.thread, posted.ts)

    async def _take_in(
        self,
        installation: Installation,
        posted: i.MessagePosted,
        session: SessionObject | None,
        agent: AgentObject,
        person: Person,
        until: float,
    ) -> None:
        metadata: Json = session.metadata if session else {}
        mark = Watermark.of(metadata)
        look = await self._look(installation, posted, mark, until)
        words = await self._words(installation, posted, agent, until)
        beside = await carried(installation, self._people, posted.message, until=until)
        mark = mark.passed(posted.ts) if look is None else mark.moved(posted.ts)
        viewing = {SEEN: "; ".join(posted.viewing)} if posted.viewing else {}
        inbound = Inbound(
            parts=(Text(words),),
            actor=actor(installation, person.id, person.name),
            key=_key(posted.ts),
            context=(*(look.context if look else ()), *attached((*beside, *as_note(posted.viewing, metadata)))),
            metadata={**mark.metadata, **viewing},
            tool_context=tool_context(posted.thread, person),
            timezone=person.timezone,
        )
        receipt = await self._mentions.ask(asked_by(posted.thread, person, agent, words), session, inbound)
        if session is not None and not receipt.repeated:  # it may have begun to wait during the look-ups
            self._begin(say_queued(self._core, installation, posted.thread, receipt))

    async def _look(
        self, installation: Installation, posted: i.MessagePosted, mark: Watermark, until: float
    ) -> Look | None:
        """Return what was said before; of a direct message all that came later was said to us."""
        thread: Thread = posted.thread
        if thread.root == posted.ts or mark.covers(posted.ts) or (thread.is_dm and mark.seen is not None):
            return Look((), posted.ts)
        try:
            return await self._mentions.look(installation, thread, mark, before=posted.ts, until=until)
        except f.TargetMissing as error:
            self._mentions.notes.failure(error)
            return None

    async def _words(
        self, installation: Installation, posted: i.MessagePosted, agent: AgentObject | None, until: float
    ) -> str:
        names = await self._mentions.names(installation, posted.text, until)
        return i.words(posted.text, installation.me, {**names, **own_name(installation, agent)}) or "(no words)"

    async def _edited(self, installation: Installation, edited: i.Edited) -> None:
        posted = edited.posted
        session = await self._core.find_session(posted.thread.address)
        mark = Watermark.of(session.metadata if session else {})
        if session is not None:
            agent = await self._mentions.agent(session, posted.thread)
            parts = (Text(await self._words(installation, posted, agent, self._mentions.until())),)
            with suppress(NotFound):
                seconds, micros = at(edited.at)
                order, key = seconds * 1_000_000 + micros, f"edit:{posted.ts}:{edited.at}"
                await self._core.correct(session.id, _key(posted.ts), parts, key=key, order=order)
                return
            if mark.covers(posted.ts) and not posted.thread.is_dm:
                await self._quote_again(installation, session, edited)
                return
        # An edit may come before its message, which is then answered in its edited form; the other is a repetition.
        late = at(edited.at)[0] - at(posted.ts)[0] <= LATE and at(posted.ts) > mark.newest
        if late and (posted.addressed or session is not None):
            await self._on_message(installation, posted)

    async def _quote_again(self, installation: Installation, session: SessionObject, edited: i.Edited) -> None:
        """Quote a message of others again, whose text changed after it was quoted."""
        posted = edited.posted
        notice = await as_context(installation, self._people, (posted.message,), until=self._mentions.until())
        with suppress(SessionClosed):
            await self._core.add_context(session.id, (_EDITED, *notice), key=f"edit:{posted.ts}:{edited.at}")

    async def _unfurled(self, installation: Installation, posted: i.MessagePosted) -> None:
        """Quote the messages that Slack shows below one that the agent has, and links to them."""
        session = await self._core.find_session(posted.thread.address)
        if session is None or not Watermark.of(session.metadata).knows(posted.ts):
            return
        context = await carried(installation, self._people, posted.message, until=self._mentions.until())
        note = Context(text="A message of this thread links to what is quoted here:", source="note")
        if context:
            with suppress(SessionClosed):
                await self._core.add_context(session.id, (note, *context[1:]), key=f"unfurl:{posted.ts}")

    async def _deleted(self, installation: Installation, deleted: i.Deleted) -> None:
        session = await self._core.find_session(deleted.thread.address)
        if session is not None:
            by = self._actor(installation, deleted.thread.user)
            with suppress(NotFound):
                await self._core.retract(session.id, _key(deleted.ts), by=by, key=f"delete:{deleted.ts}")
                return
        # It was not said to the agent, or it will come after its own deletion.
        self._lately.first("deleted", deleted.thread.address, deleted.ts)

    async def _stopped(self, installation: Installation, stopped: i.StopPressed) -> None:
        session = await self._core.find_session(stopped.thread.address)
        if session is None:
            return
        by, reason = self._actor(installation, stopped.thread.user), "stopped in Slack"
        if Watermark.of(session.metadata).newest <= at(stopped.at):
            await self._core.stop_session(session.id, by=by, reason=reason)
        else:  # it comes late, or again: what was asked for since continues
            for run in await self._open_runs(session.id):
                if run.created_at // 1000 <= at(stopped.at)[0]:
                    await self._core.cancel(run.id, by=by, reason=reason)
        self._shows.show(session.id)  # so that no status is left over

    async def _open_runs(self, session: str) -> list[RunObject]:
        """Return the session's open root runs, the newest first."""
        runs = (await self._core.runs(session=session, limit=100)).items
        return [run for run in runs if run.status in OPEN and run.parent_run is None]

    async def _renamed(self, renamed: i.Renamed) -> None:
        address = renamed.thread.address
        session = await self._core.find_session(address)
        if session is not None and not self._renames.covers(address, at(renamed.at)):
            await self._core.rename_session(session.id, renamed.title)

    def _actor(self, installation: Installation, user: str) -> Actor:
        person = self._people.cached(installation, user)
        return actor(installation, user, person.name if person else None)

    def _reply_privately(self, installation: Installation, posted: i.MessagePosted, words: str, *, scope: str) -> None:
        """Notify the author of *posted* alone, if it was to us, and once a day and *scope*."""
        if posted.addressed and self._lately.first(installation.me.team, posted.thread.user, scope, words):
            root = None if posted.thread.root == posted.ts else posted.thread.root
            self._begin(_notify_alone(installation, posted.thread, words, root))

    def _refuse(self, installation: Installation, posted: i.MessagePosted, error: RateLimited) -> None:
        """Notify the author of *posted* alone why it is not answered; once a minute."""
        minute = str(self._clock.now() // 60_000)
        if self._lately.first(installation.me.team, posted.thread.user, error.limit, minute):
            root = None if posted.thread.root == posted.ts else posted.thread.root
            self._begin(_notify_alone(installation, posted.thread, str(error), root))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Do *work* beside the answers; that it fails is worth a line and nothing more."""
        task = asyncio.create_task(_guarded(work))
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)


async def _guarded(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except ParleyError as error:
        _log.info("slack.notice_failed", error=str(error))
    except Exception as error:  # noqa: BLE001 - the boundary of a task
        _log.error("slack.failed", exception=trace_of(error))


async def _notify_alone(installation: Installation, thread: Thread, words: str, root: str | None) -> None:
    space = installation.space
    await space.pacer.admit("chat.postEphemeral", space.team, thread.channel, Lane.EDIT)
    await space.api.ephemeral(thread.channel, thread.user, words, thread_ts=root)


async def _show_closed(installation: Installation, thread: Thread) -> None:
    """Have Slack show that a conversation is over which an operator closed."""
    space = installation.space
    await space.pacer.admit("agents.sessions.setStatus", space.team, thread.channel, Lane.LIFECYCLE)
    await space.api.set_status(thread.channel, thread.root, "closed")


def _key(ts: str) -> str:
    """Return the key of the message at *ts*, which no other of its thread has: it is taken in once."""
    return f"slack:{ts}"
