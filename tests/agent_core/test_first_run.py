"""A run on a new session: the session and its first message are one transaction."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Sequence

import pytest

from agent_core.agents import Controls, Definition
from agent_core.core import Core
from agent_core.errors import InvalidInput, NotFound, RateLimited
from agent_core.objects import Receipt
from agent_core.providers.base import ModelDelta, Request
from agent_core.store.database import Database
from agent_core.testing import Answer, FakeClock, ScriptedProvider, pause, say
from agent_core.tools.functions import tool
from tests.agent_core.laws import check_log
from tests.agent_core.scenes import idle, inbound, log_of, open_session, types
from tests.conftest import MakeCore

FIRST = ["session.opened", "snapshot.frozen", "message.received", "run.queued", "run.started", "step.started"]
KEY = {"key": "k1", "digest": b"body", "key_scope": "agent"}


@tool
async def look(what: str = "it") -> str:
    """Look."""
    return what


class SendsInTask(ScriptedProvider):
    """A model whose client writes the request in a task of its own, as HTTP clients do."""

    sent = 0

    async def stream(self, request: Request) -> AsyncGenerator[Sequence[ModelDelta]]:
        await asyncio.create_task(self._send())
        async for batch in super().stream(request):
            yield batch

    async def _send(self) -> None:
        self.sent += 1


@pytest.fixture
async def core(make_core: MakeCore) -> Core:
    """A core whose model answers once the test is over: until then nothing else writes."""
    hold = asyncio.Event()

    def answer(_request: object) -> Answer:
        return (pause(hold), say("Hi."))

    return await make_core(ScriptedProvider(answer), clock=FakeClock())


def writes(database: Database, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the transactions that write, and those that wrote facts."""
    seen: Counter[str] = Counter()
    write = database.write

    async def counted(work, committed=None):
        seen["write"] += 1
        return await write(work, committed)

    monkeypatch.setattr(database, "write", counted)
    return seen


@pytest.mark.parametrize("options", [{}, KEY, {"instructions": "Be long."}], ids=["plain", "key", "instructions"])
async def test_a_first_run_is_one_write(core: Core, monkeypatch: pytest.MonkeyPatch, options: dict[str, object]):
    """Session, snapshot, key, message, run and first step are written in one transaction."""
    seen = writes(core._store.database, monkeypatch)
    receipt = await core.run_agent("assistant", inbound("Hello", **options))
    assert seen == {"write": 1}
    facts = await log_of(core, receipt.session)
    frozen = ["snapshot.frozen"] if "instructions" in options else []
    assert types(facts) == [*FIRST[:5], *frozen, "step.started"]
    assert (receipt.seq, receipt.before, receipt.repeated) == (3, 2, False)
    check_log(facts)
    session = await core.session(receipt.session)
    assert (session.title, session.status) == ("Hello", "running")


async def test_many_first_runs_at_once_are_one_write_each(core: Core, monkeypatch: pytest.MonkeyPatch):
    """Twenty runs at once open twenty sessions with twenty writes."""
    seen = writes(core._store.database, monkeypatch)
    receipts = await asyncio.gather(*(core.run_agent("assistant", inbound("Hello")) for _ in range(20)))
    assert seen == {"write": 20}
    assert len({receipt.session for receipt in receipts}) == 20
    for receipt in receipts:
        assert types(await log_of(core, receipt.session)) == FIRST


async def test_a_key_that_wins_in_parallel_leaves_one_session(core: Core):
    """Of ten runs with one key at once, one opens a session; all get its receipt."""
    asked = [core.run_agent("assistant", inbound("Hello", **KEY)) for _ in range(10)]
    receipts = await asyncio.gather(*asked)
    assert len({receipt.run for receipt in receipts}) == 1
    assert sorted(receipt.repeated for receipt in receipts) == [False, *[True] * 9]
    assert [session.id for session in (await core.sessions()).items] == [receipts[0].session]


async def test_a_refused_first_run_opens_no_session(core: Core):
    """A full backlog, invalid controls and an unknown agent leave neither a session nor a used key."""
    core._backlog._limit = 0
    with pytest.raises(RateLimited):
        await core.run_agent("assistant", inbound("Hello", **KEY))
    core._backlog._limit = None
    with pytest.raises(NotFound):
        await core.run_agent("unknown", inbound("Hello", **KEY))
    assert (await core.sessions()).items == ()
    assert not (await core.run_agent("assistant", inbound("Hello", **KEY))).repeated


async def test_a_known_key_is_answered_after_its_agent_broke(make_core: MakeCore, monkeypatch: pytest.MonkeyPatch):
    """A repeated key gets its receipt although the agent's tool is gone by now; a new one is refused."""
    core = await make_core(ScriptedProvider(lambda _: [say("Hi.")]))
    first: Receipt = await core.run_agent("assistant", inbound("Hello", **KEY))
    await idle(core, first.session)

    async def broken(_agent: object) -> None:
        raise InvalidInput("agent", "it uses a tool which is not here.")

    monkeypatch.setattr(core.agents, "prototype", broken)
    again = await core.run_agent("assistant", inbound("Hello", **KEY))
    assert (again.run, again.repeated) == (first.run, True)
    with pytest.raises(InvalidInput):
        await core.run_agent("assistant", inbound("Hello", **{**KEY, "key": "k2"}))


async def test_metadata_of_a_first_message_is_the_sessions(core: Core):
    """What a first message lays over the metadata is the new session's; an entry that is taken away is not there."""
    receipt = await core.run_agent("assistant", inbound("Hello", metadata={"team": "a", "old": None}))
    assert (await core.session(receipt.session)).metadata == {"team": "a"}


async def test_a_first_run_uses_the_newest_version_of_its_agent(make_core: MakeCore):
    """An agent that another process changed, renamed or deleted is used, found or unknown as it is now."""
    provider = ScriptedProvider(lambda _: [say("Hi.")])
    here = await make_core(provider)
    clock = FakeClock()
    there = await make_core(provider, clock=clock)
    await clock.slept(2)  # it has looked, and takes no run of the other's
    first = await here.run_agent("assistant", inbound("Hello"))
    await there.agents.update("assistant", {"instructions": "Be long."})
    second = await here.run_agent("assistant", inbound("Hello"))
    assert [(await here.run(receipt.run)).agent_version for receipt in (first, second)] == [1, 2]
    for receipt in (first, second):
        await idle(here, receipt.session)
    assert {request.snapshot.instructions for request in provider.requests} == {"Be brief.", "Be long."}
    await there.agents.update("assistant", {"name": "other"})
    with pytest.raises(NotFound):
        await here.run_agent("assistant", inbound("Hello"))
    await here.open_session(agent="other", actor=inbound("").actor)
    made = await here.agents.create(Definition(name="brief", instructions=""))
    await here.agents.prototype("brief")
    await there.agents.delete(made.id)
    with pytest.raises(NotFound):
        await here.open_session(agent="brief", actor=inbound("").actor)


async def test_a_recreated_agent_is_not_served_from_the_cache(make_core: MakeCore):
    """An agent that is deleted and made again, which may get the same row key, answers as its new definition says."""
    provider = ScriptedProvider(lambda _: [say("Hi.")])
    core = await make_core(provider)
    made = await core.agents.create(Definition(name="brief", instructions="Be short."))
    first = await core.run_agent("brief", inbound("Hello"))
    await idle(core, first.session)
    await core.delete_session(first.session)
    await core.agents.delete(made.id)
    again = await core.agents.create(Definition(name="brief", instructions="Be long."))
    second = await core.run_agent("brief", inbound("Hello"))
    await idle(core, second.session)
    assert provider.requests[-1].snapshot.instructions == "Be long."
    assert (await core.session(second.session)).agent == again.id


async def test_controls_may_name_a_tool_that_the_agent_has_just_got(make_core: MakeCore):
    """Controls are checked against the agent's newest version, also when an older one is cached."""
    provider = ScriptedProvider(lambda _: [say("Hi.")])
    core = await make_core(provider, tools=(look,), definition={"tools": ()})
    await core.run_agent("assistant", inbound("Hello"))
    await core.agents.update("assistant", {"tools": ("look",)})
    receipt = await core.run_agent("assistant", inbound("Hello", controls=Controls(active_tools=("look",))))
    assert (await core.run(receipt.run)).agent_version == 2
    with pytest.raises(InvalidInput):
        await core.run_agent("assistant", inbound("Hello", controls=Controls(active_tools=("gone",))))


async def test_the_question_is_sent_before_the_asker_goes_on(make_core: MakeCore):
    """A run's first request is on its way when its message is received, in a new session and in an old one."""
    model = SendsInTask(lambda _: (say("Hi."),))
    core = await make_core(model, clock=FakeClock())
    await core.run_agent("assistant", inbound("Hello"))
    assert model.sent == 1
    await core.receive(await open_session(core), inbound("Hello"))
    assert model.sent == 2
