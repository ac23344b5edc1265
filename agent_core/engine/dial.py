"""The dial: the connections of DBOS, which fail as soon as the database is away, and end with the worker."""

import os
import socket
from contextlib import suppress
from typing import Any
from weakref import WeakSet

from sqlalchemy import make_url

from agent_core.errors import Unavailable

_CONNECT_TIMEOUT = 5
_IDLE_TIMEOUT = "-c idle_in_transaction_session_timeout=60000"


class Dial:
    """Makes connections to the database at a URL until it is cut.

    What cannot be connected is `Unavailable`: DBOS, which retries the errors of its driver without limit, passes it on.
    """

    def __init__(self, url: str) -> None:
        self._url = make_url(url)
        self._made: WeakSet[Any] = WeakSet()
        self._is_cut = False

    def __call__(self) -> Any:
        """Return a new connection; raises `Unavailable`."""
        import psycopg  # noqa: PLC0415 - it is loaded with DBOS

        if self._is_cut:
            raise Unavailable("This worker has ended.")
        arguments, options = self._url.get_dialect()().create_connect_args(self._url)
        options = {"connect_timeout": _CONNECT_TIMEOUT, "options": _IDLE_TIMEOUT, **options}
        try:
            made = psycopg.connect(*arguments, **options)
        except psycopg.OperationalError as error:
            raise Unavailable("The database cannot be reached; try again in a moment.") from error
        self._made.add(made)
        return made

    def cut(self) -> None:
        """Make no more connections, and shut down the open ones: a thread that waits for an answer gets an error."""
        self._is_cut = True
        for connection in [each for each in self._made if not each.closed]:
            with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as held:
                held.shutdown(socket.SHUT_RDWR)
