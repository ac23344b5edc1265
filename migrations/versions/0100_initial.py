"""The tables of 0.1.0.

Its number is above those of the revisions before the first release, which no database of a release has.
"""

import sqlalchemy as sa
from alembic import op

revision = "0100"
down_revision = None
branch_labels = None
depends_on = None
KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make all tables."""
    op.create_table(
        "dropped_prompt",
        sa.Column("hash", sa.String(length=32), nullable=False),
        sa.Column("aside_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_dropped_prompt")),
    )
    op.create_table(
        "kept",
        sa.Column("name", sa.String(length=40), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_kept")),
    )
    op.create_table(
        "live",
        sa.Column("session", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("run", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("epoch", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("n", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("session", "run", "epoch", "n", name=op.f("pk_live")),
        prefixes=["UNLOGGED"] if op.get_bind().dialect.name == "postgresql" else [],
    )
    op.create_table(
        "project",
        sa.Column("key", KEY, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_project")),
        sa.UniqueConstraint("name", name=op.f("uq_project_name")),
    )
    op.create_table(
        "served",
        sa.Column("actor", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("agent", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("actor", "agent", name=op.f("pk_served")),
    )
    with op.batch_alter_table("served") as batch_op:
        batch_op.create_index("ix_served_at", ["at"])

    op.create_table(
        "widget_file",
        sa.Column("key", KEY, autoincrement=True, nullable=False),
        sa.Column("build", sa.String(length=40), nullable=False),
        sa.Column("name", sa.String(length=60), nullable=False),
        sa.Column("digest", sa.String(length=44), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("served_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_widget_file")),
        sa.UniqueConstraint("build", "name", name=op.f("uq_widget_file_build_name")),
    )
    with op.batch_alter_table("widget_file") as batch_op:
        batch_op.create_index("ix_widget_file_name", ["name", "digest"])

    op.create_table(
        "worker",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("host", sa.String(length=200), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=8), nullable=False),
        sa.Column("protocol", sa.Integer(), nullable=False),
        sa.Column("room", sa.Integer(), nullable=False),
        sa.Column("running", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("beat_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_worker")),
    )
    op.create_table(
        "agent",
        sa.Column("key", KEY, autoincrement=True, nullable=False),
        sa.Column("project", KEY, nullable=False),
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("source", sa.String(length=8), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("max_runs", sa.Integer(), nullable=True),
        sa.Column("quotas", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(
            ["project"], ["project.key"], name=op.f("fk_agent_project_project"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_agent")),
        sa.UniqueConstraint("id", name=op.f("uq_agent_id")),
        sa.UniqueConstraint("project", "name", name=op.f("uq_agent_project_name")),
    )
    op.create_table(
        "api_key",
        sa.Column("key", KEY, autoincrement=True, nullable=False),
        sa.Column("project", KEY, nullable=False),
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("actor", sa.String(length=60), nullable=False),
        sa.Column("scopes", sa.String(length=100), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("previous", sa.LargeBinary(), nullable=True),
        sa.Column("previous_until", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.LargeBinary(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("used_at", sa.BigInteger(), nullable=True),
        sa.Column("rotated_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["project"], ["project.key"], name=op.f("fk_api_key_project_project"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_api_key")),
        sa.UniqueConstraint("id", name=op.f("uq_api_key_id")),
    )
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
    with op.batch_alter_table("approval_audit") as batch_op:
        batch_op.create_index("ix_approval_audit_approval", ["approval"])

    op.create_table(
        "mcp_server",
        sa.Column("key", KEY, autoincrement=True, nullable=False),
        sa.Column("project", KEY, nullable=False),
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("source", sa.String(length=8), nullable=False),
        sa.Column("definition", sa.LargeBinary(), nullable=False),
        sa.Column("listing", sa.LargeBinary(), nullable=True),
        sa.Column("listed_at", sa.BigInteger(), nullable=True),
        sa.Column("accepted", sa.LargeBinary(), nullable=True),
        sa.Column("error", sa.String(length=2000), nullable=True),
        sa.Column("failed_at", sa.BigInteger(), nullable=True),
        sa.Column("login", sa.LargeBinary(), nullable=True),
        sa.Column("login_state", sa.LargeBinary(), nullable=True),
        sa.Column("login_lease", sa.BigInteger(), nullable=True),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project"], ["project.key"], name=op.f("fk_mcp_server_project_project"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_mcp_server")),
        sa.UniqueConstraint("id", name=op.f("uq_mcp_server_id")),
        sa.UniqueConstraint("project", "name", name=op.f("uq_mcp_server_project_name")),
    )
    op.create_table(
        "operation",
        sa.Column("key", KEY, autoincrement=True, nullable=False),
        sa.Column("project", KEY, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.LargeBinary(), nullable=False),
        sa.Column("route", sa.String(length=120), nullable=False),
        sa.Column("object", sa.String(length=200), nullable=True),
        sa.Column("result", sa.SmallInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project"], ["project.key"], name=op.f("fk_operation_project_project"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_operation")),
    )
    op.create_table(
        "revision",
        sa.Column("project", KEY, nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project"], ["project.key"], name=op.f("fk_revision_project_project"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("project", "kind", name=op.f("pk_revision")),
    )
    op.create_table(
        "revocation",
        sa.Column("key", KEY, autoincrement=True, nullable=False),
        sa.Column("project", KEY, nullable=False),
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("kind", sa.String(length=8), nullable=False),
        sa.Column("subject", sa.String(length=200), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project"], ["project.key"], name=op.f("fk_revocation_project_project"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_revocation")),
        sa.UniqueConstraint("id", name=op.f("uq_revocation_id")),
        sa.UniqueConstraint("project", "kind", "subject", name=op.f("uq_revocation_project_kind_subject")),
    )
    with op.batch_alter_table("revocation") as batch_op:
        batch_op.create_index("ix_revocation_at", ["at"])

    op.create_table(
        "secret",
        sa.Column("key", KEY, autoincrement=True, nullable=False),
        sa.Column("project", KEY, nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project"], ["project.key"], name=op.f("fk_secret_project_project"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_secret")),
        sa.UniqueConstraint("project", "name", name=op.f("uq_secret_project_name")),
    )
    op.create_table(
        "signing_key",
        sa.Column("key", KEY, autoincrement=True, nullable=False),
        sa.Column("project", KEY, nullable=False),
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("kid", sa.String(length=200), nullable=False),
        sa.Column("algorithm", sa.String(length=8), nullable=False),
        sa.Column("jwk", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.LargeBinary(), nullable=False),
        sa.Column("agents", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(
            ["project"], ["project.key"], name=op.f("fk_signing_key_project_project"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_signing_key")),
        sa.UniqueConstraint("id", name=op.f("uq_signing_key_id")),
        sa.UniqueConstraint("project", "kid", name=op.f("uq_signing_key_project_kid")),
    )
    op.create_table(
        "snapshot",
        sa.Column("project", KEY, nullable=False),
        sa.Column("hash", sa.String(length=32), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project"], ["project.key"], name=op.f("fk_snapshot_project_project"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("project", "hash", name=op.f("pk_snapshot")),
    )
    op.create_table(
        "spending",
        sa.Column("day", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("agent", sa.String(length=40), nullable=False),
        sa.Column("channel", sa.String(length=40), nullable=False),
        sa.Column("actor", sa.String(length=200), nullable=False),
        sa.Column("session", sa.String(length=40), nullable=False),
        sa.Column("project", KEY, nullable=False),
        sa.Column("run", sa.BigInteger(), nullable=False),
        sa.Column("runs", sa.BigInteger(), nullable=False),
        sa.Column("steps", sa.BigInteger(), nullable=False),
        sa.Column("unmeasured", sa.BigInteger(), nullable=False),
        sa.Column("unpriced", sa.BigInteger(), nullable=False),
        sa.Column("input", sa.BigInteger(), nullable=True),
        sa.Column("output", sa.BigInteger(), nullable=True),
        sa.Column("reasoning", sa.BigInteger(), nullable=True),
        sa.Column("cache_read", sa.BigInteger(), nullable=True),
        sa.Column("cache_write_short", sa.BigInteger(), nullable=True),
        sa.Column("cache_write_long", sa.BigInteger(), nullable=True),
        sa.Column("cost", sa.BigInteger(), nullable=True),
        sa.Column("uncached_cost", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["project"], ["project.key"], name=op.f("fk_spending_project_project"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("day", "agent", "channel", "actor", "session", name=op.f("pk_spending")),
        sqlite_with_rowid=False,
    )
    with op.batch_alter_table("spending") as batch_op:
        batch_op.create_index("ix_spending_session", ["session"])

    op.create_table(
        "tool",
        sa.Column("key", KEY, autoincrement=True, nullable=False),
        sa.Column("project", KEY, nullable=False),
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("source", sa.String(length=8), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project"], ["project.key"], name=op.f("fk_tool_project_project"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_tool")),
        sa.UniqueConstraint("id", name=op.f("uq_tool_id")),
        sa.UniqueConstraint("project", "name", name=op.f("uq_tool_project_name")),
    )
    op.create_table(
        "agent_version",
        sa.Column("agent", KEY, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("definition", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["agent"], ["agent.key"], name=op.f("fk_agent_version_agent_agent"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("agent", "version", name=op.f("pk_agent_version")),
    )
    op.create_table(
        "quota",
        sa.Column("agent", KEY, nullable=False),
        sa.Column("subject", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("minute", sa.BigInteger(), nullable=False),
        sa.Column("minute_messages", sa.BigInteger(), nullable=False),
        sa.Column("minute_messages_before", sa.BigInteger(), nullable=False),
        sa.Column("day", sa.BigInteger(), nullable=False),
        sa.Column("messages", sa.BigInteger(), nullable=False),
        sa.Column("messages_before", sa.BigInteger(), nullable=False),
        sa.Column("sessions", sa.BigInteger(), nullable=False),
        sa.Column("sessions_before", sa.BigInteger(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("tokens_before", sa.BigInteger(), nullable=False),
        sa.Column("cost", sa.BigInteger(), nullable=False),
        sa.Column("cost_before", sa.BigInteger(), nullable=False),
        sa.Column("stored", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["agent"], ["agent.key"], name=op.f("fk_quota_agent_agent"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("agent", "subject", name=op.f("pk_quota")),
    )
    with op.batch_alter_table("quota") as batch_op:
        batch_op.create_index(
            "ix_quota_day", ["day"], sqlite_where=sa.text("stored = 0"), postgresql_where=sa.text("stored = 0")
        )

    op.create_table(
        "session",
        sa.Column("key", KEY, autoincrement=True, nullable=False),
        sa.Column("project", KEY, nullable=False),
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("address", sa.Text(), nullable=True),
        sa.Column("agent", KEY, nullable=False),
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
        sa.Column("noted", sa.LargeBinary(), nullable=True),
        sa.Column("shared", sa.SmallInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("redactions", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.ForeignKeyConstraint(["agent"], ["agent.key"], name=op.f("fk_session_agent_agent"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["project"], ["project.key"], name=op.f("fk_session_project_project"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_session")),
        sa.UniqueConstraint("id", name=op.f("uq_session_id")),
        sa.UniqueConstraint("project", "address", name=op.f("uq_session_project_address")),
    )
    with op.batch_alter_table("session") as batch_op:
        batch_op.create_index(batch_op.f("ix_session_project_actor"), ["project", "actor"])

    op.create_table(
        "tool_version",
        sa.Column("tool", KEY, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("definition", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["tool"], ["tool.key"], name=op.f("fk_tool_version_tool_tool"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("tool", "version", name=op.f("pk_tool_version")),
    )
    op.create_table(
        "blob",
        sa.Column("key", KEY, autoincrement=True, nullable=False),
        sa.Column("project", KEY, nullable=False),
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("session", KEY, nullable=True),
        sa.Column("mime", sa.String(length=100), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column("run", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["project"], ["project.key"], name=op.f("fk_blob_project_project"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["session"], ["session.key"], name=op.f("fk_blob_session_session"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_blob")),
        sa.UniqueConstraint("id", "session", name=op.f("uq_blob_id_session")),
    )
    with op.batch_alter_table("blob") as batch_op:
        batch_op.create_index("ix_blob_session", ["session"])

    op.create_table(
        "branch",
        sa.Column("source", KEY, autoincrement=False, nullable=False),
        sa.Column("target", KEY, nullable=False),
        sa.ForeignKeyConstraint(["source"], ["session.key"], name=op.f("fk_branch_source_session"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["target"], ["session.key"], name=op.f("fk_branch_target_session"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("source", name=op.f("pk_branch")),
    )
    with op.batch_alter_table("branch") as batch_op:
        batch_op.create_index("ix_branch_target", ["target"])

    op.create_table(
        "card",
        sa.Column("key", KEY, autoincrement=True, nullable=False),
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("channel", sa.String(length=20), nullable=False),
        sa.Column("session", sa.String(length=40), nullable=False),
        sa.Column("approval", sa.String(length=40), nullable=False),
        sa.Column("place", sa.String(length=255), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("refs", sa.JSON(), nullable=False),
        sa.Column("shown", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("version", sa.String(length=40), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("sent_at", sa.BigInteger(), nullable=True),
        sa.Column("owner", sa.String(length=40), nullable=True),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["session"], ["session.id"], name=op.f("fk_card_session_session"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_card")),
        sa.UniqueConstraint("approval", "place", name=op.f("uq_card_approval_place")),
        sa.UniqueConstraint("id", name=op.f("uq_card_id")),
    )
    with op.batch_alter_table("card") as batch_op:
        batch_op.create_index("ix_card_session", ["session"])
        batch_op.create_index(
            "ix_card_unsettled",
            ["channel", "key"],
            sqlite_where=sa.text("state != 'settled'"),
            postgresql_where=sa.text("state != 'settled'"),
        )

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
        "event",
        sa.Column("session", KEY, nullable=False),
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
        "file",
        sa.Column("key", KEY, autoincrement=True, nullable=False),
        sa.Column("project", KEY, nullable=False),
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("session", KEY, nullable=True),
        sa.Column("seq", sa.BigInteger(), nullable=True),
        sa.Column("agent", sa.String(length=40), nullable=True),
        sa.Column("actor", sa.String(length=200), nullable=False),
        sa.Column("actor_kind", sa.String(length=8), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("mime", sa.String(length=100), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("text", sa.String(length=40), nullable=True),
        sa.Column("pages", sa.Integer(), nullable=True),
        sa.Column("stored", sa.BigInteger(), nullable=False),
        sa.Column("charged", sa.LargeBinary(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project"], ["project.key"], name=op.f("fk_file_project_project"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["session"], ["session.key"], name=op.f("fk_file_session_session"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_file")),
        sa.UniqueConstraint("id", "session", name=op.f("uq_file_id_session")),
    )
    with op.batch_alter_table("file") as batch_op:
        batch_op.create_index("ix_file_session", ["session"])
        batch_op.create_index(
            "ix_file_waiting",
            ["created_at"],
            sqlite_where=sa.text("seq IS NULL"),
            postgresql_where=sa.text("seq IS NULL"),
        )

    op.create_table(
        "place",
        sa.Column("key", KEY, autoincrement=True, nullable=False),
        sa.Column("session", sa.String(length=40), nullable=False),
        sa.Column("channel", sa.String(length=20), nullable=False),
        sa.Column("address", sa.String(length=255), nullable=False),
        sa.Column("wanted_at", sa.BigInteger(), nullable=True),
        sa.Column("shown", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.String(length=40), nullable=True),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("waits_at", sa.BigInteger(), nullable=True),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["session"], ["session.id"], name=op.f("fk_place_session_session"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_place")),
        sa.UniqueConstraint("session", name=op.f("uq_place_session")),
    )
    with op.batch_alter_table("place") as batch_op:
        batch_op.create_index(
            "ix_place_waiting",
            ["channel"],
            sqlite_where=sa.text("waits_at IS NOT NULL"),
            postgresql_where=sa.text("waits_at IS NOT NULL"),
        )
        batch_op.create_index(
            "ix_place_wanted",
            ["channel", "until"],
            sqlite_where=sa.text("wanted_at IS NOT NULL"),
            postgresql_where=sa.text("wanted_at IS NOT NULL"),
        )

    op.create_table(
        "render",
        sa.Column("session", KEY, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("id", sa.String(length=60), nullable=False),
        sa.ForeignKeyConstraint(
            ["session"], ["session.key"], name=op.f("fk_render_session_session"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("session", "seq", name=op.f("pk_render")),
    )
    with op.batch_alter_table("render") as batch_op:
        batch_op.create_index("ix_render_id", ["id"])

    op.create_table(
        "run",
        sa.Column("key", KEY, autoincrement=True, nullable=False),
        sa.Column("project", KEY, nullable=False),
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("session", KEY, nullable=False),
        sa.Column("agent", KEY, nullable=False),
        sa.Column("agent_version", sa.Integer(), nullable=False),
        sa.Column("parent", KEY, nullable=True),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(length=40), nullable=True),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.Column("input_seq", sa.BigInteger(), nullable=False),
        sa.Column("first_seq", sa.BigInteger(), nullable=False),
        sa.Column("last_seq", sa.BigInteger(), nullable=True),
        sa.Column("snapshot", sa.String(length=32), nullable=False),
        sa.Column("options", sa.LargeBinary(), nullable=True),
        sa.Column("actor", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("queued_at", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("charged", sa.LargeBinary(), nullable=True),
        sa.Column("asker", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(["agent"], ["agent.key"], name=op.f("fk_run_agent_agent"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["parent"], ["run.key"], name=op.f("fk_run_parent_run"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["project"], ["project.key"], name=op.f("fk_run_project_project"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["session"], ["session.key"], name=op.f("fk_run_session_session"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_run")),
        sa.UniqueConstraint("id", name=op.f("uq_run_id")),
    )
    with op.batch_alter_table("run") as batch_op:
        batch_op.create_index(
            "ix_run_open",
            ["status", "due_at"],
            sqlite_where=sa.text("status IN ('queued', 'running', 'waiting', 'requires_action')"),
            postgresql_where=sa.text("status IN ('queued', 'running', 'waiting', 'requires_action')"),
        )
        batch_op.create_index(
            "ix_run_parent",
            ["parent"],
            sqlite_where=sa.text("parent IS NOT NULL"),
            postgresql_where=sa.text("parent IS NOT NULL"),
        )
        batch_op.create_index(
            "ix_run_queued_root",
            ["session", "input_seq"],
            sqlite_where=sa.text("parent IS NULL AND status = 'queued'"),
            postgresql_where=sa.text("parent IS NULL AND status = 'queued'"),
        )
        batch_op.create_index("ix_run_session", ["session"])
        batch_op.create_index(
            "uq_run_active_root",
            ["session"],
            unique=True,
            sqlite_where=sa.text("parent IS NULL AND status IN ('running', 'waiting', 'requires_action')"),
            postgresql_where=sa.text("parent IS NULL AND status IN ('running', 'waiting', 'requires_action')"),
        )

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
        sa.ForeignKeyConstraint(["run"], ["run.key"], name=op.f("fk_approval_run_run"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["session"], ["session.key"], name=op.f("fk_approval_session_session"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_approval")),
        sa.UniqueConstraint("id", name=op.f("uq_approval_id")),
    )
    with op.batch_alter_table("approval") as batch_op:
        batch_op.create_index(
            "ix_approval_open",
            ["key"],
            sqlite_where=sa.text("status = 'open'"),
            postgresql_where=sa.text("status = 'open'"),
        )
        batch_op.create_index("ix_approval_run", ["run", "status"])
        batch_op.create_index("ix_approval_session", ["session", "hook", "tool"])

    op.create_table(
        "delivery",
        sa.Column("key", KEY, autoincrement=True, nullable=False),
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("place", KEY, nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("begins", sa.String(length=120), nullable=True),
        sa.Column("ends", sa.String(length=120), nullable=True),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("mode", sa.String(length=20), nullable=True),
        sa.Column("ref", sa.String(length=120), nullable=True),
        sa.Column("sent_to", sa.Integer(), nullable=False),
        sa.Column("acked_to", sa.Integer(), nullable=False),
        sa.Column("began_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["place"], ["place.key"], name=op.f("fk_delivery_place_place"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_delivery")),
        sa.UniqueConstraint("id", name=op.f("uq_delivery_id")),
        sa.UniqueConstraint("place", "n", name=op.f("uq_delivery_place_n")),
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
        sa.Column("charged", sa.LargeBinary(), nullable=True),
        sa.Column("stored", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["run"], ["run.key"], name=op.f("fk_feedback_run_run"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run", "kind", "actor", name=op.f("pk_feedback")),
    )
    op.create_table(
        "receipt",
        sa.Column("scope", sa.String(length=8), nullable=False),
        sa.Column("owner", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("project", KEY, nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("run", KEY, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("message", sa.String(length=60), nullable=False),
        sa.ForeignKeyConstraint(
            ["project"], ["project.key"], name=op.f("fk_receipt_project_project"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["run"], ["run.key"], name=op.f("fk_receipt_run_run"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("scope", "owner", "name", name=op.f("pk_receipt")),
        sqlite_with_rowid=False,
    )
    with op.batch_alter_table("receipt") as batch_op:
        batch_op.create_index("ix_receipt_run", ["run"])

    op.create_table(
        "result",
        sa.Column("session", KEY, nullable=False),
        sa.Column("n", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("run", KEY, nullable=True),
        sa.Column("call", sa.String(length=60), nullable=False),
        sa.Column("blob", sa.String(length=40), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("columns", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["run"], ["run.key"], name=op.f("fk_result_run_run"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["session"], ["session.key"], name=op.f("fk_result_session_session"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("session", "n", name=op.f("pk_result")),
    )
    op.create_table(
        "upload",
        sa.Column("place", KEY, nullable=False),
        sa.Column("render", sa.String(length=60), nullable=False),
        sa.Column("form", sa.String(length=8), nullable=False),
        sa.Column("file", sa.String(length=60), nullable=True),
        sa.Column("state", sa.String(length=8), nullable=False),
        sa.ForeignKeyConstraint(["place"], ["place.key"], name=op.f("fk_upload_place_place"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("place", "render", "form", name=op.f("pk_upload")),
    )
