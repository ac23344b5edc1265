"""Versions of the widget that were given out, so that pages which pin one go on working."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply the change: a table that processes of the old version do not use."""
    op.create_table(
        "widget_file",
        sa.Column("key", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("build", sa.String(length=40), nullable=False),
        sa.Column("name", sa.String(length=60), nullable=False),
        sa.Column("digest", sa.String(length=44), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("served_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_widget_file")),
        sa.UniqueConstraint("build", "name", name=op.f("uq_widget_file_build_name")),
    )
    op.create_index("ix_widget_file_name", "widget_file", ["name", "digest"])


def downgrade() -> None:
    """Take the change back."""
    op.drop_index("ix_widget_file_name", table_name="widget_file")
    op.drop_table("widget_file")
