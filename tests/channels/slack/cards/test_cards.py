"""Approvals as cards: posted where people are asked, decided by a click, then updated with the outcome."""

import json
from dataclasses import replace
from typing import Annotated, Any

import pytest
from pydantic import Field
from structlog.testing import capture_logs

from agent_core.messages import Actor
from agent_core.objects import Decider, Decision
from agent_core.testing import FakeClock, call, say, step_of
from agent_core.tools.base import CallContext, Elicitation, Tool
from agent_core.tools.functions import tool
from channels.slack.context import OUTSIDE
from channels.slack.forms import CHOICES
from channels.slack.receive import GONE, LATE, NOT_SURE, NOT_YOURS
from channels.slack.settings import Slack
from channels.slack.testing import InjectedFault
from channels.slack.testing.team import NotPossible
from tests.channels.slack.cards.desk import ALWAYS, APPROVE, DENY, EDIT, Desk, TypedTill, asking, asks, buttons, wants
from tests.polling import PATIENCE

OPERATOR = Decider(actor=Actor("ops", "service"), is_operator=True)


async def by_an_operator(desk: Desk, *, approved: bool = True, reason: str | None = None) -> None:
    """Decide as the HTTP API does for an operator."""
    asked = await desk.open()
    vote = Decision(approval=asked.id, by=OPERATOR, approved=approved, surface="api", reason=reason)
    await desk.rig.core.approvals.decide(vote)


async def test_a_yes_lets_the_call_run(make_core):
    """The card shows the exact call; after a yes it says who and when, loses its buttons, and the answer continues."""
    async with asking(make_core) as desk:
        await desk.ask()
        (card,) = desk.cards()
        assert card.text.split("\n")[2:5] == ["Pay Bob", "to: Bob", "amount: 5"]
        assert buttons(card) == [APPROVE, DENY]
        await desk.says("suspended")
        assert desk.till.paid == []
        assert (await desk.press("UANN")).acked
        await desk.settled()
        assert desk.till.amounts == [5]
        said = [each.text.split("\n")[-1] for each in desk.team.answers("CGENERAL", desk.root)]
        assert said == ["I will pay.", "Approved by UANN, 2026-01-01 00:00 UTC.", "That is done."]
        lines = await desk.rig.core.approvals.audit()
        assert [(line.kind, line.surface) for line in lines[1:]] == [("delivered", "slack"), ("approved", "slack")]
        assert lines[1].place == f"slack:T0001:CGENERAL:{desk.root}:{card.ts}"
        assert lines[2].actor == Actor("slack:T0001:UANN", "user", "Ann Lee")


async def test_going_back_decides_nothing(make_core):
    """A yes to a tool that writes asks once more, and going back there is no yes."""
    async with asking(make_core) as desk:
        await desk.ask()
        assert desk.cards()[0].buttons[0].confirm == "Run pay?"
        await desk.press("UANN", sure=False)
        assert (await desk.open()).status == "open"
        assert desk.till.paid == []


async def test_a_denial_has_a_reason_that_reaches_the_agent(make_core):
    """Deny asks why, sends the reason to the model, and the card shows it."""
    async with asking(make_core) as desk:
        await desk.ask()
        view = await desk.form("UANN", DENY)
        assert (await desk.open()).status == "open"
        await desk.team.submits("UANN", view["id"], {"reason": "Too <much>"})
        await desk.settled()
        assert desk.views("UANN") == []
        assert desk.till.paid == []
        assert "Denied by UANN, 2026-01-01 00:00 UTC.\nToo <much>" in desk.text()
        assert "Too <much>" in str([entry.message for entry in desk.rig.model.requests[-1].messages])


async def test_arguments_are_corrected_in_a_form(make_core):
    """What does not fit is said at its field and nothing runs; what fits runs, and the card shows both versions."""
    async with asking(make_core, edit=True) as desk:
        await desk.ask()
        view = await desk.form("UANN", EDIT)
        fields = {each["label"]["text"]: each["block_id"] for each in view["blocks"] if each["type"] == "input"}
        assert list(fields) == ["to", "amount", "colour", "lines (JSON)", "note", "rate", "urgent"]
        wrong = {fields["amount"]: "much", fields["lines (JSON)"]: '["x"]'}
        (delivery,) = (await desk.team.submits("UANN", view["id"], wrong)).deliveries
        assert delivery.answer["errors"] == {fields["amount"]: "This is to be a whole number."}
        (delivery,) = (await desk.team.submits("UANN", view["id"], wrong | {fields["amount"]: "3"})).deliveries
        assert delivery.answer["errors"] == {fields["lines (JSON)"]: "[0]: 'x' is not of type 'integer'"}
        assert (desk.till.paid, (await desk.open()).votes) == ([], ())
        right = {fields["amount"]: "3", fields["colour"]: "1", fields["urgent"]: "0"}
        await desk.team.submits("UANN", view["id"], right)
        await desk.settled()
        paid = {"to": "Bob", "amount": 3, "note": "", "rate": 1.0, "colour": "green", "urgent": True, "lines": None}
        assert desk.till.paid == [paid]
        said = desk.text()
        assert "amount: 3\ncolour: green\nurgent: true\nAsked for was:\namount: 5" in said
        assert "Approved by UANN, 2026-01-01 00:00 UTC, with other arguments than were asked for." in said


async def test_each_argument_that_does_not_fit_says_so(make_core, monkeypatch: pytest.MonkeyPatch):
    """What the tool's own schema refuses is said at every field at once, with the place in what it holds."""

    @tool(effect="write")
    async def pay(to: Annotated[str, Field(max_length=5)], amount: Annotated[int, Field(ge=1)], lines: list[int]):
        """Pay a person."""

    monkeypatch.setattr(TypedTill, "tools", lambda _: (pay,))
    async with asking(make_core, answer=wants(to="Bob", amount=5, lines=[1]), edit=True) as desk:
        await desk.ask()
        view = await desk.form("UANN", EDIT)
        blocks = [each["block_id"] for each in view["blocks"] if each["type"] == "input"]
        wrong = dict(zip(blocks, ("Bobby Tables", "0", '["x", 2, "y"]'), strict=True))
        (delivery,) = (await desk.team.submits("UANN", view["id"], wrong)).deliveries
        assert [delivery.answer["errors"][block] for block in blocks] == [
            "'Bobby Tables' is too long",
            "0 is less than the minimum of 1",
            "[0]: 'x' is not of type 'integer'; [2]: 'y' is not of type 'integer'",
        ]
        assert (await desk.open()).votes == ()


def asking_for(schema: dict[str, Any], answers: list[Any]) -> Tool:
    """Return a tool that asks for what it needs, and keeps the *answers*."""

    @tool(effect="write")
    async def pay(context: CallContext) -> Elicitation | str:
        """Pay a person."""
        if context.answer is None:
            return Elicitation("What shall I pay?", schema)
        answers.append(dict(context.answer.content))
        return "Paid."

    return pay


async def test_a_form_is_answered_by_a_person(make_core, monkeypatch: pytest.MonkeyPatch):
    """A card of before, which has a yes, opens the form too; what is wrong is said in words at its field."""
    code, answers = {"type": "string", "title": "Code", "pattern": "^[A-Z]{2}$"}, list[Any]()
    schema = {"type": "object", "properties": {"code": code, "day": {"type": "string", "format": "date"}}}
    made = asking_for({**schema, "required": ["code", "day"]}, answers)
    monkeypatch.setattr(TypedTill, "tools", lambda _: (made,))
    async with asking(make_core, answer=wants(), hooks=()) as desk:
        await desk.ask()
        (card,) = desk.cards()
        assert buttons(card) == [EDIT, DENY]
        blocks = json.loads(json.dumps(card.blocks).replace(EDIT, APPROVE))
        ts = await desk.post(replace(card, blocks=blocks))
        assert (await desk.team.presses("UANN", "CGENERAL", ts, APPROVE)).acked
        view = desk.views("UANN")[-1]
        assert (await desk.open()).status == "open"
        with pytest.raises(NotPossible, match="Code has to be filled in"):
            await desk.team.submits("UANN", view["id"], {})
        given = {"arg_0": "x", "arg_1": "2026-02-03"}
        (delivery,) = (await desk.team.submits("UANN", view["id"], given)).deliveries
        assert delivery.answer["errors"] == {"arg_0": "'x' is not of the form that is asked for."}
        await desk.team.submits("UANN", view["id"], given | {"arg_0": "AB"})
        await desk.team.presses("UANN", "CGENERAL", ts, APPROVE)  # too late: the posted copy is mended
        await desk.settled()
        assert answers == [{"code": "AB", "day": "2026-02-03"}]
        assert "Code: AB\nday: 2026-02-03\nAnswered by UANN" in desk.text()


async def test_a_question_of_few_choices_is_answered_by_one_press(make_core, monkeypatch: pytest.MonkeyPatch):
    """Each choice is a button, called by its title; nothing has to be opened."""
    choices = [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]
    schema, answers = {"type": "object", "properties": {"size": {"type": "string", "oneOf": choices}}}, list[Any]()
    made = asking_for({**schema, "required": ["size"]}, answers)
    monkeypatch.setattr(TypedTill, "tools", lambda _: (made,))
    async with asking(make_core, answer=wants(), hooks=()) as desk:
        await desk.ask()
        assert [each.text for each in desk.cards()[0].buttons] == ["Small", "Large", "Decline…"]
        await desk.press("UBEN", CHOICES[1])
        assert "This is not yours" in await desk.notice("UBEN")
        await desk.press("UANN", CHOICES[1])
        await desk.settled()
        assert answers == [{"size": "l"}]


async def test_a_person_without_the_right_to_decide_gets_an_ephemeral_notice(make_core):
    """A click by another person changes nothing; they alone read who may decide, and it is on record."""
    async with asking(make_core, responders=["asker", "slack:UCLEO"], edit=True) as desk:
        await desk.ask()
        for action in (APPROVE, DENY, EDIT):
            await desk.press("UBEN", action)
            assert await desk.notice("UBEN") == f"{NOT_YOURS}Ann Lee, <@UCLEO>."
        assert desk.views("UBEN") == []
        assert [each for each in desk.team.workspace.channels["CGENERAL"].ephemeral if each.to != "UBEN"] == []
        assert len(desk.cards()) == 1
        kinds = [line.kind for line in await desk.rig.core.approvals.audit()]
        assert kinds == ["requested", "delivered", "refused"]
        await desk.press("UCLEO")
        await desk.settled()
        assert desk.till.amounts == [5]


async def test_wherever_it_is_decided_every_card_says_so(make_core):
    """Cards in the conversation, in a channel and in a direct message all show a decision by the API."""
    async with asking(make_core, deliver_to=["slack:CDATA", "slack:UBEN"]) as desk:
        await desk.ask()
        stand_in, places = desk.rig.stand_in, ("CDATA", "UBEN")
        await stand_in.until(lambda: all(desk.elsewhere(each) for each in places))
        (outcome,) = desk.elsewhere("CDATA")
        assert outcome.text.split("\n")[1] == "assistant asks for Ann Lee in CGENERAL to use pay."
        await by_an_operator(desk, approved=False, reason="Not today.")
        await desk.settled()
        await stand_in.until(lambda: not any(each.buttons for place in places for each in desk.elsewhere(place)))
        for shown in (*(desk.elsewhere(place)[0] for place in places), desk.team.answers("CGENERAL", desk.root)[1]):
            assert shown.text.endswith("Denied by ops, 2026-01-01 00:00 UTC.\nNot today.")
        delivered = [line.place for line in await desk.rig.core.approvals.audit() if line.kind == "delivered"]
        assert sorted(each.split(":")[2] for each in delivered if each) == ["CDATA", "CGENERAL", "UBEN"]


async def test_a_late_click_gets_the_outcome_and_its_card_is_updated(make_core):
    """A card that was left with its buttons shows the outcome to the person who clicks, and from then on to all."""
    async with asking(make_core) as desk:
        await desk.ask()
        view = await desk.form("UANN", DENY)
        lost = await desk.post(desk.cards()[0])  # as when the answer to a post was lost, and could not be asked for
        await by_an_operator(desk)
        await desk.rig.stand_in.until(lambda: [each.ts for each in desk.cards()] == [lost])
        await desk.team.presses("UBEN", "CGENERAL", lost, APPROVE)
        assert (await desk.notice("UBEN")).startswith(f"{LATE}Approved by ops, <!date^")
        await desk.rig.stand_in.until(lambda: not desk.cards())
        dispatched = await desk.team.submits("UANN", view["id"], {})
        assert dispatched.deliveries[0].answer["response_action"] == "update"
        assert LATE in str(desk.views("UANN")[-1]["blocks"])
        assert desk.till.amounts == [5]


async def test_a_timeout_and_a_stop_end_a_question(make_core):
    """When its time is over, or the answer is stopped, the card says so and has no buttons."""
    clock = FakeClock()
    async with asking(make_core, clock=clock) as desk:
        first = await desk.ask()
        clock.advance(301)
        await desk.settled()
        assert "Not decided in time, 2026-01-01 00:05 UTC: so the call was denied." in desk.text()
        await desk.ask()
        assert desk.root != first
        await desk.team.stops("UANN", "CGENERAL", desk.root)
        await desk.settled(answer="Stopped.")
        assert "Not asked any more, 2026-01-01 00:05 UTC: the answer was stopped by UANN." in desk.text()
        assert desk.till.paid == []


async def test_a_question_of_another_surface_is_asked_in_the_approvers_channel(make_core):
    """A conversation on the web has no thread: its card is in the channel alone, and a group's member decides."""
    responders = ["slack:SDATA"]
    async with asking(make_core, responders=responders, deliver_to=["slack:T0001/CDATA"]) as desk:
        run = await desk.elsewhere_asks()
        await desk.rig.stand_in.until(lambda: desk.elsewhere("CDATA"))
        (card,) = desk.elsewhere("CDATA")
        assert card.pings == ("!subteam^SDATA",)
        await desk.team.presses("UANN", "CDATA", card.ts, APPROVE)
        assert await desk.notice("UANN", "CDATA", thread=False) == f"{NOT_YOURS}<!subteam^SDATA>."
        await desk.team.presses("UCLEO", "CDATA", card.ts, APPROVE)
        assert (await desk.rig.core.settled(run, timeout=PATIENCE)).text == "That is done."
        await desk.rig.stand_in.until(lambda: not desk.elsewhere("CDATA")[0].buttons)
        assert len(desk.rig.stand_in.called("usergroups.users.list")) == 1
        assert desk.rig.stand_in.called("agents.sessions.setStatus") == []


async def test_an_approver_decides_in_a_direct_message(make_core):
    """A named responder decides in a direct message; the conversation continues in its thread."""
    async with asking(make_core, responders=["slack:UBEN"], deliver_to=["slack:UBEN"]) as desk:
        await desk.ask()
        await desk.press("UANN")
        assert await desk.notice("UANN") == f"{NOT_YOURS}<@UBEN>."
        await desk.rig.stand_in.until(lambda: desk.elsewhere("UBEN"))
        (card,) = desk.elsewhere("UBEN")
        await desk.team.presses("UBEN", "UBEN", card.ts, APPROVE)
        await desk.settled()
        assert desk.till.amounts == [5]
        await desk.rig.stand_in.until(lambda: "Approved by UBEN" in desk.elsewhere("UBEN")[0].text)


async def test_people_of_other_organisations(make_core):
    """In a channel that is shared by now a stranger's click is refused by who they are, whatever their team is."""
    async with asking(make_core, responders=["anyone"]) as desk:
        place = desk.team.workspace.channels["CSHARED"]
        place.shared = False
        await desk.ask(channel="CSHARED")
        place.shared = True
        await desk.press("USAM", channel="CSHARED")
        assert await desk.notice("USAM", "CSHARED") == OUTSIDE
        assert desk.till.paid == []


async def test_a_group_that_slack_does_not_answer_for_has_no_members(make_core):
    """Without the scope a group has no members and the log names it; when Slack is silent the person may try again."""
    async with asking(make_core, responders=["slack:SDATA"]) as desk:
        await desk.ask()
        desk.rig.stand_in.fault(InjectedFault("server_error", on="usergroups.users.list"))
        await desk.press("UBEN")
        assert await desk.notice("UBEN") == NOT_SURE
        workspace = desk.team.workspace
        workspace.scopes -= {"usergroups:read"}
        with capture_logs() as logs:
            await desk.press("UBEN")
        assert (await desk.notice("UBEN")).startswith(NOT_YOURS)
        assert any("`usergroups:read`" in str(each.get("error")) for each in logs)
        workspace.scopes |= {"usergroups:read"}
        await desk.press("UBEN")
        await desk.settled()
        assert desk.till.amounts == [5]


async def test_two_must_say_yes(make_core):
    """Yeses are counted by name, one for each person; the last one that is needed lets the call run."""
    async with asking(make_core, responders=["anyone"], quorum=2) as desk:
        await desk.ask()
        for _ in range(2):
            await desk.press("UBEN")
            await desk.rig.stand_in.until(lambda: "1 of 2 who must say yes: UBEN." in desk.text())
        assert desk.till.paid == []
        await desk.press("UCLEO")
        await desk.settled()
        assert desk.till.amounts == [5]


async def test_a_tool_is_allowed_for_the_rest_of_the_conversation(make_core):
    """Where the policy offers it one button allows the tool from then on, and the next call asks no one."""
    async with asking(make_core, remember=True) as desk:
        await desk.ask()
        await desk.press("UANN", ALWAYS)
        await desk.settled()
        assert "and for the rest of this conversation." in desk.text()
        await desk.team.says("UANN", "CGENERAL", "Again", desk.root)
        await desk.rig.stand_in.until(lambda: desk.till.amounts == [5, 5])
        await desk.settled()


@pytest.mark.parametrize("external", ["refuse", "answer"])
async def test_outsiders_decide_only_where_the_agent_lets_them(make_core, external):
    """A guest's click is refused as their question would be, unless the agent answers people from outside."""
    async with asking(make_core, responders=["anyone"], slack=Slack(default=True, external=external)) as desk:
        await desk.ask()
        await desk.press("UGUEST")
        if external == "refuse":
            assert await desk.notice("UGUEST") == OUTSIDE
            assert desk.till.paid == []
        else:
            await desk.settled()
            assert desk.till.amounts == [5]


async def test_each_call_of_a_step_has_its_card(make_core):
    """Two calls make two cards; they are decided in any order, what needs no approval runs at once."""

    def answer(request):
        if step_of(request) == 0:
            return [call("pay", to="Bob", amount=1), call("look", what="it"), call("pay", to="Eve", amount=2)]
        return [say("That is done.")]

    async with asking(make_core, answer=answer) as desk:
        await desk.ask(cards=2)
        eve = next(each for each in desk.cards() if "to: Eve" in each.text)
        await desk.team.presses("UANN", "CGENERAL", eve.ts, APPROVE)
        await desk.rig.stand_in.until(lambda: desk.till.amounts == [2] and len(desk.cards()) == 1)
        await desk.says("suspended")
        await desk.press("UANN")
        await desk.settled()
        assert desk.till.amounts == [2, 1]


async def test_a_long_call_is_shown_whole(make_core):
    """What does not fit into one message continues in the thread; the buttons are below all of it."""
    letter = "\n".join(f"line {n}" for n in range(3_000))
    async with asking(make_core, answer=wants(to="Bob", amount=5, note=letter), deliver_to=["slack:CDATA"]) as desk:
        await desk.ask()
        await desk.rig.stand_in.until(lambda: desk.elsewhere("CDATA"))
        (first,) = desk.elsewhere("CDATA")
        for channel, root, skip in (("CGENERAL", desk.root, 1), ("CDATA", first.ts, 0)):
            await desk.rig.stand_in.until(lambda at=(channel, root): desk.cards(*at))
            said = desk.team.answers(channel, root)[skip:]
            assert [bool(each.buttons) for each in said] == [*[False] * (len(said) - 1), True]
            shown = "\n".join(each.text for each in said)
            assert [line for line in shown.split("\n") if line.startswith("line ")] == letter.split("\n")
        await desk.press("UANN")
        await desk.settled()
        await desk.rig.stand_in.until(lambda: not desk.cards("CDATA", first.ts))
        assert "Approved by" in desk.elsewhere("CDATA")[0].text
        assert desk.till.paid[0]["note"] == letter


async def test_two_workspaces_do_not_mix(make_core):
    """A click in another workspace, by a user who has the same id there, decides nothing."""
    async with asking(make_core, responders=["slack:UBEN", "anyone"]) as desk:
        await desk.ask()
        other = desk.rig.stand_in.team("T0002")
        ts = await desk.post(desk.cards()[0], other)
        await other.presses("UBEN", "CGENERAL", ts, APPROVE)
        place = other.workspace.channels["CGENERAL"]
        await desk.rig.stand_in.until(lambda: place.ephemeral)
        assert place.ephemeral[-1].text.startswith(NOT_YOURS)
        assert (desk.till.paid, (await desk.open()).status) == ([], "open")


async def test_a_question_that_is_gone_says_so(make_core):
    """A click on a card of a conversation that was deleted is answered that it no longer exists."""
    async with asking(make_core) as desk:
        await desk.ask()
        ts = await desk.post(desk.cards()[0], value="apr_nothing")
        await desk.team.presses("UANN", "CGENERAL", ts, APPROVE)
        assert await desk.notice("UANN") == GONE


async def test_by_socket_mode_too(make_core):
    """Buttons, forms and their errors work over a WebSocket as over requests."""
    async with asking(make_core, hooks=(asks(edit=True),), socket=5.0) as desk:
        await desk.ask()
        view = await desk.form("UANN", EDIT)
        (delivery,) = (await desk.team.submits("UANN", view["id"], {"arg_1": "x"})).deliveries
        assert list(delivery.answer["errors"]) == ["arg_1"]
        await desk.team.submits("UANN", view["id"], {"arg_1": "2"})
        await desk.settled()
        assert desk.till.amounts == [2]
