"""The table of Slack's limits is data that says where each number is from."""

import inspect
import re

from channels.slack import api, limits
from channels.slack.limits import LIMITS, RATES, rate
from channels.slack.testing.server import METHODS
from tests.cases import for_each


@for_each("name", sorted(LIMITS))
def test_every_limit_has_a_source_and_a_date(name):
    """Each row has a positive value (or says `nearly at once`), a unit, a month, and a page or a reason."""
    row = LIMITS[name]
    assert row.value > 0 or row.note == "nearly at once"
    assert row.unit
    assert re.fullmatch(r"20\d\d-[01]\d", row.date)
    assert row.source.startswith("https://docs.slack.dev/") or (row.source in {"measured", "ours"} and row.note)


def test_every_rate_is_a_row_of_the_table():
    """A method's rate is one of the named rows, so its source and date are known."""
    assert {id(row) for row in RATES.values()} <= {id(row) for row in LIMITS.values()}
    assert {row.unit for row in RATES.values()} == {"calls per minute"}


def test_a_method_without_a_row_has_the_rate_of_most():
    """Methods without a row get Tier 2."""
    assert rate("pins.list") is limits.TIER_2
    assert rate("conversations.replies") is limits.TIER_3


def test_every_method_that_is_called_or_played_has_a_row():
    """What Parley calls, and what the stand-in answers, is paced by its own documented rate."""
    called = set(re.findall(r'_ask\(\s*"([\w.]+)"', inspect.getsource(api)))
    assert len(called) > 15
    assert called | set(METHODS) <= set(RATES)


def test_we_roll_over_before_slack_makes_us():
    """Our own ages and sizes lie below those of Slack."""
    assert limits.STREAM_ROLL_AGE.value < limits.STREAM_AGE.value
    assert limits.STREAM_ROLL_TEXT.value < limits.STREAM_CALL_TEXT.value
