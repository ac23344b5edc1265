"""Indexes for what goes with a deleted session, and for a run's children."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply the change."""
    with op.batch_alter_table("blob", schema=None) as batch_op:
        batch_op.create_index("ix_blob_session", ["session"], unique=False)
    with op.batch_alter_table("receipt", schema=None) as batch_op:
        batch_op.create_index("ix_receipt_run", ["run"], unique=False)
    with op.batch_alter_table("run", schema=None) as batch_op:
        batch_op.create_index(
            "ix_run_parent",
            ["parent"],
            unique=False,
            sqlite_where=sa.text("parent IS NOT NULL"),
            postgresql_where=sa.text("parent IS NOT NULL"),
        )


def downgrade() -> None:
    """Take the change back."""
    with op.batch_alter_table("run", schema=None) as batch_op:
        batch_op.drop_index(
            "ix_run_parent",
            sqlite_where=sa.text("parent IS NOT NULL"),
            postgresql_where=sa.text("parent IS NOT NULL"),
        )
    with op.batch_alter_table("receipt", schema=None) as batch_op:
        batch_op.drop_index("ix_receipt_run")
    with op.batch_alter_table("blob", schema=None) as batch_op:
        batch_op.drop_index("ix_blob_session")
