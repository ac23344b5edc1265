"""What a guarded fetch ends with when there is no answer.

FetchFailed              the other side could not be asked, or what it said is no HTTP
├── FetchRefused         the guard does not let it through: nothing was sent there
├── FetchUnreachable     there is no connection: nothing was sent either
├── FetchTimedOut        no answer, or none in full, in time
└── FetchTooLarge        the answer is larger than the caller takes

A message names the host and the port at most: the rest of a URL may be a secret.
"""

from agent_core.errors import ParleyError


class FetchFailed(ParleyError):
    """The other side could not be asked, or what it said cannot be read; the root of what a fetch raises."""

    code = "fetch_failed"


class FetchRefused(FetchFailed):
    """The guard does not let this through."""

    code = "fetch_refused"


class FetchUnreachable(FetchFailed):
    """No connection could be made."""

    code = "fetch_unreachable"


class FetchTimedOut(FetchFailed):
    """The answer did not come in time, or not all of it."""

    code = "fetch_timed_out"


class FetchTooLarge(FetchFailed):
    """The answer is larger than its bound, as it came or once it was unpacked."""

    code = "fetch_too_large"
