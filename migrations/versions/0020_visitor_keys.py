"""Keys of those who sign visitors' tokens."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Apply the change: a table that the old version does not know."""
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
        sa.ForeignKeyConstraint(
            ["project"], ["project.key"], name=op.f("fk_signing_key_project_project"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_signing_key")),
        sa.UniqueConstraint("id", name=op.f("uq_signing_key_id")),
        sa.UniqueConstraint("project", "kid", name=op.f("uq_signing_key_project_kid")),
    )


def downgrade() -> None:
    """Take the change back."""
    op.drop_table("signing_key")
