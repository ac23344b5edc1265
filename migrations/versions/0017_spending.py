"""What model calls used and cost, and who asked for a run."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
COUNTS = ("run", "runs", "steps", "unmeasured", "unpriced")
SUMS = ("input", "output", "reasoning", "cache_read", "cache_write_short", "cache_write_long", "cost", "uncached_cost")


def upgrade() -> None:
    """Apply the change: a table, and a column without a value in all rows, which the old version leaves empty."""
    op.create_table(
        "spending",
        sa.Column("day", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("agent", sa.String(length=40), nullable=False),
        sa.Column("channel", sa.String(length=40), nullable=False),
        sa.Column("actor", sa.String(length=200), nullable=False),
        sa.Column("session", sa.String(length=40), nullable=False),
        sa.Column("project", KEY, nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in COUNTS),
        *(sa.Column(name, sa.BigInteger(), nullable=True) for name in SUMS),
        sa.ForeignKeyConstraint(
            ["project"], ["project.key"], name=op.f("fk_spending_project_project"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("day", "agent", "channel", "actor", "session", name=op.f("pk_spending")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_spending_session", "spending", ["session"])
    op.add_column("run", sa.Column("asker", sa.LargeBinary(), nullable=True))


def downgrade() -> None:
    """Take the change back."""
    op.drop_column("run", "asker")
    op.drop_index("ix_spending_session", table_name="spending")
    op.drop_table("spending")
