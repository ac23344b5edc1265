"""The agents for which a registered key may sign tokens."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply the change: null is every agent, as keys were before."""
    op.add_column("signing_key", sa.Column("agents", sa.LargeBinary(), nullable=True))


def downgrade() -> None:
    """Take the change back: keys that are for some agents would be for all, so they go."""
    op.execute("DELETE FROM signing_key WHERE agents IS NOT NULL")
    op.drop_column("signing_key", "agents")
