"""The runs that blobs count towards in quotas."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply the change: a column without a value in all rows, which processes of the old version leave empty."""
    op.add_column("blob", sa.Column("run", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    """Take the change back."""
    op.drop_column("blob", "run")
