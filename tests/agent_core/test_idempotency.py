"""Idempotency keys: the same key with the same body is the same message, however often and whenever it comes."""

import asyncio

import pytest

from agent_core.agents import Definition
from agent_core.core import Core
from agent_core.errors import IdempotencyMismatch, NotFound, SessionBusy
from agent_core.objects import Receipt
from agent_core.testing import FakeClock, ScriptedProvider, pause, say
from tests.agent_core.scenes import ANN, idle, inbound, log_of, open_session, say_and_wait, send, types
from tests.conftest import MakeCore

KEY = {"key": "k1", "digest": b"body"}
FOR_AGENT = {**KEY, "key_scope": "agent"}


@pytest.fixture
async def core(make_core: MakeCore) -> Core:
    return await make_core(ScriptedProvider(lambda _: [say("Hi.")]))


def same(receipts: list[Receipt]) -> bool:
    """Return whether all receipts are of one message."""
    return len({(r.session, r.message, r.run, r.seq) for r in receipts}) == 1


async def test_the_same_key_is_the_same_message(core: Core):
    """A repeated key gets the receipt of its first use, and nothing is written."""
    session = await open_session(core)
    first = await say_and_wait(core, session, "Hello", **KEY)
    before = await log_of(core, session)
    second = await send(core, session, "Hello", **KEY)
    assert same([first, second])
    assert (first.repeated, second.repeated) == (False, True)
    assert len(await log_of(core, session)) == len(before)
    assert len((await core.runs()).items) == 1


async def test_a_key_is_one_message_also_when_many_come_at_once(core: Core):
    """Of twenty posts with one key at the same moment one is taken, and all get its receipt."""
    session = await open_session(core)
    receipts = await asyncio.gather(*(send(core, session, "Hello", **KEY) for _ in range(20)))
    facts = await idle(core, session)
    assert same(receipts)
    assert sorted(r.repeated for r in receipts) == [False, *[True] * 19]
    assert types(facts).count("message.received") == types(facts).count("run.queued") == 1


async def test_a_key_outlives_the_process(core: Core, make_core: MakeCore):
    """A key that was used before a restart is known after it."""
    session = await open_session(core)
    first = await say_and_wait(core, session, "Hello", **KEY)
    await core.stop()
    again = await make_core(ScriptedProvider([]))
    assert same([first, await send(again, session, "Hello", **KEY)])
    with pytest.raises(IdempotencyMismatch):
        await send(again, session, "Bye", key="k1", digest=b"other")


async def test_another_body_is_refused(core: Core):
    """A known key with another body is refused by name, leaves no trace, and stays what it was."""
    session = await open_session(core)
    first = await say_and_wait(core, session, "Hello", **KEY)
    before = len(await log_of(core, session))
    with pytest.raises(IdempotencyMismatch, match="k1"):
        await send(core, session, "Bye", key="k1", digest=b"other")
    assert len(await log_of(core, session)) == before
    assert same([first, await send(core, session, "Hello", **KEY)])


async def test_no_key_is_no_promise(core: Core):
    """Without a key the same text twice is two messages."""
    session = await open_session(core)
    first = await say_and_wait(core, session, "Hello")
    second = await say_and_wait(core, session, "Hello")
    assert first.run != second.run
    assert first.message != second.message


async def test_keys_live_per_session(core: Core):
    """The same key in two sessions is two messages."""
    one, two = await open_session(core), await open_session(core)
    first = await say_and_wait(core, one, "Hello", **KEY)
    second = await say_and_wait(core, two, "Hello", key="k1", digest=b"other")
    assert first.run != second.run
    assert not second.repeated


async def test_keys_of_runs_live_per_agent(make_core: MakeCore):
    """A run's key is its agent's: the same one starts another agent, and means nothing to messages."""
    core = await make_core(ScriptedProvider(lambda _: [say("Hi.")]))
    other = await core.agents.create(Definition(name="b", instructions=""))
    first = await core.run_agent("assistant", inbound("Hello", **FOR_AGENT))
    again = await core.run_agent((await core.agents.get("assistant")).id, inbound("Hello", **FOR_AGENT))
    assert same([first, again])
    elsewhere = await core.run_agent("b", inbound("Hello", **{**FOR_AGENT, "digest": b"other"}))
    assert elsewhere.run != first.run
    assert (await core.run(elsewhere.run)).agent == other.id
    message = await send(core, first.session, "Hello", **{**KEY, "digest": b"third"})
    assert message.run != first.run
    with pytest.raises(IdempotencyMismatch):
        await core.run_agent("assistant", inbound("Bye", **{**FOR_AGENT, "digest": b"other"}))


async def test_a_runs_key_opens_one_session(core: Core):
    """Of many runs asked with one key at once there is one run, in one session, and no empty session is left."""
    receipts = await asyncio.gather(*(core.run_agent("assistant", inbound("Hello", **FOR_AGENT)) for _ in range(10)))
    assert same(receipts)
    assert [s.id for s in (await core.sessions()).items] == [receipts[0].session]
    assert len((await core.runs()).items) == 1


async def test_a_refused_run_leaves_no_session(core: Core):
    """Of runs asked at once with one key and several bodies one wins; no empty session is left of the others."""
    bodies = [inbound("Hello", **{**FOR_AGENT, "digest": f"{n % 3}".encode()}) for n in range(9)]
    results = await asyncio.gather(*(core.run_agent("assistant", each) for each in bodies), return_exceptions=True)
    receipts = [result for result in results if isinstance(result, Receipt)]
    assert len(receipts) == 3
    assert same(receipts)
    assert sum(isinstance(result, IdempotencyMismatch) for result in results) == 6
    assert [s.id for s in (await core.sessions()).items] == [receipts[0].session]


async def test_a_runs_key_is_known_whatever_session_it_names(core: Core):
    """A repeated key of a run answers with the first run, though it names a session that has nothing to do with it."""
    mine = await open_session(core)
    first = await core.run_agent("assistant", inbound("Hello", **FOR_AGENT), session=mine)
    assert first.session == mine
    again = await core.run_agent("assistant", inbound("Hello", **FOR_AGENT))
    assert same([first, again])
    with pytest.raises(NotFound):
        await core.run_agent("assistant", inbound("Hello"), session="ses_unknown")


async def test_a_refused_message_consumes_no_key(make_core: MakeCore):
    """A key that was refused because the session was busy is as good as new when it is idle."""
    hold = asyncio.Event()
    core = await make_core(ScriptedProvider(lambda _: [pause(hold), say("Hi.")]), clock=FakeClock())
    session = await open_session(core)
    await send(core, session, "Hello")
    for digest in (b"body", b"another"):
        with pytest.raises(SessionBusy):
            await send(core, session, "Now", key="k1", digest=digest, overlap="reject")
    hold.set()
    await idle(core, session)
    receipt = await say_and_wait(core, session, "Now", key="k1", digest=b"third", overlap="reject")
    assert not receipt.repeated
    assert (await core.run(receipt.run)).status == "completed"


async def test_a_repeated_key_is_answered_whatever_happens_now(make_core: MakeCore):
    """A known key gets its receipt while the session is busy, closed, or its message was steered into a run."""
    hold = asyncio.Event()
    core = await make_core(ScriptedProvider(lambda _: [pause(hold), say("Hi.")]), clock=FakeClock())
    session = await open_session(core)
    first = await send(core, session, "Hello", **KEY)
    joined = await send(core, session, "And", key="k2", digest=b"2", overlap="steer")
    assert joined.run == first.run
    assert same([first, await send(core, session, "Hello", **KEY, overlap="reject")])
    assert same([joined, await send(core, session, "And", key="k2", digest=b"2", overlap="steer")])
    hold.set()
    await idle(core, session)
    await core.close_session(session)
    assert same([first, await send(core, session, "Hello", **KEY)])
    assert same([joined, await send(core, session, "And", key="k2", digest=b"2", actor=ANN)])


async def test_keys_go_with_their_session(core: Core):
    """A deleted session takes its keys along: an agent's key is free again."""
    first = await core.run_agent("assistant", inbound("Hello", **FOR_AGENT))
    await idle(core, first.session)
    await core.delete_session(first.session)
    second = await core.run_agent("assistant", inbound("Hello", **FOR_AGENT))
    assert not second.repeated
    assert second.run != first.run
