"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply the change."""
    op.create_table(
        "project",
        sa.Column("key", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_project")),
        sa.UniqueConstraint("name", name=op.f("uq_project_name")),
    )
    op.create_table(
        "agent",
        sa.Column("key", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("project", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("source", sa.String(length=8), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project"], ["project.key"], name=op.f("fk_agent_project_project"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_agent")),
        sa.UniqueConstraint("id", name=op.f("uq_agent_id")),
        sa.UniqueConstraint("project", "name", name=op.f("uq_agent_project_name")),
    )
    op.create_table(
        "snapshot",
        sa.Column("project", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("hash", sa.String(length=32), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project"], ["project.key"], name=op.f("fk_snapshot_project_project"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("project", "hash", name=op.f("pk_snapshot")),
    )
    op.create_table(
        "agent_version",
        sa.Column("agent", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("definition", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["agent"], ["agent.key"], name=op.f("fk_agent_version_agent_agent"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("agent", "version", name=op.f("pk_agent_version")),
    )
    op.create_table(
        "session",
        sa.Column("key", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("project", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("address", sa.Text(), nullable=True),
        sa.Column("agent", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("agent_version", sa.Integer(), nullable=False),
        sa.Column("actor", sa.String(length=200), nullable=False),
        sa.Column("actor_kind", sa.String(length=8), nullable=False),
        sa.Column("about", sa.JSON(), nullable=False),
        sa.Column("title", sa.String(length=200), nullable=True),
        sa.Column("closed", sa.SmallInteger(), nullable=False),
        sa.Column("snapshot", sa.String(length=32), nullable=False),
        sa.Column("prefix", sa.String(length=32), nullable=False),
        sa.Column("next_seq", sa.BigInteger(), nullable=False),
        sa.Column("window_seq", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["agent"], ["agent.key"], name=op.f("fk_session_agent_agent"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["project"], ["project.key"], name=op.f("fk_session_project_project"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_session")),
        sa.UniqueConstraint("id", name=op.f("uq_session_id")),
        sa.UniqueConstraint("project", "address", name=op.f("uq_session_project_address")),
    )
    with op.batch_alter_table("session", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_session_project_actor"), ["project", "actor"], unique=False)

    op.create_table(
        "blob",
        sa.Column("key", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("project", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("session", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("mime", sa.String(length=100), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["project"], ["project.key"], name=op.f("fk_blob_project_project"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["session"], ["session.key"], name=op.f("fk_blob_session_session"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_blob")),
        sa.UniqueConstraint("id", "session", name=op.f("uq_blob_id_session")),
    )
    op.create_table(
        "event",
        sa.Column("session", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("run", sa.BigInteger(), nullable=True),
        sa.Column("type", sa.SmallInteger(), nullable=False),
        sa.Column("time", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["session"], ["session.key"], name=op.f("fk_event_session_session"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("session", "seq", name=op.f("pk_event")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "run",
        sa.Column("key", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("project", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("session", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("agent", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("agent_version", sa.Integer(), nullable=False),
        sa.Column("parent", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(length=40), nullable=True),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.Column("input_seq", sa.BigInteger(), nullable=False),
        sa.Column("first_seq", sa.BigInteger(), nullable=False),
        sa.Column("last_seq", sa.BigInteger(), nullable=True),
        sa.Column("snapshot", sa.String(length=32), nullable=False),
        sa.Column("options", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(["agent"], ["agent.key"], name=op.f("fk_run_agent_agent"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["parent"], ["run.key"], name=op.f("fk_run_parent_run"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["project"], ["project.key"], name=op.f("fk_run_project_project"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["session"], ["session.key"], name=op.f("fk_run_session_session"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_run")),
        sa.UniqueConstraint("id", name=op.f("uq_run_id")),
    )
    with op.batch_alter_table("run", schema=None) as batch_op:
        batch_op.create_index(
            "ix_run_open",
            ["status", "due_at"],
            unique=False,
            sqlite_where=sa.text("status IN ('queued', 'running', 'waiting', 'requires_action')"),
            postgresql_where=sa.text("status IN ('queued', 'running', 'waiting', 'requires_action')"),
        )
        batch_op.create_index(
            "ix_run_queued_root",
            ["session", "input_seq"],
            unique=False,
            sqlite_where=sa.text("parent IS NULL AND status = 'queued'"),
            postgresql_where=sa.text("parent IS NULL AND status = 'queued'"),
        )
        batch_op.create_index("ix_run_session", ["session"], unique=False)
        batch_op.create_index(
            "uq_run_active_root",
            ["session"],
            unique=True,
            sqlite_where=sa.text("parent IS NULL AND status IN ('running', 'waiting', 'requires_action')"),
            postgresql_where=sa.text("parent IS NULL AND status IN ('running', 'waiting', 'requires_action')"),
        )

    op.create_table(
        "receipt",
        sa.Column("scope", sa.String(length=8), nullable=False),
        sa.Column("owner", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("project", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("run", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("message", sa.String(length=60), nullable=False),
        sa.ForeignKeyConstraint(
            ["project"], ["project.key"], name=op.f("fk_receipt_project_project"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["run"], ["run.key"], name=op.f("fk_receipt_run_run"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("scope", "owner", "name", name=op.f("pk_receipt")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Take the change back."""
    op.drop_table("receipt")
    with op.batch_alter_table("run", schema=None) as batch_op:
        batch_op.drop_index(
            "uq_run_active_root",
            sqlite_where=sa.text("parent IS NULL AND status IN ('running', 'waiting', 'requires_action')"),
            postgresql_where=sa.text("parent IS NULL AND status IN ('running', 'waiting', 'requires_action')"),
        )
        batch_op.drop_index("ix_run_session")
        batch_op.drop_index(
            "ix_run_queued_root",
            sqlite_where=sa.text("parent IS NULL AND status = 'queued'"),
            postgresql_where=sa.text("parent IS NULL AND status = 'queued'"),
        )
        batch_op.drop_index(
            "ix_run_open",
            sqlite_where=sa.text("status IN ('queued', 'running', 'waiting', 'requires_action')"),
            postgresql_where=sa.text("status IN ('queued', 'running', 'waiting', 'requires_action')"),
        )

    op.drop_table("run")
    op.drop_table("event")
    op.drop_table("blob")
    with op.batch_alter_table("session", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_session_project_actor"))

    op.drop_table("session")
    op.drop_table("agent_version")
    op.drop_table("snapshot")
    op.drop_table("agent")
    op.drop_table("project")
