"""How many runs of an agent may run at once, in the agent's row."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply the change: a nullable column, so that processes of the old version still work."""
    op.add_column("agent", sa.Column("max_runs", sa.Integer(), nullable=True))


def downgrade() -> None:
    """Take the change back."""
    op.drop_column("agent", "max_runs")
