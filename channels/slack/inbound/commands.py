"""Questions that are no messages: a slash command, and the shortcut on a message."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from agent_core import (
    Actor,
    AgentObject,
    Clock,
    Context,
    Inbound,
    ParleyError,
    RateLimited,
    SessionClosed,
    Text,
    shorten,
)
from channels.slack.inbound.context import Watermark, as_context, at
from channels.slack.inbound.intake import Commanded, Pointed, words
from channels.slack.inbound.mentions import CLOSED, NO_AGENT, Mentions, actor, asked_by, refusal, tool_context
from channels.slack.inbound.people import Person
from channels.slack.inbound.queued import WAITS, say_queued
from channels.slack.outbound.finding import QUESTION, SKEW, mark, marked
from channels.slack.outbound.text import escape, neutral
from channels.slack.settings import settings_of
from channels.slack.thread import Thread
from channels.slack.web_api import failures as f
from channels.slack.web_api import limits
from channels.slack.web_api.pace import Lane
from channels.slack.web_api.workspaces import Installation

POSTING = 1.0
"""Seconds beyond those for names in which the question of a slash command must be posted: Slack waits for three."""
ABSENT = "I am not in this channel. Invite me, and ask again."
NOT_POSTED = "Slack does not let me post your question here just now. Try again in a moment."
UNSURE = (
    "It is not certain yet that I have your question. If it is here I answer it in its thread; if not, I let you know "
    "so within a minute."
)
MAYBE = "I could not find out whether your question was posted. If it was, mention me in its thread; else ask again."
LOOKS = (1.0, 5.0, 20.0)
"""Seconds before each look for a question that may or may not have been posted."""
HELP = frozenset({"", "help", "?"})
"""What is no question, and gets the help."""
_HELP = """{who}
• `{command} your question`: your question is posted here for all to see, and answered in its thread.
• Mention me, {me}, in a message or in a thread: I read the thread and answer there.{follow_up}
• Write me a direct message: no one else in Slack reads it.
• “Ask about this”, among a message's actions: I look at that message and answer below it.
• Stop, above the answer, ends what I do. Edit or delete what you wrote, and I take it so.
• `{command} help`: this, which only you see."""
_ANSWERS = "In <#{channel}> the agent `{agent}` answers."
_FOLLOW_UP = " Once I am in a thread your replies need no mention."

Begin = Callable[[Coroutine[Any, Any, None]], None]


@dataclass(frozen=True, slots=True)
class _Question:
    """What *person* asked by *command*, as *text*; it is posted from *since* (ms) on and answered in *thread*."""

    command: Commanded
    thread: Thread
    text: str
    by: Actor
    person: Person
    since: int

    @property
    def name(self) -> str:
        """What its post is known by; others may read it, so it is not the trigger itself."""
        return f"{QUESTION}{sha256(self.command.trigger.encode()).hexdigest()[:32]}"


async def commanded(
    asking: Mentions, installation: Installation, command: Commanded, clock: Clock, begin: Begin
) -> str | None:
    """Post the question in the channel and answer it in its thread; return the notice for the asker alone.

    *begin* starts what continues after the notice.
    """
    until, me = asking.until(), installation.me
    where = Thread(
        me.team, command.channel, "", command.user, me.team, me.enterprise, is_dm=command.channel.startswith("D")
    )
    question = words(command.text, me, await asking.names(installation, command.text, until))
    agent = await asking.agent(None, where)
    if question.strip().lower() in HELP:
        return _help(command, installation, agent)
    if agent is None:
        return NO_AGENT.format(channel=command.channel)
    settings = settings_of(agent.definition)
    person = await asking.who(installation, command.user, settings, until)
    notice = refusal(person, settings) or await asking.place(installation, command.channel, settings, until)
    if notice is not None:
        return notice
    thread, by = asked_by(where, person, agent, question), actor(installation, person.id, person.name)
    put = _Question(command, thread, question, by, person, clock.now())
    try:
        async with asyncio.timeout_at(until + POSTING):
            root = await _post(installation, put)
        await _answer(asking, put, root)
    except f.TargetMissing:
        return ABSENT
    except (f.Limited, f.NotSent, f.SlackRefused, f.Unauthorised) as error:
        asking.notes.failure(error)
        return NOT_POSTED
    except RateLimited as error:
        return str(error)
    except (ParleyError, TimeoutError) as error:  # it may have been posted, and if so it is to be answered
        asking.notes.failure(error)
        begin(_looked_for(asking, installation, put, clock))
        return UNSURE
    return None


def _help(command: Commanded, installation: Installation, agent: AgentObject | None) -> str:
    """Return what people can do here, in mrkdwn."""
    who, follow_up = NO_AGENT.format(channel=f"<#{command.channel}>"), False
    if agent is not None:
        who = _ANSWERS.format(channel=command.channel, agent=escape(neutral(agent.definition.name)))
        follow_up = settings_of(agent.definition).follow_up
    more = _FOLLOW_UP if follow_up else ""
    return _HELP.format(
        who=who, command=escape(neutral(command.command)), me=f"<@{installation.me.user}>", follow_up=more
    )


async def _answer(asking: Mentions, put: _Question, root: str) -> None:
    """Have the question answered in the thread of its post at *root*."""
    thread = replace(put.thread, root=root)
    inbound = Inbound(
        parts=(Text(put.text),),
        actor=put.by,
        key=f"command:{put.command.trigger}",
        metadata=Watermark(root).metadata,
        tool_context=tool_context(thread, put.person),
        timezone=put.person.timezone,
    )
    await asking.ask(thread, None, inbound)


async def pointed(asking: Mentions, installation: Installation, pointer: Pointed, begin: Begin) -> str | None:
    """Ask an agent about a message, in its thread; return what only the asker reads. *begin* runs what follows."""
    until, thread = asking.until(), pointer.thread
    agent = await asking.agent(await asking.core.find_session(thread.address), thread)
    if agent is None:
        return NO_AGENT.format(channel=thread.channel)
    settings = settings_of(agent.definition)
    person = await asking.who(installation, thread.user, settings, until)
    notice = refusal(person, settings) or await asking.place(installation, thread.channel, settings, until)
    if notice is not None:
        return notice
    async with asking.order(thread, until):
        session = await asking.core.find_session(thread.address)
        mark = Watermark.of(session.metadata if session else {})
        try:
            look = await asking.look(installation, thread, mark.passed(pointer.ts), before=None, until=until)
        except f.TargetMissing:
            return ABSENT
        context = await as_context(installation, asking.people, (pointer.message,), until=until)
        newest = max((ts for ts in (pointer.ts, look.newest if look else None) if ts), key=at)
        note = Context(text="The message that is asked about:", source="note")
        inbound = Inbound(
            parts=(Text("Help with this message."),),
            actor=actor(installation, person.id, person.name),
            key=f"shortcut:{pointer.trigger}",
            context=(*(look.context if look else ()), note, *context),
            metadata=(mark.moved(newest) if look else mark.passed(pointer.ts)).metadata,
            tool_context=tool_context(thread, person),
            timezone=person.timezone,
        )
        try:
            receipt = await asking.ask(asked_by(thread, person, agent, context[0].text), session, inbound)
        except SessionClosed:
            return CLOSED
        except RateLimited as error:
            return str(error)
    if session is not None and session.status in WAITS and not receipt.repeated:
        begin(say_queued(asking.core, installation, thread, receipt))
    return None


async def _post(installation: Installation, put: _Question) -> str:
    """Post the question of a command, and return the root of the thread in which it is answered."""
    space, command, question = installation.space, put.command, shorten(put.text, limits.TEXT.value - 100)
    await space.pacer.admit("chat.postMessage", space.team, command.channel, Lane.FIRST)
    text = f"<@{command.user}>: {escape(neutral(question))}"
    return await space.api.post(command.channel, text, metadata=mark(put.name))


async def _looked_for(asking: Mentions, installation: Installation, put: _Question, clock: Clock) -> None:
    """Find out whether a question was posted, and answer it, or notify the asker that it was not."""
    notice, space, command = MAYBE, installation.space, put.command
    for pause in LOOKS:
        await clock.sleep(pause)
        try:
            if (root := await _find_post(installation, put)) is not None:
                await _answer(asking, put, root)
                return
            notice = NOT_POSTED
        except ParleyError as error:
            notice = MAYBE
            asking.notes.failure(error)
    await space.pacer.admit("chat.postEphemeral", space.team, command.channel, Lane.EDIT)
    await space.api.ephemeral(command.channel, command.user, notice)


async def _find_post(installation: Installation, put: _Question) -> str | None:
    """Return the `ts` of the question's post among the newest messages of the channel; raises a `SlackFailure`."""
    space, channel, oldest = installation.space, put.command.channel, f"{put.since // 1000 - SKEW}.000000"
    await space.pacer.admit("conversations.history", space.team, channel, Lane.FIRST)
    page = await space.api.history(channel, oldest=oldest)
    ours = [
        each["ts"] for each in page.messages if each.get("user") == installation.me.user and marked(each) == put.name
    ]
    return ours[-1] if ours else None
