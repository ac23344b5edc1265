"""What was said in a thread before the agent was called, or between two calls.

A session remembers how far it has looked, by the `ts` of a message: its watermark. When a thread cannot be read in
time, the message goes ahead of it, and the next call makes up for what is after the watermark.
"""

import asyncio
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from agent_core import Context
from channels.slack.inbound.attached import Quote, author_of, beside, names_in, quotes, readable
from channels.slack.inbound.intake import is_ours, written
from channels.slack.inbound.people import People
from channels.slack.outbound.finding import QUESTION, marked
from channels.slack.thread import Thread
from channels.slack.web_api import failures as f
from channels.slack.web_api.client import Json, Replies
from channels.slack.web_api.pace import Lane
from channels.slack.web_api.workspaces import Installation

METHOD = "conversations.replies"
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
    space = installation.space
    await space.pacer.admit(METHOD, space.team, thread.channel, Lane.FIRST, thread=thread.root)
    try:
        return await space.api.replies(thread.channel, thread.root, oldest=oldest, cursor=cursor, limit=PAGE)
    except f.Limited as error:
        space.pacer.penalty(METHOD, space.team, error.retry_after)
        raise


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
