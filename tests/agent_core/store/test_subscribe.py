"""Subscriptions to facts: each callback of a type gets each fact of it, once it is committed."""

from agent_core.core import Core
from agent_core.events import Fact, RunCompleted, RunStarted
from agent_core.testing import ScriptedProvider, say
from tests.agent_core.scenes import open_session, say_and_wait, types
from tests.conftest import MakeCore


async def test_two_subscriptions_of_one_type_both_get_each_fact(make_core: MakeCore):
    """A second subscription does not replace the first, and neither gets facts of other types."""
    core: Core = await make_core(ScriptedProvider(lambda _: [say("Hi.")]))
    first: list[Fact] = []
    second: list[Fact] = []
    core._store.subscribe((RunStarted, RunCompleted), first.append)
    core._store.subscribe((RunCompleted,), second.append)
    session = await open_session(core)
    for text in ("Hello", "Again"):
        await say_and_wait(core, session, text)
    assert types(first) == ["run.started", "run.completed"] * 2
    assert second == [fact for fact in first if fact.type == RunCompleted.type]
