"""Feedback: what people think of runs is kept with them."""

import pytest

from agent_core.errors import NotFound
from agent_core.messages import Actor
from agent_core.objects import Feedback
from agent_core.testing import FakeClock, say
from tests.agent_core.stage import ANN, set_stage
from tests.conftest import MakeCore


async def test_the_newest_word_of_each_person_is_kept(make_core: MakeCore):
    """A second opinion of one person replaces the first; namesakes of another kind speak for themselves."""
    clock = FakeClock()
    stage = await set_stage(make_core, [(say("One."),)], clock=clock)
    run = await stage.play("one")
    assert run.feedback == ()
    visitor = Actor("ann", "visitor")
    now = clock.now()
    await stage.core.feedback(run.id, by=ANN, rating="up")
    await stage.core.feedback(run.id, by=visitor, rating="up", comment="Thanks")
    clock.advance(1)
    changed = await stage.core.feedback(run.id, by=ANN, rating="down", comment="Wrong")
    assert changed == Feedback(run=run.id, actor=ANN, rating="down", comment="Wrong", created_at=now + 1000)
    assert [(f.actor, f.rating, f.comment) for f in (await stage.core.run(run.id)).feedback] == [
        (visitor, "up", "Thanks"),
        (ANN, "down", "Wrong"),
    ]


async def test_feedback_goes_with_its_session(make_core: MakeCore):
    """Deleting a session takes what was thought of its runs along; a run that is not there has no opinion on it."""
    stage = await set_stage(make_core, [(say("One."),)])
    run = await stage.play("one")
    await stage.core.feedback(run.id, by=ANN, rating="up")
    await stage.core.delete_session(stage.session)
    with pytest.raises(NotFound):
        await stage.core.feedback(run.id, by=ANN, rating="up")
