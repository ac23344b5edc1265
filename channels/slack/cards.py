"""Cards: a question to people as messages of Slack, its arguments whole, its buttons below all of them; pure."""

import asyncio
import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import structlog
from sqlalchemy import Connection, Table, and_, case, select, update

from agent_core.clock import Clock
from agent_core.core import Core
from agent_core.errors import NotFound, ParleyError, Unavailable
from agent_core.events import ApprovalDecided, Fact, MessageCorrected
from agent_core.ids import new_id
from agent_core.messages import shorten
from agent_core.objects import ApprovalObject
from agent_core.traces import trace_of
from channels.delivery import PeriodicTask
from channels.ledger import LEASE, CardRow, LostPlace, PlaceRow
from channels.slack import api as f
from channels.slack import forms as w
from channels.slack import limits
from channels.slack.forms import (
    ALWAYS,
    APPROVE,
    CHOICES,
    DENY,
    EDIT,
    Json,
    Sentence,
    Value,
    buttons_of,
    fields,
    said,
    text,
)
from channels.slack.outbox import SKEW, mark, marked
from channels.slack.pace import POST, Workspace, Workspaces
from channels.slack.settings import Thread
from channels.spec import Records
from channels.text import unmistakable

ROOM = limits.RICH_TEXT - 2_000
"""Characters of arguments in one message; the rest is for the words around them."""
BOX = limits.SECTION_TEXT - 100
"""Characters of one box: no page says how many it may have, so as many as any text."""
ROWS = 100
"""Rows of arguments in one message."""
TEXT = limits.TEXT // 4
"""Characters of arguments in a notification."""
WORDS = 500
"""Characters of what the agent was asked."""
_GONE = "This question is not there any more."
_NOTHING = object()


@dataclass(frozen=True, slots=True)
class CardContext:
    """What a card says besides its question: *agent* is who asks, *origin* the channel of the conversation.

    *team* is the workspace that the card is shown in; one that is *careful* asks once more before a yes. *words* are
    what the agent was asked, *link* is the address of the conversation if that is elsewhere.
    """

    team: str
    agent: str
    origin: str | None = None
    careful: bool = True
    words: str = ""
    link: str | None = None


@dataclass(frozen=True, slots=True)
class CardMessage:
    """One message of a card; *text* is what notifications say of it."""

    blocks: tuple[Json, ...]
    text: str

    @property
    def digest(self) -> str:
        """Name what it shows."""
        return hashlib.sha256(json.dumps([self.blocks, self.text]).encode()).hexdigest()[:16]

    @property
    def plain(self) -> "CardMessage":
        """The same words without form, for a Slack that refuses the blocks, and the buttons."""
        words = "\n".join(_words(block) for block in self.blocks if block["type"] != "actions")
        sections = [{"type": "section", "text": _plain_text(piece)} for piece in _pieces(words)]
        return CardMessage((*sections, *(block for block in self.blocks if block["type"] == "actions")), self.text)


def pages(approval: ApprovalObject | None, about: CardContext, *, least: int = 1) -> list[CardMessage]:
    """Return the messages of a card, *least* or more: who asks what, every argument, and below the last the buttons.

    Once it is decided the first and the last say what became of it. None is a question that is not there any more.
    """
    if approval is None:
        return [CardMessage((_rich([text(_GONE)]),), _GONE)] * least
    bodies = list(_packed(_rows(approval)))
    notification, last = _notification_text(approval, about), len(bodies) - 1
    messages: list[CardMessage] = []
    for n, body in enumerate(bodies):
        head = _head(approval, about, alone=last == 0) if n == 0 else []
        tail = _tail(approval, about) if n == last else []
        fallback = notification if n == 0 else f"{notification.splitlines()[0]} ({n + 1} of {last + 1})"
        messages.append(CardMessage((*head, {"type": "rich_text", "elements": body}, *tail), fallback))
    return [*messages, *[CardMessage(tuple(_tail(approval, about)), notification)] * (least - len(messages))]


def _head(approval: ApprovalObject, about: CardContext, *, alone: bool) -> list[Json]:
    title = unmistakable(" ".join(approval.title.split()))[: limits.HEADER_TEXT]
    blocks: list[Json] = [{"type": "header", "text": _plain_text(title)}]
    if approval.status != "open" and not alone:
        blocks.append(_outcome(approval, about))
    is_form = approval.form is not None
    whom = [text(" " if is_form else " for "), w.name(approval.asker)] if approval.asker else []
    where = [text(" in "), {"type": "channel", "channel_id": about.origin}] if about.origin else []
    who = [text(about.agent, bold=True), text(" asks"), *whom, *where]
    tool, end = text(unmistakable(approval.tool), code=True), text(" needs." if is_form else ".")
    blocks.append(_rich([*who, text(" what " if is_form else " to use "), tool, end]))
    if about.words and approval.status == "open":  # what is decided keeps no copy of what its author may delete
        blocks[-1]["elements"].append({"type": "rich_text_quote", "elements": [text(_quoted(about.words))]})
    if about.link:
        blocks.append(_rich([{"type": "link", "url": about.link, "text": "Open the conversation"}]))
    if approval.detail:
        blocks.append(_rich([text(unmistakable(approval.detail))]))
    if not alone:
        continues_below = "Its arguments continue in the messages below; the buttons are below the last one."
        blocks.append({"type": "context", "elements": [_plain_text(continues_below)]})
    return blocks


def _quoted(words: str) -> str:
    return shorten(unmistakable(words.strip()), WORDS)


def _tail(approval: ApprovalObject, about: CardContext) -> list[Json]:
    if approval.status != "open":
        return [_outcome(approval, about)]
    does = "To decide" if approval.form is None else "To answer"
    may: Sentence = [text(f"{does}: "), *w.responders(approval, about.team), text(". Open until ")]
    counted = w.votes(approval, about.team)
    words = [*may, w.date(approval.expires_at), text("."), *([text("\n"), *counted] if counted else [])]
    return [_rich(words), {"type": "actions", "elements": list(_buttons(approval, about))}]


def _outcome(approval: ApprovalObject, about: CardContext) -> Json:
    block = _rich(w.outcome(approval, about.team))
    if approval.reason:
        block["elements"].append({"type": "rich_text_quote", "elements": [text(unmistakable(approval.reason))]})
    return block


def _buttons(approval: ApprovalObject, about: CardContext) -> Iterator[Json]:
    if approval.form is not None:
        for action, (_, label) in zip(CHOICES, answers := buttons_of(approval), strict=False):
            yield _button(approval, action, label, None, None)
        if not answers:
            yield _button(approval, EDIT, "Answer…", "primary", None)
        yield _button(approval, DENY, "Decline…", "danger", None)
        return
    tool = unmistakable(approval.tool)
    sure = (
        f"{tool} runs at once, with what the card says." if approval.quorum == 1 else f"It counts as one yes to {tool}."
    )
    yield _button(approval, APPROVE, "Approve", "primary", (f"Run {tool}?", sure) if about.careful else None)
    if approval.remember:
        permanent = f"{tool} runs now, and no further call of it in this conversation needs an approval."
        yield _button(approval, ALWAYS, "Approve for this conversation", None, (f"Always run {tool} here?", permanent))
    if approval.edit:
        yield _button(approval, EDIT, "Edit…", None, None)
    yield _button(approval, DENY, "Deny…", "danger", None)


def _button(approval: ApprovalObject, action: str, label: str, style: str | None, sure: tuple[str, str] | None) -> Json:
    made: Json = {"type": "button", "action_id": action, "value": approval.id, "text": _plain_text(label)}
    if style is not None:
        made["style"] = style
    if sure is not None:
        title, words = sure
        made["confirm"] = {
            "title": _plain_text(title[: limits.CONFIRM_TITLE]),
            "text": _plain_text(words[: limits.CONFIRM_TEXT]),
            "confirm": _plain_text("Approve"),
            "deny": _plain_text("Back"),
        }
    return made


def _notification_text(approval: ApprovalObject, about: CardContext) -> str:
    """Return what notifications say: the question, its outcome, and as much of the arguments as there is room for."""
    lines = [w.mrkdwn([text(unmistakable(" ".join(approval.title.split())))])]
    if approval.status != "open":
        lines.append(w.mrkdwn(w.outcome(approval, about.team)))
    arguments = "\n".join(map(str, w.values(approval.arguments if approval.form is None else said(approval))))
    more = "… (the card has all of it)" if len(arguments) > TEXT else ""
    return "\n".join([*lines, w.mrkdwn([text(arguments[:TEXT])]) + more]).strip()


# ---- arguments ------------------------------------------------------------------------------------


def _rows(approval: ApprovalObject) -> Iterator[Json]:
    """Give the arguments that run, and below them those that were asked for in the place of corrected ones.

    Of a form they are its fields until it is answered, and the answer then.
    """
    if approval.form is not None:
        rows = list(_fields(approval) if approval.status != "approved" else _values(said(approval)))
        yield from rows or [_section([text("There is nothing to fill in.")])]
        return
    if not approval.arguments:
        yield _section([text("It is called with nothing.")])
    yield from _values(approval.arguments)
    before = {name: value for name, value in approval.asked.items() if approval.arguments.get(name, _NOTHING) != value}
    if before:
        yield _section([text("Asked for was:", italic=True)])
        yield from _values(before)
    if added := [unmistakable(name) for name in approval.arguments if name not in approval.asked]:
        names = ", ".join(added)
        yield _section([text(f"Not asked for: {names if len(names) <= w.INLINE else len(added)}", italic=True)])


def _fields(approval: ApprovalObject) -> Iterator[Json]:
    given = said(approval) if not buttons_of(approval) else {}
    for each in fields(approval, approval.form or {}):
        free = [] if each.required else [text(" (optional)")]
        more = [each.hint] if each.hint else []
        more += [f"at first {given[each.label]}"] if each.label in given else []
        yield _section([text(each.label, bold=True), *free, *([text(f": {'; '.join(more)}")] if more else [])])


def _values(arguments: dict[str, Any]) -> Iterator[Json]:
    for value in w.values(arguments):
        if value.box:
            yield from _boxes(value)
        else:
            yield _section([text(f"{value.name}: ", bold=True), text(value.text, **value.style)])
        if value.doubt:
            yield _section([text(f"Look closely: {value.name} {value.doubt}.", italic=True)])


def _boxes(value: Value) -> Iterator[Json]:
    pieces = list(_pieces(value.text))
    for n, piece in enumerate(pieces, 1):
        part = f", part {n} of {len(pieces)}" if len(pieces) > 1 else ""
        yield _section([text(value.name, bold=True), text(f" ({len(value.text):,} characters{part}):")])
        yield {"type": "rich_text_preformatted", "elements": [text(piece)]}


def _pieces(words: str) -> Iterator[str]:
    """Cut *words* where a line ends, else anywhere; the pieces together are all of it."""
    rest = words
    while len(rest) > BOX:
        at = rest.rfind("\n", BOX // 2, BOX) + 1 or BOX
        yield rest[:at]
        rest = rest[at:]
    yield rest


def _packed(rows: Iterable[Json]) -> Iterator[list[Json]]:
    """Put as many rows into one message as it holds; lines that follow one another are one section."""
    taken: list[Json] = []
    size = count = 0
    for row in rows:
        length = len(_words(row))
        if taken and (size + length > ROOM or count >= ROWS):
            yield taken
            taken, size, count = [], 0, 0
        if taken and taken[-1]["type"] == row["type"] == "rich_text_section":
            taken[-1] = _section([*taken[-1]["elements"], text("\n"), *row["elements"]])
        else:
            taken.append(row)
        size, count = size + length + 1, count + 1
    yield taken


def _words(part: Json) -> str:
    """Return the words of a part of a block."""
    if part["type"] == "link":
        return f"{part['text']}: {part['url']}"
    if "elements" in part:
        return ("\n" if part["type"] == "rich_text" else "").join(map(_words, part["elements"]))
    words = part.get("text") or part.get("fallback") or w.mrkdwn([part])
    return words if isinstance(words, str) else _words(words)


def _section(sentence: Sentence) -> Json:
    return {"type": "rich_text_section", "elements": sentence}


def _rich(sentence: Sentence) -> Json:
    return {"type": "rich_text", "elements": [_section(sentence)]}


def _plain_text(words: str) -> Json:
    return {"type": "plain_text", "text": words, "emoji": False}


CHANNEL = "slack"
PLANNED, SENT, SHOWN, SETTLED = "planned", "sent", "shown", "settled"
_CARD: Table = vars(CardRow)["__table__"]
_PLACE: Table = vars(PlaceRow)["__table__"]
_KEPT = ("key", "id", "session", "approval", "data", "refs", "shown", "state", "version", "tries", "sent_at", "epoch")


@dataclass(frozen=True, slots=True)
class Spot:
    """A place of a card: a *channel* or a user of the workspace *team*, in the thread at *root* or at the top.

    With a user the messages are in the conversation *dm*, once that is known.
    """

    team: str
    channel: str
    root: str | None = None
    dm: str | None = None

    @property
    def place(self) -> str:
        return f"{CHANNEL}:{self.team}:{self.channel}" + (f":{self.root}" if self.root else "")

    @property
    def shown_in(self) -> str:
        """The channel that its messages are in."""
        return self.dm or self.channel

    def data(self) -> dict[str, Any]:
        return {"team": self.team, "channel": self.channel, "root": self.root, "dm": self.dm}


@dataclass(frozen=True, slots=True)
class Card:
    """A card in the hands of this process since *epoch*; see `CardRow`."""

    key: int
    id: str
    session: str
    approval: str
    data: Mapping[str, Any]
    refs: tuple[str, ...]
    shown: tuple[str, ...]
    state: str
    version: str
    tries: int
    sent_at: int | None
    epoch: int

    @property
    def spot(self) -> Spot:
        return Spot(**self.data)


class Unsettled(NamedTuple):
    """What is to be known of a card to see whether it is up to date."""

    key: int
    approval: str
    session: str
    state: str
    version: str


class CardRows:
    """The rows of all cards in Slack."""

    def __init__(self, records: Records, clock: Clock, *, owner: str | None = None) -> None:
        self._records, self._clock, self._owner = records, clock, owner or new_id("own")

    async def thread_of(self, session: str) -> Mapping[str, Any] | None:
        """Return the thread that *session* is shown in, if it is one of Slack's."""
        query = select(_PLACE.c.data).where(_PLACE.c.session == session, _PLACE.c.channel == CHANNEL)
        return await self._records.read(lambda connection: connection.execute(query).scalar())

    async def rests(self, session: str) -> bool:
        """Return whether the thread of *session* shows all that there is before people decide."""
        resting = and_(_PLACE.c.waits_at.is_not(None), _PLACE.c.wanted_at.is_(None))
        query = select(_PLACE.c.key).where(_PLACE.c.session == session, resting)
        return await self._records.read(lambda connection: connection.execute(query).first() is not None)

    async def plan(self, approval: str, session: str, spots: Iterable[Spot]) -> None:
        """Note where an approval is to be asked; what is noted already stays as it is."""
        rows = [_row(approval, session, spot) for spot in {spot.place: spot for spot in spots}.values()]
        if rows:
            await self._records.write(lambda connection: _insert(connection, rows))

    async def unsettled(self) -> list[Unsettled]:
        """Return the cards that may change and that no process works on."""
        columns = (_CARD.c.key, _CARD.c.approval, _CARD.c.session, _CARD.c.state, _CARD.c.version)
        free = and_(_CARD.c.channel == CHANNEL, _CARD.c.state != SETTLED, _CARD.c.until <= self._clock.now())
        query = select(*columns).where(free).order_by(_CARD.c.key)

        def work(connection: Connection) -> list[Unsettled]:
            return [Unsettled(*row) for row in connection.execute(query)]

        return await self._records.read(work)

    async def outdate(self, sessions: Collection[str]) -> None:
        """Have the cards of *sessions* shown again, those too that are being shown: what they quote has changed."""
        open_ones = and_(_CARD.c.channel == CHANNEL, _CARD.c.session.in_(sessions), _CARD.c.state != SETTLED)
        # No version is like it, so that a process that shows the card as it was cannot note it as up to date.
        change = update(_CARD).where(open_ones).values(version=new_id("old"))
        await self._records.write(lambda connection: connection.execute(change) and None)

    async def claim(self, keys: Collection[int]) -> list[Card]:
        """Claim those of *keys* that no process works on."""
        now = self._clock.now()
        free = select(_CARD.c.key).where(_CARD.c.key.in_(keys), _CARD.c.until <= now, _CARD.c.state != SETTLED)
        taken = {"owner": self._owner, "until": now + LEASE, "epoch": _CARD.c.epoch + 1}

        def work(connection: Connection) -> list[Card]:
            keys = connection.execute(free.with_for_update(skip_locked=True)).scalars().all()
            if not keys:
                return []
            rows = connection.execute(update(_CARD).where(_CARD.c.key.in_(keys)).values(taken).returning(_CARD))
            return sorted(map(_card, rows), key=lambda card: card.key)

        return await self._records.write(work)

    async def keep(self, card: Card, **values: Any) -> Card:
        """Write *values* and keep the card for a while longer; raises `LostPlace` when another process has it."""
        return await self._put(card, {"until": self._clock.now() + LEASE, **values})

    async def leave(self, card: Card, *, again: float = 0.0, **values: Any) -> None:
        """Write *values* and let the card go, to be looked at in *again* seconds at the earliest.

        A version is written only where the row's is still that of *card*: else it was outdated while it was shown.
        """
        if (version := values.get("version")) is not None:
            values["version"] = case((_CARD.c.version == card.version, version), else_=_CARD.c.version)
        await self._put(card, {"owner": None, "until": self._clock.now() + int(again * 1000), **values})

    async def is_shown(self, approval: str, team: str, channel: str) -> bool:
        """Return whether an approval is asked in *channel* of *team*."""
        query = select(_CARD.c.data).where(_CARD.c.approval == approval, _CARD.c.channel == CHANNEL)

        def work(connection: Connection) -> bool:
            spots = [Spot(**data) for data in connection.execute(query).scalars()]
            return any(spot.team == team and channel == spot.shown_in for spot in spots)

        return await self._records.read(work)

    async def vacate(self) -> None:
        """Release every claimed card: its owner is gone, since this process is the only one."""
        await self._free(_CARD.c.owner.is_not(None))

    async def release(self) -> None:
        """Let others have what this process works on: it ends."""
        await self._free(_CARD.c.owner == self._owner)

    async def _free(self, which: Any) -> None:
        change = update(_CARD).where(_CARD.c.channel == CHANNEL, which).values(owner=None, until=0)
        await self._records.write(lambda connection: connection.execute(change) and None)

    async def _put(self, card: Card, values: dict[str, Any]) -> Card:
        mine = and_(_CARD.c.key == card.key, _CARD.c.epoch == card.epoch, _CARD.c.owner == self._owner)
        change = update(_CARD).where(mine).values(values).returning(_CARD)

        def work(connection: Connection) -> Card:
            if (row := connection.execute(change).first()) is None:
                raise LostPlace(f"The card `{card.id}` is in the hands of another process now.")
            return _card(row)

        return await self._records.write(work)


def _insert(connection: Connection, rows: list[dict[str, Any]]) -> None:
    """Insert what is not there yet: two processes may have seen the same question."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert  # noqa: PLC0415 - megabytes that SQLite does without
    else:
        from sqlalchemy.dialects.sqlite import insert  # noqa: PLC0415 - as above
    connection.execute(insert(_CARD).values(rows).on_conflict_do_nothing())


def _row(approval: str, session: str, spot: Spot) -> dict[str, Any]:
    empty: dict[str, Any] = {"refs": [], "shown": [], "version": "", "tries": 0, "until": 0, "epoch": 0}
    about = {"id": new_id("crd"), "channel": CHANNEL, "session": session, "approval": approval}
    return {**about, **empty, "place": spot.place, "data": spot.data(), "state": PLANNED}


def _card(row: Any) -> Card:
    values: dict[str, Any] = {name: getattr(row, name) for name in _KEPT}
    values |= {"refs": tuple(row.refs), "shown": tuple(row.shown)}
    return Card(**values)


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
            dm = await self._space.call("conversations.open", None, self._space.api.open_dm, spot.channel)
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
            await self._admit(POST)
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
            await self._admit("chat.update")
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
        channel, root, name = self.card.spot.shown_in, self._root(n), self._name(n)
        space, api, cursor = self._space, self._space.api, None
        oldest = f"{max(0, (self.card.sent_at or 0) // 1000 - SKEW)}.000000"
        for _ in range(PAGES):
            page = await (
                space.call("conversations.history", channel, api.history, channel, oldest=oldest, cursor=cursor)
                if root is None
                else space.call(
                    "conversations.replies", channel, api.replies, channel, root, oldest=oldest, cursor=cursor
                )
            )
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

    def _is_ours(self, message: f.Json) -> bool:
        return message.get("user") == self._space.user

    async def _admit(self, method: str) -> None:
        await self._space.pacer.admit(method, self._space.team, self.card.spot.shown_in)


SWEEP = 1.0
"""Seconds between two looks for what other processes asked and decided, or left half done."""
MAX_AT_ONCE = 20
"""Cards that one process works on at once."""
MAX_LINKS = 1_000
"""Addresses of threads that are remembered."""
SETTLE_MS = 5_000
"""Milliseconds for which a card waits in its thread for what the agent says before it."""
GIVEN_UP = 8
"""Failed edits that show an outcome before a card is left as it is; a click on it is answered with the outcome."""
SLOWEST = 60.0


class Cards:
    """Shows questions in Slack; *resumed* is notified of each session whose question was decided here.

    *news* is set when there may be something to do. With a *public_url* a card about a conversation that is not in
    Slack links to the operators' page there.
    """

    def __init__(
        self,
        core: Core,
        rows: CardRows,
        workspaces: Workspaces,
        clock: Clock,
        *,
        news: asyncio.Event | None = None,
        resumed: Callable[[str], None] = lambda _: None,
        public_url: str | None = None,
    ) -> None:
        self._core, self._rows, self._workspaces, self._clock = core, rows, workspaces, clock
        self._resumed = resumed
        self._public_url = public_url
        self._planned: set[str] = set()
        self._corrected: set[str] = set()
        self._links: dict[str, str] = {}
        self._working: dict[int, asyncio.Task[None]] = {}
        self._sweep = PeriodicTask("cards", self._look, clock, SWEEP, news=news)

    async def start(self, *, alone: bool = False) -> None:
        """Resume what an earlier process left; one that is *alone* on the database waits for no lease."""
        if alone:
            await self._rows.vacate()
        self._core.approvals.listen(self._on_fact)
        self._sweep.start()

    async def stop(self) -> None:
        """Stop showing; another process, or the next start, continues where this one was."""
        await self._sweep.stop(self._working.values())
        with suppress(Unavailable):  # the leases end by themselves
            await self._rows.release()

    async def is_shown(self, approval: str, team: str, channel: str) -> bool:
        """Return whether an approval is asked in *channel* of *team*."""
        return await self._rows.is_shown(approval, team, channel)

    async def heal(self, approval: str, team: str, channel: str, ts: str) -> None:
        """Edit the message of a late click to show the outcome of its question; raises a `SlackFailure`."""
        space, question = await self._workspaces.space(team), await self._approval(approval)
        page = pages(question, await self._about(question, Spot(team, channel)))[-1]
        await space.call("chat.update", channel, space.api.update, channel, ts, page.text, blocks=page.blocks)

    def _on_fact(self, fact: Fact) -> None:
        if isinstance(fact.body, ApprovalDecided):
            self._resumed(fact.session)
        if isinstance(fact.body, MessageCorrected):
            self._corrected.add(fact.session)
        self._sweep.news.set()

    async def _look(self) -> None:
        """Plan cards that are not planned yet, and work on those that are not up to date."""
        if corrected := frozenset(self._corrected):
            await self._rows.outdate(corrected)
            self._corrected -= corrected
        versions = await self._core.approvals.versions()
        self._planned &= versions.keys()
        for approval in versions.keys() - self._planned:
            await self._plan(approval)
        due = [
            each
            for each in await self._rows.unsettled()
            if each.key not in self._working
            and (each.state in (PLANNED, SENT) or each.version != versions.get(each.approval))
        ]
        room = max(0, MAX_AT_ONCE - len(self._working))
        for card in await self._rows.claim([each.key for each in due[:room]]) if due[:room] else []:
            task = asyncio.create_task(self._guarded(card, versions.get(card.approval, "")), name=f"card-{card.id}")
            self._working[card.key] = task
            task.add_done_callback(partial(self._worked, card.key))

    async def _plan(self, approval: str) -> None:
        """Note where a question is to be asked; in its thread once that shows what leads to it."""
        if (question := await self._approval(approval)) is None:
            return
        thread = await self._thread(question)
        try:
            spots = await self._elsewhere(question, thread)
        except f.SlackFailure as error:  # it does not say which workspace is the only one
            _log.warning("slack.card_delayed", approval=approval, error=str(error))
            return
        is_early = self._clock.now() - question.requested_at < SETTLE_MS
        if thread is None or not is_early or await self._rows.rests(question.session):
            spots += [Spot(thread.team, thread.channel, thread.root)] if thread else []
            self._planned.add(approval)
        if spots:
            await self._rows.plan(approval, question.session, spots)

    def _worked(self, key: int, _task: asyncio.Task[None]) -> None:
        del self._working[key]
        self._sweep.news.set()  # there is room again, and more to do perhaps

    async def _elsewhere(self, approval: ApprovalObject, thread: Thread | None) -> list[Spot]:
        """Return where a question is to be asked besides its *thread*, as its agent's author said."""
        spots: list[Spot] = []
        for place in approval.deliver_to:
            kind, _, rest = place.partition(":")
            team, _, channel = rest.rpartition("/")
            if kind != "slack":
                continue
            if not (team := team or (thread.team if thread else await self._workspaces.only())):
                _log.error("slack.card_unplaced", place=place, remedy="write it as slack:<workspace id>/<channel id>")
                continue
            spots.append(Spot(team, channel))
        return spots

    async def _guarded(self, card: Card, version: str) -> None:
        """Bring a card up to date; whatever goes wrong, the sweep of some process takes it up again."""
        try:
            await self._bring(card, version)
        except LostPlace:
            _log.info("slack.card_elsewhere", card=card.id)
        except ParleyError as error:
            _log.warning("slack.card_not_shown", card=card.id, error=str(error))
        except Exception as error:  # noqa: BLE001 - the boundary of a task: one card's fault is no other's
            _log.error("slack.failed", card=card.id, exception=trace_of(error))
            with suppress(LostPlace, Unavailable):  # what is wrong may be there to stay
                await self._rows.leave(card, again=SLOWEST * 2.0 ** min(card.tries, 6), tries=card.tries + 1)

    async def _bring(self, card: Card, version: str) -> None:
        question = await self._approval(card.approval)
        is_open = question is not None and question.status == "open"
        if not is_open and not card.refs and card.state == PLANNED:  # decided before it was asked here
            await self._rows.leave(card, state=SETTLED)
            return
        screen: CardScreen | None = None
        try:
            screen = CardScreen(self._rows, await self._workspaces.space(card.spot.team), self._clock, card)
            await screen.open()
            if is_open or screen.card.refs:
                about = await self._about(question, card.spot)
                await screen.show(pages(question, about, least=len(screen.card.refs)))
        except (f.SlackFailure, NotFound) as error:
            await self._put_off(screen.card if screen else card, error, is_open=is_open)
            return
        if question is not None and screen.card.refs:
            place = f"{screen.card.spot.place}:{screen.card.refs[0]}"
            await self._core.approvals.note(question.id, "delivered", surface="slack", place=place)
        before = replace(screen.card, version=card.version)  # as it was before what is shown was read
        await self._rows.leave(before, state=SHOWN if is_open else SETTLED, version=version, tries=0)

    async def _put_off(self, card: Card, error: f.SlackFailure | NotFound, *, is_open: bool) -> None:
        """Schedule a retry: soon for errors that pass by themselves, slowly for those that a person must fix."""
        pause = min(2.0**card.tries, SLOWEST)
        match error:
            case f.Limited():
                (await self._workspaces.space(card.spot.team)).pacer.penalty(
                    error.method, card.spot.team, error.retry_after
                )
                pause = error.retry_after
            case f.NotSent() | f.Uncertain():
                _log.info("slack.card_delayed", card=card.id, error=str(error))
            case _:
                pause = SLOWEST if is_open else pause
                if card.tries == 0:
                    place = card.spot.place
                    _log.error("slack.card_undelivered", approval=card.approval, place=place, error=str(error))
        over = not is_open and card.tries >= GIVEN_UP
        state = {"state": SETTLED} if over else {}
        await self._rows.leave(card, again=pause, tries=card.tries + 1, **state)

    async def _approval(self, approval: str) -> ApprovalObject | None:
        try:
            return await self._core.approvals.get(approval)
        except NotFound:
            return None

    async def _thread(self, approval: ApprovalObject) -> Thread | None:
        data = await self._rows.thread_of(approval.session)
        return Thread.read(data) if data is not None else None

    async def _about(self, approval: ApprovalObject | None, spot: Spot) -> CardContext:
        if approval is None:
            return CardContext(spot.team, "")
        agent, origin = approval.agent, None
        with suppress(NotFound):
            agent = (await self._core.agents.get(approval.agent)).definition.name
        thread = await self._thread(approval)
        if thread is not None and thread.team == spot.team and thread.channel != spot.channel and not thread.is_dm:
            origin = thread.channel
        careful, words = True, ""
        if approval.status == "open":
            tool = await self._core.approvals.tool(approval.id)
            careful, words = tool is None or tool.effect == "write", await self._core.approvals.question(approval.id)
        link = await self._link(approval, thread, spot)
        return CardContext(spot.team, agent, origin, careful=careful, words=words, link=link)

    async def _link(self, approval: ApprovalObject, thread: Thread | None, spot: Spot) -> str | None:
        """Return the address of the conversation, unless the card is in it or Slack does not give it."""
        if thread is None:
            return f"{self._public_url.rstrip('/')}/operator#/s/{approval.session}" if self._public_url else None
        if (thread.team, thread.channel, thread.root) == (spot.team, spot.channel, spot.root):
            return None
        if thread.address not in self._links:
            space = await self._workspaces.space(thread.team)
            try:
                where = (thread.channel, thread.root)
                link = await space.call("chat.getPermalink", thread.channel, space.api.permalink, *where)
            except f.SlackFailure as error:
                _log.info("slack.no_link", team=space.team, reason=error.reason)
                return None
            if len(self._links) >= MAX_LINKS:
                self._links.clear()
            self._links[thread.address] = link
        return self._links[thread.address]
