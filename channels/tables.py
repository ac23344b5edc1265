"""The tables of the channels: which sessions are shown where, the delivery ledger, and the cards that ask people.

Nothing of the log is copied here: a row says where a message of a channel begins and ends in its session, what it is
called there, and how far it got.
"""
# SQLModel types `__tablename__` as a declared_attr, though a string is what it takes:
# pyright: reportAssignmentType=false

from typing import Any

from sqlalchemy import JSON, BigInteger, Column, ForeignKey, Index, Integer, String, UniqueConstraint, text
from sqlmodel import Field, SQLModel

Key = BigInteger().with_variant(Integer, "sqlite")
WANTED = text("wanted_at IS NOT NULL")
WAITING = text("waits_at IS NOT NULL")
UNSETTLED = text("state != 'settled'")


class PlaceRow(SQLModel, table=True):
    """A session that a channel shows at one address, and who shows it now.

    *wanted_at* is when something last came that wants an answer there, null while everything is shown; *shown* the seq
    up to which all is shown for good. *owner* shows it until *until* (milliseconds); *epoch* refuses an owner of old.
    *waits_at* is the seq up to which a place was seen that rests while its run waits: what is new goes on there.
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

    It shows its session from *begins* to *ends*, borders as text. *state* is planned, sent (asked for, no answer yet),
    acknowledged, uncertain (the answer was lost), repaired or closed (nothing will change any more). *sent_to* and
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
    """A question to people as it is shown at one *place* of a channel, in one message or in several.

    *data* is the place as its channel reads it. *refs* are the messages that stand there, *shown* what each says, as a
    digest. *state* is planned, sent (one more message was asked for at *sent_at*, no answer yet), shown, or settled:
    then nothing will change any more. *version* is that of the question that is shown. *owner* works on it until
    *until* (milliseconds), which is also when it is tried again after *tries*; *epoch* refuses an owner of old.
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
