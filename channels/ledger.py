"""ledger: what every channel was asked to show, kept before it is sent, so that a killed process shows nothing twice.

A *place* is a session at an address. One process at a time shows it: a lease that ends by itself, and an epoch that
refuses whoever had it before. Each write renews the lease.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Table, and_, delete, func, insert, or_, select, update

from agent_core import Clock, Database, ParleyError, new_id
from channels.base import Entry
from channels.tables import DeliveryRow, PlaceRow

LEASE = 15_000
"""Milliseconds for which a process has a place without a sign of life."""

_PLACE: Table = vars(PlaceRow)["__table__"]
_DELIVERY: Table = vars(DeliveryRow)["__table__"]
_KEPT = ("begins", "ends", "state", "mode", "ref", "sent_to", "acked_to", "began_at")


class LostPlace(ParleyError):
    """Another process shows this session now."""

    code = "lost_place"


@dataclass(frozen=True, slots=True)
class Place:
    """A session at an address, in the hands of this process since *epoch*; *shown* is the seq shown for good."""

    key: int
    session: str
    address: str
    epoch: int
    shown: int = 0
    wanted_at: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Ledger:
    """The places of one channel, and their messages."""

    def __init__(self, database: Database, clock: Clock, channel: str, *, owner: str | None = None) -> None:
        self._database, self._clock, self._channel = database, clock, channel
        self.owner = owner or new_id("own")

    async def want(self, session: str, address: str, data: Mapping[str, Any]) -> None:
        """Note that *session* is to be shown at *address*, before the message is taken in that asks for it.

        *data* is what the channel needs to show it there; the newest counts.
        """
        values = {"wanted_at": self._clock.now(), "data": dict(data)}
        row = {"session": session, "channel": self._channel, "address": address, **values}

        def work(connection: Connection) -> None:
            known = update(_PLACE).where(_PLACE.c.session == session).values(values).returning(_PLACE.c.key)
            if connection.execute(known).first() is None:
                connection.execute(insert(_PLACE).values(shown=0, until=0, epoch=0, **row))

        await self._database.write(work)

    async def claim(self, session: str | None = None, *, most: int = 100, without: Collection[str] = ()) -> list[Place]:
        """Take what is wanted and shown by nobody: *session* alone, or up to *most* of this channel, *without* some."""
        now = self._clock.now()
        free = and_(
            _PLACE.c.channel == self._channel,
            _PLACE.c.wanted_at <= now,
            or_(_PLACE.c.owner.is_(None), _PLACE.c.until < now),
        )
        if session is not None:
            free = and_(free, _PLACE.c.session == session)
        if without:
            free = and_(free, _PLACE.c.session.not_in(without))
        found = select(_PLACE.c.key).where(free).order_by(_PLACE.c.wanted_at).limit(most)
        taken = {"owner": self.owner, "until": now + LEASE, "epoch": _PLACE.c.epoch + 1}

        def work(connection: Connection) -> list[Place]:
            keys = connection.execute(found.with_for_update(skip_locked=True)).scalars().all()
            if not keys:
                return []
            rows = connection.execute(update(_PLACE).where(_PLACE.c.key.in_(keys)).values(taken).returning(_PLACE))
            return [_place(row) for row in rows]

        return await self._database.write(work)

    async def claim_again(self, session: str) -> Place | None:
        """Take *session* for a message that was just taken in, though its place may rest by now, or be postponed."""
        now = self._clock.now()
        later = or_(_PLACE.c.wanted_at.is_(None), _PLACE.c.wanted_at > now)
        resting = and_(_PLACE.c.session == session, later)
        await self._database.write(
            lambda connection: connection.execute(update(_PLACE).where(resting).values(wanted_at=now)) and None
        )
        return next(iter(await self.claim(session)), None)

    async def entries(self, place: Place) -> list[Entry]:
        """Return the messages of *place* since it last rested, in their order."""
        asked = select(_DELIVERY).where(_DELIVERY.c.place == place.key)

        def work(connection: Connection) -> list[Entry]:
            return [_entry(row) for row in connection.execute(asked.order_by(_DELIVERY.c.n))]

        return await self._database.read(work)

    async def put(self, place: Place, *entries: Entry) -> None:
        """Keep *entries* as they are now, all of them or none; raises `LostPlace`."""

        def work(connection: Connection) -> None:
            self._hold(connection, place)
            for entry in entries:
                values = {name: getattr(entry, name) for name in _KEPT}
                known = update(_DELIVERY).where(_DELIVERY.c.id == entry.id).values(values).returning(_DELIVERY.c.key)
                if connection.execute(known).first() is None:
                    row = {"id": entry.id, "place": place.key, "n": entry.n, **values}
                    connection.execute(insert(_DELIVERY).values(row))

        await self._database.write(work)

    async def renew(self, place: Place) -> None:
        """Keep *place* for a while longer; raises `LostPlace`."""
        await self._database.write(lambda connection: self._hold(connection, place))

    async def rest(self, place: Place, shown: int | None, *, seen: int | None = None) -> Place | None:
        """Give *place* up, with all shown for good up to seq *shown*; None: what waits will change once more.

        It waits then for what comes behind *seen*, see `waiting`. Returns the place as it is by then, still in the
        hands of this process, if something came since it was claimed. Raises `LostPlace`.
        """

        def work(connection: Connection) -> Place | None:
            row = self._hold(connection, place)
            values: dict[str, Any] = {"waits_at": seen if shown is None else None}
            if shown is not None:
                connection.execute(delete(_DELIVERY).where(_DELIVERY.c.place == place.key))
                values["shown"] = shown
            if row.wanted_at == place.wanted_at:
                values |= {"wanted_at": None, "owner": None, "until": 0}
            change = update(_PLACE).where(_PLACE.c.key == place.key).values(values).returning(_PLACE)
            row = connection.execute(change).one()
            return None if row.wanted_at is None else _place(row)

        return await self._database.write(work)

    async def waiting(self) -> dict[str, int]:
        """Return the sessions of this channel that rest while their run waits, and up to which seq each was seen."""
        resting = and_(_PLACE.c.channel == self._channel, _PLACE.c.waits_at.is_not(None), _PLACE.c.wanted_at.is_(None))
        asked = select(_PLACE.c.session, _PLACE.c.waits_at).where(resting)
        return await self._database.read(
            lambda connection: {row.session: row.waits_at for row in connection.execute(asked)}
        )

    async def postpone(self, place: Place, seconds: float) -> None:
        """Let nobody show *place* for *seconds*, unless something new comes there meanwhile; raises `LostPlace`."""

        def work(connection: Connection) -> None:
            row = self._hold(connection, place)
            values: dict[str, Any] = {"owner": None, "until": 0}
            if row.wanted_at == place.wanted_at:
                values["wanted_at"] = self._clock.now() + round(seconds * 1000)
            connection.execute(update(_PLACE).where(_PLACE.c.key == place.key).values(values))

        await self._database.write(work)

    async def again(self, place: Place) -> Place:
        """Return *place* as it is by now; raises `LostPlace`."""
        return await self._database.write(lambda connection: _place(self._hold(connection, place)))

    async def leave(self) -> None:
        """Let others have what this process shows: it ends."""
        mine = update(_PLACE).where(_PLACE.c.owner == self.owner).values(owner=None, until=0)
        await self._database.write(lambda connection: connection.execute(mine) and None)

    async def processes(self) -> int:
        """Return how many processes show something of this channel now, this one counted in any case."""
        alive = and_(_PLACE.c.channel == self._channel, _PLACE.c.until >= self._clock.now())
        others = and_(alive, _PLACE.c.owner != self.owner)
        asked = select(func.count(_PLACE.c.owner.distinct())).where(others)
        return 1 + await self._database.read(lambda connection: connection.execute(asked).scalar_one())

    async def vacate(self) -> None:
        """Take every place of this channel from whoever has it: they are gone, for this process is alone."""
        all_of_them = update(_PLACE).where(_PLACE.c.channel == self._channel, _PLACE.c.owner.is_not(None))
        await self._database.write(
            lambda connection: connection.execute(all_of_them.values(owner=None, until=0)) and None
        )

    def _hold(self, connection: Connection, place: Place) -> Any:
        """Renew the lease and return the row, which stays locked to the end of the transaction."""
        mine = and_(_PLACE.c.key == place.key, _PLACE.c.epoch == place.epoch, _PLACE.c.owner == self.owner)
        renewed = update(_PLACE).where(mine).values(until=self._clock.now() + LEASE).returning(_PLACE)
        if (row := connection.execute(renewed).first()) is None:
            raise LostPlace(f"Session `{place.session}` is shown by another process now.")
        return row


def _place(row: Any) -> Place:
    return Place(row.key, row.session, row.address, row.epoch, row.shown, row.wanted_at, row.data)


def _entry(row: Any) -> Entry:
    return Entry(row.id, row.n, **{name: getattr(row, name) for name in _KEPT})
