"""Files that people send: read, kept, found, and given to messages."""

from collections.abc import Collection

from agent_core.errors import InvalidInput
from agent_core.messages import Actor, FileObject
from agent_core.quotas import Origin
from agent_core.store import files
from agent_core.store.files import NewFile
from agent_core.store.store import Store
from agent_core.uploads.reader import FileCheck, FileReader, kind_of, least_kept


class SentFiles:
    """What people have sent to this core's agents."""

    def __init__(self, store: Store) -> None:
        self._store, self._reader = store, FileReader(clock=store.clock)

    def check_by(self, check: FileCheck) -> None:
        """Ask *check* about each file from now on, before it is kept."""
        self._reader.check = check

    async def add(
        self,
        data: bytes,
        *,
        name: str,
        declared: str | None,
        accept: Collection[str],
        actor: Actor,
        origin: Origin,
        agent: str | None = None,
        session: str | None = None,
    ) -> FileObject:
        """Read a file and keep it for a message, for a day; *declared* is the type that its sender says.

        *agent* is the id of the one whose quotas it counts towards. Raises `InvalidInput` for what is not one of the
        types *accept*, cannot be read or is refused by the check of files; `NotFound`, `RateLimited`, `Unavailable`.
        """
        mime = kind_of(data, name, declared)
        if mime not in accept:
            raise InvalidInput("file", f"files of the type {mime} are not taken here.")
        now, least = self._store.clock.now(), least_kept(data, mime)
        await self._store.read(lambda connection: files.check_room(connection, agent, actor, origin, least, now=now))
        whose = "operator" if origin.is_operator else actor.kind  # an operator may name any actor
        owner = f"address:{origin.address}" if origin.is_anonymous else f"{whose}:{actor.id}"
        file = await self._reader.read(data, name=name, mime=mime, owner=owner)
        new = NewFile(
            name=file.name,
            mime=file.mime,
            data=file.data,
            text=file.text,
            pages=file.pages,
            actor=actor,
            agent=agent,
            session=session,
            origin=origin,
        )
        now = self._store.clock.now()
        return await self._store.write(lambda connection: files.add(connection, new, now=now))

    async def find(self, id: str) -> tuple[FileObject, ...]:
        """Return the file *id* in each place where it is, the oldest first; raises `NotFound`."""
        return await self._store.read(lambda connection: files.find(connection, id))

    async def data(self, file: FileObject) -> bytes:
        """Return the bytes of *file*; raises `NotFound`."""
        return (await self._store.get(file.id))[1]
