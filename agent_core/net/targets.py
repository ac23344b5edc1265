"""What a guarded fetch ends with when there is no answer.

FetchFailed              the other side could not be asked, or what it said is no HTTP
├── FetchRefused         the guard does not let it through: nothing was sent there
├── FetchUnreachable     there is no connection: nothing was sent either
├── FetchTimedOut        no answer, or none in full, in time
└── FetchTooLarge        the answer is larger than the caller takes

A message names the host and the port at most: the rest of a URL may be a secret.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

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


_KINDS_4 = (
    ("168.63.129.16/32", "metadata"),  # Azure's, at a public address; the others' are link-local, shared or private
    ("0.0.0.0/8", "unspecified"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "shared"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "reserved"),
    ("192.0.2.0/24", "documentation"),
    ("192.31.196.0/24", "reserved"),
    ("192.52.193.0/24", "reserved"),
    ("192.88.99.0/24", "reserved"),
    ("192.168.0.0/16", "private"),
    ("192.175.48.0/24", "reserved"),
    ("198.18.0.0/15", "benchmark"),
    ("198.51.100.0/24", "documentation"),
    ("203.0.113.0/24", "documentation"),
    ("224.0.0.0/4", "multicast"),
    ("255.255.255.255/32", "broadcast"),
    ("240.0.0.0/4", "reserved"),
)
_KINDS_6 = (
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    ("::ffff:0:0/96", "mapped IPv4"),
    ("::ffff:0:0:0/96", "translated IPv4"),
    ("::/96", "embedded IPv4"),
    ("64:ff9b:1::/48", "private"),
    ("100::/64", "discarded"),
    ("2001::/32", "Teredo"),
    ("2001:2::/48", "benchmark"),
    ("2001::/23", "reserved"),
    ("2001:db8::/32", "documentation"),
    ("2002::/16", "6to4"),
    ("3fff::/20", "documentation"),
    ("fc00::/7", "private"),  # with the metadata services of AWS, Google and others
    ("fe80::/10", "link-local"),
    ("fec0::/10", "private"),
    ("ff00::/8", "multicast"),
)
_PUBLIC_6 = "2000::/3"
_NAT64 = "64:ff9b::/96"
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)
"""The 32 bits before the IPv4 address in an ISATAP interface identifier (RFC 5214)."""


def special(address: str) -> str | None:
    """Return the kind of *address* in a word, "unreadable" if it is not an address; None if it is public.

    In IPv6 only global unicast addresses are public. An embedded IPv4 address that a router would unpack decides:
    networks without IPv4 reach everything through NAT64. Mapped, 6to4 and Teredo addresses are refused as they are,
    whatever they embed: servers' names do not resolve to them.
    """
    try:
        return _special_6(IPv6Address(address)) if ":" in address else _special_4(IPv4Address(address))
    except ValueError:
        return "unreadable"


def _special_4(address: IPv4Address) -> str | None:
    return next((kind for block, kind in _blocks_4() if address in block), None)


def _special_6(address: IPv6Address) -> str | None:
    if address.scope_id is not None:
        return "link-local"
    number = int(address)
    inside = IPv4Address(number & 0xFFFF_FFFF)
    if address in IPv6Network(_NAT64):
        return _special_4(inside)
    kind = next((kind for block, kind in _blocks_6() if address in block), None)
    if kind is None and address not in IPv6Network(_PUBLIC_6):
        return "reserved"
    if kind is None and number >> 32 & 0xFFFF_FFFF in _ISATAP:
        return _special_4(inside)
    return kind


@cache
def _blocks_4() -> tuple[tuple[IPv4Network, str], ...]:
    return tuple((IPv4Network(block), kind) for block, kind in _KINDS_4)


@cache
def _blocks_6() -> tuple[tuple[IPv6Network, str], ...]:
    return tuple((IPv6Network(block), kind) for block, kind in _KINDS_6)


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
