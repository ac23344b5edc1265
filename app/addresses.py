"""Addresses and names of machines, as settings write them and as connections have them."""

import ipaddress
import re
from collections.abc import Collection
from functools import lru_cache
from urllib.parse import urlsplit

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
# A name in ASCII (others are written `xn--…` in an origin), or an address.
_NAME = r"[a-z0-9_-]+(\.[a-z0-9_-]+)*"
_HOST = re.compile(rf"{_NAME}|[0-9a-f:.]*:[0-9a-f:.]*")
_PATTERN = re.compile(rf"(\*\.)?{_NAME}|[0-9a-f:]*:[0-9a-f:.]*")
PRIVATE = tuple(
    ipaddress.ip_network(each)
    for each in ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")
)
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


def origin(text: str) -> str:
    """Return *text* as browsers write an origin; raise ValueError for what no browser sends."""
    if text == "*":
        return text
    parts = urlsplit(text.rstrip("/"))
    host, usual = parts.hostname or "", {"http": 80, "https": 443}.get(parts.scheme)
    extra = parts.path or parts.query or parts.fragment or parts.username is not None
    if usual is None or extra or not _HOST.fullmatch(host) or parts.port == 0:
        raise ValueError("not an origin")
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}" + (f":{parts.port}" if parts.port not in {None, usual} else "")


def network(text: str) -> Network:
    """Return the network of an address or of `address/bits`; raise ValueError for anything else, and for all there is.

    With every address trusted, each caller's own word for who it is would be believed.
    """
    parsed = ipaddress.ip_network(text)
    if not parsed.prefixlen:
        raise ValueError("every address")
    return parsed


def host_pattern(text: str) -> str:
    """Return a name, an address, or `*.` before a name; raise ValueError for anything else."""
    pattern = text.lower().removeprefix("[").removesuffix("]").removesuffix(".")
    if not _PATTERN.fullmatch(pattern):
        raise ValueError("not a name")
    return pattern


def fits(host: str, patterns: Collection[str]) -> bool:
    """Return whether one of *patterns* is *host*, or is of its domain."""
    return host in patterns or any(each.startswith("*.") and host.endswith(each[1:]) for each in patterns)


@lru_cache(maxsize=4096)
def place_of(address: str) -> str:
    """Return what counts as one place: an IPv4 address, or the /64 network of an IPv6 one, which one person has."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(parsed) if parsed.is_loopback else str(ipaddress.ip_network((parsed, 64), strict=False))


def is_loopback(address: str) -> bool:
    """Return whether *address*, of a connection, is this machine's own; what is no address is a local socket's."""
    try:
        return ipaddress.ip_network(place_of(address)).is_loopback
    except ValueError:
        return True


def is_shared(address: str) -> bool:
    """Return whether *address*, of a connection, stands for many callers: this machine's own, or a private network's.

    That is a proxy, named to us or not; what is no address is a local socket's.
    """
    try:
        parsed = ipaddress.ip_network(place_of(address))
    except ValueError:
        return True
    return parsed.is_loopback or parsed.is_link_local or within(address, PRIVATE)


def within(address: str, networks: Collection[Network]) -> bool:
    """Return whether *address* is of one of *networks*."""
    try:
        parsed = ipaddress.ip_network(place_of(address))
    except ValueError:
        return False
    return any(parsed.version == each.version and parsed.overlaps(each) for each in networks)
