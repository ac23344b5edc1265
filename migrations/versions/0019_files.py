"""Files that people send."""

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply the change."""


def downgrade() -> None:
    """Take the change back."""
