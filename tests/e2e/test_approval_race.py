"""Decisions through every surface, a timeout and a Stop at the same instant: one outcome, which everyone gets.

The page's and an operator's requests come over a socket, the terminal's from the command itself, those of Slack as
signed clicks and forms through slack-bolt. A round is ten times as dear as one of the race of the core beside it
(`tests/agent_core/test_approval_race.py`), which plays every round of PARLEY_ROUNDS; this one plays a fifth of them.
"""

import asyncio
import os
import random
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent_core.core import Core
from agent_core.events import ApprovalDecided, RunCancelled, RunCompleted
from agent_core.messages import Actor
from agent_core.objects import ApprovalObject
from agent_core.testing import FakeClock
from app.cli import keys as cli_approvals
from app.cli import printing
from app.cli.client import ServerRefused, connected
from app.compose import create_app
from app.serving.readers import Readers
from app.settings import Settings
from app.storage import ApiKey, Keys
from channels.slack.cards import APPROVE, DENY, EDIT
from channels.slack.receive import LATE, NOT_YOURS
from channels.slack.testing import NotPossible, Team, VisibleMessage
from channels.web.identity import TokenSigner
from tests.agent_core.laws import check_log
from tests.agent_core.stage import Stage
from tests.app.served import served
from tests.channels.slack.cards.desk import Desk, asking, buttons
from tests.conftest import MakeCore
from tests.e2e.visitors import opened_by
from tests.polling import PATIENCE

ROUNDS = max(2, int(os.environ.get("PARLEY_ROUNDS", "15")) // 5)
MANY = 100
"""Rounds from which on every surface has won, and every outcome was seen."""
TIMEOUT = 60
BEATS = 100
"""Rounds of the event loop within which those begin who are not the first."""
LEADS = (0, 20, 200)
"""Rounds of the event loop by which one surface may be ahead of the others."""
KEY = "the-key-of-the-one-who-runs-it"
PLACES = ("CDATA", "UBEN")
POLICY = {
    "responders": ["asker", "operators", "slack:SDATA"],
    "deliver_to": [f"slack:T0001/{place}" for place in PLACES],
    "edit": True,
    "timeout_s": TIMEOUT,
}
SAYS = {
    "approved": "Approved",
    "denied": "Denied",
    "expired": "Not decided in time",
    "cancelled": "Not asked any more",
}
WON, REFUSED, UNKNOWN, UNSEEN = "won", "refused", "unknown", "unseen"


@dataclass(frozen=True)
class Said:
    """What became of one decision: it `won`, or it got the outcome, or why it did not count."""

    surface: str
    came_to: str
    by: str = ""


@dataclass
class RaceSurfaces:
    """A visitor's agent that asks people before it pays, and all who may be asked, at once."""

    desk: Desk
    clock: FakeClock
    operator: httpx.AsyncClient
    ada: httpx.AsyncClient
    eve: httpx.AsyncClient

    @property
    def core(self) -> Core:
        return self.desk.rig.core

    @property
    def team(self) -> Team:
        return self.desk.team

    def cards(self) -> list[VisibleMessage]:
        return [each for place in PLACES for each in self.desk.elsewhere(place)]

    def whispers(self, user: str) -> list[str]:
        """Return the ephemeral messages to *user*."""
        channels = [self.team.workspace.channels["CDATA"], self.team.workspace.im("UBEN")]
        return [each.text for channel in channels for each in channel.ephemeral if each.to == user]

    async def asks(self) -> ApprovalObject:
        """Have the visitor ask; return the question once it stands in both places, and two people have forms open."""
        workspace = self.team.workspace
        for channel in (workspace.channels["CDATA"], workspace.im("UBEN")):
            channel.messages.clear()
            channel.ephemeral.clear()
        workspace.views.clear()
        self.desk.rig.stand_in.calls.clear()
        self.desk.rig.stand_in.sent.clear()
        session = await opened_by(self.ada)
        run = (await self.ada.post(f"{session}/messages", json={"text": "Pay Bob"})).json()["run_id"]
        assert (await self.core.settled(run, timeout=PATIENCE)).status == "waiting"
        await self.desk.rig.stand_in.until(lambda: sum(map(bool, map(buttons, self.cards()))) == 2, timeout=PATIENCE)
        for user, place, action in (("UBEN", "UBEN", DENY), ("UCLEO", "CDATA", EDIT)):
            (card,) = self.desk.elsewhere(place)
            assert (await self.team.presses(user, place, card.ts, action)).acked
            assert len(self.desk.views(user)) == 1
        ((asked,),) = [(await self.core.approvals.list(run=run)).items]
        return asked

    async def http(self, surface: str, client: httpx.AsyncClient, approval: str, **body: Any) -> Said:
        """Decide with a request."""
        answer = await client.post(f"/v1/approvals/{approval}", json=body)
        found = answer.json()
        match answer.status_code, found.get("code"):
            case 200, _:
                assert found["status"] == ("approved" if body["approved"] else "denied")
                return Said(surface, WON)
            case 409, "already_decided":
                return Said(surface, found["approval"]["status"])
            case 403, "not_an_approver":
                assert "actor" in body
                return Said(surface, REFUSED)
            case 404, "not_found":
                assert client is self.eve
                return Said(surface, UNKNOWN)
            case _:
                raise AssertionError(answer.text)

    async def terminal(self, approval: str, *, approved: bool) -> Said:
        """Decide with `parley approvals decide`."""
        options = {"reason": None, "arguments": None, "remember": False, "actor": None}
        try:
            await asyncio.to_thread(cli_approvals.decide, approval, approve=approved, deny=not approved, **options)
        except ServerRefused as refused:
            words = f"{refused.status}: {refused}"
        else:
            return Said("terminal", WON)
        (status,) = [each for each in SAYS if words.startswith(f"409: This was {each} already")]
        return Said("terminal", status)

    async def presses(self, user: str, card: VisibleMessage, place: str) -> Said:
        """Press on a card's yes; its result is in the ephemeral messages to *user*."""
        try:
            dispatched = await self.team.presses(user, place, card.ts, APPROVE)
        except NotPossible:  # the card says already what became of it
            return Said("slack", UNSEEN)
        assert dispatched.acked, dispatched.failures
        return Said("slack", "pressed", user)

    async def submits(self, user: str, values: dict[str, str]) -> Said:
        """Send the form off that *user* has open."""
        (view,) = self.desk.views(user)
        dispatched = await self.team.submits(user, view["id"], values)
        assert dispatched.acked, dispatched.failures
        if not (answer := dispatched.deliveries[0].answer):
            return Said("slack", WON, user)
        assert answer["response_action"] == "update", answer
        return Said("slack", outcome_in(answer["view"]["blocks"][0]["text"]["text"]), user)

    def decisions(self, asked: ApprovalObject, dice: random.Random) -> Sequence[tuple[str, Coroutine[Any, Any, Said]]]:
        """Return fifty decisions, and their surfaces."""
        rich = {"to": "Bob", "amount": 100, "note": "more"}

        def body(n: int) -> dict[str, Any]:
            approved = dice.random() < 0.6
            return {"approved": approved} | ({"arguments": rich | {"amount": 100 + n}} if approved and n % 3 else {})

        found = [("web", self.http("web", self.ada, asked.id, **body(n))) for n in range(12)]
        found += [("api", self.http("api", self.operator, asked.id, **body(n))) for n in range(12)]
        found += [("api", self.http("api", self.operator, asked.id, actor="mallory", approved=True)) for _ in range(4)]
        found += [("web", self.http("web", self.eve, asked.id, approved=True)) for _ in range(4)]
        found += [("terminal", self.terminal(asked.id, approved=dice.random() < 0.6)) for _ in range(6)]
        (data,), (direct,) = (self.desk.elsewhere(place) for place in PLACES)
        people = [("UBEN", direct, "UBEN")] * 4 + [("UCLEO", data, "CDATA"), ("UANN", data, "CDATA")] * 3
        found += [("slack", self.presses(*each)) for each in people]
        found += [("slack", self.submits("UBEN", {"reason": "No."})), ("slack", self.submits("UCLEO", {"arg_1": "7"}))]
        assert len(found) == 50
        return found

    async def late(self) -> None:
        self.clock.advance(TIMEOUT)

    async def stop(self, run: str) -> None:
        assert (await self.operator.post(f"/v1/runs/{run}/cancel")).status_code in (200, 202)

    async def race(self, dice: random.Random) -> tuple[str, str]:
        """Ask, let everything happen at once; return the outcome and its surface once everybody agrees on it."""
        paid, asked = len(self.desk.till.paid), await self.asks()
        acts: list[tuple[str, Coroutine[Any, Any, Any]]] = [*self.decisions(asked, dice)]
        acts += [("time", self.late())] if dice.random() < 0.5 else []
        acts += [("stop", self.stop(asked.run))] if dice.random() < 0.5 else []
        dice.shuffle(acts)
        first, lead = dice.choice(sorted({kind for kind, _ in acts})), dice.choice(LEADS)
        starts = (delayed(0 if kind == first else lead + dice.randrange(BEATS), act) for kind, act in acts)
        said = [each for each in await asyncio.gather(*starts) if each is not None]
        found = await self.core.approvals.get(asked.id)
        assert found.status != "open"
        pressed = Counter(each.by for each in said if each.came_to == "pressed")
        won = 1 if any(vote.surface == "slack" for vote in found.votes) else 0
        won -= sum(each.surface == "slack" and each.came_to == WON for each in said)  # that was a form
        await self.desk.rig.stand_in.until(
            lambda: sum(len(self.whispers(user)) for user in pressed) >= pressed.total() - won, timeout=PATIENCE
        )
        self.check_answers(said, found)
        await self.check_run(found, self.desk.till.amounts[paid:])
        await self.desk.rig.stand_in.until(
            lambda: all(SAYS[found.status] in each.text and not each.buttons for each in self.cards()), timeout=PATIENCE
        )
        return found.status, next((vote.surface for vote in found.votes), found.status)

    def check_answers(self, said: Sequence[Said], found: ApprovalObject) -> None:
        """Everyone except the winner got the outcome, or that it is not theirs to decide."""
        won = [each for each in said if each.came_to == WON]
        for user, is_asked in (("UBEN", True), ("UCLEO", True), ("UANN", False)):
            presses = sum(each.came_to == "pressed" and each.by == user for each in said)
            whispers = self.whispers(user)
            lost = [words for words in whispers if is_asked or not words.startswith(NOT_YOURS)]
            assert {outcome_in(words) for words in lost} <= {found.status}
            won += [Said("slack", WON, user)] * (presses - len(whispers))
        assert {each.came_to for each in said} <= {WON, REFUSED, UNKNOWN, UNSEEN, "pressed", found.status}
        assert sum(each.came_to == UNKNOWN for each in said) == 4, "a stranger got more than a 404"
        if found.status in ("approved", "denied"):
            assert found.decided_by is not None
            ((surface, by),) = [(each.surface, each.by) for each in won]
            assert by in found.decided_by.id
            assert {surface} == {vote.surface for vote in found.votes}
        else:
            assert won == []

    async def check_run(self, found: ApprovalObject, paid: list[int]) -> None:
        """The call ran at most once, as it was approved; log and record have the same one outcome."""
        ended = await self.core.settled(found.run, timeout=PATIENCE)
        assert len(paid) <= (found.status == "approved")
        if found.status == "approved" and ended.status == "completed":
            assert paid == [found.arguments["amount"]]
        stage = Stage(self.core, self.desk.rig.model, found.session)
        (decided,) = await stage.said(ApprovalDecided)
        assert decided.status == found.status
        ends = await stage.said(RunCompleted) + await stage.said(RunCancelled)
        assert len(ends) == 1, [fact.type for fact in await stage.log()][-5:]
        kinds = [line.kind for line in await self.core.approvals.audit(approval=found.id)]
        assert [kind for kind in kinds if kind in SAYS] == [found.status]
        check_log(await stage.log())


def outcome_in(words: str) -> str:
    """Return the outcome that the message to a late approver names."""
    (status,) = [each for each, said in SAYS.items() if words.startswith(f"{LATE}{said}")]
    return status


async def delayed(beats: int, act: Coroutine[Any, Any, Any]) -> Any:
    """Let others go first for some rounds of the loop."""
    for _ in range(beats):
        await asyncio.sleep(0)
    return await act


@asynccontextmanager
async def grounds(make_core: MakeCore, folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RaceSurfaces]:
    """Serve the whole application, Slack and all, around a core whose clock does not advance."""
    clock, readers, tokens = FakeClock(), Readers(), TokenSigner(Keys(b"a secret of no less than 32 characters").derive)
    async with asking(make_core, clock=clock, **POLICY) as desk, AsyncExitStack() as stack:
        given = Settings(_env_file=None, data=folder, agents=folder)  # type: ignore[call-arg]
        key, routes = ApiKey(sha256(KEY.encode()).digest()), desk.rig.listener.router()
        app = create_app(desk.rig.core, given, tokens=tokens, api_key=key, readers=readers, channels=[routes])
        url = await stack.enter_async_context(served(app, readers))
        desk.rig.stand_in.deliver_to(url)
        remote = Settings(_env_file=None, data=folder, agents=folder, url=url, api_key=KEY)  # type: ignore[call-arg]
        monkeypatch.setattr(printing, "connect", lambda: connected(remote))
        agent = (await desk.rig.core.agents.get("assistant")).id
        visitors = [tokens.visitor(Actor(name, "visitor"), agent=agent).text for name in ("ada", "eve")]
        callers = [
            httpx.AsyncClient(
                base_url=url, headers={"Authorization": f"Bearer {text}"}, trust_env=False, timeout=PATIENCE
            )
            for text in (KEY, *visitors)
        ]
        yield RaceSurfaces(desk, clock, *[await stack.enter_async_context(each) for each in callers])


@pytest.mark.whole
async def test_one_outcome_whichever_surface_was_first(make_core, tmp_path, monkeypatch):
    """Of simultaneous decisions on all surfaces one wins, unless the timeout or a Stop does; all get the outcome."""
    dice = random.Random(16)  # noqa: S311 - dice, not secrets
    async with grounds(make_core, tmp_path, monkeypatch) as ground:
        ends = [await ground.race(dice) for _ in range(ROUNDS)]
    print(f"{ROUNDS} races: {dict(Counter(ends))}")
    if ROUNDS >= MANY:
        assert {outcome for outcome, _ in ends} == set(SAYS)
        assert {"web", "api", "terminal", "slack"} <= {surface for _, surface in ends}
