"""Renders by their ids: in the log, in forks, and after their person was forgotten."""

import pytest

from agent_core.errors import NotFound
from agent_core.events import RenderShown
from agent_core.messages import Actor
from agent_core.store.listing import Wanted
from agent_core.testing import call, say
from agent_core.tools.base import NewRender
from agent_core.tools.functions import tool
from tests.agent_core.stage import ANN, Stage, set_stage
from tests.conftest import MakeCore

BOB = Actor("bob", "user")


@tool
async def draw() -> NewRender:
    """Draw a table of cities."""
    columns = [{"key": "city", "label": "City"}]
    return NewRender("table", {"columns": columns, "rows": [{"city": "Oslo"}]}, "Oslo", title="Cities")


async def shown(make_core: MakeCore) -> tuple[Stage, str]:
    """Return a stage on which a table was shown once, and the table's id."""
    stage = await set_stage(make_core, [(call("draw"),), (say("Done."),)] * 2, tools=(draw,))
    assert (await stage.play()).status == "completed"
    (render,) = await stage.said(RenderShown)
    return stage, render.render


async def test_a_render_is_found_by_its_id(make_core: MakeCore):
    """It says what the log says: where, when, by which call, and what it shows."""
    stage, id = await shown(make_core)
    found = await stage.core.renders.get(id)
    (fact,) = [fact for fact in await stage.log() if fact.type == "render.shown"]
    assert (found.id, found.session, found.run) == (id, stage.session, fact.run)
    assert (found.kind, found.title, found.text) == ("table", "Cities", "Oslo")
    assert found.payload["rows"] == [{"city": "Oslo"}]
    assert found.created_at == fact.time
    assert [found.call] == [render.call for render in await stage.said(RenderShown)]
    with pytest.raises(NotFound, match=r"no render `ren_other\.1`"):
        await stage.core.renders.get("ren_other.1")


async def test_a_fork_shows_what_it_copied_and_nothing_later(make_core: MakeCore):
    """A fork has the renders up to where it was made, under their ids, and keeps them when its origin is deleted."""
    stage, id = await shown(make_core)
    whole = await stage.core.fork_session(stage.session, actor=BOB)
    await stage.core.fork_session(stage.session, at=2, actor=Actor("eve", "user"))
    assert (await stage.core.renders.get(id)).session == stage.session
    copied = await stage.core.renders.get(id, Wanted(actor="bob"))
    assert copied.session == whole.id
    assert copied.run not in (None, (await stage.core.renders.get(id)).run)
    with pytest.raises(NotFound):
        await stage.core.renders.get(id, Wanted(actor="eve"))
    await stage.core.delete_session(stage.session)
    assert (await stage.core.renders.get(id)).session == whole.id


async def test_a_render_of_a_forgotten_person_shows_nothing(make_core: MakeCore):
    """In another's session what answered a forgotten person is empty under its id; their own sessions are gone."""
    stage, mine = await shown(make_core)
    assert (await stage.done(await stage.send("Mine", actor=BOB))).status == "completed"
    theirs = (await stage.said(RenderShown))[-1].render
    assert theirs != mine
    await stage.core.forget_actor(BOB.id, pseudonym="forgotten:1", by=ANN)
    found = await stage.core.renders.get(theirs)
    assert (found.title, found.text, found.payload) == ("[deleted]", "[deleted]", {"columns": [], "rows": []})
    assert (await stage.core.renders.get(mine)).payload["rows"] == [{"city": "Oslo"}]
    await stage.core.forget_actor(ANN.id, pseudonym="forgotten:2", by=BOB)
    with pytest.raises(NotFound):
        await stage.core.renders.get(mine)
