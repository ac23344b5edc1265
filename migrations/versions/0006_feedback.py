"""Corrections, deletions and context between runs, and feedback on answers."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Apply the change: tables, and a nullable column, so that processes of the old version still work."""
    op.add_column("session", sa.Column("noted", sa.LargeBinary(), nullable=True))
    op.create_table(
        "change",
        sa.Column("session", KEY, nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("kind", sa.String(length=8), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["session"], ["session.key"], name=op.f("fk_change_session_session"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("session", "name", name=op.f("pk_change")),
    )
    op.create_table(
        "feedback",
        sa.Column("run", KEY, nullable=False),
        sa.Column("kind", sa.String(length=8), nullable=False),
        sa.Column("actor", sa.String(length=200), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=True),
        sa.Column("rating", sa.String(length=4), nullable=False),
        sa.Column("comment", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["run"], ["run.key"], name=op.f("fk_feedback_run_run"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run", "kind", "actor", name=op.f("pk_feedback")),
    )


def downgrade() -> None:
    """Take the change back."""
    op.drop_table("feedback")
    op.drop_table("change")
    op.drop_column("session", "noted")
