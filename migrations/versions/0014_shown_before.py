"""The places of renders that own tools have shown before there was a table of them."""

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

# One statement within the database reads the log once, in a transaction of its own: the one that makes the table holds
# a lock on the sessions. 60 is the number of `render.shown`, whose body begins with its id.
SHOWN = (
    "INSERT INTO render (session, seq, id) SELECT session, seq, {id} FROM event WHERE type = 60 ON CONFLICT DO NOTHING"
)
IDS = {
    "sqlite": "json_extract(CAST(data AS TEXT), '$.render')",
    "postgresql": """substring(convert_from(data, 'UTF8') FROM '"render":"([^"]*)"')""",
}


def upgrade() -> None:
    """Apply the change: rows of a table that processes of the old version do not use."""
    op.execute(SHOWN.format(id=IDS[op.get_bind().dialect.name]))


def downgrade() -> None:
    """Take nothing back: the table goes with the revision that made it."""
