"""Lifetimes: an hour is asked for where it is cheaper, and changed only where nothing is lost by it."""

from msgspec.structs import replace

from agent_core.context.history import PromptCall, PromptHistory
from agent_core.context.lifetimes import USUAL, CachePrices, SharedUse, is_long, pays
from agent_core.domain.messages import UNKNOWN_USAGE
from tests.cases import for_each

MODEL = "anthropic:claude-opus-5"
MINUTE = 60_000


def history(*, medium=0, long=0, short_writes=100, long_writes=0, **fields):
    """Return the history of a session whose last call, at 0, wrote so much for each lifetime."""
    usage = replace(UNKNOWN_USAGE, cache_write_short=short_writes, cache_write_long=long_writes)
    last = PromptCall(time=0, model=MODEL, snapshot="s", entries=3, controls={}, usage=usage)
    return PromptHistory(last=last, calls=40, medium=medium, long=long, **fields)


@for_each(
    "medium, long, expected",
    [
        (0, 0, False),
        (1, 0, False),
        (2, 0, True),
        (2, 1, True),
        (2, 2, False),
        (3, 2, True),
        (4, 4, True),
        (0, 9, False),
    ],
)
def test_an_hour_pays_by_the_pauses(medium, long, expected):
    """Each medium pause saves 1.15 of the conversation, and each long one, like writing it all, costs 0.75 more."""
    assert pays(USUAL, medium=medium, long=long, growth=1) is expected
    assert expected is (1.15 * medium > 0.75 * (long + 2))


def test_prices_decide():
    """The closer the prices of the two writes, the earlier an hour pays; where reads are dear it never does."""
    assert pays(CachePrices(0.1, 1.25, 1.3), medium=1, long=5, growth=1)
    assert not pays(CachePrices(1.2, 1.25, 2.0), medium=10, long=0, growth=1)


@for_each(
    "minutes, known, expected",
    [
        (1, history(medium=9), False),
        (6, history(medium=9), True),
        (1, history(medium=9, rewritten="compaction"), True),
        (1, history(medium=9, rewritten="snapshot"), True),
        (6, history(), False),
        (59, history(medium=0, short_writes=0, long_writes=100), True),
        (61, history(medium=0, short_writes=0, long_writes=100), False),
        (1, PromptHistory(), False),
    ],
)
def test_a_lifetime_changes_only_where_all_is_written_again(minutes, known, expected):
    """While the cache lives it is kept as it is; where it has expired or was rewritten the session's pauses decide."""
    assert is_long(USUAL, known, model=MODEL, now=minutes * MINUTE) is expected


def test_another_model_has_a_cache_of_its_own():
    """For another model than that of the last call all is written again, so the pauses decide."""
    assert is_long(USUAL, history(medium=9), model="anthropic:claude-opus-5-5", now=MINUTE)


def uses(*minutes):
    """Return the uses of a shared prefix at these minutes."""
    use = SharedUse(0, 0)
    for minute in minutes:
        use = use.at(minute * MINUTE)
    return use


@for_each(
    "minutes, expected",
    [
        ((), True),
        ((1, 2, 3), True),
        (range(0, 90, 4), False),
        ((*range(0, 60, 4), 90), True),
        ((70, 140), False),
        ((*range(0, 60, 4), 90, 200), False),
        ((10, *range(10, 1500, 4)), False),
    ],
)
def test_the_shared_part_is_kept_for_an_hour_unless_it_is_always_in_use(minutes, expected):
    """An hour is the rule until a process has seen the prefix for one; then the pauses of the last day decide."""
    assert uses(*minutes).is_long(USUAL) is expected
