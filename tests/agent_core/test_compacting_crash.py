"""A crash at every append around a compaction: the next process goes on with the window that there would have been."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass

import pytest

from agent_core.agent.entries import tokens_of_bytes, tokens_of_prefix
from agent_core.agent.state import PolicyKind
from agent_core.agent.window import Window
from agent_core.agents import Compaction, Definition, Limits
from agent_core.channels import Inbound
from agent_core.clock import Clock
from agent_core.core import Core
from agent_core.events import ContextCompacted, Fact
from agent_core.messages import Message, Text, ToolResult, text_of
from agent_core.providers.base import Request
from agent_core.runtime import compacting
from agent_core.testing import ScriptedProvider, call, fail, say, think
from agent_core.testing.scripted import Answer
from agent_core.tools.functions import tool
from tests.agent_core.crashing import CrashingDatabase, Side
from tests.agent_core.laws import check_log
from tests.agent_core.scenes import Hurried, local
from tests.agent_core.stage import ANN, texts, unmarked
from tests.agent_core.test_compacting import asks_for_summary, counting, size_of
from tests.conftest import Fresh, OpenDatabase
from tests.polling import PATIENCE, until

pytestmark = pytest.mark.whole

PRICED = "anthropic:claude-sonnet-5-5"
BEFORE, AFTER, ONE = ("m0", "m1", "m2"), ("m3", "m4"), ("m3",)


@dataclass(frozen=True)
class CompactionCase:
    """How a window gets too long: beyond a *limit* of messages, or *room* bytes of them; what is done are the *kinds*.

    With a *result* the model looks something up where it is asked *look*, *steps* times in a row, and gets so many
    characters. With *most*, the tokens beside the prefix beyond which a compaction is due, each call counts its prompt.
    After three messages come those of *after*, while which the process dies.
    """

    kinds: tuple[str, ...]
    limit: int | None = None
    room: int = 1_000_000
    result: int = 0
    model: str = "scripted"
    most: int = 0
    after: tuple[str, ...] = AFTER
    policy: PolicyKind = "summary"
    look: str = "m0"
    steps: int = 1

    def answer(self, request: Request) -> Answer:
        """Repeat what is said; sum up, look up or refuse where that is due."""
        last = request.messages[-1].message
        if asks_for_summary(request):
            return (say("They talked."),)
        if size_of(request) > self.room:
            return (fail("context_overflow", retryable=False),)
        counted = (
            (counting(tokens_of_bytes(size_of(request)) + tokens_of_prefix(request.snapshot)),) if self.most else ()
        )
        asked = max(place for place, entry in enumerate(request.messages) if entry.message.role == "user")
        looked = sum(entry.message.role == "tool" for entry in request.messages[asked:])
        looked = self.steps if "repeated because" in texts(request)[0][1] else looked  # a summary has it
        if self.result and text_of(request.messages[asked].message.parts)[:2] == self.look and looked < self.steps:
            return (call("look", n=looked), *counted)
        return (think("Hm."), say("To ", text_of(last.parts)[:2]), *counted)


CASES = {
    "a summary by messages": CompactionCase(("summary",), limit=6),
    "a summary on overflow": CompactionCase(("summary",), room=4_200),  # three exchanges, and not the fourth
    "a prune on overflow": CompactionCase(
        ("prune",), room=11_300, result=6_600, policy="cut"
    ),  # the result is more than half of four
    "a cut": CompactionCase(("cut",), room=3_000, policy="cut", after=ONE),
    "a full window": CompactionCase(("summary",), model=PRICED, most=1_200, after=ONE),
    "inside a run": CompactionCase(("summary",), room=9_000, look="m3", result=3_000, steps=3, after=ONE),
}


async def process(
    open_database: OpenDatabase, case: CompactionCase, *, at: int = 0, side: Side = "before", clock: Clock | None = None
):
    """Start a process on the database, which dies at write *at* of what it does from now on."""

    @tool
    async def look(n: int) -> str:
        """Look something up."""
        return "x" * case.result

    database = CrashingDatabase(open_database())
    name = case.model.partition(":")[0]
    core = Core(
        database,
        providers={name: ScriptedProvider(case.answer, name=name)},
        tools={"look": look},
        default_model=case.model,
        clock=clock or Hurried(),
    )
    await core.start()
    if not (await core.agents.list()).items:
        limits = Limits(max_context_messages=case.limit)
        tools = ("look",) if case.result else ()
        policy = Compaction(kind=case.policy)
        definition = Definition(name="a", instructions="", tools=tools, limits=limits, compaction=policy)
        await core.agents.create(definition)
    arm(database, at, side)
    return core, database


def arm(database: CrashingDatabase, at: int, side: Side) -> None:
    """Have *database* die at write *at* from now on."""
    database.writes, database._at, database._side = 0, at, side


async def talk(core: Core, texts: tuple[str, ...]) -> None:
    """Send *texts* in the session at its address, and see each through."""
    session = await core.open_session(agent="a", actor=ANN, address="test:1")
    for text in texts:
        said = f"{text} {'x' * 1_100}"
        inbound = Inbound(parts=(Text(said),), actor=ANN, key=text, digest=b"same")
        receipt = await core.receive(session.id, inbound)
        run = await core.settled(receipt.run, timeout=PATIENCE)
        assert run.status == "completed", run.error


async def live(core: Core, database: CrashingDatabase, texts: tuple[str, ...]) -> bool:
    """Talk until done (True) or dead (False)."""
    work, crash = asyncio.create_task(talk(core, texts)), asyncio.create_task(database.crashed.wait())
    await asyncio.wait((work, crash), return_when=asyncio.FIRST_COMPLETED)
    crash.cancel()
    if database.crashed.is_set():  # also where the end of the last run was committed, and seen, just before
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work
        await core.stop(grace=0.1)
        return False
    await work
    return True


async def outcome(core: Core, *, cold: bool = True) -> tuple[list[tuple[bool, bool, str, str]], list[Fact]]:
    """Return the window as the log gives it, which is the one that the process had, and the facts.

    Without *cold* the process goes on with the one that it has.
    """
    session = (await core.sessions()).items[0].id
    facts: list[Fact] = []
    async for batch in core.follow(session, until_idle=True):
        facts += [event for event in batch if isinstance(event, Fact)]
    check_log(facts)
    await until(lambda: not local(core).pool.driven)
    window = (await core._cache.get(session)).window.preview([])
    window.apply(facts)  # where two loaded the session at once, the other one's grew
    if cold:
        core._cache.forget(session)
        assert shape((await core._cache.get(session)).window) == shape(window)
    return shape(window), facts


def shape(window: Window) -> list[tuple[bool, bool, str, str]]:
    return [
        (entry.border, entry.summary, entry.message.role, unmarked(_shown(entry.message))) for entry in window.entries
    ]


def _shown(message: Message) -> str:
    """Return what the model reads of *message*, the results of tools too."""
    results = [text_of(part.parts) for part in message.parts if isinstance(part, ToolResult)]
    return "".join([text_of(message.parts), *results])


def kinds(facts: list[Fact]) -> tuple[str, ...]:
    return tuple(fact.body.kind for fact in facts if isinstance(fact.body, ContextCompacted))


# What is stored after a write is what is stored before the next one, and nothing else is left of such a process.
# In the gate each case but the shortest has every second write: the odd and the even ones in turn.
@pytest.mark.sampled(2)
@pytest.mark.parametrize("side", ["before", pytest.param("after", marks=pytest.mark.whole)])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_a_crash_around_a_compaction_changes_no_window(
    fresh: Fresh, case: CompactionCase, side: Side, monkeypatch: pytest.MonkeyPatch, whole: bool
):
    """Killed before or after any of its appends, a run that makes room leaves the window that an undisturbed one does.

    That it is made the same way again is part of it: no crash turns a prune into a summary, or makes two of one.
    """
    if case.most:  # beyond so few that a short conversation is as dear as a long one
        monkeypatch.setattr(compacting, "ENOUGH", case.most)
    wanted, writes, died, at = None, 1, 0, 0
    step, parity = (1, 0) if whole or case.policy == "cut" else (2, list(CASES.values()).index(case) % 2)
    while at <= writes:
        with fresh() as open_database:
            core, database = await process(open_database, case)
            await talk(core, BEFORE)
            await core.stop()
            core, database = await process(open_database, case, at=at, side=side)
            if not await live(core, database, case.after):
                died += 1
                core, database = await process(open_database, case)
                await talk(core, case.after)
            found, facts = await outcome(core)
            await core.stop()
        if wanted is None:
            wanted, writes = found, database.writes
        assert kinds(facts) == case.kinds, f"a crash {side} write {at}"
        assert found == wanted, f"a crash {side} write {at}"
        at += step if at else 1 + parity
    assert died > 2 * len(case.after) // step
