"""Membership: whether this process may own runs, and when another worker has expired."""

from typing import Protocol


class Membership(Protocol):
    """The status of this worker among all workers of its database."""

    @property
    def is_well(self) -> bool:
        """Return whether this worker may own runs now."""
        ...

    @property
    def expire_after(self) -> int:
        """Return after how many milliseconds without a heartbeat another worker has expired."""
        ...

    def reports(self, error: Exception) -> bool:
        """Return whether the membership logs the cause of *error* itself: an outage of the database."""
        ...


class SoleWorker:
    """The membership of the one process that owns its database: every other worker has expired."""

    is_well = True
    expire_after = 0

    def reports(self, error: Exception) -> bool:  # noqa: ARG002 - the port has it
        return False
