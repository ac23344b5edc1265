"""Quotas: what people may use of an agent and have used, and when they were served."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NOTHING_STORED = sa.text("stored = 0")
COUNTS = (
    "minute", "minute_messages", "minute_messages_before", "day", "messages", "messages_before", "sessions",
    "sessions_before", "tokens", "tokens_before", "cost", "cost_before", "stored",
)  # fmt: skip


def upgrade() -> None:
    """Apply the change: columns with defaults and new tables, so that processes of the old version still work."""
    op.add_column("agent", sa.Column("quotas", sa.LargeBinary(), nullable=True))
    op.add_column("run", sa.Column("lane", sa.SmallInteger(), nullable=False, server_default=sa.text("1")))
    op.add_column("run", sa.Column("actor", sa.BigInteger(), nullable=False, server_default=sa.text("0")))
    op.add_column("run", sa.Column("queued_at", sa.BigInteger(), nullable=False, server_default=sa.text("0")))
    op.add_column("run", sa.Column("charged", sa.LargeBinary(), nullable=True))
    op.create_table(
        "served",
        sa.Column("actor", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("agent", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("actor", "agent", name=op.f("pk_served")),
    )
    op.create_index("ix_served_at", "served", ["at"])
    op.create_table(
        "quota",
        sa.Column("agent", KEY, nullable=False),
        sa.Column("subject", sa.BigInteger(), autoincrement=False, nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in COUNTS),
        sa.ForeignKeyConstraint(["agent"], ["agent.key"], name=op.f("fk_quota_agent_agent"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("agent", "subject", name=op.f("pk_quota")),
    )
    op.create_index("ix_quota_day", "quota", ["day"], sqlite_where=NOTHING_STORED, postgresql_where=NOTHING_STORED)


def downgrade() -> None:
    """Take the change back."""
    op.drop_table("quota")
    op.drop_table("served")
    for column in ("charged", "queued_at", "actor", "lane"):
        op.drop_column("run", column)
    op.drop_column("agent", "quotas")
