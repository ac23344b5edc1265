"""An agent in Slack that asks people before it pays, and the cards that they see."""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from agent_core.agents import Hook
from agent_core.channels import Inbound
from agent_core.messages import Actor, Text
from agent_core.objects import ApprovalObject
from agent_core.providers.base import Request
from agent_core.testing import Answer, FakeClock, call, say, step_of
from agent_core.tools.base import Tool
from agent_core.tools.functions import tool
from channels.slack.api import SlackApi, open_session
from channels.slack.cards import ALWAYS, APPROVE, DENY, EDIT
from channels.slack.settings import Slack
from channels.slack.testing import Armed, Dispatched, InjectedFault, Team, VisibleMessage
from channels.slack.testing.world import Json
from tests.channels.slack.rig import EVERYWHERE, HASTY, Rig, rigged
from tests.conftest import MakeCore

__all__ = ["ALWAYS", "APPROVE", "DENY", "EDIT", "HASTY", "TypedTill", "asking", "asks"]
LONG = 60.0
Colour = Literal["red", "green"]


def asks(matcher: str = "pay", **config: Any) -> Hook:
    return Hook(event="PreToolUse", type="approval", matcher=matcher, config=config)


@dataclass
class TypedTill:
    """A tool that matters; *paid* is what the world remembers of it."""

    paid: list[dict[str, Any]] = field(default_factory=list)

    def tools(self) -> tuple[Tool, ...]:
        @tool(effect="write")
        async def pay(
            to: str,
            amount: int,
            note: str = "",
            rate: float = 1.0,
            colour: Colour = "red",
            urgent: bool = False,
            lines: list[int] | None = None,
        ) -> str:
            """Pay a person."""
            self.paid.append(
                {
                    "to": to,
                    "amount": amount,
                    "note": note,
                    "rate": rate,
                    "colour": colour,
                    "urgent": urgent,
                    "lines": lines,
                }
            )
            return f"Paid {amount} to {to}."

        @tool(effect="read")
        async def look(what: str) -> str:
            """Look something up."""
            return f"{what} is fine."

        return pay, look

    @property
    def amounts(self) -> list[int]:
        return [each["amount"] for each in self.paid]


def wants(**arguments: Any) -> Callable[[Request], Answer]:
    """Return a model that says a word, pays, and then says that it is done."""

    def answer(request: Request) -> Answer:
        if step_of(request) == 0:
            return [say("I will pay."), call("pay", **arguments)]
        return [say("That is done.")]

    return answer


@dataclass
class Desk:
    """What people do with the cards of an agent that asked them something."""

    rig: Rig
    till: TypedTill
    root: str = ""

    @property
    def team(self) -> Team:
        return self.rig.team

    async def ask(self, user: str = "UANN", channel: str = "CGENERAL", *, cards: int = 1) -> str:
        """Have *user* ask for something, and return the thread once its cards are there."""
        self.root = (await self.team.mentions(user, channel, "Pay Bob")).ts
        await self.rig.stand_in.until(lambda: len(self.cards(channel)) == cards, timeout=LONG)
        return self.root

    def cards(self, channel: str = "CGENERAL", root: str | None = None) -> list[VisibleMessage]:
        """Return the messages with buttons of cards that a thread shows."""
        said = self.team.answers(channel, self.root if root is None else root)
        return [each for each in said if buttons(each)]

    def elsewhere(self, channel: str) -> list[VisibleMessage]:
        """Return what the app says in *channel* outside of threads."""
        return [each for each in self.team.top(channel) if each.user == self.team.bot]

    async def open(self) -> ApprovalObject:
        """Return the open question."""
        (asked,) = (await self.rig.core.approvals.list(status="open")).items
        return asked

    async def press(self, user: str, action: str = APPROVE, channel: str = "CGENERAL", **more: Any) -> Dispatched:
        """Press a button of the card."""
        (card,) = self.cards(channel)
        return await self.team.presses(user, channel, card.ts, action, **more)

    async def form(self, user: str, action: str, channel: str = "CGENERAL") -> Json:
        """Press a button that opens a form, and return the form."""
        dispatched = await self.press(user, action, channel)
        assert dispatched.acked, dispatched.failures
        return self.views(user)[-1]

    def views(self, user: str) -> list[Json]:
        """Return the forms that *user* has open, with their ids."""
        return [{**each.view, "id": each.id} for each in self.team.workspace.views.values() if each.user == user]

    async def notice(self, user: str, channel: str = "CGENERAL", *, thread: bool = True) -> str:
        """Return the last ephemeral message to *user*, in the thread or at the top of the channel."""
        place = self.team.workspace.channels[channel]

        def own() -> list[Any]:
            return [each for each in place.ephemeral if each.to == user]

        await self.rig.stand_in.until(own, timeout=LONG)
        assert own()[-1].thread_ts == (self.root if thread else None)
        return own()[-1].text

    def fault(self, fault: InjectedFault) -> Armed:
        """Let something go wrong with cards, and with nothing else."""
        calls = self.rig.stand_in.calls
        return self.rig.stand_in.fault(replace(fault, when=lambda: "crd_" in str(calls[-1].arguments.get("metadata"))))

    async def says(self, status: str, channel: str = "CGENERAL") -> None:
        """Return once that is the thread's status."""

        def is_said() -> bool:
            session = self.team.session(channel, self.root)
            return session is not None and session.status == status

        await self.rig.stand_in.until(is_said, timeout=LONG)

    async def post(self, card: VisibleMessage, team: Team | None = None, *, value: str | None = None) -> str:
        """Post what *card* shows once more, in the thread or at the top of another *team*'s channel."""
        team = team or self.team
        blocks = list(card.blocks)
        if value is not None:
            blocks = json.loads(json.dumps(blocks).replace(card.buttons[0].value, value))
        async with open_session() as http:
            api = SlackApi(team.bot_token, session=http, base_url=f"{self.rig.stand_in.base_url}api/")
            root = self.root if team is self.team else None
            return await api.post("CGENERAL", card.source, blocks=blocks, thread_ts=root)

    async def elsewhere_asks(self) -> str:
        """Ask the same from the web, and return the run."""
        by = Actor("visitor", "visitor", "Vera")
        asked = await self.rig.core.run_agent("assistant", Inbound(parts=(Text("Pay Bob"),), actor=by))
        return asked.run

    async def settled(self, channel: str = "CGENERAL", *, answer: str = "That is done.") -> None:
        """Return once the thread's card has lost its buttons, and the *answer* is there."""

        def is_settled() -> bool:
            session = self.team.session(channel, self.root)
            is_active = session is not None and session.status == "active"
            return is_active and not self.cards(channel) and answer in self.text(channel)

        await self.rig.stand_in.until(is_settled, timeout=LONG)

    def statuses(self) -> list[str]:
        """Return the statuses that the app gave the thread, in their order, a stream's included."""
        given = [call.arguments for call in self.rig.stand_in.calls if call.ok]
        found = [each.get("session_status") or each.get("status") for each in given]
        return [each for each in found if each]

    def text(self, channel: str = "CGENERAL") -> str:
        """Return all that the thread says."""
        return "\n".join(each.text for each in self.team.answers(channel, self.root))


def buttons(shown: VisibleMessage) -> Sequence[str]:
    """Return the buttons of a card that a message has."""
    return [each.action_id for each in shown.buttons if each.action_id.startswith("approval_")]


@asynccontextmanager
async def asking(
    make_core: MakeCore,
    *,
    answer: Callable[[Request], Answer] | None = None,
    slack: Slack = EVERYWHERE,
    clock: FakeClock | None = None,
    hooks: tuple[Hook, ...] | None = None,
    socket: float | None = None,
    page: bool = False,
    public_url: str | None = None,
    **config: Any,
) -> AsyncIterator[Desk]:
    """Let an agent that pays be in Slack; *config* is that of its approvals."""
    till = TypedTill()
    async with rigged(
        make_core,
        answer=answer or wants(to="Bob", amount=5),
        slack=slack,
        clock=clock,
        shown=True,
        hasty=True,
        tools=till.tools(),
        hooks=(asks(**config),) if hooks is None else hooks,
        socket=socket,
        page=page,
        public_url=public_url,
    ) as rig:
        yield Desk(rig, till)
