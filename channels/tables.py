"""The tables of the channels: which sessions are shown where, the delivery ledger, and approval cards.

Nothing of the log is copied here: a row holds where a message of a channel begins and ends in its session, its
reference there, and its delivery state.
"""
# SQLModel types `__tablename__` as a declared_attr, though it takes a string:
# pyright: reportAssignmentType=false

from typing import Any

from sqlalchemy import JSON, BigInteger, Column, ForeignKey, Index, Integer, String, UniqueConstraint, text
from sqlmodel import Field, SQLModel

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

    *form* says what it is: `png`, which a message shows, `csv`, or `shared`, a drawing that is a message of its own.
    *file* is the place's own id of it, kept before it is made visible. *state* is planned, sent (its bytes are there),
    shown (all can see it), or failed (the place does not take it).
    """

    __tablename__ = "upload"
    place: int = Field(sa_column=Column(Key, ForeignKey("place.key", ondelete="CASCADE"), primary_key=True))
    render: str = Field(sa_column=Column(String(60), primary_key=True))
    form: str = Field(sa_column=Column(String(8), primary_key=True))
    file: str | None = Field(default=None, sa_column=Column(String(60), nullable=True))
    state: str = Field(sa_column=Column(String(8), nullable=False))
