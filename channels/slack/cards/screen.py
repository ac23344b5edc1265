"""One card brought up to date in its place, each of its messages posted once.

A message is asked for only after that is kept; one whose answer was lost is looked for by its metadata before it is
posted again. An update may be repeated.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import structlog

from agent_core import Clock
from channels.slack.cards.blocks import CardMessage
from channels.slack.cards.rows import PLANNED, SENT, Card, CardRows
from channels.slack.outbound.finding import SKEW, mark, marked
from channels.slack.web_api import failures as f
from channels.slack.web_api.client import Json
from channels.slack.web_api.pace import Lane
from channels.slack.web_api.workspaces import Workspace

LOOKS = 5
"""Times that a place is looked through for a message before it is posted again: two questions do no harm."""
PAGES = 10
_DELETED = ("message_not_found", "message_not_owned_by_app", "cant_update_message", "edit_window_closed")
_PERSON = ("U", "W")
_log = structlog.get_logger("parley.slack")


class CardScreen:
    """Shows one card, which is in the hands of this process; *card* is its row as it is by now."""

    def __init__(self, rows: CardRows, space: Workspace, clock: Clock, card: Card) -> None:
        self.card = card
        self._rows, self._space, self._clock = rows, space, clock

    async def open(self) -> None:
        """Learn where the card's messages are, and how many there are by now; raises a `SlackFailure`."""
        spot = self.card.spot
        if spot.channel.startswith(_PERSON) and spot.dm is None:
            await self._admit("conversations.open", Lane.FIRST)
            dm = await self._space.api.open_dm(spot.channel)
            self.card = await self._rows.keep(self.card, data=replace(spot, dm=dm).data())
        if self.card.state == SENT:
            ts = await self._looked_for()
            fields = {} if ts is None else {"refs": [*self.card.refs, ts], "shown": [*self.card.shown, ""]}
            self.card = await self._rows.keep(self.card, state=PLANNED, **fields)

    async def show(self, wanted: Sequence[CardMessage]) -> None:
        """Post what is not there, update what says something else; raises a `SlackFailure`."""
        for n, page in enumerate(wanted):
            if n >= len(self.card.refs):
                await self._post(n, page)
            elif self.card.shown[n] != page.digest:
                await self._update(n, page)

    async def _post(self, n: int, page: CardMessage) -> None:
        spot, root = self.card.spot, self._root(n)
        for tried in (page, page.plain):
            await self._admit("chat.postMessage", Lane.FIRST)
            self.card = await self._rows.keep(self.card, state=SENT, sent_at=self._clock.now())
            try:
                ts = await self._space.api.post(
                    spot.shown_in, tried.text, blocks=tried.blocks, thread_ts=root, metadata=self._mark(n)
                )
            except f.Uncertain:
                raise  # it may be there: who tries again looks for it
            except f.SlackFailure as error:
                self.card = await self._rows.keep(self.card, state=PLANNED)
                self._check_refused(error, last=tried is not page)
                continue
            refs, digests = [*self.card.refs, ts], [*self.card.shown, page.digest]
            self.card = await self._rows.keep(self.card, state=PLANNED, refs=refs, shown=digests)
            return

    async def _update(self, n: int, page: CardMessage) -> None:
        spot = self.card.spot
        for tried in (page, page.plain):
            await self._admit("chat.update", Lane.FINAL)
            try:
                await self._space.api.update(
                    spot.shown_in, self.card.refs[n], tried.text, blocks=tried.blocks, metadata=self._mark(n)
                )
            except f.SlackFailure as error:
                if error.reason not in _DELETED:  # by people: then there is nothing to bring up to date
                    self._check_refused(error, last=tried is not page)
                    continue
            digests = list(self.card.shown)
            digests[n] = page.digest
            self.card = await self._rows.keep(self.card, shown=digests)
            return

    def _check_refused(self, error: f.SlackFailure, *, last: bool) -> None:
        """Raise *error* unless it says that blocks were refused which have a plainer form."""
        if last or not isinstance(error, (f.BadBlocks, f.TextTooLong)):
            raise error
        _log.warning("slack.blocks_refused", method=error.method, reason=error.reason)

    async def _looked_for(self) -> str | None:
        """Return the `ts` of the message that was asked for last, None when it is not there or cannot be found out."""
        try:
            return await self._find(len(self.card.refs))
        except f.SlackFailure as error:
            if self.card.tries < LOOKS:
                raise
            _log.warning("slack.card_unsure", card=self.card.id, error=str(error))
            return None

    async def _find(self, n: int) -> str | None:
        spot, root, name = self.card.spot, self._root(n), self._name(n)
        since = max(0, (self.card.sent_at or 0) // 1000 - SKEW)
        api, cursor, oldest = self._space.api, None, f"{since}.000000"
        for _ in range(PAGES):
            await self._admit("conversations.history" if root is None else "conversations.replies", Lane.FINAL)
            if root is None:
                page = await api.history(spot.shown_in, oldest=oldest, cursor=cursor)
            else:
                page = await api.replies(spot.shown_in, root, oldest=oldest, cursor=cursor)
            matches = [each["ts"] for each in page.messages if self._is_ours(each) and marked(each) == name]
            cursor = page.cursor
            if matches or cursor is None:
                return matches[-1] if matches else None
        return None

    def _root(self, n: int) -> str | None:
        """Return the thread of the *n*th message: that of the place, else the one below the first."""
        return self.card.spot.root or (self.card.refs[0] if n else None)

    def _name(self, n: int) -> str:
        return f"{self.card.id}:{n}"

    def _mark(self, n: int) -> dict[str, Any]:
        return mark(self._name(n))

    def _is_ours(self, message: Json) -> bool:
        return message.get("user") == self._space.user

    async def _admit(self, method: str, lane: Lane) -> None:
        space, spot = self._space, self.card.spot
        await space.pacer.admit(method, space.team, spot.shown_in, lane, thread=spot.place)
