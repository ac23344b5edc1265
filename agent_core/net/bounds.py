"""The bounds of a fetch, what it returns, and its port."""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long an answer may take and how large it may be.

    *seconds* is for everything; *first_byte* for the head of each answer, with lookup, connection and sending before
    it; *size* in bytes is that of the body as it comes and once it is unpacked. A head has 64 KiB at most.
    """

    seconds: float = 30.0
    first_byte: float = 15.0
    size: int = 5_000_000


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer: header names are in lower case, `url` is where it came from in the end."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str


class FetchPort(Protocol):
    """Asks another host, as `Fetch` does; raises FetchFailed, whose message may be shown."""

    def __call__(
        self, url: str, *, method: str, headers: Mapping[str, str], body: bytes, redirects: int, bounds: Bounds
    ) -> Awaitable[Fetched]: ...
