"""Which addresses are public: those that a fetch may connect to without being allowed explicitly.

Not `ipaddress.is_global`: its result for mapped, embedded and newer special addresses depends on Python's version.
The blocks are those of IANA's registries of special-purpose addresses (RFC 6890, 8190), and those of clouds.
"""

from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

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
