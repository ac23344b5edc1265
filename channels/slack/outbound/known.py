"""known: what a process knows that a message of Slack's shows, and who hears what it learns of it."""

from dataclasses import dataclass
from typing import Protocol

from channels.slack.outbound.picture import Item, Picture


@dataclass(slots=True)
class Shown:
    """What this process knows that a message shows: *last*, since *at* (milliseconds).

    It is *unsure* when nobody could be asked whether the message is there already.
    """

    last: Picture | None = None
    at: int = 0
    looks: int = 0
    refused: int = 0
    unsure: bool = False

    @property
    def items(self) -> tuple[Item, ...]:
        return self.last.items if self.last is not None else ()


class Hears(Protocol):
    """Hears what a screen learns from Slack."""

    async def stopped(self, run: str) -> None:
        """Note that a person stopped the stream of *run*, or deleted its message."""
        ...

    def told(self, status: str) -> None:
        """Note that a stream has set the session's status."""
        ...

    def ended(self) -> None:
        """Note that a stream ended, and Slack's `processing` with it, before its answer did."""
        ...
