"""The session cache: one window per session, however many ask for it at once."""

import asyncio

from agent_core.testing import say
from tests.agent_core.stage import set_stage
from tests.conftest import MakeCore


async def test_loads_at_the_same_time_share_one_session(make_core: MakeCore):
    """All who ask while a session is being loaded get the same one, whose window its driver moves."""
    stage = await set_stage(make_core, [(say("Hi."),)])
    cache = stage.core._cache
    cache.forget(stage.session)
    found = await asyncio.gather(*(cache.get(stage.session) for _ in range(5)))
    assert [each for each in found if each is not found[0]] == []
    await stage.play("Hello")
    assert cache.peek(stage.session) is found[0]
    assert [entry.message.role for entry in found[0].window.entries] == ["user", "assistant"]
