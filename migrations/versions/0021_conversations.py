"""Sessions that go on as others."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Apply the change: a table that the old version does not know."""
    op.create_table(
        "branch",
        sa.Column("source", KEY, autoincrement=False, nullable=False),
        sa.Column("target", KEY, nullable=False),
        sa.ForeignKeyConstraint(["source"], ["session.key"], name=op.f("fk_branch_source_session"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["target"], ["session.key"], name=op.f("fk_branch_target_session"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("source", name=op.f("pk_branch")),
    )
    op.create_index("ix_branch_target", "branch", ["target"])


def downgrade() -> None:
    """Take the change back."""
    op.drop_index("ix_branch_target", table_name="branch")
    op.drop_table("branch")
