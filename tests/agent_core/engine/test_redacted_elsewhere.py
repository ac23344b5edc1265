"""What one process deletes of a person, no other process sends to a model, or keeps in memory for long."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from agent_core.core import Core
from agent_core.messages import Actor, text_of
from agent_core.store.queue import Kind
from agent_core.testing import FakeClock, ScriptedProvider, say
from tests.agent_core.engine.fleet import PATIENCE, Fleet
from tests.agent_core.scenes import ANN, BOB, idle, open_session, send
from tests.polling import until_async

SECRET = "the password of the safe is larch"
OPERATOR = Actor("op", "service")
TIDY_EVERY = 600
Change = Callable[[Core, str], Awaitable[None]]


async def answered(core: Core, session: str, text: str, actor: Actor = ANN) -> None:
    """Send a message, and return once it is answered."""
    await send(core, session, text, actor=actor)
    async with asyncio.timeout(PATIENCE):
        await idle(core, session)


async def forget_bob(core: Core) -> None:
    done = await core.forget_actor(BOB.id, pseudonym="forgotten:1", by=OPERATOR)
    assert (done.messages, done.remaining) == (1, ())


def asked(core: Core) -> list[str]:
    """Return the texts of each request to the core's model."""
    provider = core._providers["scripted"]
    assert isinstance(provider, ScriptedProvider)
    return [" | ".join(text_of(entry.message.parts) for entry in each.messages) for each in provider.requests]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["both", "web"])
async def test_no_other_process_sends_deleted_words_to_a_model(fleet: Fleet, kind: str):
    """The next run leaves out what another process deleted, whether this one received its message or took it over."""
    driver = await fleet.join(lambda _: [say("Noted.")])
    other = await fleet.join(lambda _: [say("Not here.")], kind="web")
    door = driver if kind == "both" else other  # where messages come in
    session = await open_session(door)
    await answered(door, session, "Where is the wood?")
    await answered(door, session, SECRET, BOB)
    assert SECRET in asked(driver)[1]
    await forget_bob(other)
    await answered(door, session, "What is next?")
    await answered(door, session, "And then?")
    assert [(SECRET in each, "[deleted]" in each) for each in asked(driver)[2:]] == [(False, True)] * 2
    assert [each for each in asked(driver) if "Where is the wood?" not in each] == [], "what others said stays"
    assert asked(other) == []


async def test_a_process_without_notifications_sends_no_deleted_words(fleet: Fleet):
    """A lost notification does not matter: the next run reads how often its session was redacted."""
    driver = await fleet.join(lambda _: [say("Noted.")], with_bus=False)
    other = await fleet.join(lambda _: [say("Not here.")], kind="web", with_bus=False)
    session = await open_session(driver)
    await answered(driver, session, "Where is the wood?")
    await answered(driver, session, SECRET, BOB)
    await forget_bob(other)
    await answered(driver, session, "What is next?")
    assert SECRET not in asked(driver)[-1]


async def delete(core: Core, session: str) -> None:
    await core.delete_session(session)


async def redact(core: Core, _: str) -> None:
    await forget_bob(core)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("change", [redact, delete])
@pytest.mark.parametrize("kind", ["both", "web"])
async def test_outdated_sessions_leave_the_memory_of_every_process(fleet: Fleet, kind: Kind, change: Change):
    """A session that another process redacted or deleted is soon in no memory, also if it is never used again."""
    driver = await fleet.join(lambda _: [say("Noted.")])
    clock = FakeClock()
    keeper = await fleet.join(lambda _: [say("Noted.")], kind=kind, clock=clock)
    session, kept = await open_session(keeper), await open_session(keeper)
    await answered(keeper, kept, "Hello")
    await answered(keeper, session, SECRET, BOB)
    await change(driver, session)
    assert keeper._cache.peek(session) is not None

    async def is_gone() -> bool:
        clock.advance(TIDY_EVERY)
        await keeper.health.ping()
        return keeper._cache.peek(session) is None

    await until_async(is_gone, timeout=PATIENCE)
    assert keeper._cache.peek(kept) is not None
