"""The messages of one session in one thread of Slack: sent, updated, and searched for where an answer was lost."""

import asyncio
from collections.abc import Awaitable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol

import structlog

from agent_core.clock import Clock
from agent_core.errors import NotFound, ParleyError
from agent_core.messages import Actor
from channels.delivery import Deferred, Unfinished
from channels.ledger import Ledger, OwnedPlace
from channels.slack import api as f
from channels.slack import limits
from channels.slack.api import Json, TargetMissing
from channels.slack.blocks import Payload, plainer
from channels.slack.figures import LOOK, NO_CHARTS, ChartPorts, DrawnItems, ThreadFigures, ThreadFiles
from channels.slack.pace import POST, Workspace
from channels.slack.picture import MessagePicture, as_sent, never_shorter, picture, tail, update_text
from channels.slack.settings import Thread
from channels.spec import ConversationView, LedgerEntry, MessageLimits, NotShown

EVENT_TYPE = "parley_delivery"
QUESTION = "command:"
"""The prefix of the ids of posts that are questions by a slash command."""
SKEW = 60
"""Seconds by which Slack's clock and ours may differ."""


def mark(delivery: str) -> dict[str, Any]:
    """Return the metadata that identifies the message of *delivery*."""
    return {"event_type": EVENT_TYPE, "event_payload": {"id": delivery}}


async def find(space: Workspace, thread: Thread, entry: LedgerEntry, *, others: Collection[str]) -> str | None:
    """Return the `ts` of the message of *entry* in *thread*, None when it is missing; *others* are of other rows.

    A stream has no metadata before it stops. But a thread has one pending message at a time, so the app's one that was
    posted since and that no row has is this one. Raises `SlackFailure`.
    """
    since = max(0, (entry.began_at or 0) // 1000 - SKEW)
    where, oldest = (thread.channel, thread.root), f"{since}.000000"
    messages, cursor = list[Json](), None
    while True:
        page = await space.call(
            "conversations.replies", thread.channel, space.api.replies, *where, oldest=oldest, cursor=cursor
        )
        messages += page.messages
        cursor = page.cursor
        if cursor is None:
            break
    # The thread's root is always among them, and is the app's after a slash command.
    # Files that were shared are messages of their own.
    ours = [
        each
        for each in messages
        if each.get("user") == space.user and each["ts"] != thread.root and not each.get("files")
    ]
    named = [each["ts"] for each in ours if marked(each) == entry.id]
    if named or entry.mode != "stream":
        return named[-1] if named else None
    nameless = [
        each["ts"] for each in ours if marked(each) is None and each["ts"] not in others and float(each["ts"]) >= since
    ]
    return nameless[-1] if nameless else None


async def is_there(space: Workspace, thread: Thread, ts: str) -> bool:
    """Return whether the message at *ts* is in *thread* now; raises a `SlackFailure`."""
    where, oldest = (thread.channel, thread.root), f"{float(ts) - 1:.6f}"
    try:
        page = await space.call("conversations.replies", thread.channel, space.api.replies, *where, oldest=oldest)
    except TargetMissing:
        return False
    return any(each["ts"] == ts and each.get("subtype") != "tombstone" for each in page.messages)


def marked(message: Json) -> str | None:
    """Return the delivery id in the metadata of *message*."""
    match message.get("metadata"):
        case {"event_type": kind, "event_payload": {"id": str(name)}} if kind == EVENT_TYPE:
            return name
        case _:
            return None


MAX_REFUSALS = 5
"""Refusals of a message by Slack before it is given up."""
WAIT = 5.0
"""Seconds for which the end of a stream waits for a picture; after them an update adds it."""
SOON, LATER, MUCH_LATER = 1.0, 5.0, 60.0
_log = structlog.get_logger("parley.slack")


class GaveUp(ParleyError):
    """The thread is gone or not accessible: nothing can be shown."""

    code = "thread_gone"


@dataclass(slots=True)
class ThreadMessage:
    """A message of the thread: its row, and *last*, what this process knows that it shows, since *at* (milliseconds).

    *unsure* is set when the thread could not be searched for it.
    """

    entry: LedgerEntry
    last: MessagePicture | None = None
    at: int = 0
    looks: int = 0
    refused: int = 0
    unsure: bool = False
    ends_at: int | None = None

    def waits(self, now: int) -> bool:
        """Return whether the end of its stream still waits for a picture, *now* in milliseconds."""
        self.ends_at = self.ends_at or now + round(WAIT * 1000)
        return now < self.ends_at

    def differs_from(self, wanted: MessagePicture) -> bool:
        """Return whether it shows something else than *wanted*, which only an update can change."""
        if self.last is None or self.entry.mode != "post":
            return False
        return as_sent(self.last.items, wanted.items, streams=False) != self.last.items

    def refusal(self, error: f.SlackFailure, *, retry_after: float) -> GaveUp | NotShown:
        """Count one more refusal, and return what it means: a retry after so many seconds, or to give up."""
        self.refused += 1
        return GaveUp(str(error)) if self.refused >= MAX_REFUSALS else NotShown(str(error), retry_after=retry_after)

    @property
    def ts(self) -> str:
        assert self.entry.ref is not None, "it was not sent yet"
        return self.entry.ref


class StreamRecipient:
    """The person for whom a thread's streams are: Slack wants the one who asked, outside of direct messages.

    *place* says who did when it was claimed, the ledger who does now.
    """

    def __init__(self, thread: Thread, ledger: Ledger, place: OwnedPlace) -> None:
        self._thread, self._ledger, self._place = thread, ledger, place
        self._resolved: str | None = None
        self._run: str | None = None

    def note(self, body: ConversationView) -> None:
        """Record the run that *body* shows; the first one is what the thread was claimed for."""
        self._run = next((run.id for run in reversed(body.runs) if run.status != "queued"), self._run)
        self._resolved = self._resolved or self._run

    async def ids(self) -> tuple[str | None, str | None]:
        """Return the user and the team for a stream that begins now; raises `LostPlace`.

        A run that begins while an earlier one is still shown, as while its picture is drawn, may be another person's.
        """
        if self._thread.is_dm:
            return None, None
        if self._run != self._resolved:
            self._resolved = self._run
            self._thread = Thread.read((await self._ledger.reload(self._place)).data)
        return self._thread.user, self._thread.user_team


@dataclass(frozen=True, slots=True)
class ThreadCalls:
    """The calls to Slack for *thread*."""

    space: Workspace
    thread: Thread

    async def admit(self, method: str) -> None:
        """Wait until *method* may be called."""
        await self.space.pacer.admit(method, self.space.team, self.thread.channel)

    def offer(self, method: str) -> None:
        """Count an edit by *method*; raises `Deferred` when it is retried later, with newer text."""
        if wait := self.space.pacer.offer(method, self.space.team, self.thread.channel):
            raise Deferred("Other threads edit, too.", retry_after=wait)

    async def is_there(self, message: ThreadMessage) -> bool:
        """Return whether the thread has *message*; where that cannot be asked, it is tried once more."""
        try:
            return await is_there(self.space, self.thread, message.ts)
        except f.SlackFailure:
            message.looks += 1
            return message.looks == 1

    def not_shown(self, error: f.SlackFailure, message: ThreadMessage) -> ParleyError:
        """Return what *error* means for the delivery: retry, retry later, or give up."""
        match error:
            case f.Limited():
                self.space.pacer.penalty(error.method, self.space.team, error.retry_after)
                return NotShown(str(error), retry_after=error.retry_after)
            case f.TargetMissing():
                return GaveUp(str(error))
            case f.Unauthorised():
                self.space.log_missing(error)
                return NotShown(str(error), retry_after=MUCH_LATER)
            case f.NotSent() | f.Uncertain():
                return NotShown(str(error), retry_after=SOON)
            case _:
                _log.warning("slack.refused", method=error.method, reason=error.reason)
                return message.refusal(error, retry_after=LATER)


TEXT = 7_500
"""Code points of an answer's text in one message: escaping adds half as much at worst."""
MAX_SEARCHES = 5
"""Searches of a thread for a message before people are warned that it may be there twice."""
_DELETED = "deleted"
_NOT_FOUND = "message_not_found"
_MESSAGE_GONE = (_NOT_FOUND, "message_not_owned_by_app", "cant_update_message", "edit_window_closed")
_UNSURE = "It is not certain that this part of the answer is shown once: Slack could not be asked."
_SLACK = Actor("slack", "service")


class StatusPort(Protocol):
    """The status of the session in Slack: `note` records one that a stream has set, `begin` sets `processing`."""

    def note(self, status: str) -> None: ...
    def begin(self) -> None: ...


class RunCanceller(Protocol):
    """The runs whose answers are shown."""

    async def cancel(self, run: str, *, by: Actor, reason: str | None = None) -> object: ...


class SlackOutbox:
    """The messages of one session in one thread; *place* says where the session's rows are in *ledger*."""

    def __init__(
        self,
        workspace: Workspace,
        thread: Thread,
        ledger: Ledger,
        place: OwnedPlace,
        clock: Clock,
        *,
        status: StatusPort,
        runs: RunCanceller,
        charts: ChartPorts = NO_CHARTS,
    ) -> None:
        self.limits = MessageLimits(edit_every=limits.APPEND_EVERY, text=TEXT, age=float(limits.STREAM_ROLL_AGE))
        self._space, self._api, self._calls = workspace, workspace.api, ThreadCalls(workspace, thread)
        self._figures = ThreadFigures(ThreadFiles(workspace, thread, ledger, place, clock), charts, clock)
        self._thread, self._ledger, self._place, self._clock = thread, ledger, place, clock
        self._status, self._runs = status, runs
        self._recipient = StreamRecipient(thread, ledger, place)
        self._messages: dict[str, ThreadMessage] = {}
        self._sending: asyncio.Future[None] | None = None

    async def entries(self) -> list[LedgerEntry]:
        return await self._ledger.entries(self._place)

    async def plan(self, *entries: LedgerEntry) -> None:
        await self._ledger.put(self._place, *entries)

    async def show(self, entry: LedgerEntry, body: ConversationView, /) -> None:
        """Show *body*; a caller that is cancelled does not interrupt the step."""
        self._sending = task = asyncio.ensure_future(self._show(entry, body))
        await asyncio.shield(task)

    async def settle(self, seconds: float) -> None:
        """Wait up to *seconds* for the step that is under way, then cancel it."""
        if self._sending is not None and not self._sending.done():
            await asyncio.wait((self._sending,), timeout=seconds)
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)

    async def close(self) -> None:
        """End the work on files; what is not finished continues with the next start."""
        await self._figures.close()

    async def _show(self, entry: LedgerEntry, body: ConversationView) -> None:
        message = self._messages.setdefault(entry.id, ThreadMessage(entry))
        self._recipient.note(body)
        drawn = await self._figures.items(body)
        if entry.ref is not None:
            await self._edit(message, body, drawn)
        else:
            await self._keep(message)
            await self._send(message, body, drawn)
        wanted = self._picture(body, drawn, message) if drawn and entry.mode != _DELETED else None
        if wanted is not None and (self._figures.share(drawn, wanted.items) or message.differs_from(wanted)):
            raise Unfinished("A picture or a file is still to come.", retry_after=LOOK)
        if body.closed and all(run.ended for run in body.runs):
            await self._keep(message, state="closed")

    async def _send(self, message: ThreadMessage, body: ConversationView, drawn: DrawnItems) -> None:
        """Show *body* as a new message, unless it turns out that it was sent before."""
        if message.entry.state != "planned" and (ts := await self._find(message)) is not None:
            await self._keep(message, state="acknowledged", ref=ts)
            await self._edit(message, body, drawn)
            return
        wanted = self._picture(body, drawn, message)
        may_stream = not (wanted.closed or message.unsure) and self._space.can_stream(self._thread.channel)
        if not (may_stream and await self._start(message, wanted)):
            await self._post(message, wanted)

    async def _edit(self, message: ThreadMessage, body: ConversationView, drawn: DrawnItems) -> None:
        entry, streams = message.entry, message.entry.mode == "stream"
        wanted = self._picture(body, drawn, message)
        current = message.last.items if message.last is not None else ()
        is_due = wanted.closed and wanted.feedback is not None and None in drawn.values()
        if streams and is_due and message.waits(self._clock.now()):
            wanted = replace(wanted, closed=False)
        ordered = replace(wanted, items=as_sent(current, wanted.items, streams=streams))
        if entry.mode == _DELETED or (ordered == message.last and entry.state != "uncertain"):
            return
        if not streams:
            await self._update(message, wanted)
            return
        wanted = ordered
        if not wanted.closed:
            wanted = replace(wanted, items=never_shorter(current, wanted.items))
        chunks = tail(current, wanted.items) if entry.state == "acknowledged" and current else None
        if chunks is None:
            await self._repair(message, wanted)
        elif wanted.closed:
            await self._stop(message, wanted, chunks)
        elif chunks:
            await self._append(message, wanted, chunks)

    # ---- streams --------------------------------------------------------------------------------

    async def _start(self, message: ThreadMessage, wanted: MessagePicture) -> bool:
        """Begin a stream; return False when this thread does not take one."""
        chunks = tail((), wanted.items)
        if not chunks:
            raise Deferred("No word of it is complete yet.")
        user, team = await self._recipient.ids()
        await self._calls.admit("chat.startStream")
        await self._keep(
            message, state="sent", mode="stream", sent_to=wanted.length, acked_to=0, began_at=self._clock.now()
        )
        try:
            ts = await self._api.start_stream(
                self._thread.channel, self._thread.root, chunks, recipient_user=user, recipient_team=team
            )
        except f.Uncertain as error:
            await self._keep(message, state="uncertain")
            raise NotShown(str(error), retry_after=SOON) from None
        except (f.NoStreaming, f.BadBlocks, f.TextTooLong, f.SlackRefused) as error:
            await self._unsent(message)
            self._step(error, {"chunks": chunks}, message, wanted)
            self._space.note_no_stream(self._thread.channel, error)
            return False
        except f.SlackFailure as error:
            await self._unsent(message)
            raise self._calls.not_shown(error, message) from None
        message.last, message.at = wanted, self._clock.now()
        self._status.note("processing")
        await self._keep(message, state="acknowledged", ref=ts, acked_to=wanted.length)
        return True

    async def _append(self, message: ThreadMessage, wanted: MessagePicture, chunks: list[dict[str, Any]]) -> None:
        self._calls.offer("chat.appendStream")
        await self._keep(message, state="sent", sent_to=wanted.length)
        call = self._api.append_stream(self._thread.channel, message.ts, chunks)
        if await self._streamed(call, {"chunks": chunks}, message, wanted):
            # Persisted with the next step: after a kill before it an update repairs the message, with the same result.
            message.entry.state, message.entry.acked_to = "acknowledged", wanted.length

    async def _stop(self, message: ThreadMessage, wanted: MessagePicture, chunks: list[dict[str, Any]]) -> None:
        """End a stream with its last words and what is shown below them."""
        await self._calls.admit("chat.stopStream")
        await self._keep(message, state="sent", sent_to=wanted.length)
        status = None if wanted.status == "processing" else wanted.status
        last = self._api.stop_stream(
            self._thread.channel,
            message.ts,
            chunks=chunks or None,
            blocks=wanted.rows() or None,
            metadata=mark(message.entry.id),
            session_status=status,
        )
        if not await self._streamed(last, {"chunks": chunks}, message, wanted):
            return
        await self._keep(message, state="acknowledged", mode="post", acked_to=wanted.length)
        self._status.note(status or "active")
        if status is None:
            self._status.begin()

    async def _streamed(
        self, call: Awaitable[None], sent: Mapping[str, Any], message: ThreadMessage, wanted: MessagePicture
    ) -> bool:
        """Return whether the stream took what *call* sends; if it takes no more, *wanted* is shown by an update."""
        try:
            await call
        except (f.Limited, f.NotSent) as error:
            await self._keep(message, state="acknowledged", sent_to=message.entry.acked_to)
            raise self._calls.not_shown(error, message) from None
        except (f.TargetMissing, f.Unauthorised) as error:
            await self._gone(error, message, wanted)
            return False
        except f.SlackFailure as error:
            if isinstance(error, f.StoppedByUser):
                await self._cancel(wanted)
            if isinstance(error, f.BadBlocks):  # it was not executed
                await self._keep(message, state="acknowledged", sent_to=message.entry.acked_to)
                self._step(error, sent, message, wanted)
            await self._repair(message, wanted)
            return False
        message.last, message.at = wanted, self._clock.now()
        return True

    async def _repair(self, message: ThreadMessage, wanted: MessagePicture) -> None:
        """End the stream, whatever it shows, and overwrite the whole message."""
        await self._keep(message, state="uncertain", mode="stream")
        await self._end(message)
        if wanted.status == "processing":
            self._status.begin()
        message.entry.mode, message.at = "post", 0
        await self._update(message, wanted, repairs=True)

    async def _end(self, message: ThreadMessage) -> None:
        await self._calls.admit("chat.stopStream")
        try:
            await self._api.stop_stream(self._thread.channel, message.ts)
        except (f.Expired, f.StoppedByUser, f.SlackRefused, f.BadBlocks):
            return  # it had ended before
        except f.SlackFailure as error:
            if error.reason in _MESSAGE_GONE:
                return  # whether it is there the next call shows
            raise self._calls.not_shown(error, message) from None
        self._status.note("active")

    # ---- posts and updates ----------------------------------------------------------------------

    async def _post(self, message: ThreadMessage, wanted: MessagePicture) -> None:
        payload = wanted.payload(allow_mentions=self._thread.allow_mentions)
        while True:
            await self._calls.admit(POST)
            await self._keep(message, state="sent", mode="post", sent_to=wanted.length, began_at=self._clock.now())
            try:
                ts = await self._api.post(
                    self._thread.channel,
                    payload.text,
                    blocks=payload.blocks or None,
                    thread_ts=self._thread.root,
                    metadata=mark(message.entry.id),
                )
            except f.Uncertain as error:
                await self._keep(message, state="uncertain")
                raise NotShown(str(error), retry_after=SOON) from None
            except f.SlackFailure as error:
                await self._unsent(message)
                payload = self._plainer(payload, error, message, wanted)
                continue
            break
        message.last, message.at = wanted, self._clock.now()
        await self._keep(message, state="acknowledged", ref=ts, acked_to=wanted.length, began_at=None)  # no ageing

    async def _update(self, message: ThreadMessage, wanted: MessagePicture, *, repairs: bool = False) -> None:
        """Overwrite the whole message; idempotent."""
        is_edit = not (wanted.closed or repairs)
        since = (self._clock.now() - message.at) / 1000
        if is_edit and since < limits.EDIT_EVERY:
            raise Deferred("Edits are slower than appends.", retry_after=limits.EDIT_EVERY - since)
        payload = wanted.payload(allow_mentions=self._thread.allow_mentions)
        message.entry.began_at = None
        while True:
            text = update_text(payload, wanted)
            if is_edit:
                self._calls.offer("chat.update")
            else:
                await self._calls.admit("chat.update")
            await self._keep(message, state="sent", mode="post", sent_to=wanted.length)
            try:
                await self._api.update(
                    self._thread.channel,
                    message.ts,
                    text,
                    blocks=payload.blocks or None,
                    metadata=mark(message.entry.id),
                )
            except f.Streaming:
                await self._end(message)
                continue
            except f.TargetMissing as error:
                await self._gone(error, message, wanted)
                return
            except f.SlackFailure as error:
                payload = self._plainer(payload, error, message, wanted)
                continue
            break
        message.last, message.at, message.refused = wanted, self._clock.now(), 0
        await self._keep(message, state="repaired" if repairs else "acknowledged", acked_to=wanted.length)

    def _step(
        self, error: f.SlackFailure, call: Mapping[str, Any], message: ThreadMessage, wanted: MessagePicture
    ) -> None:
        """Raise `NotShown` when a table or a chart of the refused *call* has a plainer form now."""
        current = message.last.items if message.last is not None else ()
        if isinstance(error, f.BadBlocks) and self._figures.step(error, call, wanted.items, current):
            raise NotShown(str(error))

    def _plainer(
        self, payload: Payload, error: f.SlackFailure, message: ThreadMessage, wanted: MessagePicture
    ) -> Payload:
        """Return a plainer form of *payload*; raises what *error* means when there is none."""
        self._step(error, {"blocks": payload.blocks}, message, wanted)
        if isinstance(error, (f.BadBlocks, f.TextTooLong)):
            pointer = error.pointers[0] if isinstance(error, f.BadBlocks) and error.pointers else None
            if (plain := plainer(payload, pointer)) is not None:
                _log.warning("slack.blocks_refused", method=error.method, reason=error.reason)
                return plain
        raise self._calls.not_shown(error, message)

    # ---- what happened to a message -------------------------------------------------------------

    async def _find(self, message: ThreadMessage) -> str | None:
        """Search the thread for a message that may have been sent; None when it is missing, or that cannot be known."""
        refs = {each.ref for each in await self.entries() if each.ref is not None}
        try:
            ts = await find(self._space, self._thread, message.entry, others=refs)
        except f.TargetMissing as error:
            raise self._calls.not_shown(error, message) from None
        except f.SlackFailure as error:
            if isinstance(error, f.Unauthorised):
                self._space.log_missing(error)
            message.looks += 1
            if message.looks < MAX_SEARCHES or message.unsure:  # post it once more at most: two copies, never three
                wait = min(SOON * 2**message.looks, MUCH_LATER)
                raise NotShown(str(error), retry_after=getattr(error, "retry_after", wait)) from None
            message.unsure = True
            return None
        message.looks = 0
        return ts

    async def _gone(self, error: f.SlackFailure, message: ThreadMessage, wanted: MessagePicture) -> None:
        """Stop the run of a message that was deleted, and leave it deleted; raises what any other *error* means.

        Slack may say so of a message that is there: the thread is asked before it is believed.
        """
        if error.reason not in _MESSAGE_GONE:
            raise self._calls.not_shown(error, message) from None
        if error.reason == _NOT_FOUND and await self._calls.is_there(message):
            refusal = message.refusal(error, retry_after=SOON)
            await self._keep(message, state="uncertain")
            raise refusal
        if message.entry.mode == "stream":
            with suppress(NotShown, GaveUp):  # for a message that is gone this is no more than a precaution
                await self._end(message)
        _log.info("slack.deleted", team=self._space.team, delivery=message.entry.id)
        await self._keep(message, state="acknowledged", mode=_DELETED)
        await self._cancel(wanted)

    async def _cancel(self, wanted: MessagePicture) -> None:
        """Cancel the run that *wanted* shows: the event that a person stopped it may come later, or never."""
        if wanted.run is not None:
            with suppress(NotFound):
                await self._runs.cancel(wanted.run, by=_SLACK, reason="stopped in Slack")

    def _picture(self, body: ConversationView, drawn: DrawnItems, message: ThreadMessage) -> MessagePicture:
        made = picture(body, allow_mentions=self._thread.allow_mentions, drawn=drawn)
        return replace(made, notice=f"{_UNSURE} {made.notice}".strip()) if message.unsure else made

    async def _keep(self, message: ThreadMessage, **values: Any) -> None:
        """Set *values* of the row and persist it."""
        for name, value in values.items():
            setattr(message.entry, name, value)
        await self.plan(message.entry)

    async def _unsent(self, message: ThreadMessage) -> None:
        await self._keep(message, state="planned", mode=None, sent_to=0, began_at=None)
