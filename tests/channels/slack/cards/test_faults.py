"""What goes wrong between a card and Slack: no one is asked twice or forgotten, and the log names what to fix."""

import pytest
from structlog.testing import capture_logs

from agent_core.messages import Actor
from agent_core.objects import Decider, Decision
from channels.slack.testing import InjectedFault
from tests.channels.slack.answers import ticking
from tests.channels.slack.cards.desk import APPROVE, DENY, LONG, Desk, asking, buttons

OPERATOR = Decider(actor=Actor("ops", "service"), is_operator=True)
MONTH = 30 * 24 * 3600


async def decide(desk: Desk) -> None:
    asked = await desk.open()
    await desk.rig.core.approvals.decide(Decision(approval=asked.id, by=OPERATOR, approved=True, surface="api"))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "fault",
    [
        InjectedFault("answer_lost", on="chat.postMessage"),
        InjectedFault("server_error", on="chat.postMessage", effect=True),
        pytest.param(InjectedFault("server_error", on="chat.postMessage"), marks=pytest.mark.whole),
        InjectedFault("request_lost", on="chat.postMessage"),
        pytest.param(InjectedFault("ratelimited", on="chat.postMessage", seconds=5), marks=pytest.mark.whole),
        InjectedFault("answer_lost", on="chat.update"),
        pytest.param(InjectedFault("server_error", on="chat.update", times=3), marks=pytest.mark.whole),
        InjectedFault("ratelimited", on="chat.update", seconds=5),
    ],
    ids=lambda fault: f"{fault.kind} {fault.on} {fault.effect}",
)
async def test_what_may_have_been_posted_is_not_posted_again(make_core, fault: InjectedFault):
    """Whatever is lost on the way, one card is in the thread and one in the channel, and both show the outcome."""
    async with asking(make_core, timeout_s=MONTH, deliver_to=["slack:CDATA"]) as desk, ticking(desk.rig.clock):
        stand_in = desk.rig.stand_in
        desk.fault(fault)
        await desk.ask()
        await stand_in.until(lambda: desk.elsewhere("CDATA"), timeout=LONG)
        await decide(desk)
        await desk.settled()
        await stand_in.until(lambda: not any(each.buttons for each in desk.elsewhere("CDATA")), timeout=LONG)
        said = [each.text for each in (*desk.elsewhere("CDATA"), *desk.team.answers("CGENERAL", desk.root))]
        assert sum("Approved by ops" in each for each in said) == 2
        assert len(desk.elsewhere("CDATA")) == 1
        assert len(desk.team.answers("CGENERAL", desk.root)) == 3
        assert [armed for armed in stand_in.faults.armed if not armed.spent] == []
        assert desk.till.amounts == [5]


async def test_blocks_that_slack_refuses_cost_their_form_alone(make_core):
    """A card whose blocks are refused is posted in plain words, with its buttons."""
    async with asking(make_core) as desk:
        desk.fault(InjectedFault("invalid_blocks", on="chat.postMessage"))
        await desk.ask()
        (card,) = desk.cards()
        assert buttons(card) == [APPROVE, DENY]
        assert [block["type"] for block in card.blocks] == ["section", "actions"]
        assert "to: Bob\namount: 5" in card.text
        await desk.press("UANN")
        await desk.settled()


async def test_a_channel_that_the_app_is_not_in(make_core):
    """The log names the question, the place and the reason; once the app is invited the card is there."""
    async with asking(make_core, timeout_s=MONTH, deliver_to=["slack:CQUIET"]) as desk:
        with capture_logs() as logs:
            await desk.ask()
            posts = desk.rig.stand_in.called
            await desk.rig.stand_in.until(lambda: any(not call.ok for call in posts("chat.postMessage")))
            asked = await desk.open()
            async with ticking(desk.rig.clock):
                desk.team.workspace.channels["CQUIET"].members.add(desk.team.bot)
                await desk.rig.stand_in.until(lambda: desk.elsewhere("CQUIET"), timeout=LONG)
                await decide(desk)
                await desk.rig.stand_in.until(lambda: not desk.elsewhere("CQUIET")[0].buttons, timeout=LONG)
        (record,) = [each for each in logs if each["event"] == "slack.card_undelivered"]
        assert (record["approval"], record["place"]) == (asked.id, "slack:T0001:CQUIET")
        assert "not_in_channel" in record["error"]
        lines = await desk.rig.core.approvals.audit()
        assert {str(line.place).split(":")[2] for line in lines if line.kind == "delivered"} == {"CGENERAL", "CQUIET"}


async def test_a_place_without_its_workspace(make_core):
    """With two workspaces a channel alone is no place for a conversation of neither: the log says how to write it."""
    async with asking(make_core, deliver_to=["slack:CDATA"]) as desk:
        with capture_logs() as logs:
            run = await desk.elsewhere_asks()
            await desk.rig.core.settled(run, timeout=LONG)
            await desk.ask()
            await desk.rig.stand_in.until(lambda: desk.elsewhere("CDATA"))
        assert "slack.card_unplaced" in [each["event"] for each in logs]
        assert len(desk.elsewhere("CDATA")) == 1


async def test_a_card_that_people_deleted_stays_deleted(make_core):
    """A deleted card holds nothing up: the question is decided elsewhere, and nothing is posted in its place."""
    async with asking(make_core) as desk:
        await desk.ask()
        (card,) = desk.cards()
        del desk.team.workspace.channels["CGENERAL"].messages[card.ts]
        await decide(desk)
        await desk.settled()
        assert [each.text.split("\n")[-1] for each in desk.team.answers("CGENERAL", desk.root)] == [
            "I will pay.",
            "That is done.",
        ]


async def test_a_channel_that_cannot_be_read(make_core):
    """Where a card cannot be looked for it is posted again; the one left over is updated at a click."""
    async with asking(make_core, timeout_s=MONTH, deliver_to=["slack:CDATA"]) as desk, ticking(desk.rig.clock):
        desk.team.workspace.scopes -= {"channels:history"}
        desk.fault(InjectedFault("answer_lost", on="chat.postMessage", nth=2))
        await desk.ask()
        await desk.rig.stand_in.until(lambda: len(desk.elsewhere("CDATA")) + len(desk.cards()) == 3, timeout=LONG)
        await decide(desk)
        left = [each.ts for each in desk.elsewhere("CDATA")[:1] + desk.cards()[:1]]
        await desk.rig.stand_in.until(lambda: len(_open(desk)) == 1, timeout=LONG)
        (lost,) = _open(desk)
        assert lost[1] in left
        await desk.team.presses("UBEN", *lost, APPROVE)
        await desk.rig.stand_in.until(lambda: not _open(desk), timeout=LONG)


def _open(desk: Desk) -> list[tuple[str, str]]:
    """Return channel and `ts` of the cards that have buttons."""
    found = [("CDATA", each) for each in desk.elsewhere("CDATA")] + [("CGENERAL", each) for each in desk.cards()]
    return [(channel, each.ts) for channel, each in found if buttons(each)]
