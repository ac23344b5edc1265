"""Conversations of visitors."""

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply the change."""


def downgrade() -> None:
    """Take the change back."""
