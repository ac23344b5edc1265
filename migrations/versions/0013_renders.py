"""Handles of results, the places of renders in the log, and files that channels show of them."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Apply the change: three tables that processes of the old version do not use."""
    op.create_table(
        "result",
        sa.Column("session", KEY, nullable=False),
        sa.Column("n", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("run", KEY, nullable=True),
        sa.Column("call", sa.String(length=60), nullable=False),
        sa.Column("blob", sa.String(length=40), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("columns", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["session"], ["session.key"], name=op.f("fk_result_session_session"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["run"], ["run.key"], name=op.f("fk_result_run_run"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("session", "n", name=op.f("pk_result")),
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
    op.create_index("ix_render_id", "render", ["id"])
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


def downgrade() -> None:
    """Take the change back."""
    op.drop_table("upload")
    op.drop_index("ix_render_id", table_name="render")
    op.drop_table("render")
    op.drop_table("result")
