"""Where channels show sessions, and the delivery ledger."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Apply the change."""
    op.create_table(
        "place",
        sa.Column("key", KEY, autoincrement=True, nullable=False),
        sa.Column("session", sa.String(length=40), nullable=False),
        sa.Column("channel", sa.String(length=20), nullable=False),
        sa.Column("address", sa.String(length=255), nullable=False),
        sa.Column("wanted_at", sa.BigInteger(), nullable=True),
        sa.Column("shown", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.String(length=40), nullable=True),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["session"], ["session.id"], name=op.f("fk_place_session_session"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_place")),
        sa.UniqueConstraint("session", name=op.f("uq_place_session")),
    )
    wanted = sa.text("wanted_at IS NOT NULL")
    op.create_index("ix_place_wanted", "place", ["channel", "until"], sqlite_where=wanted, postgresql_where=wanted)
    op.create_table(
        "delivery",
        sa.Column("key", KEY, autoincrement=True, nullable=False),
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("place", KEY, nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("begins", sa.String(length=120), nullable=True),
        sa.Column("ends", sa.String(length=120), nullable=True),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("mode", sa.String(length=20), nullable=True),
        sa.Column("ref", sa.String(length=120), nullable=True),
        sa.Column("sent_to", sa.Integer(), nullable=False),
        sa.Column("acked_to", sa.Integer(), nullable=False),
        sa.Column("began_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["place"], ["place.key"], name=op.f("fk_delivery_place_place"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_delivery")),
        sa.UniqueConstraint("id", name=op.f("uq_delivery_id")),
        sa.UniqueConstraint("place", "n", name=op.f("uq_delivery_place_n")),
    )


def downgrade() -> None:
    """Take the change back."""
    op.drop_table("delivery")
    op.drop_index("ix_place_wanted", table_name="place")
    op.drop_table("place")
