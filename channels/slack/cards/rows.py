"""The cards of Slack as they are kept, so that a killed process asks nothing twice: one at a time works on each."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table, and_, case, select, update

from agent_core import Clock, new_id
from channels.base import Records
from channels.ledger import LEASE, LostPlace
from channels.tables import CardRow, PlaceRow

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
