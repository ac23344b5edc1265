"""A file as it travels."""

from agent_core import FileObject
from app.api.derived import wire_of
from app.api.wire import rfc3339

_OPERATORS = ("agent", "actor", "actor_kind", "text", "pages")


class StoredFile(wire_of(FileObject, without=_OPERATORS), frozen=True, kw_only=True):
    """A file that was sent; *session* is the conversation that it belongs to, null while it waits for a message."""


def file_wire(file: FileObject) -> StoredFile:
    """Return *file* as it travels."""
    return StoredFile(
        id=file.id,
        name=file.name,
        mime=file.mime,
        size=file.size,
        session=file.session,
        created_at=rfc3339(file.created_at),
    )
