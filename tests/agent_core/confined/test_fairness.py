"""The queue of confined jobs: how many one owner has there, and how many all."""

import pytest

from agent_core.confined.fairness import MAX_OF_ONE, FairQueue, QueueFull
from agent_core.testing import FakeClock

pytestmark = pytest.mark.processes


def test_one_owner_leaves_room_for_others():
    """One owner has a few jobs at once; together they have as many as run and wait."""
    queue = FairQueue(2, MAX_OF_ONE, FakeClock())
    for _ in range(MAX_OF_ONE):
        queue.enter("eve")
    with pytest.raises(QueueFull):
        queue.enter("eve")
    queue.enter("ada")
    queue.enter("ben")
    with pytest.raises(QueueFull):
        queue.enter("cem")
    queue.leave("eve")
    queue.enter("cem")
