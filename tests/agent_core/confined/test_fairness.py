"""The queue of confined jobs: whose places are whose."""

import pytest

from agent_core.confined.fairness import APART, MAX_OF_ONE, SHARE, FairQueue, QueueFull
from agent_core.testing import FakeClock

pytestmark = pytest.mark.processes


def fill(queue: FairQueue, name: str, *, apart: bool) -> int:
    """Have ever more owners enter until the queue is full, and return how many jobs it took."""
    for count in range(1_000):
        try:
            queue.enter(f"{name} {count // SHARE}", apart=apart)
        except QueueFull:
            return count
    raise AssertionError("it never fills")


def test_people_leave_operators_their_places():
    """However many files of people wait, operators have places of their own, and none of those of people."""
    queue = FairQueue(2, 32, FakeClock())
    assert fill(queue, "visitor", apart=False) == 34
    queue.enter("operator:ann", apart=True)
    queue.leave("operator:ann")
    assert fill(queue, "operator", apart=True) == APART
    queue.leave("visitor 0")
    queue.enter("visitor 99")
    with pytest.raises(QueueFull):
        queue.enter("visitor 100")


def test_one_operator_has_no_more_than_another_owner():
    """One owner has a few jobs at once, apart from the others or not."""
    queue = FairQueue(2, 32, FakeClock())
    for _ in range(MAX_OF_ONE):
        queue.enter("operator:ann", apart=True)
    with pytest.raises(QueueFull):
        queue.enter("operator:ann", apart=True)
