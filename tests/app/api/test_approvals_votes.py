"""Votes over HTTP: whose yes counts, and how often."""

from tests.app.api.shop import Open, asked, open_one
from tests.polling import PATIENCE


async def test_one_person_is_one_vote_by_whatever_kind(shop: Open):
    """Who votes as a user, a visitor, a service and an agent of one id has one vote; another id makes the quorum."""
    here = await shop(responders=["actor:bob", "actor:eve"], quorum=2)
    _, run = await asked(await here.visitor())
    path = f"/v1/approvals/{(await open_one(here.operator))['id']}"
    for kind in ("user", "visitor", "service", "agent", "user"):
        answer = await here.operator.post(path, json={"approved": True, "actor": {"id": "bob", "kind": kind}})
        counted = [vote["actor"] for vote in answer.json()["votes"]]
        assert (answer.json()["status"], counted) == ("open", [{"id": "bob", "kind": kind}]), kind
    assert here.till.paid == []
    assert (await here.operator.post(path, json={"approved": True, "actor": "eve"})).json()["status"] == "approved"
    await here.core.settled(run.rpartition("/")[2], timeout=PATIENCE)
    assert here.till.paid == [5]
