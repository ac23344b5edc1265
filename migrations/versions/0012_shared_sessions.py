"""Whether others than its opener have written in a session."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply the change: a column with a default, so that processes of the old version still work."""
    op.add_column("session", sa.Column("shared", sa.SmallInteger(), nullable=False, server_default=sa.text("0")))


def downgrade() -> None:
    """Take the change back."""
    op.drop_column("session", "shared")
