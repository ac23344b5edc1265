"""The error tree.

ParleyError
├── ConfigError            the start is misconfigured; the message names the setting and the remedy
├── NotFound               unknown or foreign id
├── InvalidInput           an invalid value; `faults` are the places and reasons
│   ├── TooLarge
│   ├── UnknownCursor
│   └── IdempotencyMismatch
├── Conflict               the state does not allow it
│   ├── SessionBusy
│   ├── SessionClosed
│   ├── SessionOpen
│   ├── AlreadyDecided
│   ├── ManagedByFile
│   └── ToolInUse
├── Forbidden
│   └── NotAnApprover
├── DrawingFailed          the chart does not compile, is too large, or took more time or memory than it may
│   └── DrawingUnavailable nothing is wrong with the chart: too many wait, or the process cannot start
├── RateLimited            a limit is reached; nothing was stored, the same may be sent again
├── Unavailable            the database cannot be reached now; the same may be sent again
└── LostRun                another worker owns the run now; this one must stop
    └── NewerRun           a newer version has written to the run; this one cannot drive it
"""

from dataclasses import dataclass
from typing import ClassVar


class ParleyError(Exception):
    """Root of all errors that Parley raises on purpose; `code` is the contract's word for it."""

    code: ClassVar[str] = "error"


class ConfigError(ParleyError):
    """The settings cannot work; raised before anything starts."""

    code = "misconfigured"


class NotFound(ParleyError):
    code = "not_found"

    def __init__(self, noun: str, name: str, hint: str = "") -> None:
        """*hint* is a sentence on what there is."""
        super().__init__(" ".join(filter(None, (f"There is no {noun} `{name[:100]}` here.", hint))))


@dataclass(frozen=True, slots=True)
class Fault:
    """Where a value is wrong, and why; a path that begins with `$` is one within the value itself."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"

    def within(self, path: str) -> "Fault":
        """Return the fault of a value that is at *path* of a larger one."""
        return Fault(path + self.path.removeprefix("$"), self.message)


class InvalidInput(ParleyError):
    """An invalid value: its first fault, and *more* of them."""

    code = "invalid_request"

    def __init__(self, path: str, message: str, *more: Fault) -> None:
        super().__init__(f"`{path}`: {message}")
        self.path, self.message = path, message
        self.faults = (Fault(path, message), *more)


class TooLarge(InvalidInput):
    code = "too_large"


class UnknownCursor(InvalidInput):
    code = "unknown_cursor"


class IdempotencyMismatch(InvalidInput):
    code = "idempotency_mismatch"

    def __init__(self, key: str) -> None:
        super().__init__(
            "idempotency_key",
            f"the key `{key[:100]}` was used with another body; send the same body, or a new key.",
        )


class Conflict(ParleyError):
    code = "conflict"


class SessionBusy(Conflict):
    code = "session_busy"


class SessionClosed(Conflict):
    code = "session_closed"


class NotRepeatable(Conflict):
    code = "not_repeatable"


class SessionOpen(Conflict):
    code = "session_open"


class AlreadyDecided(Conflict):
    """A call or an approval has its outcome already; *approval* is the one that has."""

    code = "already_decided"

    def __init__(self, message: str, approval: object = None) -> None:
        super().__init__(message)
        self.approval = approval


class ManagedByFile(Conflict):
    code = "managed_by_file"


class ToolInUse(Conflict):
    code = "tool_in_use"


class Forbidden(ParleyError):
    code = "forbidden"


class NotAnApprover(Forbidden):
    code = "not_an_approver"


class RateLimited(ParleyError):
    """A limit is reached; the same may be sent again after *retry_after* seconds. *limit* names it for metrics."""

    code = "rate_limited"

    def __init__(self, message: str, retry_after: int, *, limit: str) -> None:
        super().__init__(message)
        self.retry_after, self.limit = retry_after, limit

    @property
    def is_quota(self) -> bool:
        """Whether it is a quota of the agent's, such as `visitor.messages_per_day`."""
        return "." in self.limit


class Unavailable(ParleyError):
    """The database cannot be reached, or the connection was lost; the same may work in a moment."""

    code = "unavailable"


class LostRun(ParleyError):
    """Raised by the log when an append carries an old epoch of its run."""

    code = "lost_run"


class NewerRun(LostRun):
    """Raised where a run's log holds facts that only a newer version knows: a process of that version drives it."""

    code = "newer_run"

    def __init__(self, run: str) -> None:
        super().__init__(f"Run `{run}` was written by a newer version; it waits for a worker of that one.")


class DrawingFailed(ParleyError):
    """There is no drawing; the message is for people and for models, and says what to draw instead."""

    code = "drawing_failed"


class DrawingUnavailable(DrawingFailed):
    """Nothing can be drawn now; the same chart may be drawn later."""

    code = "drawing_unavailable"
