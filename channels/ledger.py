"""The tables of the channels: which sessions are shown where, the delivery ledger, and approval cards.

Nothing of the log is copied here: a row holds where a message of a channel begins and ends in its session, its
reference there, and its delivery state.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Connection,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    UniqueConstraint,
    and_,
    cast,
    delete,
    func,
    insert,
    or_,
    select,
    text,
    update,
)
from sqlmodel import Field, SQLModel

from agent_core.clock import Clock
from agent_core.errors import ParleyError
from agent_core.ids import new_id
from channels.spec import LedgerEntry, Records

# SQLModel types `__tablename__` as a declared_attr, though it takes a string:
# pyright: reportAssignmentType=false


Key = BigInteger().with_variant(Integer, "sqlite")
WANTED = text("wanted_at IS NOT NULL")
WAITING = text("waits_at IS NOT NULL")
UNSETTLED = text("state != 'settled'")


class PlaceRow(SQLModel, table=True):
    """A session that a channel shows at one address, and the process that shows it now.

    *wanted_at* is when an answer was last requested there, null while everything is shown; *shown* is the seq up to
    which nothing changes any more. The lease of *owner* expires at *until* (milliseconds); *epoch* rejects earlier
    owners. *waits_at* is the seq up to which a place was seen that rests while its run waits; it continues from there.
    """

    __tablename__ = "place"
    __table_args__ = (
        UniqueConstraint("session"),
        Index("ix_place_wanted", "channel", "until", sqlite_where=WANTED, postgresql_where=WANTED),
        Index("ix_place_waiting", "channel", sqlite_where=WAITING, postgresql_where=WAITING),
    )

    key: int = Field(default=None, sa_column=Column(Key, primary_key=True, autoincrement=True))
    session: str = Field(sa_column=Column(String(40), ForeignKey("session.id", ondelete="CASCADE"), nullable=False))
    channel: str = Field(sa_column=Column(String(20), nullable=False))
    address: str = Field(sa_column=Column(String(255), nullable=False))
    wanted_at: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    shown: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    owner: str | None = Field(default=None, sa_column=Column(String(40), nullable=True))
    until: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    epoch: int = Field(default=0, sa_column=Column(Integer, nullable=False))
    waits_at: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    data: dict[str, Any] = Field(default_factory=dict, sa_column=Column(JSON, nullable=False))


class DeliveryRow(SQLModel, table=True):
    """One message of a channel, planned before it is sent: the delivery ledger.

    It shows its session from *begins* to *ends*, borders as text. *state* is planned, sent (requested, no answer yet),
    acknowledged, uncertain (the answer was lost), repaired or closed (final). *sent_to* and
    *acked_to* count what was sent and acknowledged of it, in code points of its text.
    """

    __tablename__ = "delivery"
    __table_args__ = (UniqueConstraint("place", "n"), UniqueConstraint("id"))

    key: int = Field(default=None, sa_column=Column(Key, primary_key=True, autoincrement=True))
    id: str = Field(sa_column=Column(String(40), nullable=False))
    place: int = Field(sa_column=Column(Key, ForeignKey("place.key", ondelete="CASCADE"), nullable=False))
    n: int = Field(sa_column=Column(Integer, nullable=False))
    begins: str | None = Field(default=None, sa_column=Column(String(120), nullable=True))
    ends: str | None = Field(default=None, sa_column=Column(String(120), nullable=True))
    state: str = Field(sa_column=Column(String(20), nullable=False))
    mode: str | None = Field(default=None, sa_column=Column(String(20), nullable=True))
    ref: str | None = Field(default=None, sa_column=Column(String(120), nullable=True))
    sent_to: int = Field(default=0, sa_column=Column(Integer, nullable=False))
    acked_to: int = Field(default=0, sa_column=Column(Integer, nullable=False))
    began_at: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))


class CardRow(SQLModel, table=True):
    """An approval as it is shown at one *place* of a channel, in one message or several.

    *data* is the place as its channel reads it. *refs* are its messages, *shown* the digest of each one's content.
    *state* is planned, sent (one more message was requested at *sent_at*, no answer yet), shown, or settled (final).
    *version* is that of the question that is shown. The lease of *owner* expires at *until* (milliseconds), which is
    also when the card is retried after *tries*; *epoch* rejects earlier owners.
    """

    __tablename__ = "card"
    __table_args__ = (
        UniqueConstraint("approval", "place"),
        UniqueConstraint("id"),
        Index("ix_card_session", "session"),
        Index("ix_card_unsettled", "channel", "key", sqlite_where=UNSETTLED, postgresql_where=UNSETTLED),
    )

    key: int = Field(default=None, sa_column=Column(Key, primary_key=True, autoincrement=True))
    id: str = Field(sa_column=Column(String(40), nullable=False))
    channel: str = Field(sa_column=Column(String(20), nullable=False))
    session: str = Field(sa_column=Column(String(40), ForeignKey("session.id", ondelete="CASCADE"), nullable=False))
    approval: str = Field(sa_column=Column(String(40), nullable=False))
    place: str = Field(sa_column=Column(String(255), nullable=False))
    data: dict[str, Any] = Field(default_factory=dict, sa_column=Column(JSON, nullable=False))
    refs: list[str] = Field(default_factory=list, sa_column=Column(JSON, nullable=False))
    shown: list[str] = Field(default_factory=list, sa_column=Column(JSON, nullable=False))
    state: str = Field(sa_column=Column(String(20), nullable=False))
    version: str = Field(default="", sa_column=Column(String(40), nullable=False))
    tries: int = Field(default=0, sa_column=Column(Integer, nullable=False))
    sent_at: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    owner: str | None = Field(default=None, sa_column=Column(String(40), nullable=True))
    until: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    epoch: int = Field(default=0, sa_column=Column(Integer, nullable=False))


class UploadRow(SQLModel, table=True):
    """A file that shows a render at a place of a channel, so that after a crash it is there once.

    *form* says what it is: `png`, which a message shows, or `csv`, which is a message of its own.
    *file* is the place's own id of it, kept before it is made visible. *state* is planned, sent (its bytes are there),
    shown (all can see it), or failed (the place does not take it).
    """

    __tablename__ = "upload"
    place: int = Field(sa_column=Column(Key, ForeignKey("place.key", ondelete="CASCADE"), primary_key=True))
    render: str = Field(sa_column=Column(String(60), primary_key=True))
    form: str = Field(sa_column=Column(String(8), primary_key=True))
    file: str | None = Field(default=None, sa_column=Column(String(60), nullable=True))
    state: str = Field(sa_column=Column(String(8), nullable=False))


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


_CARD: Table = vars(CardRow)["__table__"]
_PARTS = 3
"""Parts of the id of a person of a workspace: channel, workspace, account."""


def forget_places(connection: Connection, actor: str) -> int:
    """Delete the cards that *actor* was sent directly, and their account from threads that rest; return how many.

    What is shown of sessions that they opened goes with those.
    """
    direct = or_(_CARD.c.place == actor, _CARD.c.place.startswith(f"{actor}:", autoescape=True))
    count = connection.execute(delete(_CARD).where(direct)).rowcount
    parts = actor.split(":")
    if len(parts) != _PARTS:
        return count
    _, workspace, account = parts
    holds = cast(_PLACE.c.data, Text).contains(f'"{account}"', autoescape=True)
    query = select(_PLACE.c.key, _PLACE.c.data).where(holds, _PLACE.c.wanted_at.is_(None))
    for row in connection.execute(query).all():
        if workspace in row.data.values():
            data = {name: _without(value, account) for name, value in row.data.items()}
            connection.execute(update(_PLACE).where(_PLACE.c.key == row.key).values(data=data))
            count += 1
    return count


def _without(value: Any, account: str) -> Any:
    return "" if value == account else value


def show_again(connection: Connection, session: str, now: int) -> None:
    """Request that *session* is shown where it is shown: the next sweep of the channel's processes finds it.

    In the transaction that writes what is to be shown, so that a crash loses neither.
    """
    connection.execute(update(_PLACE).where(_PLACE.c.session == session).values(wanted_at=now))
