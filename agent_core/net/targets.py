"""What a fetch may ask: how a URL, a host and a port may be written, and what the operator lets through."""

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from agent_core.net.addresses import special
from agent_core.net.errors import FetchRefused

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Finds the addresses of a host; raises OSError when there are none."""
SETTING = "PARLEY_FETCH_ALLOW"
PORTS = {"http": 80, "https": 443}
MAX_URL = 8192
_FIRST_FREE_PORT = 1024
_LAST_PORT = 65535
# The ports of other protocols that browsers do not connect to either: https://fetch.spec.whatwg.org/#port-blocking.
_OTHERS = (1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, *range(6665, 6670), 6679, 6697, 10080)
_LABEL = "[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
"""A last label like this makes the host an IPv4 address (https://url.spec.whatwg.org/#ends-in-a-number-checker)."""
_SCHEME = re.compile("(?i)https?://")
_AUTHORITY = re.compile(r"(?i)(?:\[[0-9a-f:.]+\]|[^\[\]:%]+)(?::[0-9]{1,5})?")
_ENTRY = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\[\]:]+)):([0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class Target:
    """A host, as it is written in one way only, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def literal(self) -> bool:
        """Whether the host is an address, which needs no lookup."""
        return _is_number(self.host)


def read_target(entry: str) -> Target:
    """Read `host:port`, an IPv6 address in brackets; raise ValueError for anything else."""
    match = _ENTRY.fullmatch(entry.lower())
    if match is None:
        raise ValueError("not host:port")
    return Target(_host(match[1] or match[2]), _port(int(match[3])))


def check_text(url: str) -> None:
    """Raise FetchRefused for a URL that programs read in different ways, or that holds a name or password."""
    if len(url) > MAX_URL:
        raise FetchRefused(f"The address is longer than {MAX_URL} characters.")
    if not url.isprintable() or " " in url or "\\" in url:
        raise FetchRefused("The address holds a blank, a control character or a backslash; write it without.")
    scheme = _SCHEME.match(url)
    if scheme is None:
        raise FetchRefused("The address begins with neither http:// nor https://; nothing else is fetched.")
    authority = re.split("[/?#]", url[scheme.end() :], maxsplit=1)[0]
    if "@" in authority:
        raise FetchRefused("The address holds a name or password before an @; send it in a header.")
    if _AUTHORITY.fullmatch(authority) is None:
        raise FetchRefused("The address has no host and port that can be read; write it as https://example.com:8443/.")


@dataclass(frozen=True, slots=True)
class TargetGuard:
    """Decides what may be asked: public addresses, and of the others what *allow* names."""

    allow: frozenset[Target]

    @classmethod
    def of(cls, entries: Iterable[str]) -> "TargetGuard":
        """Read the operator's list; raise ValueError for an entry that is no `host:port`."""
        return cls(frozenset(map(read_target, entries)))

    def target(self, scheme: str, host: str, port: int | None) -> Target:
        """Return what is asked; raise FetchRefused when it is written oddly or is no web server's port."""
        if scheme not in PORTS:
            raise FetchRefused("Only http:// and https:// are fetched.")
        try:
            target = Target(_host(host), _port(PORTS[scheme] if port is None else port))
        except ValueError as error:
            raise FetchRefused(f"The address cannot be fetched: {error}.") from None
        web = target.port in PORTS.values() or (target.port >= _FIRST_FREE_PORT and target.port not in _OTHERS)
        if not web and target not in self.allow:
            raise FetchRefused(f"`{target}` is not asked: the port is not one of a web server. {_remedy(target)}")
        return target

    def check(self, url: str) -> None:
        """Raise FetchRefused for a URL that can be seen to be refused without looking its name up."""
        check_text(url)
        parts = urlsplit(url)
        target = self.target(parts.scheme, (parts.hostname or "").lower(), parts.port)
        if target.literal:
            self.admit(target, [target.host])
        elif f".{target.host}".endswith(".localhost") and target not in self.allow:  # RFC 6761
            raise self.refusal(target, "loopback")

    def admit(self, target: Target, addresses: Sequence[str]) -> None:
        """Raise FetchRefused unless all that *target* resolves to is public, or the operator lets it through.

        One address that is not is enough: a server that answers with a public and a private one must not choose, by
        letting the first fail, where the request goes.
        """
        if target in self.allow:
            return
        kind = next(filter(None, map(special, addresses)), None)
        if kind is not None:
            raise self.refusal(target, kind)

    def refusal(self, target: Target, kind: str) -> FetchRefused:
        """Return the error that says what *target* is, and how it is let through."""
        reason = "it is not a public address" if target.literal else "it resolves to an address that is not public"
        return FetchRefused(f"`{target}` is not asked: {reason} ({kind}). {_remedy(target)}")


def _remedy(target: Target) -> str:
    return f"If it is meant to be, let the operator add {target} to {SETTING}."


def _host(written: str) -> str:
    """Return *written*, in lower case and ASCII, in its one form; raise ValueError when it is no plain host."""
    if _is_number(written):
        try:
            return str(ip_address(written))
        except ValueError:
            raise ValueError("its host is a number, and no plain address such as 192.0.2.7 or 2001:db8::7") from None
    if not _NAME.fullmatch(written):
        raise ValueError("its host is no name of letters, digits, hyphens and dots between them")
    return written


def _is_number(host: str) -> bool:
    return ":" in host or _NUMBER.fullmatch(host.rpartition(".")[2]) is not None


def _port(number: int) -> int:
    if not 1 <= number <= _LAST_PORT:
        raise ValueError(f"its port is not between 1 and {_LAST_PORT}")
    return number
