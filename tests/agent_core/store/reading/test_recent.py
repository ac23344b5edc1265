"""The newest part of a log, and the pages before it, on both databases."""

import asyncio

import pytest

from agent_core.core import Core
from agent_core.errors import NotFound
from agent_core.events import Fact, MessageCompleted, MessageReceived, StepStarted
from agent_core.testing import ScriptedProvider, call, say
from agent_core.tools.functions import tool
from tests.agent_core.scenes import ANN, idle, log_of, open_session, say_and_wait, send
from tests.conftest import MakeCore


async def pages(core: Core, session: str, last: int) -> list[list[Fact]]:
    """Return the log in pages of *last* messages, oldest first."""
    after = await core.conversations.start_of(session, last=last)
    found = [await log_of(core, session, after=after)]
    while after:
        before = after + 1
        after, facts = await core.conversations.earlier(session, last=last, before=before)
        assert after < before - 1
        found.insert(0, facts)
    return found


def concerns(facts: list[Fact]) -> set[str]:
    """Return the root runs that *facts* are about, and the messages that steps of theirs take."""
    taken = {str(seq) for fact in facts if isinstance(fact.body, StepStarted) for seq in fact.body.takes}
    return taken | {fact.run for fact in facts if fact.run and fact.parent_run is None}


async def test_pages_of_a_log_share_no_run(make_core: MakeCore):
    """They are the whole log once; a run is in one of them, with the messages that it took over from another."""
    begun = asyncio.Event()

    @tool
    async def hold() -> str:
        """Wait."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    answers = [(say("One."),), (call("hold"),), *[(say("More."),)] * 4]
    core = await make_core(ScriptedProvider(answers), tools=(hold,))
    session = await open_session(core)
    await say_and_wait(core, session, "one")
    held = await send(core, session, "two")
    await begun.wait()
    await send(core, session, "three", overlap="steer")
    await send(core, session, "four")
    await core.cancel(held.run, by=ANN)
    await idle(core, session)
    await say_and_wait(core, session, "five")
    whole = await log_of(core, session)
    messages = [fact for fact in whole if isinstance(fact.body, MessageReceived | MessageCompleted)]
    counts = set[int]()
    for last in range(1, len(messages) + 1):
        parts = await pages(core, session, last)
        assert [(fact.seq, fact.raw) for part in parts for fact in part] == [(fact.seq, fact.raw) for fact in whole]
        seen = [concerns(part) | {str(fact.seq) for fact in part} for part in parts]
        assert sum(map(len, seen)) == len(set[str]().union(*seen))
        counts.add(len(parts))
    assert counts == {1, 2, 3}
    with pytest.raises(NotFound):
        await core.conversations.start_of("ses_other", last=1)
