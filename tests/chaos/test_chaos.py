"""A short storm: the same that `make chaos` has for twenty minutes, in some seconds."""

from pathlib import Path

import pytest

from tests.chaos.__main__ import SHORT
from tests.chaos.report import lines
from tests.chaos.storm import brewing


@pytest.mark.whole
async def test_a_worker_dies_without_a_trace_for_users(tmp_path: Path):
    """While processes are killed, stopped, replaced and cut off from Postgres every message is answered once."""
    async with brewing(SHORT, tmp_path) as storm:
        story = await storm.blow()
        assert not story.faults, "\n\n".join((*story.faults, *lines(storm), storm.fleet.logs()))
    assert len(story.kills) == SHORT.kills
    assert story.takeovers
    assert sum(len(talk.receipts) for talk in storm.talks) > SHORT.talks
