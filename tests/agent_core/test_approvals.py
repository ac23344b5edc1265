"""Approvals: the right person sees the exact call, says yes or no once, and it runs at most once."""

import asyncio

import pytest

from agent_core.errors import AlreadyDecided, InvalidInput, NotAnApprover, NotFound
from agent_core.events import HookRuled, RunCompleted, RunResumed, RunWaiting, ToolCompleted, ToolStarted
from agent_core.messages import text_of
from agent_core.objects import Decider
from agent_core.testing import FakeClock, by_step, call, pause, say
from agent_core.tools.functions import tool
from tests.agent_core.asking import BOB, EVE, OPERATOR, Till, asks, no, open_approvals, yes
from tests.agent_core.stage import ANN, Stage, is_a, results, set_stage
from tests.conftest import MakeCore

PAYS = by_step((say("Paying."), call("pay", amount=5)), (say("Done."),))


async def _asked(make_core: MakeCore, till: Till, script=PAYS, clock=None, **config) -> Stage:
    """Return a stage whose agent asked people and waits."""
    stage = await set_stage(make_core, script, tools=till.tools(), hooks=(asks(**config),), clock=clock)
    run = await stage.play("Pay")
    assert run.status == "waiting"
    assert (await stage.core.session(stage.session)).status == "waiting"
    assert till.paid == []
    return stage


async def test_a_yes_lets_the_call_run(make_core: MakeCore) -> None:
    """After a yes the exact call runs, once, and the run continues to its answer."""
    till = Till()
    stage = await _asked(make_core, till)
    (asked,) = await open_approvals(stage)
    assert (asked.tool, asked.arguments, asked.asker, asked.quorum) == ("pay", {"amount": 5}, ANN, 1)
    assert asked.expires_at - asked.requested_at == 300_000
    (pending,) = (await stage.core.run(asked.run)).pending
    assert (pending.on, pending.approval, pending.call) == ("approval", asked.id, asked.call)
    done = await stage.core.approvals.decide(yes(asked.id))
    assert (done.status, done.decided_by) == ("approved", ANN)
    run = await stage.done(asked.run)
    assert (run.status, run.text, till.paid) == ("completed", "Done.", [5])


async def test_the_model_gets_the_reason_of_a_denial(make_core: MakeCore) -> None:
    """After a denial the call does not run, and the model gets who denied it, and the reason."""
    till = Till()
    stage = await _asked(make_core, till)
    (asked,) = await open_approvals(stage)
    await stage.core.approvals.decide(no(asked.id, reason="Too much."))
    assert (await stage.done(asked.run)).status == "completed"
    (result,) = results(stage.provider.requests[1])
    assert result.outcome == "denied"
    assert text_of(result.parts) == "Not run: ann did not approve this call. The reason: Too much."
    assert till.paid == []
    assert await stage.said(ToolStarted) == []


async def test_a_late_vote_gets_the_outcome(make_core: MakeCore) -> None:
    """A vote after the decision gets the outcome."""
    stage = await _asked(make_core, Till())
    (asked,) = await open_approvals(stage)
    await stage.core.approvals.decide(no(asked.id, reason="Not today."))
    with pytest.raises(AlreadyDecided, match="denied already by ann: Not today"):
        await stage.core.approvals.decide(yes(asked.id))


async def test_other_users_may_not_decide(make_core: MakeCore) -> None:
    """A user who is not among the responders is refused, and the question stays open."""
    till = Till()
    stage = await _asked(make_core, till)
    (asked,) = await open_approvals(stage)
    with pytest.raises(NotAnApprover, match="the person who asked, operators"):
        await stage.core.approvals.decide(yes(asked.id, EVE))
    with pytest.raises(NotFound):
        await stage.core.approvals.decide(yes("apr_nothing"))
    (still,) = await open_approvals(stage)
    assert (still.votes, till.paid) == ((), [])
    await stage.core.approvals.decide(yes(asked.id, OPERATOR))
    await stage.done(asked.run)
    assert till.paid == [5]


async def test_a_quorum_needs_so_many_people(make_core: MakeCore) -> None:
    """With a quorum each person counts once, and the first no ends it."""
    till = Till()
    stage = await _asked(make_core, till, responders=["anyone"], quorum=2)
    (asked,) = await open_approvals(stage)
    for _ in range(2):
        counted = await stage.core.approvals.decide(yes(asked.id, BOB))
        assert (counted.status, len(counted.votes)) == ("open", 1)
    await stage.core.approvals.decide(yes(asked.id, ANN))
    assert (await stage.done(asked.run)).status == "completed"
    assert till.paid == [5]


async def test_the_asker_may_not_approve_under_not_asker(make_core: MakeCore) -> None:
    """`not_asker` takes the asker out, alone and beside others."""
    stage = await _asked(make_core, Till(), responders=["anyone", "not_asker"])
    (asked,) = await open_approvals(stage)
    with pytest.raises(NotAnApprover):
        await stage.core.approvals.decide(yes(asked.id, ANN))
    assert (await stage.core.approvals.decide(yes(asked.id, BOB))).status == "approved"


async def test_corrected_arguments_run_and_both_versions_are_kept(make_core: MakeCore) -> None:
    """What runs is what was corrected; what was asked for is kept beside it."""
    till = Till()
    stage = await _asked(make_core, till, edit=True)
    (asked,) = await open_approvals(stage)
    with pytest.raises(InvalidInput, match=r"arguments\.amount"):
        await stage.core.approvals.decide(yes(asked.id, arguments={"amount": "much"}))
    done = await stage.core.approvals.decide(yes(asked.id, arguments={"amount": 3}))
    assert (done.arguments, done.asked) == ({"amount": 3}, {"amount": 5})
    assert done.digest != asked.digest
    await stage.done(asked.run)
    assert till.paid == [3]


async def test_arguments_may_not_be_corrected_unless_the_author_says_so(make_core: MakeCore) -> None:
    """Without `edit` a correction is refused, and nothing runs."""
    till = Till()
    stage = await _asked(make_core, till)
    (asked,) = await open_approvals(stage)
    with pytest.raises(InvalidInput, match="cannot be corrected"):
        await stage.core.approvals.decide(yes(asked.id, arguments={"amount": 3}))
    assert (till.paid, len(await open_approvals(stage))) == ([], 1)


async def test_a_denial_cannot_be_remembered(make_core: MakeCore) -> None:
    """A denial with `remember` is refused for that reason, also where approvals can be remembered."""
    for remember in (True, False):
        till = Till()
        stage = await _asked(make_core, till, remember=remember)
        (asked,) = await open_approvals(stage)
        with pytest.raises(InvalidInput) as refused:
            await stage.core.approvals.decide(no(asked.id, remember=True))
        assert str(refused.value) == "`remember`: only an approval can be remembered; leave it out to deny this call."
        assert (await stage.core.approvals.decide(no(asked.id))).status == "denied"
        await stage.done(asked.run)
        assert till.paid == []


async def test_a_timeout_denies(make_core: MakeCore) -> None:
    """After the timeout the call is denied, and the run continues by itself."""
    till, clock = Till(), FakeClock()
    stage = await _asked(make_core, till, clock=clock, timeout_s=60)
    (asked,) = await open_approvals(stage)
    clock.advance(61)
    await stage.until(is_a(RunResumed))
    run = await stage.done(asked.run)
    assert (run.status, till.paid) == ("completed", [])
    assert (await stage.core.approvals.get(asked.id)).status == "expired"
    assert [body.cause for body in await stage.said(RunResumed)] == ["due"]


async def test_a_timeout_may_fail_the_run(make_core: MakeCore) -> None:
    """With `on_timeout: fail` the run fails with a code of its own."""
    till, clock = Till(), FakeClock()
    stage = await _asked(make_core, till, clock=clock, timeout_s=60, on_timeout="fail")
    (asked,) = await open_approvals(stage)
    clock.advance(61)
    await stage.until(is_a(RunResumed))
    run = await stage.done(asked.run)
    assert run.error is not None
    assert (run.status, run.error.code, till.paid) == ("failed", "approval_expired", [])


async def test_a_cancel_takes_the_question_back(make_core: MakeCore) -> None:
    """A run that is stopped while it waits leaves no open question."""
    till = Till()
    stage = await _asked(make_core, till)
    (asked,) = await open_approvals(stage)
    assert (await stage.stop(asked.run)).status == "cancelled"
    assert (await stage.core.approvals.get(asked.id)).status == "cancelled"
    with pytest.raises(AlreadyDecided, match="cancelled"):
        await stage.core.approvals.decide(yes(asked.id))
    assert till.paid == []


async def test_some_calls_of_a_step_wait_and_others_run(make_core: MakeCore) -> None:
    """Calls without approval run at once; the others run as they are decided, in any order."""
    till = Till()
    script = by_step(
        (call("pay", amount=1), call("look", what="it"), call("pay", amount=2), call("pay", amount=3)),
        (say("Done."),),
    )
    stage = await _asked(make_core, till, script)
    assert [body.outcome for body in await stage.said(ToolCompleted)] == ["done"]
    asked = await open_approvals(stage)
    assert [each.arguments["amount"] for each in asked] == [1, 2, 3]
    await stage.core.approvals.decide(yes(asked[2].id))
    await stage.done(asked[0].run)
    assert till.paid == [3]
    await stage.core.approvals.decide(no(asked[0].id))
    await stage.core.approvals.decide(yes(asked[1].id))
    run = await stage.done(asked[0].run)
    while run.status == "waiting":
        run = await stage.done(asked[0].run)
    assert (run.status, till.paid) == ("completed", [3, 2])
    assert [r.outcome for r in results(stage.provider.requests[-1])] == ["denied", "done", "done", "done"]


async def test_a_tool_may_be_allowed_for_the_rest_of_the_conversation(make_core: MakeCore) -> None:
    """A user who may decide is not asked again once they allowed the tool for the conversation."""
    till = Till()
    script = by_step((call("pay", amount=5),), (say("Paid."),))
    stage = await _asked(make_core, till, script, remember=True)
    (asked,) = await open_approvals(stage)
    await stage.core.approvals.decide(yes(asked.id, remember=True))
    await stage.done(asked.run)
    assert (await stage.play("Again")).status == "completed"
    assert till.paid == [5, 5]
    assert [body.ruling for body in await stage.said(HookRuled)] == ["hold", "allow"]


async def test_allowing_a_tool_holds_for_the_user_alone(make_core: MakeCore) -> None:
    """What one asker allowed for their own calls does not hold for those of another."""
    till = Till()
    script = by_step((call("pay", amount=5),), (say("Paid."),))
    stage = await _asked(make_core, till, script, remember=True, responders=["asker"])
    (asked,) = await open_approvals(stage)
    await stage.core.approvals.decide(yes(asked.id, remember=True))
    await stage.done(asked.run)
    run = await stage.done(await stage.send("Again", actor=EVE))
    assert (run.status, till.paid) == ("waiting", [5])


async def test_the_audit_record_is_complete(make_core: MakeCore) -> None:
    """Who was asked, where it was shown, who was refused, who decided and who came late is on record."""
    stage = await _asked(make_core, Till())
    (asked,) = await open_approvals(stage)
    for _ in range(2):
        await stage.core.approvals.note(asked.id, "delivered", surface="slack", place="C1")
    with pytest.raises(NotAnApprover):
        await stage.core.approvals.decide(yes(asked.id, EVE))
    await stage.core.approvals.decide(yes(asked.id, Decider(actor=ANN), surface="slack"))
    with pytest.raises(AlreadyDecided):
        await stage.core.approvals.decide(no(asked.id, BOB))
    lines = await stage.core.approvals.audit()
    assert [line.kind for line in lines] == ["requested", "delivered", "refused", "approved", "late"]
    assert [line.actor.id if line.actor else None for line in lines] == ["ann", None, "eve", "ann", "bob"]
    assert lines[3].surface == "slack"
    assert lines[3].data == {"arguments": {"amount": 5}}
    await stage.done(asked.run)
    await stage.core.delete_session(stage.session)
    assert len(await stage.core.approvals.audit()) == len(lines)


async def test_the_log_has_the_events_in_order(make_core: MakeCore) -> None:
    """Ruling, question, wait, decision, resume, start and end stand in the log in this order."""
    stage = await _asked(make_core, Till())
    (asked,) = await open_approvals(stage)
    await stage.core.approvals.decide(yes(asked.id))
    await stage.done(asked.run)
    types = await stage.types(asked.run)
    begin = types.index("tool.requested")
    assert types[begin : begin + 9] == [
        "tool.requested",
        "hook.ruled",
        "approval.requested",
        "tool.pending",
        "run.waiting",
        "approval.decided",
        "run.resumed",
        "tool.started",
        "tool.completed",
    ]
    assert [body.on for body in await stage.said(RunWaiting)] == [("approval",)]
    assert [body.stop_reason for body in await stage.said(RunCompleted)] == ["end_turn"]


async def test_a_channel_is_notified_of_requests_votes_and_decisions(make_core: MakeCore) -> None:
    """Local listeners are notified at commit; other processes can read which questions are open, and voted on."""
    notified: list[str] = []
    stage = await set_stage(make_core, PAYS, tools=Till().tools(), hooks=(asks(responders=["anyone"], quorum=2),))
    stage.core.approvals.listen(lambda fact: notified.append(fact.type))
    await stage.play("Pay")
    (asked,) = await open_approvals(stage)
    first = await stage.core.approvals.versions()
    await stage.core.approvals.decide(yes(asked.id, BOB))
    second = await stage.core.approvals.versions()
    assert set(first) == set(second) == {asked.id}
    assert first != second
    await stage.core.approvals.decide(yes(asked.id, ANN))
    assert await stage.core.approvals.versions() == {}
    assert notified == ["approval.requested", "approval.voted", "approval.decided"]
    spec = await stage.core.approvals.tool(asked.id)
    assert spec is not None
    assert (spec.name, spec.effect, list(spec.parameters["properties"])) == ("pay", "write", ["amount"])
    with pytest.raises(NotFound):
        await stage.core.approvals.tool("apr_nothing")


async def test_users_who_join_a_run_count_as_its_askers(make_core: MakeCore) -> None:
    """No user who wrote in a run passes `not_asker`; the asker is the user who wrote last."""
    till, gate = Till(), asyncio.Event()
    script = [(say("Let me "), pause(gate), call("look", what="it")), (call("pay", amount=7),), (say("Done."),)]
    hook = asks(responders=["anyone", "not_asker"])
    stage = await set_stage(make_core, script, tools=till.tools(), hooks=(hook,))
    run = await stage.send("Pay")
    await stage.asked(1)
    await stage.send("and pay me 7", overlap="steer", actor=BOB)
    gate.set()
    assert (await stage.done(run)).status == "waiting"
    (asked,) = await open_approvals(stage)
    assert (asked.asker, asked.speakers) == (BOB, (ANN,))
    for each in (ANN, BOB):
        with pytest.raises(NotAnApprover):
            await stage.core.approvals.decide(yes(asked.id, each))
    await stage.core.approvals.decide(yes(asked.id, EVE))
    await stage.done(run)
    assert till.paid == [7]


async def test_what_people_approve_once_runs_once(make_core: MakeCore) -> None:
    """A call that people are asked about counts as one that writes, whatever its author says of the tool."""

    @tool
    async def send(amount: int) -> str:
        """Send money; not declared as a write."""
        return f"Sent {amount}"

    stage = await set_stage(make_core, [(say("Hello."),)], tools=[send], hooks=(asks("send"),))
    home = await stage.core._cache.get(stage.session)
    assert home.agent.tools["send"].effect == "write"
