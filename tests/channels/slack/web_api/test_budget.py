"""The rate budget: when Slack takes a call."""

from collections import deque
from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

from channels.slack import limits
from channels.slack.pace import POST, CallBudget

START, UPDATE = "chat.startStream", "chat.update"
N = limits.TIER_2
MINUTE = limits.RATE_WINDOW * 1000


def test_a_minute_takes_as_many_calls_as_the_tier_says():
    """The calls of a tier go through at once; one more when the first is a minute old, and not sooner."""
    budget = CallBudget()
    assert [budget.take(START, "T1", "C1", 5_000) for _ in range(N)] == [0.0] * N
    assert budget.take(START, "T1", "C1", 5_000) == 60.0
    assert budget.take(START, "T1", "C1", 5_000 + MINUTE - 1) == 0.001
    assert budget.take(START, "T1", "C1", 5_000 + MINUTE) == 0.0


def test_the_window_rolls():
    """Calls come back one by one as they grow a minute old, not all at the full minute."""
    budget = CallBudget()
    for n in range(N):
        assert budget.take(START, "T1", "C1", n * 1_000) == 0.0
    assert budget.take(START, "T1", "C1", MINUTE) == 0.0
    assert budget.take(START, "T1", "C1", MINUTE) == 1.0


def test_each_method_and_workspace_has_its_own_budget():
    """A method that is spent in one workspace is fresh in another, and so are the others in that one."""
    budget = CallBudget()
    for _ in range(N):
        budget.take(START, "T1", "C1", 0)
    assert budget.left(START, "T1", 0) == 0
    assert budget.left(START, "T2", 0) == N
    assert budget.take(UPDATE, "T1", "C1", 0) == 0.0


def test_a_channel_takes_a_post_per_second():
    """The second post of a second waits in its channel only; edits of a channel know no such gap."""
    budget = CallBudget()
    assert budget.take(POST, "T1", "C1", 0) == 0.0
    assert budget.take(POST, "T1", "C1", 400) == 0.6
    assert budget.take(POST, "T1", "C2", 400) == 0.0
    assert budget.take(POST, "T2", "C1", 400) == 0.0
    assert budget.take(POST, "T1", "C1", 1_000) == 0.0
    assert [budget.take(UPDATE, "T1", "C1", 0) for _ in range(2)] == [0.0, 0.0]


def test_a_workspace_takes_so_many_posts_however_many_channels_it_has():
    """Posts are also counted per workspace, with a cautious cap."""
    budget = CallBudget()
    cap = limits.POSTS_PER_WORKSPACE
    assert sum(budget.take(POST, "T1", f"C{n}", 0) == 0.0 for n in range(cap + 5)) == cap


def test_asking_costs_nothing():
    """To ask for the wait, or to be refused, counts no call."""
    budget = CallBudget()
    assert [budget.wait(POST, "T1", "C1", 0) for _ in range(3)] == [0.0] * 3
    assert len(budget) == 0
    budget.take(POST, "T1", "C1", 0)
    for now in (100, 200, 300):
        assert budget.take(POST, "T1", "C1", now) > 0
    assert budget.take(POST, "T1", "C1", 1_000) == 0.0


def test_a_429_closes_one_method_in_one_workspace():
    """After a 429 nothing of that method goes in that workspace until then; a later, shorter one changes nothing."""
    budget = CallBudget()
    budget.blocked(START, "T1", 0, 30_000)
    budget.blocked(START, "T1", 1_000, 5_000)
    assert budget.take(START, "T1", "C1", 10_000) == 20.0
    assert budget.left(START, "T1", 10_000) == 0
    assert budget.take(START, "T2", "C1", 10_000) == 0.0
    assert budget.take(UPDATE, "T1", "C1", 10_000) == 0.0
    assert budget.take(START, "T1", "C1", 30_000) == 0.0


def test_processes_share_a_budget():
    """A process with a share of a workspace uses that part of each rate, of a small one over a longer time."""
    budget = CallBudget(share=0.5)
    assert sum(budget.take(START, "T1", "C1", 0) == 0.0 for _ in range(N)) == N // 2
    budget.take(POST, "T1", "C1", 0)
    assert budget.wait(POST, "T1", "C1", 0) == 2.0
    budget.share = 1.0
    assert budget.left(START, "T1", 0) == N // 2
    assert budget.wait(POST, "T1", "C1", 0) == 1.0


def test_a_clock_that_was_set_back_stops_nothing():
    """Calls and pauses of a time that is still to come count no more."""
    budget = CallBudget()
    for _ in range(N):
        budget.take(START, "T1", "C1", 3_600_000)
    budget.blocked(UPDATE, "T1", 3_600_000, 3_660_000)
    assert budget.take(START, "T1", "C1", 0) == 0.0
    assert budget.take(UPDATE, "T1", "C1", 0) == 0.0


def test_memory_holds_a_minute_and_no_more():
    """Idle channels and workspaces keep no windows."""
    budget = CallBudget()
    for n in range(300):
        now = n * 1_000
        budget.take(POST, f"T{n}", f"C{n}", now)
        assert len(budget) <= 122  # a minute of workspaces, each with a channel
    budget.blocked(UPDATE, "T1", 300_000, 310_000)
    budget.take(START, "T1", "C1", 900_000)
    assert len(budget) == 1


Calls = st.lists(st.tuples(st.integers(0, 9_000), st.sampled_from(["C1", "C2"])), max_size=80)


@given(Calls)
def test_whatever_is_asked_the_rates_hold(asked: list[tuple[int, str]]):
    """No window has more calls than the rate, no channel two posts a second, and after its wait a call is allowed."""
    rate, now = 7, 0
    budget = CallBudget(rate=lambda _: rate)
    taken: deque[tuple[int, str]] = deque()
    for pause, channel in asked:
        now += pause
        wait = budget.take(POST, "T1", channel, now)
        recent = [at for at, _ in taken if at > now - MINUTE]
        same = [at for at, where in taken if where == channel and at > now - 1_000]
        assert (wait == 0.0) == (len(recent) < rate and not same)
        if not wait:
            taken.append((now, channel))
        else:
            later = deepcopy(budget)
            assert later.wait(POST, "T1", channel, now + round(wait * 1_000) - 1) > 0.0
            assert later.wait(POST, "T1", channel, now + round(wait * 1_000)) == 0.0
