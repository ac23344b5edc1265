"""commands: questions that are no messages: a slash command, and the shortcut on a message."""

import asyncio
from dataclasses import replace

from agent_core import Context, Inbound, SessionClosed, Text
from channels.slack import failures as f
from channels.slack import limits
from channels.slack.asking import CLOSED, NOBODY, Asking, actor, asked_by, refusal
from channels.slack.context import Watermark, at, tell
from channels.slack.intake import Commanded, Pointed, words
from channels.slack.pace import Lane
from channels.slack.text import escape, neutral
from channels.slack.thread import Thread
from channels.slack.workspaces import Installation

POSTING = 1.0
"""Seconds beyond those for names in which the question of a slash command must be posted: Slack waits for three."""
ABSENT = "I am not in this channel. Invite me, and ask again."
NOT_POSTED = "Slack does not let me post your question here just now. Try again in a moment."
USAGE = "Ask me something: {command} your question"


async def commanded(asking: Asking, home: Installation, asked: Commanded) -> str | None:
    """Post the question for all to see and have it answered in its thread; return what only the asker is told."""
    until, me = asking.until(), home.me
    where = Thread(me.team, asked.channel, "", asked.user, me.team, me.enterprise, is_dm=asked.channel.startswith("D"))
    question = words(asked.text, me, await asking.names(home, asked.text, until))
    if not question:
        return USAGE.format(command=asked.command)
    agent = await asking.agent(None, where)
    if agent is None:
        return NOBODY.format(channel=asked.channel)
    person = await asking.who(home, asked.user, agent.definition.slack, until)
    if (told := refusal(person, agent.definition.slack)) is not None:
        return told
    try:
        async with asyncio.timeout_at(until + POSTING):
            root = await _post(home, asked, question)
    except f.Gone:
        return ABSENT
    except (f.SlackFailure, TimeoutError) as error:
        asking.notes.failure(error)
        return NOT_POSTED
    inbound = Inbound(
        parts=(Text(question),),
        actor=actor(home, person.id, person.name),
        key=f"command:{asked.trigger}",
        metadata=Watermark(root).metadata,
    )
    await asking.ask(asked_by(replace(where, root=root), person, agent, question), None, inbound)
    return None


async def pointed(asking: Asking, home: Installation, asked: Pointed) -> str | None:
    """Have an agent say something about a message, in its thread; return what only the asker is told."""
    until, thread = asking.until(), asked.thread
    agent = await asking.agent(await asking.core.find_session(thread.address), thread)
    if agent is None:
        return NOBODY.format(channel=thread.channel)
    person = await asking.who(home, thread.user, agent.definition.slack, until)
    if (told := refusal(person, agent.definition.slack)) is not None:
        return told
    async with asking.order(thread, until):
        session = await asking.core.find_session(thread.address)
        mark = Watermark.of(session.metadata if session else {})
        try:
            found = await asking.look(home, thread, mark.passed(asked.ts), before=None, until=until)
        except f.Gone:
            return ABSENT
        shown = await tell(home, asking.people, (asked.message,), until=until)
        newest = max((ts for ts in (asked.ts, found.newest if found else None) if ts), key=at)
        note = Context(text="The message that is asked about:", source="note")
        inbound = Inbound(
            parts=(Text("Help with this message."),),
            actor=actor(home, person.id, person.name),
            key=f"shortcut:{asked.trigger}",
            context=(*(found.context if found else ()), note, *shown),
            metadata=(mark.moved(newest) if found else mark.passed(asked.ts)).metadata,
        )
        try:
            await asking.ask(asked_by(thread, person, agent, shown[0].text), session, inbound)
        except SessionClosed:
            return CLOSED
    return None


async def _post(home: Installation, asked: Commanded, question: str) -> str:
    """Post the question of a command, and return the root of the thread in which it is answered."""
    space, most = home.space, limits.TEXT.value - 100
    shown = question if len(question) <= most else f"{question[:most]}…"
    await space.pacer.admit("chat.postMessage", space.team, asked.channel, Lane.FIRST)
    return await space.api.post(asked.channel, f"<@{asked.user}>: {escape(neutral(shown))}")
