"""The table of the web channel: scripts of the widget that were given out."""
# SQLModel types `__tablename__` as a declared_attr, though it takes a string:
# pyright: reportAssignmentType=false

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, String, UniqueConstraint
from sqlmodel import Field, SQLModel

Key = BigInteger().with_variant(Integer, "sqlite")


class WidgetFileRow(SQLModel, table=True):
    """A script of the widget's version *build*, as a server of this database has given it out.

    *digest* is the SHA-256 of *content* as URL-safe base64; *served_at* is when a server last started with the build,
    in milliseconds.
    """

    __tablename__ = "widget_file"
    __table_args__ = (UniqueConstraint("build", "name"), Index("ix_widget_file_name", "name", "digest"))

    key: int = Field(default=None, sa_column=Column(Key, primary_key=True, autoincrement=True))
    build: str = Field(sa_column=Column(String(40), nullable=False))
    name: str = Field(sa_column=Column(String(60), nullable=False))
    digest: str = Field(sa_column=Column(String(44), nullable=False))
    content: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    served_at: int = Field(sa_column=Column(BigInteger, nullable=False))
