"""A file as it travels."""

from agent_core import FileObject
from app.api.bodies.derived import wire_of
from app.api.bodies.wire import rfc3339

_OPERATORS = ("agent", "actor", "actor_kind", "text", "pages")


class StoredFile(wire_of(FileObject, without=_OPERATORS), frozen=True, kw_only=True):
    """A file that was sent; *session* is the conversation that it belongs to, null while it waits for a message."""


def file_wire(file: FileObject) -> StoredFile:
    """Return *file* as it travels."""
    fields = {name: getattr(file, name) for name in StoredFile.__struct_fields__ if name != "created_at"}
    return StoredFile(**fields, created_at=rfc3339(file.created_at))  # pyright: ignore[reportCallIssue] - derived
