"""API keys, revocations, and the record of operations."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Apply the change: three tables that processes of the old version do not use."""
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
    op.create_index("ix_revocation_at", "revocation", ["at"])
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


def downgrade() -> None:
    """Take the change back."""
    op.drop_table("operation")
    op.drop_table("revocation")
    op.drop_table("api_key")
