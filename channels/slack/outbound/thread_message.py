"""thread_message: one message of a thread, and what this process knows of it."""

from dataclasses import dataclass

from agent_core import ParleyError
from channels.base import LedgerEntry
from channels.slack.outbound.picture import MessagePicture


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

    @property
    def ts(self) -> str:
        assert self.entry.ref is not None, "it was not sent yet"
        return self.entry.ref
