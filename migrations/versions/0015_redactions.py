"""How often a person's data was deleted from a session's log."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply the change: a column with a default, so that processes of the old version still work."""
    op.add_column("session", sa.Column("redactions", sa.Integer(), nullable=False, server_default=sa.text("0")))


def downgrade() -> None:
    """Take the change back."""
    op.drop_column("session", "redactions")
