"""The table of Slack's limits."""

import inspect
import re

from channels.slack import api, limits
from channels.slack.limits import RATES, rate
from channels.slack.testing.server import METHODS


def test_a_method_without_a_row_has_the_rate_of_most():
    """Methods without a row get Tier 2."""
    assert rate("pins.list") == limits.TIER_2
    assert rate("conversations.replies") == limits.TIER_3


def test_every_method_that_is_called_or_played_has_a_row():
    """What Parley calls, and what the stand-in answers, is paced by its own documented rate."""
    called = set(re.findall(r'_ask\(\s*"([\w.]+)"', inspect.getsource(api)))
    assert len(called) > 15
    assert called | set(METHODS) <= set(RATES)


def test_we_roll_over_before_slack_makes_us():
    """Our own ages and sizes lie below those of Slack."""
    assert limits.STREAM_ROLL_AGE < limits.STREAM_AGE
