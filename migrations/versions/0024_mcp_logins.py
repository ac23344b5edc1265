"""The logins of operators at MCP servers, sealed, in the rows of the servers."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

_TABLE = "mcp_server"


def upgrade() -> None:
    """Apply the change: no server is logged in to."""
    op.add_column(_TABLE, sa.Column("login", sa.LargeBinary(), nullable=True))
    op.add_column(_TABLE, sa.Column("login_state", sa.LargeBinary(), nullable=True))
    op.add_column(_TABLE, sa.Column("login_lease", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    """Take the change back: operators log in again."""
    for name in ("login_lease", "login_state", "login"):
        op.drop_column(_TABLE, name)
