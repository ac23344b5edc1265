"""The versions of the widget that the servers of one database have given out: pages that pin one go on working."""

import base64
import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Table, delete, func, select, update

from agent_core import Clock
from channels.base import Records
from channels.web.tables import WidgetFileRow

KEPT = 20
"""Builds that are kept, by when a server last started with them."""
_HELD = 32
"""Scripts that are held in memory, of at most some 100 kB each."""
_FILE: Table = vars(WidgetFileRow)["__table__"]


def digest_of(content: bytes) -> str:
    """Return the SHA-256 of *content*, by whose beginning an address names a chunk."""
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode()


class WidgetVersions:
    """What was given out, in *records*."""

    def __init__(self, records: Records, clock: Clock) -> None:
        self._records, self._clock = records, clock
        self._held: OrderedDict[tuple[str, str], bytes] = OrderedDict()

    async def keep(self, build: str, files: Mapping[str, bytes]) -> None:
        """Keep the *files* of *build*, by name, and remove what is older than the last `KEPT` builds.

        Any number of processes may do so at once.
        """
        now = self._clock.now()
        await self._records.write(lambda connection: _keep(connection, build, files, now))

    async def find(self, build: str, name: str) -> bytes | None:
        """Return the script *name* of *build*; None for one that is not kept."""
        query = select(_FILE.c.content).where(_FILE.c.build == build, _FILE.c.name == name)
        return await self._read((build, name), query)

    async def find_chunk(self, name: str, version: str) -> bytes | None:
        """Return the script *name* whose digest begins with *version*; None for one that is not kept."""
        begins = _FILE.c.digest.startswith(version, autoescape=True)
        return await self._read((version, name), select(_FILE.c.content).where(_FILE.c.name == name, begins).limit(1))

    async def _read(self, key: tuple[str, str], query: Any) -> bytes | None:
        if (held := self._held.get(key)) is not None:
            self._held.move_to_end(key)
            return held
        content = await self._records.read(lambda connection: connection.execute(query).scalar())
        if content is not None:
            self._held[key] = content
            while len(self._held) > _HELD:
                self._held.popitem(last=False)
        return content


def _keep(connection: Connection, build: str, files: Mapping[str, bytes], now: int) -> None:
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert  # noqa: PLC0415 - three megabytes that SQLite does without
    else:
        from sqlalchemy.dialects.sqlite import insert  # noqa: PLC0415 - as above
    seen = connection.execute(update(_FILE).where(_FILE.c.build == build).values(served_at=now)).rowcount
    if seen < len(files):
        rows = [
            {"build": build, "name": name, "digest": digest_of(content), "content": content, "served_at": now}
            for name, content in sorted(files.items())
        ]
        connection.execute(insert(_FILE).on_conflict_do_nothing(), rows)
    latest = func.max(_FILE.c.served_at).desc()
    older = select(_FILE.c.build).group_by(_FILE.c.build).order_by(latest, _FILE.c.build).offset(KEPT).limit(1000)
    connection.execute(delete(_FILE).where(_FILE.c.build.in_(older.subquery().select())))
