"""Which addresses are public."""

from ipaddress import IPv4Address, IPv6Address, ip_address

from hypothesis import given
from hypothesis.strategies import integers

from agent_core.net.targets import special
from tests.cases import for_each

V4, V6 = integers(0, 2**32 - 1), integers(0, 2**128 - 1)
GLOBAL = integers(0x2000 << 112, (0x4000 << 112) - 1)


@given(V4)
def test_what_is_public_python_calls_global(number):
    """No IPv4 address is public here that Python calls private, reserved or multicast."""
    address = IPv4Address(number)
    if special(str(address)) is None:
        assert address.is_global
        assert not any((address.is_multicast, address.is_reserved, address.is_loopback))


@given(V6 | GLOBAL)
def test_what_is_public_python_calls_global_in_ipv6(number):
    """No IPv6 address is public here that Python calls otherwise."""
    address = IPv6Address(number)
    if special(str(address)) is None:
        assert address.is_global
        assert not any((address.is_multicast, address.is_reserved, address.is_site_local))


@for_each("address", ["127.0.0.1", "10.1.2.3", "169.254.169.254", "100.100.100.200", "168.63.129.16"])
@for_each("shape", ["64:ff9b::{}", "::ffff:{}", "::{}", "::ffff:0:{}", "2600::5efe:{}", "2600::200:5efe:{}"])
def test_an_ipv4_address_within_ipv6_is_judged_as_ipv4(address, shape):
    """An IPv4 address that is not public is not public in any IPv6 form either."""
    assert special(shape.format(address)) is not None


@given(V4, V6)
def test_tunnels_are_refused(inside, rest):
    """6to4 and Teredo addresses are refused, whatever they lead to."""
    six = IPv6Address(0x2002 << 112 | inside << 80 | rest >> 48)
    teredo = IPv6Address(0x2001_0000 << 96 | rest >> 32)
    assert (special(str(six)), special(str(teredo))) == ("6to4", "Teredo")


@given(V4)
def test_networks_without_ipv4(number):
    """Through NAT64 is public what is public without it."""
    inside = IPv4Address(number)
    assert special(f"64:ff9b::{inside}") == special(str(inside))


@for_each(
    "address",
    ["8.8.8.8", "93.184.216.34", "1.1.1.1", "2606:4700::1111", "2a00:1450::1", "64:ff9b::8.8.8.8", "192.0.1.1"],
)
def test_honest_addresses(address):
    """Addresses of the public are public."""
    assert special(address) is None


@for_each("address", ["", "localhost", "127.1", "0x7f.0.0.1", "1.1.1.1 ", "1.1.1.1:80", "[::1]", "::g", "1"])
def test_an_invalid_address_is_not_public(address):
    """Text that is not a plain address is not public."""
    assert special(address) == "unreadable"


@for_each(
    "address, kind",
    [
        ("127.8.8.8", "loopback"), ("::1", "loopback"), ("fd00:ec2::254", "private"), ("169.254.1.1", "link-local"),
        ("100.127.255.255", "shared"), ("168.63.129.16", "metadata"), ("255.255.255.255", "broadcast"),
        ("fe80::1%eth0", "link-local"), ("2606:4700::1%1", "link-local"), ("4000::", "reserved"),
        ("3fff::", "documentation"),
    ],
)  # fmt: skip
def test_an_address_that_is_not_public_has_its_kind(address, kind):
    """The kind of an address that is not public is named."""
    assert special(address) == kind
    assert "%" in address or not ip_address(address).is_multicast
