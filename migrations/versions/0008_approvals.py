"""Approvals of calls, and their audit log."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
OPEN = sa.text("status = 'open'")


def upgrade() -> None:
    """Apply the change: two tables that processes of the old version do not use."""
    op.create_table(
        "approval",
        sa.Column("key", KEY, autoincrement=True, nullable=False),
        sa.Column("project", KEY, nullable=False),
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("session", KEY, nullable=False),
        sa.Column("run", KEY, nullable=False),
        sa.Column("call", sa.String(length=60), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("hook", sa.String(length=60), nullable=False),
        sa.Column("tool", sa.String(length=64), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("asked", sa.LargeBinary(), nullable=False),
        sa.Column("arguments", sa.LargeBinary(), nullable=False),
        sa.Column("request", sa.LargeBinary(), nullable=False),
        sa.Column("status", sa.String(length=10), nullable=False),
        sa.Column("votes", sa.LargeBinary(), nullable=False),
        sa.Column("remembered", sa.SmallInteger(), nullable=False),
        sa.Column("requested_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("decided_at", sa.BigInteger(), nullable=True),
        sa.Column("decided_by", sa.LargeBinary(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["project"], ["project.key"], name=op.f("fk_approval_project_project"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["session"], ["session.key"], name=op.f("fk_approval_session_session"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["run"], ["run.key"], name=op.f("fk_approval_run_run"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_approval")),
        sa.UniqueConstraint("id", name=op.f("uq_approval_id")),
    )
    op.create_index("ix_approval_open", "approval", ["key"], sqlite_where=OPEN, postgresql_where=OPEN)
    op.create_index("ix_approval_session", "approval", ["session", "hook", "tool"])
    op.create_index("ix_approval_run", "approval", ["run", "status"])
    op.create_table(
        "approval_audit",
        sa.Column("key", KEY, autoincrement=True, nullable=False),
        sa.Column("project", KEY, nullable=False),
        sa.Column("approval", sa.String(length=40), nullable=False),
        sa.Column("session", sa.String(length=40), nullable=False),
        sa.Column("run", sa.String(length=40), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("actor", sa.LargeBinary(), nullable=True),
        sa.Column("surface", sa.String(length=20), nullable=True),
        sa.Column("place", sa.String(length=200), nullable=True),
        sa.Column("data", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(
            ["project"], ["project.key"], name=op.f("fk_approval_audit_project_project"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_approval_audit")),
    )
    op.create_index("ix_approval_audit_approval", "approval_audit", ["approval"])


def downgrade() -> None:
    """Take the change back."""
    op.drop_table("approval_audit")
    op.drop_table("approval")
