"""How many people who have not said who they are may come from one network address: counted for a minute."""

from collections.abc import Callable
from time import monotonic

import structlog

from agent_core import RateLimited
from app.serving.windows import CountWindows

WINDOW = 60.0
MAX_NEW, MAX_KNOWN = 60, 600
"""New visitors, and tokens of visitors who were here before, of one address within a window."""
MAX_OF_ALL = 3_000
"""Either of them where the address is not known: behind a proxy that no setting names all people share it."""
SIZE = 10_000
"""Addresses that are counted at once; the one that came least lately is forgotten."""
_log = structlog.get_logger("parley.newcomers")


class Newcomers:
    """Tokens that were made for anonymous visitors in the last minute, in this process; *now* gives seconds."""

    def __init__(self, now: Callable[[], float] = monotonic, *, size: int = SIZE) -> None:
        self._tokens = CountWindows[tuple[str | None, bool]](now, length=WINDOW, size=size)

    def admit(self, address: str | None, *, is_new: bool) -> None:
        """Count one token for someone at *address*, None: it is not known; raises `RateLimited` beyond the limit."""
        count, seconds = self._tokens.add((address, is_new))
        most = MAX_OF_ALL if address is None else MAX_NEW if is_new else MAX_KNOWN
        if count <= most:
            return
        if count == most + 1:
            _log.warning("limit.reached", limit="anonymous_tokens", address=address, seconds=seconds)
        text = "Too many people have come from your network address within a minute"
        raise RateLimited(f"{text}; try again in {seconds} seconds.", seconds, limit="anonymous_tokens")
