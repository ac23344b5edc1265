"""Approval cards, and the places that wait for a decision."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
WAITING = sa.text("waits_at IS NOT NULL")
UNSETTLED = sa.text("state != 'settled'")


def upgrade() -> None:
    """Apply the change: a nullable column, and a table that processes of the old version do not use."""
    op.add_column("place", sa.Column("waits_at", sa.BigInteger(), nullable=True))
    op.create_index("ix_place_waiting", "place", ["channel"], sqlite_where=WAITING, postgresql_where=WAITING)
    op.create_table(
        "card",
        sa.Column("key", KEY, autoincrement=True, nullable=False),
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("channel", sa.String(length=20), nullable=False),
        sa.Column("session", sa.String(length=40), nullable=False),
        sa.Column("approval", sa.String(length=40), nullable=False),
        sa.Column("place", sa.String(length=255), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("refs", sa.JSON(), nullable=False),
        sa.Column("shown", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("version", sa.String(length=40), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("sent_at", sa.BigInteger(), nullable=True),
        sa.Column("owner", sa.String(length=40), nullable=True),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["session"], ["session.id"], name=op.f("fk_card_session_session"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_card")),
        sa.UniqueConstraint("id", name=op.f("uq_card_id")),
        sa.UniqueConstraint("approval", "place", name=op.f("uq_card_approval_place")),
    )
    op.create_index("ix_card_session", "card", ["session"])
    op.create_index("ix_card_unsettled", "card", ["channel", "key"], sqlite_where=UNSETTLED, postgresql_where=UNSETTLED)


def downgrade() -> None:
    """Take the change back."""
    op.drop_table("card")
    op.drop_index("ix_place_waiting", table_name="place")
    op.drop_column("place", "waits_at")
