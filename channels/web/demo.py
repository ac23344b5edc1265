"""Who may see the demo page: without a password the people at this very machine, else those who know it."""

import base64
import binascii
import hmac
import ipaddress
import time
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import structlog
from starlette.requests import Request

from agent_core import Forbidden, RateLimited

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "via")
"""Headers that proxies add: a request with one of them comes from further than its connection."""
FREE, WAIT = 5, 30
"""Wrong passwords of one place (`Door`) that are answered at once, and the seconds until the next may be tried."""
MAX_ADDRESSES = 1_000
_log = structlog.get_logger("parley.demo")


class Unauthorized(Exception):
    """A request for the demo page comes without its password."""


def host_name(host: str) -> str | None:
    """Return the name in a Host header, without its port; None when it is none."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def is_forwarded(headers: Mapping[str, str]) -> bool:
    """Return whether a proxy says that it passed the request on."""
    return any(name in headers for name in FORWARDED)


def is_address(name: str) -> bool:
    """Return whether *name*, of a Host header, is a network address: no name server decides where that leads."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_near(client: str | None) -> bool:
    """Return whether *client*, the address of a connection's peer, is this machine's own."""
    try:
        return ipaddress.ip_address(client or "").is_loopback
    except ValueError:
        return False


class Door:
    """Lets people to the demo page: with a *password* those who know it, else those at this machine.

    What counts is the connection's peer; a `Host` header is checked too, for names that lead here from elsewhere (DNS
    rebinding), and grants nothing. *now* returns seconds; *place_of* returns what an address is counted as.
    """

    def __init__(
        self,
        password: str | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
        place_of: Callable[[str], str] = str,
    ) -> None:
        self._password, self._now, self._place_of = password, now, place_of
        self._failed: dict[str, tuple[int, float]] = {}

    async def __call__(self, request: Request) -> None:
        """Raise `Forbidden`, `Unauthorized` or `RateLimited` for a request that may not see the page."""
        if request.headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
            raise Forbidden("The demo page does not answer to other sites.")
        client = request.client.host if request.client else None
        if self._password is not None:
            self._check(request.headers.get("authorization", ""), self._place_of(client or ""), self._password)
            return
        if not is_near(client) or is_forwarded(request.headers):
            raise Forbidden(
                "Without a password the demo page is open on this machine alone, and not through a proxy; "
                "PARLEY_DEMO_PASSWORD opens it to others."
            )
        if host_name(request.headers.get("host", "")) not in LOOPBACK:
            raise Forbidden("The demo page answers only as localhost, 127.0.0.1 or [::1].")

    def _check(self, header: str, place: str, password: str) -> None:
        count, last = self._failed.get(place, (0, 0.0))
        rest = last + WAIT - self._now()
        # Not even the right one passes before that: a password that people choose could be guessed at full speed.
        if count >= FREE and rest > 0:
            raise RateLimited(
                "Too many wrong passwords; try again in a moment.", max(1, int(rest)), limit="demo_password"
            )
        attempt = _password_of(header)
        if attempt is None:
            raise Unauthorized
        self._failed.pop(place, None)
        if not hmac.compare_digest(attempt, password.encode()):
            self._fail(place, count + 1 if rest > 0 else 1)
            raise Unauthorized

    def _fail(self, place: str, count: int) -> None:
        self._failed[place] = (count, self._now())
        if len(self._failed) > MAX_ADDRESSES:
            del self._failed[next(iter(self._failed))]
        _log.warning("demo_password.wrong" if count < FREE else "demo_password.slowed", address=place, failures=count)


def _password_of(header: str) -> bytes | None:
    """Return the password in an `Authorization: Basic` header, whatever the name in it; None without one."""
    scheme, _, text = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        return base64.b64decode(text.strip(), validate=True).partition(b":")[2]
    except (binascii.Error, ValueError):
        return b""
