"""The bounds of a fetch, and what it returns."""

from collections.abc import Mapping
from dataclasses import dataclass


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
