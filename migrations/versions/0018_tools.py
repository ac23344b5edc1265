"""Tools that are defined, MCP servers, and the secrets that both refer to."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Apply the change: tables that the old version does not know."""
    op.create_table(
        "tool",
        *_named("tool", sa.Column("version", sa.Integer(), nullable=False), id=True, source=True),
    )
    op.create_table(
        "tool_version",
        sa.Column("tool", KEY, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("definition", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["tool"], ["tool.key"], name=op.f("fk_tool_version_tool_tool"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("tool", "version", name=op.f("pk_tool_version")),
    )
    op.create_table("secret", *_named("secret", sa.Column("sealed", sa.LargeBinary(), nullable=False)))
    op.create_table(
        "mcp_server",
        *_named(
            "mcp_server",
            sa.Column("definition", sa.LargeBinary(), nullable=False),
            sa.Column("listing", sa.LargeBinary(), nullable=True),
            sa.Column("listed_at", sa.BigInteger(), nullable=True),
            sa.Column("accepted", sa.LargeBinary(), nullable=True),
            sa.Column("error", sa.String(length=2_000), nullable=True),
            sa.Column("failed_at", sa.BigInteger(), nullable=True),
            sa.Column("due_at", sa.BigInteger(), nullable=False),
            id=True,
            source=True,
        ),
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


def downgrade() -> None:
    """Take the change back."""
    for table in ("revision", "mcp_server", "secret", "tool_version", "tool"):
        op.drop_table(table)


def _named(
    table: str, *columns: "sa.Column[object]", id: bool = False, source: bool = False
) -> list["sa.Column[object] | sa.Constraint"]:
    """Return the columns and constraints of a *table* of things with names."""
    own: list[sa.Column[object] | sa.Constraint] = [
        sa.Column("key", KEY, autoincrement=True, nullable=False),
        sa.Column("project", KEY, nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        *([sa.Column("id", sa.String(length=40), nullable=False)] if id else []),
        *([sa.Column("source", sa.String(length=8), nullable=False)] if source else []),
        *columns,
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project"], ["project.key"], name=op.f(f"fk_{table}_project_project"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("key", name=op.f(f"pk_{table}")),
        sa.UniqueConstraint("project", "name", name=op.f(f"uq_{table}_project_name")),
    ]
    return [*own, *([sa.UniqueConstraint("id", name=op.f(f"uq_{table}_id"))] if id else [])]
