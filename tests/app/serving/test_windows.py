"""Failed logins are counted by address, and slowed."""

from structlog.testing import capture_logs

from app.serving.caps import Logins


class Seconds:
    """Seconds that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_address_is_slowed_until_its_minute_is_over():
    """After the third failure an address is sent away for the rest of the minute, and then counted from none."""
    now = Seconds()
    logins = Logins(now, most=3)
    assert [logins.fail("192.0.2.1") for _ in range(3)] == [None] * 3
    now.now = 20
    assert logins.fail("192.0.2.1") == 40
    assert logins.fail("192.0.2.2") is None, "another address is another caller"
    now.now = 60
    assert logins.fail("192.0.2.1") is None


def test_a_network_of_one_caller_is_one_address():
    """Of IPv6 a /64 counts as one caller, and an IPv4 address is the same in both notations."""
    logins = Logins(Seconds(), most=1)
    assert logins.fail("2001:db8::1") is None
    assert logins.fail("2001:db8::2") is not None
    assert logins.fail("2001:db8:0:1::1") is None
    assert logins.fail("192.0.2.1") is None
    assert logins.fail("::ffff:192.0.2.1") is not None


def test_few_addresses_are_kept():
    """Beyond its bound the address that failed least lately is forgotten."""
    logins = Logins(Seconds(), most=1, size=2)
    for address in ("192.0.2.1", "192.0.2.2", "192.0.2.3"):
        assert logins.fail(address) is None
    assert logins.fail("192.0.2.3") is not None
    assert logins.fail("192.0.2.1") is None


def test_failures_are_logged_in_bounds():
    """Each failure is a line until the address is slowed, which is one line more."""
    logins = Logins(Seconds(), most=3)
    with capture_logs() as lines:
        for _ in range(10):
            logins.fail("192.0.2.1")
    assert [line["event"] for line in lines] == ["login.failed"] * 3 + ["login.slowed"]
    assert {line["address"] for line in lines} == {"192.0.2.1"}
