"""What each channel has to show, persisted before it is sent, so that after a crash nothing is shown twice.

A *place* is a session at an address. One process at a time shows it: it has a lease that expires, and an epoch that
rejects the writes of earlier owners. Each write renews the lease.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlalchemy import Connection, Table, and_, delete, func, insert, or_, select, update

from agent_core import Clock, ParleyError, new_id
from channels.base import LedgerEntry, Records
from channels.tables import DeliveryRow, PlaceRow, UploadRow

LEASE = 15_000
"""Milliseconds after which a place expires that its process does not renew."""

_PLACE: Table = vars(PlaceRow)["__table__"]
_DELIVERY: Table = vars(DeliveryRow)["__table__"]
_UPLOAD: Table = vars(UploadRow)["__table__"]
UploadState = Literal["planned", "sent", "shown", "failed"]
_COLUMNS = ("begins", "ends", "state", "mode", "ref", "sent_to", "acked_to", "began_at")


class LostPlace(ParleyError):
    """Another process owns this place now."""

    code = "lost_place"


@dataclass(frozen=True, slots=True)
class OwnedPlace:
    """A session at an address, owned by this process since *epoch*; up to seq *shown* nothing changes any more.

    *waits_at* is the seq up to which it was shown when it last rested while its run waited, None if it did not.
    """

    key: int
    session: str
    address: str
    epoch: int
    shown_seq: int = 0
    wanted_at: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    waits_at: int | None = None


@dataclass(frozen=True, slots=True)
class UploadEntry:
    """A file that shows a *render*, as `UploadRow` describes it."""

    render: str
    form: str
    file: str | None = None
    state: UploadState = "planned"


class Ledger:
    """The places of one channel, and the rows of their messages."""

    def __init__(self, records: Records, clock: Clock, channel: str, *, owner: str | None = None) -> None:
        self._records, self._clock, self._channel = records, clock, channel
        self.owner = owner or new_id("own")

    async def want(self, session: str, address: str, data: Mapping[str, Any]) -> None:
        """Record that *session* is to be shown at *address*, before the message that asks for it is received.

        *data* is what the channel needs to show it there; the newest replaces older ones.
        """
        values = {"wanted_at": self._clock.now(), "data": dict(data)}
        row = {"session": session, "channel": self._channel, "address": address, **values}

        def work(connection: Connection) -> None:
            updated = update(_PLACE).where(_PLACE.c.session == session).values(values).returning(_PLACE.c.key)
            if connection.execute(updated).first() is None:
                connection.execute(insert(_PLACE).values(shown=0, until=0, epoch=0, **row))

        await self._records.write(work)

    async def claim(
        self, session: str | None = None, *, limit: int = 100, without: Collection[str] = ()
    ) -> list[OwnedPlace]:
        """Claim pending places without an owner: that of *session*, or at most *limit* here, *without* some."""
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
        free_places = select(_PLACE.c.key).where(free).order_by(_PLACE.c.wanted_at).limit(limit)
        taken = {"owner": self.owner, "until": now + LEASE, "epoch": _PLACE.c.epoch + 1}

        def work(connection: Connection) -> list[OwnedPlace]:
            keys = connection.execute(free_places.with_for_update(skip_locked=True)).scalars().all()
            if not keys:
                return []
            rows = connection.execute(update(_PLACE).where(_PLACE.c.key.in_(keys)).values(taken).returning(_PLACE))
            return [_place(row) for row in rows]

        return await self._records.write(work)

    async def claim_session(self, session: str) -> OwnedPlace | None:
        """Claim *session* for a message that was just received, even if its place rests or is postponed."""
        now = self._clock.now()
        later = or_(_PLACE.c.wanted_at.is_(None), _PLACE.c.wanted_at > now)
        resting = and_(_PLACE.c.session == session, later)
        await self._records.write(
            lambda connection: connection.execute(update(_PLACE).where(resting).values(wanted_at=now)) and None
        )
        return next(iter(await self.claim(session)), None)

    async def entries(self, place: OwnedPlace) -> list[LedgerEntry]:
        """Return the rows of *place* since it last rested, in their order."""
        query = select(_DELIVERY).where(_DELIVERY.c.place == place.key)

        def work(connection: Connection) -> list[LedgerEntry]:
            return [_entry(row) for row in connection.execute(query.order_by(_DELIVERY.c.n))]

        return await self._records.read(work)

    async def put(self, place: OwnedPlace, *entries: LedgerEntry) -> None:
        """Persist *entries* as they are now, all of them or none; raises `LostPlace`."""

        def work(connection: Connection) -> None:
            self._hold(connection, place)
            for entry in entries:
                values = {name: getattr(entry, name) for name in _COLUMNS}
                updated = update(_DELIVERY).where(_DELIVERY.c.id == entry.id).values(values).returning(_DELIVERY.c.key)
                if connection.execute(updated).first() is None:
                    row = {"id": entry.id, "place": place.key, "n": entry.n, **values}
                    connection.execute(insert(_DELIVERY).values(row))

        await self._records.write(work)

    async def uploads(self, place: OwnedPlace) -> list[UploadEntry]:
        """Return the files of *place*."""
        query = select(_UPLOAD).where(_UPLOAD.c.place == place.key)

        def work(connection: Connection) -> list[UploadEntry]:
            return [UploadEntry(row.render, row.form, row.file, row.state) for row in connection.execute(query)]

        return await self._records.read(work)

    async def put_upload(self, place: OwnedPlace, entry: UploadEntry) -> None:
        """Persist *entry*; raises `LostPlace`."""
        mine = and_(_UPLOAD.c.place == place.key, _UPLOAD.c.render == entry.render, _UPLOAD.c.form == entry.form)
        values = {"file": entry.file, "state": entry.state}

        def work(connection: Connection) -> None:
            self._hold(connection, place)
            updated = update(_UPLOAD).where(mine).values(values).returning(_UPLOAD.c.place)
            if connection.execute(updated).first() is None:
                row = {"place": place.key, "render": entry.render, "form": entry.form, **values}
                connection.execute(insert(_UPLOAD).values(row))

        await self._records.write(work)

    async def renew(self, place: OwnedPlace) -> None:
        """Renew the lease of *place*; raises `LostPlace`."""
        await self._records.write(lambda connection: self._hold(connection, place))

    async def rest(self, place: OwnedPlace, shown: int | None, *, seen: int | None = None) -> OwnedPlace | None:
        """Release *place*, complete up to seq *shown*; None: its run waits, and its messages will change once more.

        Then it waits for events after *seen*, see `waiting`. If a request came since it was claimed, returns the
        updated place, which this process still owns. Raises `LostPlace`.
        """

        def work(connection: Connection) -> OwnedPlace | None:
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

        return await self._records.write(work)

    async def waiting(self) -> dict[str, int]:
        """Return the sessions of this channel that rest while their run waits, with the seq last seen of each."""
        resting = and_(_PLACE.c.channel == self._channel, _PLACE.c.waits_at.is_not(None), _PLACE.c.wanted_at.is_(None))
        query = select(_PLACE.c.session, _PLACE.c.waits_at).where(resting)
        return await self._records.read(
            lambda connection: {row.session: row.waits_at for row in connection.execute(query)}
        )

    async def postpone(self, place: OwnedPlace, seconds: float) -> None:
        """Release *place* for a retry after *seconds*, or at the next request for it; raises `LostPlace`."""

        def work(connection: Connection) -> None:
            row = self._hold(connection, place)
            values: dict[str, Any] = {"owner": None, "until": 0}
            if row.wanted_at == place.wanted_at:
                values["wanted_at"] = self._clock.now() + round(seconds * 1000)
            connection.execute(update(_PLACE).where(_PLACE.c.key == place.key).values(values))

        await self._records.write(work)

    async def reload(self, place: OwnedPlace) -> OwnedPlace:
        """Return *place* as it is now; raises `LostPlace`."""
        return await self._records.write(lambda connection: _place(self._hold(connection, place)))

    async def release(self) -> None:
        """Release every place that this process owns."""
        mine = update(_PLACE).where(_PLACE.c.owner == self.owner).values(owner=None, until=0)
        await self._records.write(lambda connection: connection.execute(mine) and None)

    async def processes(self) -> int:
        """Return how many processes own places of this channel now, always counting this one."""
        alive = and_(_PLACE.c.channel == self._channel, _PLACE.c.until >= self._clock.now())
        others = and_(alive, _PLACE.c.owner != self.owner)
        query = select(func.count(_PLACE.c.owner.distinct())).where(others)
        return 1 + await self._records.read(lambda connection: connection.execute(query).scalar_one())

    async def expire_all(self) -> None:
        """Expire every lease of this channel; only for a process that runs alone."""
        all_of_them = update(_PLACE).where(_PLACE.c.channel == self._channel, _PLACE.c.owner.is_not(None))
        await self._records.write(
            lambda connection: connection.execute(all_of_them.values(owner=None, until=0)) and None
        )

    def _hold(self, connection: Connection, place: OwnedPlace) -> Any:
        """Renew the lease and return the row, which stays locked until the end of the transaction."""
        mine = and_(_PLACE.c.key == place.key, _PLACE.c.epoch == place.epoch, _PLACE.c.owner == self.owner)
        renewed = update(_PLACE).where(mine).values(until=self._clock.now() + LEASE).returning(_PLACE)
        if (row := connection.execute(renewed).first()) is None:
            raise LostPlace(f"Session `{place.session}` is shown by another process now.")
        return row


def _place(row: Any) -> OwnedPlace:
    return OwnedPlace(row.key, row.session, row.address, row.epoch, row.shown, row.wanted_at, row.data, row.waits_at)


def _entry(row: Any) -> LedgerEntry:
    return LedgerEntry(row.id, row.n, **{name: getattr(row, name) for name in _COLUMNS})
