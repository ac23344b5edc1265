"""What the channels are asked to show at once, from outside of them. One transaction's work."""

from sqlalchemy import Connection, Table, update

from channels.tables import PlaceRow

_PLACE: Table = vars(PlaceRow)["__table__"]


def show_again(connection: Connection, session: str, now: int) -> None:
    """Request that *session* is shown where it is shown: the next sweep of the channel's processes finds it.

    In the transaction that writes what is to be shown, so that a crash loses neither.
    """
    connection.execute(update(_PLACE).where(_PLACE.c.session == session).values(wanted_at=now))
