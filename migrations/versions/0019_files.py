"""Files that people send."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
WAITING = sa.text("seq IS NULL")


def upgrade() -> None:
    """Apply the change: a table that the old version does not know."""
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
    op.create_index("ix_file_session", "file", ["session"])
    op.create_index("ix_file_waiting", "file", ["created_at"], sqlite_where=WAITING, postgresql_where=WAITING)


def downgrade() -> None:
    """Take the change back."""
    op.drop_index("ix_file_waiting", table_name="file")
    op.drop_index("ix_file_session", table_name="file")
    op.drop_table("file")
