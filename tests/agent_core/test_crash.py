"""A crash at every append, before and after its commit: the next process finishes, and nothing happens twice."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from agent_core.agents import DeclaredTool, Definition, Hook, RouterKind
from agent_core.channels import Inbound
from agent_core.controls import Abilities
from agent_core.core import Core
from agent_core.errors import AlreadyDecided
from agent_core.events import Fact, ToolCompleted
from agent_core.messages import Actor, Part, Text, ToolCall, text_of
from agent_core.objects import RunObject
from agent_core.providers.base import Request
from agent_core.runtime.segments import ToolOutput
from agent_core.runtime.tools import NO_PORTS, ToolPorts
from agent_core.testing import ScriptedProvider, by_step, call, finish, say
from agent_core.testing.scripted import Answer
from agent_core.tools.base import CallContext, Elicitation, Tool
from agent_core.tools.functions import tool
from tests.agent_core.asking import asks, yes
from tests.agent_core.crashing import CrashingDatabase, Side
from tests.agent_core.laws import check_log
from tests.conftest import Fresh, OpenDatabase
from tests.polling import PATIENCE

ANN = Actor("ann", "user")
WHERE = DeclaredTool(name="where", kind="client", description="Where they are.", parameters={"type": "object"})
FORM = {"type": "object", "properties": {"quiet": {"type": "boolean"}}, "required": ["quiet"]}
USES = "Use"
"""The message whose content is the output of a tool."""


@dataclass
class Executions:
    """What the outside world remembers: every execution of a tool, whichever process did it."""

    read: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    writes: int = field(default=1, kw_only=True)
    """How many writes a scenario with any has; each is another text."""

    def tools(self) -> tuple[Tool, ...]:
        @tool(concurrency_safe=True)
        async def look(what: str) -> str:
            """Look something up."""
            self.read.append(what)
            return f"{what} is fine"

        @tool(effect="write")
        async def book(room: str) -> str:
            """Book a room."""
            self.written.append(room)
            return f"{room} is booked"

        @tool(effect="write")
        async def seat(room: str, context: CallContext) -> Elicitation | str:
            """Ask, then book a room."""
            if context.answer is None:
                return Elicitation("Which one?", FORM, state=room)
            self.written.append(context.answer.state)
            return f"{context.answer.state} is booked"

        return (look, book, seat)

    def ports(self) -> ToolPorts:
        """Return what a process has to reach tools elsewhere."""
        return NO_PORTS

    async def define(self, _core: Core, /) -> Sequence[str | DeclaredTool]:
        """Define what the database of a core is to have of the tools, if it lacks it, and return those of the agent."""
        return ("look", "book", "seat", WHERE)


@dataclass(frozen=True)
class Scenario:
    """Messages to send, what the model says to them, and the answers that must stand in the end.

    *tool_limit* 0 has the agent's tools routed, by its *router*.
    """

    name: str
    messages: tuple[str, ...]
    script: Callable[[Request], Answer]
    answers: tuple[str, ...]
    hooks: tuple[Hook, ...] = ()
    tool_limit: int | None = None
    router: RouterKind = "auto"

    def model(self) -> ScriptedProvider:
        """Return what plays the script: a model that loads tools."""
        return ScriptedProvider(self.script, able=Abilities(searches=True))


def _continued(request: Request) -> Answer:
    begun = any(entry.message.role == "assistant" for entry in request.messages)
    return (say("and the end."),) if begun else (say("The beginning "), finish("length"))


def _queued(request: Request) -> Answer:
    asked = [text_of(entry.message.parts) for entry in request.messages if entry.message.role == "user"]
    return (say(f"You asked {len(asked)}: ", asked[-1]),)


SCENARIOS = (
    Scenario("plain", ("Hello",), by_step((say("Hi ", "there."),)), ("Hi there.",)),
    Scenario(
        "parallel tools",
        ("Look",),
        by_step((call("look", what="a"), call("look", what="b")), (say("Both fine."),)),
        ("", "Both fine."),
    ),
    Scenario(
        "write tool",
        ("Book",),
        by_step((say("Booking."), call("book", room="r1")), (say("Done."),)),
        ("Booking.", "Done."),
    ),
    Scenario("cut answer", ("Go on",), _continued, ("The beginning ", "and the end.")),
    Scenario(
        "approved write",
        ("Book",),
        by_step((say("May I?"), call("book", room="r1"), call("look", what="a")), (say("Done."),)),
        ("May I?", "Done."),
        (asks("book"),),
    ),
    Scenario(
        "client call",
        ("Where",),
        by_step((call("where"),), (say("There."),)),
        ("", "There."),
    ),
    Scenario(
        "routed write",
        ("Book",),
        by_step(
            (call("use_resource", name="book"),),
            (call("call_tool", name="book", arguments={"room": "r1"}),),
            (say("Done."),),
        ),
        ("", "", "Done."),
        tool_limit=0,
    ),
    Scenario(
        "searched write",
        ("Book",),
        by_step((call("search_tools", query="book a room"),), (call("book", room="r1"),), (say("Done."),)),
        ("", "", "Done."),
        tool_limit=0,
        router="native",
    ),
    Scenario(
        "write that asks first",
        ("Seat",),
        by_step((call("seat", room="r1"),), (say("Done."),)),
        ("", "Done."),
    ),
    Scenario("write in a message", (USES,), by_step((say("Done."),)), ("Done.",)),
    Scenario("queued message", ("one", "two"), _queued, ("You asked 1: one", "You asked 2: two")),
)


FEW = 3
"""Of so many appends of a recovery one is tried where not all are."""
FEWER = 6
"""Of so many appends one has a crash after it where not all have.

It leaves what a crash before the next leaves, but for the effects between them, which the latter has.
"""
RECOVERED = ("plain", "approved write", "write that asks first", "client call", "queued message")
"""The scenarios whose recovery crashes where not all do: between them they have every kind of append."""


@dataclass
class Process:
    """One life of the product on a database."""

    core: Core
    database: CrashingDatabase
    ledger: Executions = field(default_factory=Executions)
    ports: ToolPorts = field(default_factory=ToolPorts)
    prepared: int = 0
    """How many writes it took until there was a session: they are the same in each scenario."""

    @classmethod
    async def begin(
        cls, open_database: OpenDatabase, scenario: Scenario, ledger: Executions, at: int = 0, side: Side = "before"
    ) -> "Process":
        database = CrashingDatabase(open_database(), at, side)
        provider = scenario.model()
        tools = {tool.spec.name: tool for tool in ledger.tools()}
        given: dict[str, Any] = {"default_model": "scripted", "tool_ports": (ports := ledger.ports())}
        core = Core(database, providers={"scripted": provider}, tools=tools, **given)
        return cls(core, database, ledger, ports)

    async def work(self, scenario: Scenario) -> None:
        """Start, open the session at its address, send every message, and see it through."""
        await self.core.start()
        if not (await self.core.agents.list()).items:
            tools = tuple(await self.ledger.define(self.core))
            own = {"hooks": scenario.hooks, "tool_limit": scenario.tool_limit, "router": scenario.router}
            await self.core.agents.create(Definition(name="a", instructions="", tools=tools, **own))
        session = await self.core.open_session(agent="a", actor=ANN, address="test:1")
        self.prepared = self.database.writes
        receipts = [
            await self.core.receive(session.id, Inbound(parts=_parts(text), actor=ANN, key=text, digest=b"same"))
            for text in scenario.messages
        ]
        for receipt in receipts:
            while (run := await self.core.settled(receipt.run, timeout=PATIENCE)).pending:
                await self.finish_calls(run)

    async def finish_calls(self, run: RunObject) -> None:
        """Do what others do for the calls of *run* that wait: approve them, or execute them."""
        for open_call in run.pending:
            with suppress(AlreadyDecided):
                if open_call.approval is not None:
                    form = (await self.core.approvals.get(open_call.approval)).form
                    given = None if form is None else {"quiet": True}
                    await self.core.approvals.decide(yes(open_call.approval, arguments=given))
                elif open_call.on == "client":
                    await self.core.submit(run.id, [ToolOutput(call=open_call.call, output="here")])

    async def live(self, scenario: Scenario) -> bool:
        """Work until done (True) or dead (False)."""
        work = asyncio.create_task(self.work(scenario))
        crash = asyncio.create_task(self.database.crashed.wait())
        await asyncio.wait((work, crash), return_when=asyncio.FIRST_COMPLETED)
        crash.cancel()
        if not work.done():
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work
            await self.end(grace=0.01)  # what waits for a database that is gone never ends
            return False
        await work
        return True

    async def end(self, **options: float) -> None:
        """Stop, and close what led elsewhere."""
        await self.core.stop(**options)
        if self.ports.fetch is not None:
            await self.ports.fetch.close()


def _parts(text: str) -> tuple[Part, ...]:
    return (ToolCall("call_used", "book", {"room": "r1"}),) if text == USES else (Text(text),)


@dataclass(frozen=True)
class Outcome:
    """How a session ended: what was answered, how its runs ended, and how many calls have an unknown outcome."""

    answers: tuple[str, ...]
    statuses: list[str]
    unknown: int


async def _facts(core: Core) -> tuple[str, list[Fact]]:
    session = (await core.sessions()).items[0].id
    facts: list[Fact] = []
    async for batch in core.follow(session, until_idle=True):
        facts += [event for event in batch if isinstance(event, Fact)]
    return session, facts


async def _outcome(core: Core) -> Outcome:
    session, facts = await _facts(core)
    check_log(facts)
    messages = (await core.messages(session)).items
    answers = tuple(text_of(message.parts) for message in messages if message.role == "assistant")
    statuses = [run.status for run in (await core.runs()).items]
    unknown = sum(isinstance(fact.body, ToolCompleted) and fact.body.outcome == "unknown" for fact in facts)
    return Outcome(answers, statuses, unknown)


def _check(scenario: Scenario, ledger: Executions, outcome: Outcome, *, crashed: bool) -> None:
    """A write runs exactly once; after a crash its outcome may be unknown, and then the model was sent that."""
    assert outcome.answers == scenario.answers
    assert outcome.statuses == ["completed"] * len(scenario.messages)
    wanted = ledger.writes if "write" in scenario.name else 0
    assert len(set(ledger.written)) == len(ledger.written) <= wanted, "a write tool ran twice"
    assert len(ledger.written) + outcome.unknown >= wanted, "a write never ran, and its outcome is not unknown"
    if not crashed:
        assert (len(ledger.written), outcome.unknown) == (wanted, 0)


async def lives(
    open_database: OpenDatabase, scenario: Scenario, crashes: Sequence[tuple[int, Side]], ledger: Executions
) -> tuple[Outcome, int, Process]:
    """Live through *crashes* on one database, each life with its own, and then one that ends well.

    *ledger* is what the outside world sees. Returns how it ended, how many lives crashed, and the last one.
    """
    last: tuple[int, Side] = (0, "before")
    for died, (at, side) in enumerate((*crashes, last)):
        process = await Process.begin(open_database, scenario, ledger, at, side)
        if await process.live(scenario):
            outcome = await _outcome(process.core)
            _check(scenario, ledger, outcome, crashed=died > 0)
            await process.end()
            return outcome, died, process
    raise AssertionError("the last life has no crash")


async def _undisturbed(fresh: Fresh, scenario: Scenario) -> Process:
    """Return a process that did not crash; how many appends it made depends a little on timing."""
    with fresh() as database:
        return (await lives(database, scenario, (), Executions()))[2]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_crash_at_every_append(fresh: Fresh, scenario: Scenario, side: Side, whole: bool) -> None:
    """A crash at any append, before or after its commit, changes neither the answers nor the number of writes."""
    process, died = await _undisturbed(fresh, scenario), 0
    first = 1 if whole or scenario.name == "plain" else process.prepared + 1
    for at in range(first, process.database.writes + 1, 1 if whole or side == "before" else FEWER):
        with fresh() as database:
            died += (await lives(database, scenario, ((at, side),), Executions()))[1]
    assert died


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "scenario",
    [pytest.param(each, marks=() if each.name in RECOVERED else pytest.mark.whole, id=each.name) for each in SCENARIOS],
)
async def test_crash_during_recovery(fresh: Fresh, scenario: Scenario, whole: bool) -> None:
    """A second crash, at any append of the process that recovers from the first, changes nothing either."""
    total = (await _undisturbed(fresh, scenario)).database.writes
    for at in range(1, total + 1, 1 if whole else FEW):
        with fresh() as database:
            await lives(database, scenario, ((total - 2, "after"), (at, "before")), Executions())
