"""Prompts that go with deleted sessions, and what the comment of a rating counts for."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply the change: comments of before count for nothing."""
    op.add_column("feedback", sa.Column("charged", sa.LargeBinary(), nullable=True))
    op.add_column("feedback", sa.Column("stored", sa.BigInteger(), nullable=True))
    op.create_table(
        "dropped_prompt",
        sa.Column("hash", sa.String(length=32), nullable=False),
        sa.Column("aside_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_dropped_prompt")),
    )


def downgrade() -> None:
    """Take the change back: prompts that were to go stay."""
    op.drop_table("dropped_prompt")
    op.drop_column("feedback", "stored")
    op.drop_column("feedback", "charged")
