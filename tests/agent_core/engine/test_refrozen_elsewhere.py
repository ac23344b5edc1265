"""What one process lets a session take up holds in every other: prompt, hooks and limits of the newest version."""

import pytest

from agent_core.core import Core
from agent_core.events import SnapshotFrozen
from agent_core.testing import FakeClock, ScriptedProvider, say
from tests.agent_core.engine.fleet import Fleet
from tests.agent_core.scenes import idle, log_of, open_session, send

PAUSE = 1800.0


async def answered(core: Core, session: str, text: str) -> int:
    """Send a message, and return the version of the agent that answered it."""
    run = (await send(core, session, text)).run
    await idle(core, session)
    return (await core.run(run)).agent_version


def prompts(core: Core) -> list[str]:
    provider = core._providers["scripted"]
    assert isinstance(provider, ScriptedProvider)
    return [request.snapshot.instructions for request in provider.requests]


@pytest.mark.parametrize("change", [{"instructions": "Be long."}, {"limits": {"max_context_messages": 50}}])
async def test_a_driver_follows_the_process_that_received_the_message(fleet: Fleet, change: dict[str, object]):
    """A process that only receives lets the session take up the newest version, and the driver runs that one."""
    clock = FakeClock()
    driver = await fleet.join(lambda _: [say("Yes.")], clock=clock)
    door = await fleet.join(lambda _: [say("Not here.")], kind="web", clock=clock)
    session = await open_session(door)
    assert await answered(door, session, "one") == 1
    held = await driver._cache.get(session)
    assert held.agent.version == 1
    await door.agents.update("assistant", change)
    clock.advance(PAUSE)
    assert await answered(door, session, "two") == 2
    held = await driver._cache.get(session)
    assert (held.agent.version, held.agent.definition.limits.max_context_messages) == (
        2,
        50 if "limits" in change else 200,
    )
    assert await answered(driver, session, "three") == 2
    assert prompts(driver) == ["Be brief.", *[str(change.get("instructions", "Be brief."))] * 2]
    assert prompts(door) == []
    frozen = [fact.body.reason for fact in await log_of(driver, session) if isinstance(fact.body, SnapshotFrozen)]
    assert frozen == ["opened", *(["idle"] if "instructions" in change else [])]


async def test_what_is_asked_for_holds_everywhere(fleet: Fleet):
    """After `refreeze` at one process, a message at another that has the session in memory has the new prompt."""
    one = await fleet.join(lambda _: [say("One.")])
    other = await fleet.join(lambda _: [say("Other.")], kind="web")
    session = await open_session(one)
    await answered(one, session, "one")
    await other.agents.update("assistant", {"instructions": "Be long."})
    await other.refreeze_session(session)
    assert await answered(one, session, "two") == 2
    assert prompts(one) == ["Be brief.", "Be long."]
