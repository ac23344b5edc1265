"""deliver: one thread as a screen. A message streams while that works, else it is posted and edited, each only once.

Every step is in the ledger before it is sent. What may have been sent is never sent again: an append whose answer was
lost ends the stream, and the whole message is written by an update, which can be repeated; a message whose answer was
lost is looked for in the thread before another one is posted.
"""

import asyncio
from collections.abc import Awaitable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import structlog

from agent_core import Clock, ParleyError
from channels.base import Body, Entry, Limits, NotShown, Ref
from channels.relay import Deferred, LedgerPort, TooLong
from channels.slack.outbound.blocks import Payload, plainer
from channels.slack.outbound.finding import find, mark
from channels.slack.outbound.known import Hears, Shown
from channels.slack.outbound.picture import Picture, picture, tail
from channels.slack.thread import Thread
from channels.slack.web_api import failures as f
from channels.slack.web_api import limits
from channels.slack.web_api.pace import Lane
from channels.slack.web_api.workspaces import Workspace

T = TypeVar("T")
TEXT = 7_500
"""Code points of an answer's text in one message: what makes it harmless adds half as much at the worst."""
LOOKS = 5
"""Times that a thread is looked through for a message before people are told that it may be there twice."""
REFUSALS = 5
"""Times that Slack may refuse a message before it is given up."""
_DELETED = "deleted"
_MESSAGE_GONE = ("message_not_found", "message_not_owned_by_app", "cant_update_message", "edit_window_closed")
_SOON, _LATER, _MUCH_LATER = 1.0, 5.0, 60.0
_UNSURE = "It is not certain that this part of the answer is shown once: Slack could not be asked."
_NOTHING = "…"
_CUT = "\n\n(Slack does not take the rest of this.)"
_LEAST = 64
"""Code points of text that are not divided any more."""
_FITS = 0.9
"""The part of the room in a text that is used when one is divided: not all parts of it are written alike."""
_log = structlog.get_logger("parley.slack")


class GaveUp(ParleyError):
    """The thread is not there any more, or not for us: nothing can be shown."""

    code = "thread_gone"


class ThreadScreen:
    """Shows one session in one thread."""

    def __init__(self, workspace: Workspace, thread: Thread, sheet: LedgerPort, clock: Clock, hears: Hears) -> None:
        self.limits = Limits(edit_every=limits.APPEND_EVERY.value, text=TEXT, age=float(limits.STREAM_ROLL_AGE.value))
        self._space, self._thread, self._sheet, self._clock = workspace, thread, sheet, clock
        self._api, self._pacer, self._hears = workspace.api, workspace.pacer, hears
        self._known: dict[str, Shown] = {}
        self._under_way: asyncio.Future[Any] | None = None

    async def post(self, _address: str, body: Body, entry: Entry, /) -> Ref:
        return await self._whole(self._posted(body, entry))

    async def edit(self, ref: Ref, body: Body, entry: Entry, /) -> None:
        await self._whole(self._edited(ref, body, entry))

    async def settle(self, seconds: float) -> None:
        """Let what is on its way to Slack come to its end and into the ledger, for *seconds* at most."""
        if self._under_way is not None and not self._under_way.done():
            await asyncio.wait((self._under_way,), timeout=seconds)
            self._under_way.cancel()
            await asyncio.gather(self._under_way, return_exceptions=True)

    async def _whole(self, step: Coroutine[Any, Any, T]) -> T:
        """Take one step that whoever waits for it may leave, but that is not cut in the middle."""
        self._under_way = task = asyncio.ensure_future(step)
        return await asyncio.shield(task)

    async def _posted(self, body: Body, entry: Entry) -> Ref:
        shown = self._known.setdefault(entry.id, Shown())
        if entry.state != "planned" and (ts := await self._found(entry, shown)) is not None:
            await self._keep(entry, state="acknowledged", ref=ts)
            await self._edited(Ref(ts), body, entry)
            return Ref(ts)
        wanted = self._picture(body, shown)
        if not (wanted.closed or shown.unsure) and self._can_stream():
            ts = await self._start(wanted, entry, shown)
            if ts is not None:
                return Ref(ts)
        return Ref(await self._post(wanted, entry, shown))

    async def _edited(self, ref: Ref, body: Body, entry: Entry) -> None:
        if entry.mode == _DELETED:
            return
        shown = self._known.setdefault(entry.id, Shown())
        wanted = self._picture(body, shown)
        if wanted == shown.last and entry.state != "uncertain":
            return
        if entry.mode != "stream":
            await self._update(ref, wanted, entry, shown)
            return
        chunks = tail(shown.items, wanted.items) if entry.state == "acknowledged" and shown.items else None
        if chunks is None:
            await self._repair(ref, wanted, entry, shown)
        elif wanted.closed:
            await self._stop(ref, wanted, chunks, entry, shown)
        elif chunks:
            await self._append(ref, wanted, chunks, entry, shown)

    # ---- streams --------------------------------------------------------------------------------

    async def _start(self, wanted: Picture, entry: Entry, shown: Shown) -> str | None:
        """Begin a stream and return its `ts`; None when there is to be none here."""
        chunks = tail((), wanted.items)
        if not chunks:
            raise Deferred("Nothing of it is whole yet.")
        thread = self._thread
        user = None if thread.is_dm else thread.user
        team = None if thread.is_dm else thread.user_team
        await self._admit("chat.startStream", Lane.FIRST)
        await self._keep(
            entry, state="sent", mode="stream", sent_to=wanted.length, acked_to=0, began_at=self._clock.now()
        )
        try:
            ts = await self._api.start_stream(
                thread.channel, thread.root, chunks, recipient_user=user, recipient_team=team
            )
        except f.Uncertain as error:
            await self._keep(entry, state="uncertain")
            raise NotShown(str(error), retry_after=_SOON) from None
        except (f.NoStreaming, f.BadBlocks, f.TooLong, f.Refused) as error:
            self._without_streams(error)
            await self._keep(entry, state="planned", mode=None, sent_to=0, began_at=None)
            return None
        except f.SlackFailure as error:
            await self._keep(entry, state="planned", mode=None, sent_to=0, began_at=None)
            raise self._not_shown(error, shown) from None
        shown.last, shown.at = wanted, self._clock.now()
        self._hears.told("processing")
        await self._keep(entry, state="acknowledged", ref=ts, acked_to=wanted.length)
        return ts

    async def _append(
        self, ref: Ref, wanted: Picture, chunks: list[dict[str, Any]], entry: Entry, shown: Shown
    ) -> None:
        await self._admit("chat.appendStream", Lane.EDIT)
        await self._keep(entry, state="sent", sent_to=wanted.length)
        if not await self._taken(self._api.append_stream(self._thread.channel, ref, chunks), ref, wanted, entry, shown):
            return
        # Kept with the next step: a kill before it repairs the message by an update, which shows the same.
        entry.state, entry.acked_to = "acknowledged", wanted.length

    async def _stop(self, ref: Ref, wanted: Picture, chunks: list[dict[str, Any]], entry: Entry, shown: Shown) -> None:
        """End a stream with its last words and what stands below them."""
        await self._admit("chat.stopStream", Lane.LIFECYCLE)
        await self._keep(entry, state="sent", sent_to=wanted.length)
        status = None if wanted.status == "processing" else wanted.status
        last = self._api.stop_stream(
            self._thread.channel,
            ref,
            chunks=chunks or None,
            blocks=wanted.rows() or None,
            metadata=mark(entry.id),
            session_status=status,
        )
        if not await self._taken(last, ref, wanted, entry, shown):
            return
        await self._keep(entry, state="acknowledged", mode="post", acked_to=wanted.length)
        self._hears.told(status or "active")
        if status is None:
            self._hears.ended()

    async def _taken(self, call: Awaitable[None], ref: Ref, wanted: Picture, entry: Entry, shown: Shown) -> bool:
        """Tell whether a stream took what *call* sends; if it takes no more, all is shown without it by then."""
        try:
            await call
        except (f.Limited, f.NotSent) as error:
            await self._keep(entry, state="acknowledged", sent_to=entry.acked_to)
            raise self._not_shown(error, shown) from None
        except f.SlackFailure as error:
            await self._broken(error, ref, wanted, entry, shown)
            return False
        shown.last, shown.at = wanted, self._clock.now()
        return True

    async def _broken(self, error: f.SlackFailure, ref: Ref, wanted: Picture, entry: Entry, shown: Shown) -> None:
        """Go on by updates when a stream takes no more, or when nobody knows whether it took the last piece."""
        if isinstance(error, (f.Gone, f.Unauthorised)):
            await self._gone(error, wanted, entry, shown)
            return
        if isinstance(error, f.StoppedByUser) and wanted.run is not None:
            await self._hears.stopped(wanted.run)
        await self._repair(ref, wanted, entry, shown)

    async def _gone(self, error: f.SlackFailure, wanted: Picture, entry: Entry, shown: Shown) -> None:
        """Stop a run whose message people deleted, and leave it so; raises what anything else means."""
        if error.reason not in _MESSAGE_GONE:
            raise self._not_shown(error, shown) from None
        _log.info("slack.deleted", team=self._space.team, delivery=entry.id)
        await self._keep(entry, state="acknowledged", mode=_DELETED)
        if wanted.run is not None:
            await self._hears.stopped(wanted.run)

    async def _repair(self, ref: Ref, wanted: Picture, entry: Entry, shown: Shown) -> None:
        """End the stream, whatever it shows, and write the whole message over it."""
        await self._keep(entry, state="uncertain", mode="stream")
        await self._end(ref, shown)
        if wanted.status == "processing":
            self._hears.ended()
        entry.mode, shown.at = "post", 0
        await self._update(ref, wanted, entry, shown, state="repaired")

    async def _end(self, ref: Ref, shown: Shown) -> None:
        await self._admit("chat.stopStream", Lane.LIFECYCLE)
        try:
            await self._api.stop_stream(self._thread.channel, ref)
        except (f.Expired, f.StoppedByUser, f.Refused, f.BadBlocks):
            return  # it is over
        except f.SlackFailure as error:
            raise self._not_shown(error, shown) from None
        self._hears.told("active")

    # ---- posts and updates ----------------------------------------------------------------------

    async def _post(self, wanted: Picture, entry: Entry, shown: Shown) -> str:
        """Post a message and return its `ts`."""
        payload = self._payload(wanted)
        while True:
            await self._admit("chat.postMessage", Lane.FINAL if wanted.closed else Lane.FIRST)
            await self._keep(entry, state="sent", mode="post", sent_to=wanted.length, began_at=self._clock.now())
            try:
                ts = await self._api.post(
                    self._thread.channel,
                    payload.text,
                    blocks=payload.blocks or None,
                    thread_ts=self._thread.root,
                    metadata=mark(entry.id),
                )
            except f.Uncertain as error:
                await self._keep(entry, state="uncertain")
                raise NotShown(str(error), retry_after=_SOON) from None
            except f.SlackFailure as error:
                await self._keep(entry, state="planned", mode=None, sent_to=0, began_at=None)
                payload = self._plainer(payload, error, shown)
                continue
            break
        shown.last, shown.at = wanted, self._clock.now()
        entry.began_at = None  # it does not age
        await self._keep(entry, state="acknowledged", ref=ts, acked_to=wanted.length)
        return ts

    async def _update(
        self, ref: Ref, wanted: Picture, entry: Entry, shown: Shown, *, state: str = "acknowledged"
    ) -> None:
        """Write the whole message anew; repeated it changes nothing."""
        lane = Lane.FINAL if wanted.closed or state == "repaired" else Lane.EDIT
        since = (self._clock.now() - shown.at) / 1000
        if lane is Lane.EDIT and since < limits.EDIT_EVERY.value:
            raise Deferred("Edits come slower.", retry_after=limits.EDIT_EVERY.value - since)
        payload = self._payload(wanted)
        entry.began_at = None
        while True:
            text = _text_of_update(payload, wanted)
            await self._admit("chat.update", lane)
            await self._keep(entry, state="sent", mode="post", sent_to=wanted.length)
            try:
                await self._api.update(
                    self._thread.channel, ref, text, blocks=payload.blocks or None, metadata=mark(entry.id)
                )
            except f.Streaming:
                await self._end(ref, shown)
                continue
            except f.Gone as error:
                await self._gone(error, wanted, entry, shown)
                return
            except f.SlackFailure as error:
                payload = self._plainer(payload, error, shown)
                continue
            break
        shown.last, shown.at, shown.refused = wanted, self._clock.now(), 0
        await self._keep(entry, state="repaired" if state == "repaired" else "acknowledged", acked_to=wanted.length)

    def _plainer(self, payload: Payload, error: f.SlackFailure, shown: Shown) -> Payload:
        """Return what may be taken in the place of *payload*; raises what *error* means when nothing is plainer."""
        if isinstance(error, (f.BadBlocks, f.TooLong)):
            pointer = error.pointers[0] if isinstance(error, f.BadBlocks) and error.pointers else None
            if (found := plainer(payload, pointer)) is not None:
                _log.warning("slack.blocks_refused", method=error.method, reason=error.reason)
                return found
        raise self._not_shown(error, shown)

    # ---- what may be there already --------------------------------------------------------------

    async def _found(self, entry: Entry, shown: Shown) -> str | None:
        """Look for a message in the thread that may have been sent; None when it is not there, or nobody can tell."""
        known = {each.ref for each in await self._sheet.entries() if each.ref is not None}
        admit = partial(self._admit, "conversations.replies", Lane.FINAL)
        try:
            found = await find(self._api, self._thread, entry, user=self._space.user, known=known, admit=admit)
        except f.Gone as error:
            raise self._not_shown(error, shown) from None
        except f.SlackFailure as error:
            if isinstance(error, f.Unauthorised):
                self._unauthorised(error)
            shown.looks += 1
            if shown.looks < LOOKS or shown.unsure:  # once only: it may be there twice, not more often
                wait = min(_SOON * 2**shown.looks, _MUCH_LATER)
                raise NotShown(str(error), retry_after=getattr(error, "retry_after", wait)) from None
            shown.unsure = True
            return None
        shown.looks = 0
        return found

    # ---- the rest -------------------------------------------------------------------------------

    def _picture(self, body: Body, shown: Shown) -> Picture:
        made = picture(body, allow_mentions=self._thread.allow_mentions)
        return replace(made, notice=f"{_UNSURE} {made.notice}".strip()) if shown.unsure else made

    def _payload(self, wanted: Picture) -> Payload:
        return wanted.payload(allow_mentions=self._thread.allow_mentions) or Payload((), _NOTHING)

    def _can_stream(self) -> bool:
        space = self._space
        return (
            space.streams
            and self._thread.channel not in space.without_streams
            and not self._pacer.nearly_spent("chat.startStream", space.team)
        )

    def _without_streams(self, error: f.SlackFailure) -> None:
        if isinstance(error, f.NoStreaming):
            if error.everywhere:
                self._space.streams = False
            else:
                self._space.without_streams.add(self._thread.channel)
        _log.info("slack.no_stream", team=self._space.team, reason=error.reason)

    async def _admit(self, method: str, lane: Lane) -> None:
        """Wait until *method* may be called; an edit is shown later instead, with what there is by then."""
        team, channel, thread = self._space.team, self._thread.channel, self._thread.address
        if lane is not Lane.EDIT:
            await self._pacer.admit(method, team, channel, lane, thread=thread)
        elif wait := self._pacer.offer(method, team, channel, thread=thread):
            raise Deferred("Others edit, too.", retry_after=wait)

    async def _keep(self, entry: Entry, **values: Any) -> None:
        for name, value in values.items():
            setattr(entry, name, value)
        await self._sheet.put(entry)

    def _not_shown(self, error: f.SlackFailure, shown: Shown) -> ParleyError:
        """Say what *error* means for the relay: again, later, or never."""
        match error:
            case f.Limited():
                self._pacer.penalty(error.method, self._space.team, error.retry_after)
                return NotShown(str(error), retry_after=error.retry_after)
            case f.Gone():
                return GaveUp(str(error))
            case f.Unauthorised():
                self._unauthorised(error)
                return NotShown(str(error), retry_after=_MUCH_LATER)
            case f.NotSent() | f.Uncertain():
                return NotShown(str(error), retry_after=_SOON)
            case _:
                _log.warning("slack.refused", method=error.method, reason=error.reason)
                shown.refused += 1
                return GaveUp(str(error)) if shown.refused >= REFUSALS else NotShown(str(error), retry_after=_LATER)

    def _unauthorised(self, error: f.Unauthorised) -> None:
        """Log what is missing, once: it stays so until somebody does something."""
        if str(error) not in self._space.missing:
            self._space.missing.add(str(error))
            _log.error("slack.unauthorised", team=self._space.team, remedy=str(error))


def _text_of_update(payload: Payload, wanted: Picture) -> str:
    """Return the text of one update, which takes less than a post does; raises `TooLong` where only the text shows."""
    most = limits.TEXT.value
    if payload.blocks or len(payload.text) <= most:
        return payload.text[:most]
    if wanted.length < _LEAST:  # it is not the answer that is long
        return payload.text[: most - len(_CUT)] + _CUT
    raise TooLong("Slack takes less text in an update.", part=_FITS * most / len(payload.text))
