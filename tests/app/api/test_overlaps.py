"""What becomes of a visitor's message that comes while a question waits: the agent's setting says it."""

from agent_core.agent.strategy import NOT_DECIDED, WITHDRAWN
from agent_core.messages import text_of
from agent_core.providers.base import Request
from agent_core.testing import Answer, call, say
from tests.app.api.shop import Open, asked, events, open_one
from tests.polling import PATIENCE


def pays_when_asked(request: Request) -> Answer:
    """Ask for the payment that a person wants, and answer everything else; what a call returned is repeated."""
    last = request.messages[-1].message
    said = text_of(last.parts)
    if "Pay" in said:
        return [say("Paying."), call("pay", amount=5)]
    return [say("I read: ", said if last.role == "user" else repr(last.parts))]


async def test_with_interrupt_the_question_is_withdrawn_and_the_message_is_answered(shop: Open):
    """A person who writes while a question waits is answered; what was asked for did not run, and its end says why."""
    here = await shop(pays_when_asked, overlap="interrupt")
    ada = await here.visitor()
    session, run = await asked(ada)
    question = await open_one(ada)
    sent = await ada.post(f"{session}/messages", json={"text": "How late is it?"})
    assert sent.status_code == 202
    answered = await here.core.settled(sent.json()["run_id"], timeout=PATIENCE)
    assert answered.status == "completed"
    assert "How late is it?" in answered.text
    assert here.till.paid == []
    seen = await events(ada, session)
    (decided,) = [frame.data for frame in seen if frame.event == "approval.decided"]
    assert (decided["status"], decided["reason"]) == ("cancelled", WITHDRAWN)
    (stopped,) = [frame.data for frame in seen if frame.event == "run.cancelled"]
    assert (stopped["run"], stopped["reason"]) == (run.rpartition("/")[2], "interrupted")
    ended = (await ada.get(f"/v1/approvals/{question['id']}")).json()
    assert (ended["status"], ended["reason"]) == ("cancelled", WITHDRAWN)
    late = await ada.post(f"/v1/approvals/{question['id']}", json={"approved": True})
    assert (late.status_code, late.json()["code"]) == (409, "already_decided")
    closed = [frame.data for frame in await events(here.operator, session) if frame.event == "tool.completed"]
    assert [(each["outcome"], each["parts"][0]["text"]) for each in closed] == [("cancelled", NOT_DECIDED)]
    again = await ada.post(f"{session}/messages", json={"text": "Pay now"})
    await here.core.settled(again.json()["run_id"], timeout=PATIENCE)
    assert (await open_one(ada))["id"] != question["id"], "it can be asked for again"


async def test_with_steer_the_message_is_read_with_the_decision(shop: Open):
    """The message joins the run that waits: nothing is withdrawn, and its answer comes after the decision."""
    here = await shop(pays_when_asked, overlap="steer")
    ada = await here.visitor()
    session, run = await asked(ada)
    question = await open_one(ada)
    sent = await ada.post(f"{session}/messages", json={"text": "And be quick"})
    assert f"/v1/runs/{sent.json()['run_id']}" == run
    assert (await open_one(ada))["id"] == question["id"]
    await ada.post(f"/v1/approvals/{question['id']}", json={"approved": True})
    ended = await here.core.settled(sent.json()["run_id"], timeout=PATIENCE)
    assert (here.till.paid, ended.status) == ([5], "completed")
    assert "And be quick" in ended.text


async def test_with_queue_the_message_waits_for_the_decision(shop: Open):
    """Without a setting the message opens a run of its own, which starts once the question is settled."""
    here = await shop(pays_when_asked)
    ada = await here.visitor()
    session, _ = await asked(ada)
    sent = (await ada.post(f"{session}/messages", json={"text": "How late is it?"})).json()
    assert (await here.core.run(sent["run_id"])).status == "queued"
    question = await open_one(ada)
    await ada.post(f"/v1/approvals/{question['id']}", json={"approved": False})
    ended = await here.core.settled(sent["run_id"], timeout=PATIENCE)
    assert "How late is it?" in ended.text


async def test_a_message_that_names_its_overlap_has_it(shop: Open):
    """What a visitor's message says itself goes before the agent's setting; an operator's has the usual one."""
    here = await shop(pays_when_asked, overlap="interrupt")
    ada = await here.visitor()
    session, _ = await asked(ada)
    for client, body in ((ada, {"overlap": "queue"}), (here.operator, {})):
        sent = (await client.post(f"{session}/messages", json={"text": "Hi", **body})).json()
        assert (await here.core.run(sent["run_id"])).status == "queued"
    assert (await open_one(ada))["status"] == "open"
