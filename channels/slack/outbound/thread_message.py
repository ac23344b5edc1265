"""thread_message: one message of a thread, and what this process knows of it."""

from dataclasses import dataclass

from agent_core import ParleyError
from channels.base import LedgerEntry
from channels.slack.outbound.picture import MessagePicture, as_sent

WAIT = 5.0
"""Seconds for which the end of a stream waits for a picture; after them an update adds it."""


class GaveUp(ParleyError):
    """The thread is gone or not accessible: nothing can be shown."""

    code = "thread_gone"


@dataclass(slots=True)
class ThreadMessage:
    """A message of the thread: its row, and *last*, what this process knows that it shows, since *at* (milliseconds).

    *unsure* is set when the thread could not be searched for it.
    """

    entry: LedgerEntry
    last: MessagePicture | None = None
    at: int = 0
    looks: int = 0
    refused: int = 0
    unsure: bool = False
    ends_at: int | None = None

    def waits(self, now: int) -> bool:
        """Return whether the end of its stream still waits for a picture, *now* in milliseconds."""
        self.ends_at = self.ends_at or now + round(WAIT * 1000)
        return now < self.ends_at

    def differs_from(self, wanted: MessagePicture) -> bool:
        """Return whether it shows something else than *wanted*, which only an update can change."""
        if self.last is None or self.entry.mode != "post":
            return False
        return as_sent(self.last.items, wanted.items, streams=False) != self.last.items

    @property
    def ts(self) -> str:
        assert self.entry.ref is not None, "it was not sent yet"
        return self.entry.ref
