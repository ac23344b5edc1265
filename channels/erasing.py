"""What the channels keep of one person: taken out when their data is deleted. One transaction's work."""

from typing import Any

from sqlalchemy import Connection, Table, Text, cast, delete, or_, select, update

from channels.tables import CardRow, PlaceRow

_CARD: Table = vars(CardRow)["__table__"]
_PLACE: Table = vars(PlaceRow)["__table__"]
_PARTS = 3
"""Parts of the id of a person of a workspace: channel, workspace, account."""


def forget_places(connection: Connection, actor: str) -> int:
    """Delete the cards that *actor* was sent directly, and their account from threads that rest; return how many.

    What is shown of sessions that they opened goes with those.
    """
    direct = or_(_CARD.c.place == actor, _CARD.c.place.startswith(f"{actor}:", autoescape=True))
    count = connection.execute(delete(_CARD).where(direct)).rowcount
    parts = actor.split(":")
    if len(parts) != _PARTS:
        return count
    _, workspace, account = parts
    holds = cast(_PLACE.c.data, Text).contains(f'"{account}"', autoescape=True)
    query = select(_PLACE.c.key, _PLACE.c.data).where(holds, _PLACE.c.wanted_at.is_(None))
    for row in connection.execute(query).all():
        if workspace in row.data.values():
            data = {name: _without(value, account) for name, value in row.data.items()}
            connection.execute(update(_PLACE).where(_PLACE.c.key == row.key).values(data=data))
            count += 1
    return count


def _without(value: Any, account: str) -> Any:
    return "" if value == account else value
