"""A process is killed at every write of a card: people are asked once, and shown the outcome."""

import re
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest

from agent_core.channels import Inbound
from agent_core.core import Core
from agent_core.messages import Actor, Text
from agent_core.objects import Decider, Decision
from agent_core.testing import FakeClock, ScriptedProvider
from channels.ledger import LEASE, Ledger
from channels.slack.cards import Card, CardRows, Cards, Spot
from channels.slack.pace import Pacer, Workspaces
from channels.slack.settings import Thread
from channels.slack.testing import SimulatedWorkspace, SlackStandIn, VisibleMessage
from tests.channels.slack.answers import Died, Side
from tests.channels.slack.cards.desk import HASTY, TypedTill, asks, buttons, wants
from tests.channels.slack.kills import Breathing, Life
from tests.conftest import MakeCore

ANN = Actor("slack:T0001:UANN", "user", "Ann Lee")
OPERATOR = Decider(actor=Actor("ops", "service", "Olga"), is_operator=True)
LETTER = "\n".join(f"line {n}" for n in range(2_500))
LONG = 60.0
LONG_STEP = 3
"""One of so many writes is enough of a card in several messages, whose writes are of the kinds that the others have."""


class MortalCardRows(CardRows):
    """The cards of a process that may die at a write."""

    life: Life
    changed: Callable[[], None]
    settled: set[str]

    async def plan(self, approval: str, session: str, spots: Collection[Spot]) -> None:  # type: ignore[override]
        with self._writing("plan"):
            await super().plan(approval, session, spots)

    async def claim(self, keys: Collection[int]) -> list[Card]:
        with self._writing("claim"):
            return await super().claim(keys)

    async def _put(self, card: Card, values: dict[str, Any]) -> Card:
        with self._writing(f"put {' '.join(sorted(values))}"):
            written = await super()._put(card, values)
            if values.get("state") == "settled":
                self.settled.add(card.approval)
                self.changed()
            return written

    async def _free(self, which: Any) -> None:
        self.life.check()
        await super()._free(which)

    @contextmanager
    def _writing(self, what: str) -> Iterator[None]:
        try:
            with self.life.writing(what):
                yield
        finally:
            self.changed()


@dataclass
class CardsUnderKills:
    """A core that asks people, and a Slack in which they are asked."""

    stand_in: SlackStandIn
    core: Core
    clock: FakeClock
    http: aiohttp.ClientSession
    till: TypedTill
    place: str
    settled: set[str] = field(default_factory=set)

    @asynccontextmanager
    async def process(self, life: Life) -> AsyncIterator[None]:
        """Show cards until the block ends, or the process does."""
        team = self.stand_in.team()
        api = Breathing(team.bot_token, session=self.http, base_url=f"{self.stand_in.base_url}api/")
        rows = MortalCardRows(self.core._store.database, self.clock)
        api.life = rows.life = life
        rows.changed, rows.settled = self.stand_in.changed, self.settled
        cards = Cards(self.core, rows, Workspaces([api], Pacer(self.clock, share=HASTY)), self.clock)
        await cards.start()
        try:
            yield
        finally:
            with suppress(Died):
                await cards.stop()

    async def asks(self) -> tuple[str, str]:
        """Have a run ask people, in a thread if that is its place; return the thread and the question."""
        root = (await self.stand_in.team().says("UANN", "CGENERAL", "Pay")).ts
        thread = Thread("T0001", "CGENERAL", root, "UANN", "T0001")
        address = thread.address if self.place == "thread" else None
        session = (await self.core.open_session(agent="assistant", actor=ANN, address=address)).id
        if address is not None:  # the thread shows all that leads to the question
            ledger = Ledger(self.core._store.database, self.clock, "slack")
            await ledger.want(session, address, thread.data())
            (place,) = await ledger.claim(session)
            await ledger.rest(place, None, seen=0)
        run = (await self.core.receive(session, Inbound(parts=(Text("Pay"),), actor=ANN))).run
        assert (await self.core.settled(run, timeout=LONG)).status == "waiting"
        (asked,) = (await self.core.approvals.list(run=run)).items
        return root, asked.id

    async def decide(self, approval: str) -> None:
        await self.core.approvals.decide(Decision(approval=approval, by=OPERATOR, approved=True, surface="api"))

    def shown(self, root: str, before: Collection[str]) -> list[VisibleMessage]:
        """Return the messages of the newest card."""
        team = self.stand_in.team()
        if self.place == "thread":
            return list(team.answers("CGENERAL", root))
        top = [each for each in team.top(self.place) if each.user == team.bot and each.ts not in before]
        return [said for each in top for said in team.thread(self.place, each.ts)]

    def before(self) -> set[str]:
        return set() if self.place == "thread" else {each.ts for each in self.stand_in.team().top(self.place)}

    async def lives(self, life: Life, root: str, before: Collection[str], approval: str) -> None:
        """Let a process show the card until it dies, or until it is decided and says so."""
        async with self.process(life):
            await self.stand_in.until(lambda: life.is_over or self.is_asked(root, before), timeout=LONG)
            if life.is_over:
                return
            if (await self.core.approvals.get(approval)).status == "open":
                await self.decide(approval)
            await self.stand_in.until(lambda: life.is_over or self.is_decided(root, before), timeout=LONG)
            await self.stand_in.until(lambda: life.is_over or approval in self.settled, timeout=LONG)

    def is_asked(self, root: str, before: Collection[str]) -> bool:
        found = self.shown(root, before)
        return any(buttons(each) for each in found) or self.is_decided(root, before)

    def is_decided(self, root: str, before: Collection[str]) -> bool:
        found = self.shown(root, before)
        decided = [each for each in (found[:1] + found[-1:]) if "Approved by Olga" in each.text]
        return bool(decided) and len(decided) == len(found[:1] + found[-1:])


@pytest.fixture
async def make_ground(make_core: MakeCore) -> AsyncIterator[Callable[..., Any]]:
    async with AsyncExitStack() as stack:

        async def make(place: str, **arguments: Any) -> CardsUnderKills:
            clock, till = FakeClock(), TypedTill()
            model = ScriptedProvider(wants(**{"to": "Bob", "amount": 5, **arguments}))
            deliver_to = [] if place == "thread" else [f"slack:{place}"]
            definition = {"hooks": (asks(deliver_to=deliver_to, timeout_s=24 * 3600),)}
            core = await make_core(model, clock=clock, tools=till.tools(), definition=definition)
            stand_in = SlackStandIn(clock=clock, workspaces=[SimulatedWorkspace.example()], rates=None, echo=False)
            await stack.enter_async_context(stand_in.serving())
            http = await stack.enter_async_context(aiohttp.ClientSession())
            return CardsUnderKills(stand_in, core, clock, http, till, place)

        yield make


def timeless(shown: VisibleMessage) -> str:
    return re.sub(r"\d\d:\d\d UTC", "then", shown.text)


SCENES: dict[str, tuple[str, dict[str, Any]]] = {
    "in its thread": ("thread", {}),
    "to a person": ("UBEN", {}),
    "long, in a channel": ("CDATA", {"note": LETTER}),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("scene", SCENES)
async def test_killed_at_every_write(make_ground: Callable[..., Any], whole: bool, scene: str):
    """Whatever was to be written when a process died, the next one asks once, and every card says what came of it."""
    place, arguments = SCENES[scene]
    ground: CardsUnderKills = await make_ground(place, **arguments)
    life = Life()
    before = ground.before()
    root, approval = await ground.asks()
    await ground.lives(life, root, before, approval)
    usual = [timeless(each) for each in ground.shown(root, before)]
    assert len(life.writes) >= 7
    points = range(1, len(life.writes) + 1, 1 if whole or not arguments else LONG_STEP)
    sides: tuple[Side, ...] = ("before", "after")
    for at in points:
        for side in sides if whole else sides[at % 2 :][:1]:
            before = ground.before()
            root, approval = await ground.asks()
            dying = Life(at, side)
            await ground.lives(dying, root, before, approval)
            assert dying.is_over, f"it did not come to its write {at}"
            ground.clock.advance(LEASE / 1000 + 1)
            await ground.lives(Life(), root, before, approval)
            found = ground.shown(root, before)
            assert [timeless(each) for each in found] == usual, (at, side)
            assert not any(each.buttons for each in found)
    assert len(ground.till.paid) == len((await ground.core.approvals.list(status="approved", limit=500)).items)
