"""Routes of approvals: what people are asked, what they say, and the record of it."""

import asyncio
import json

import jsonschema
import pytest

from agent_core.agents import DeclaredTool
from agent_core.testing import FakeClock, by_step, call, say
from agent_core.tools.base import CallContext, Elicitation
from agent_core.tools.functions import tool
from tests.app.api.shop import Open, asked, events, open_one
from tests.app.conftest import KEY
from tests.polling import PATIENCE

CONTRACT = {
    *("id", "session", "run", "call", "tool", "arguments", "title", "detail", "status", "responders", "quorum"),
    *("votes", "requested_at", "expires_at", "decided_by", "decided_at", "reason"),
}
WANTED = {
    "type": "object",
    "properties": {"amount": {"type": "integer"}, "to": {"type": "string"}},
    "required": ["amount", "to"],
}
OPTIONAL = {
    "agent",
    "step",
    "asked",
    "digest",
    "edit",
    "remember",
    "on_timeout",
    "asker",
    "speakers",
    "may_decide",
    "form",
    "parameters",
}


async def test_a_yes_over_http_lets_the_call_run(shop: Open):
    """The approval is listed, shown and decided; the run continues, and its call runs once."""
    here = await shop()
    run = (await here.operator.post("/v1/agents/assistant/runs", json={"input": "Pay", "actor": "ann"})).json()
    asked = await open_one(here.operator, session=run["session"], run=run["id"])
    assert (asked["tool"], asked["arguments"], asked["status"], asked["votes"]) == ("pay", {"amount": 5}, "open", [])
    assert asked["asker"] == {"id": "ann", "kind": "user"}
    assert asked["responders"] == ["asker", "operators"]
    path = f"/v1/approvals/{asked['id']}"
    assert (await here.operator.get(path)).json() == asked
    done = await here.operator.post(path, json={"approved": True})
    assert done.status_code == 200
    decided = done.json()
    assert (decided["status"], decided["decided_by"]) == ("approved", {"id": "operator", "kind": "service"})
    assert [(vote["approved"], vote["surface"]) for vote in decided["votes"]] == [(True, "api")]
    assert decided["requested_at"] <= decided["decided_at"] == decided["votes"][0]["at"] < decided["expires_at"]
    ended = await here.core.settled(run["id"], timeout=PATIENCE)
    assert (ended.status, here.till.paid) == ("completed", [5])
    assert (await here.operator.get("/v1/approvals", params={"status": "open"})).json()["items"] == []
    assert (await here.operator.get("/v1/approvals")).json()["items"] == [decided]


async def test_an_approval_is_the_contracts_object(shop: Open):
    """It has the contract's fields and the optional ones, and fits its description."""
    here = await shop()
    await asked(await here.visitor())
    found = await open_one(here.operator)
    assert set(found) == CONTRACT | OPTIONAL
    schemas = here.app.openapi()["components"]["schemas"]
    whole = {"$ref": "#/components/schemas/Approval", "components": {"schemas": schemas}}
    jsonschema.validate(found, whole)
    mine = (await (await here.visitor()).get(f"/v1/approvals/{found['id']}")).json()
    jsonschema.validate(mine, whole)


async def test_lists_of_approvals_come_in_pages(shop: Open):
    """A list holds the oldest first, by status, session and run, and has the cursor of the next page."""
    here = await shop(by_step((call("pay", amount=1), call("pay", amount=2), call("pay", amount=3)), (say("Done."),)))
    ada = await here.visitor()
    session, run = await asked(ada)
    first = (await here.operator.get("/v1/approvals?limit=2")).json()
    rest = (await here.operator.get(f"/v1/approvals?limit=2&cursor={first['next_cursor']}")).json()
    assert [each["arguments"]["amount"] for each in first["items"] + rest["items"]] == [1, 2, 3]
    assert rest["next_cursor"] is None
    for query, count in (
        ({"run": run.rpartition("/")[2]}, 3),
        ({"session": session.rpartition("/")[2], "status": "open"}, 3),
        ({"run": "run_none"}, 0),
        ({"status": "denied"}, 0),
    ):
        assert len((await here.operator.get("/v1/approvals", params=query)).json()["items"]) == count, query


async def test_a_wrong_question_for_approvals_is_a_problem(shop: Open):
    """An unknown status, limit or cursor is refused with its code."""
    here = await shop()
    for query, status, code in (
        ("status=maybe", 422, "invalid_request"),
        ("limit=0", 422, "invalid_request"),
        ("limit=101", 422, "invalid_request"),
        ("limit=ten", 422, "invalid_request"),
        ("cursor=odd", 400, "unknown_cursor"),
        ("cursor=-1", 400, "unknown_cursor"),
        (f"cursor={9:0<19}", 400, "unknown_cursor"),
        (f"cursor={'1' * 501}", 422, "invalid_request"),
        ("session=%00", 422, "invalid_request"),
        ("session=", 422, "invalid_request"),
        (f"run={'x' * 201}", 422, "invalid_request"),
    ):
        answer = await here.operator.get(f"/v1/approvals?{query}")
        assert (answer.status_code, answer.json()["code"]) == (status, code), query


async def test_a_wrong_question_for_the_record_is_a_problem(shop: Open):
    """A wrong number or filter is refused with its code."""
    here = await shop()
    for query in (
        "after=-1",
        "after=x",
        f"after={2**63}",
        "after=1.5",
        "approval=",
        "approval=%00",
        f"approval={'x' * 201}",
    ):
        answer = await here.operator.get(f"/v1/approvals/audit?{query}")
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request"), query
    answer = await here.operator.get(
        "/v1/approvals/audit", params={"after": 2**63 - 1, "approval": "\ud7ff\U0010ffff'%"}
    )
    assert (answer.status_code, answer.text) == (200, "")


async def test_the_path_of_the_record_is_no_id(shop: Open):
    """Its path takes what it is described with, and says so; it is no approval that could be decided."""
    here = await shop()
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        answer = await here.operator.request(method, "/v1/approvals/audit", json={"approved": True})
        assert (answer.status_code, answer.headers["Allow"]) == (405, "GET")
    answer = await here.operator.put("/v1/approvals/auditor", json={})
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, POST")


@pytest.mark.parametrize(
    "id",
    [
        "apr_none",
        "x" * 10_000,
        "%00",
        "apr%00",
        "%ED%A0%80",
        "%F4%8F%BF%BF",
        "%FF",
        "'%20or%201=1--",
        "%25%5C%22",
        "a%0Ab",
    ],
)
async def test_an_unknown_approval_is_not_found(shop: Open, id: str):
    """Looking at it and deciding of it answer 404, whatever its name is made of."""
    here = await shop()
    for answer in (
        await here.operator.get(f"/v1/approvals/{id}"),
        await here.operator.post(f"/v1/approvals/{id}", json={"approved": True}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_a_late_decision_gets_the_outcome(shop: Open):
    """A second decision, the same or another, answers 409 with the outcome in words and as an object."""
    here = await shop()
    await asked(await here.visitor())
    path = f"/v1/approvals/{(await open_one(here.operator))['id']}"
    denied = (await here.operator.post(path, json={"approved": False, "reason": "Too much."})).json()
    assert (denied["status"], denied["reason"]) == ("denied", "Too much.")
    for body in ({"approved": True}, {"approved": False}, {"approved": True, "arguments": {"amount": "odd"}}):
        late = await here.operator.post(path, json=body)
        assert (late.status_code, late.json()["code"]) == (409, "already_decided")
        assert late.json()["detail"] == "This was denied already by operator: Too much."
        assert late.json()["approval"] == denied
    assert here.till.paid == []


async def test_a_decision_on_an_expired_approval_is_late(shop: Open):
    """Once its time is over the question is `expired`, for the one who decides too."""
    clock = FakeClock()
    here = await shop(clock=clock, timeout_s=60)
    _, run = await asked(await here.visitor())
    path = f"/v1/approvals/{(await open_one(here.operator))['id']}"
    clock.advance(60)
    late = await here.operator.post(path, json={"approved": True})
    assert (late.status_code, late.json()["approval"]["status"]) == (409, "expired")
    assert (await here.core.settled(run.rpartition("/")[2], timeout=PATIENCE)).status == "completed"
    assert here.till.paid == []


async def test_a_quorum_is_shown_vote_by_vote(shop: Open):
    """Until its quorum is reached the approval stays open, with its votes; each person counts once."""
    here = await shop(responders=["anyone", "operators"], quorum=2)
    _, run = await asked(await here.visitor())
    path = f"/v1/approvals/{(await open_one(here.operator))['id']}"
    for _ in range(2):
        counted = (await here.operator.post(path, json={"approved": True})).json()
        assert (counted["status"], [vote["actor"]["id"] for vote in counted["votes"]]) == ("open", ["operator"])
    done = (await here.operator.post(path, json={"approved": True, "actor": "bob"})).json()
    assert (done["status"], len(done["votes"])) == ("approved", 2)
    await here.core.settled(run.rpartition("/")[2], timeout=PATIENCE)
    assert here.till.paid == [5]


async def test_corrected_arguments_have_to_fit(shop: Open):
    """What does not fit the tool's schema answers 422 with the field, and nothing runs; what fits is what runs."""
    here = await shop(edit=True)
    _, run = await asked(await here.visitor())
    before = await open_one(here.operator)
    path = f"/v1/approvals/{before['id']}"
    wrong = await here.operator.post(path, json={"approved": True, "arguments": {"amount": "much"}})
    assert (wrong.status_code, wrong.json()["errors"][0]["path"]) == (422, "arguments.amount")
    assert await open_one(here.operator) == before
    done = (await here.operator.post(path, json={"approved": True, "arguments": {"amount": 3}})).json()
    assert (done["arguments"], done["asked"]) == ({"amount": 3}, {"amount": 5})
    assert done["digest"] != before["digest"]
    await here.core.settled(run.rpartition("/")[2], timeout=PATIENCE)
    assert here.till.paid == [3]


async def test_what_is_no_decision_is_refused(shop: Open):
    """What the policy does not allow, and what is no yes or no, is refused with its field; nothing is written."""
    here = await shop()
    await asked(await here.visitor())
    found = await open_one(here.operator)
    for body, status, path in (
        ({}, 422, "approved"),
        ({"approved": "yes"}, 422, "approved"),
        ({"approved": None}, 422, "approved"),
        ({"approved": True, "votes": 9}, 422, "votes"),
        ({"approved": True, "reason": " "}, 422, "reason"),
        ({"approved": False, "reason": "x" * 2_001}, 422, "reason"),
        ({"approved": True, "arguments": [5]}, 422, "arguments"),
        ({"approved": True, "arguments": {"amount": 3}}, 422, "arguments"),
        ({"approved": False, "arguments": {"amount": 3}}, 422, "arguments"),
        ({"approved": True, "remember": True}, 422, "remember"),
        ({"approved": False, "remember": True}, 422, "remember"),
        ({"approved": True, "surface": "slack"}, 422, "surface"),
        ({"approved": True, "actor": ""}, 422, "actor"),
        ({"approved": True, "arguments": {"note": "x" * 100_000}}, 413, "arguments"),
    ):
        answer = await here.operator.post(f"/v1/approvals/{found['id']}", json=body)
        assert answer.status_code == status, (body, answer.text)
        assert answer.json()["errors"][0]["path"].partition(".")[0] == path
    assert await open_one(here.operator) == found
    assert here.till.paid == []


async def test_a_form_that_nobody_filled_in_is_refused(shop: Open):
    """A yes without values answers 422 with each field that misses one, and the remedy; with them it counts."""

    @tool(effect="write")
    async def send(context: CallContext) -> Elicitation | str:
        """Send money."""
        return str(context.answer.content) if context.answer else Elicitation("What?", WANTED)

    here = await shop(by_step((call("send"),), (say("Sent."),)), own=(send,), hooks=())
    _, run = await asked(await here.visitor())
    found = await open_one(here.operator)
    assert found["arguments"] == {}
    path, by = f"/v1/approvals/{found['id']}", {"id": "ada", "kind": "visitor"}
    refused = await here.operator.post(path, json={"approved": True, "actor": by})
    assert refused.status_code == 422
    assert [each["path"] for each in refused.json()["errors"]] == ["arguments.amount", "arguments.to"]
    assert "Answer it with `arguments` that have `arguments.amount`, `arguments.to`." in refused.json()["detail"]
    assert await open_one(here.operator) == found
    filled = {"amount": 3, "to": "Bob"}
    assert (
        await here.operator.post(path, json={"approved": True, "actor": by, "arguments": filled})
    ).status_code == 200
    assert (await here.core.settled(run.rpartition("/")[2], timeout=PATIENCE)).status == "completed"


async def test_every_fault_of_a_correction_is_reported(shop: Open):
    """What is wrong, missing and unknown answers 422 with each field; a form marks them all at once."""
    parameters = {
        "type": "object",
        "properties": {"to": {"type": "string"}, "count": {"type": "integer"}, "lines": {"items": {"type": "string"}}},
        "required": ["to", "count"],
        "additionalProperties": False,
    }
    send = DeclaredTool(name="send", kind="client", description="Send.", parameters=parameters)
    here = await shop(
        by_step((call("send", to="ann", count=1),), (say("Sent."),)), declared=(send,), matcher="send", edit=True
    )
    await asked(await here.visitor())
    before = await open_one(here.operator)
    wrong = {"count": "two", "lines": ["a", 2], "odd": True}
    answer = await here.operator.post(f"/v1/approvals/{before['id']}", json={"approved": True, "arguments": wrong})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    faults = {error["path"]: error["message"] for error in answer.json()["errors"]}
    assert set(faults) == {"arguments.to", "arguments.count", "arguments.lines[1]", "arguments.odd"}
    assert "required" in faults["arguments.to"]
    assert "'two' is not of type 'integer'" in faults["arguments.count"]
    assert await open_one(here.operator) == before


async def test_the_record_is_lines_of_json(shop: Open):
    """Who was asked, who opened it where, who was refused, decided and came late: one line of JSON each, in order."""
    here = await shop(responders=["operators"], show="full")
    ada = await here.visitor()
    await asked(ada)
    path = f"/v1/approvals/{(await open_one(here.operator))['id']}"
    assert (await ada.post(path, json={"approved": True})).status_code == 403
    await here.operator.post(path, json={"approved": True, "surface": "terminal"})
    await here.operator.post(path, json={"approved": False})
    answer = await here.operator.get("/v1/approvals/audit")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-ndjson")
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [line["kind"] for line in lines] == ["requested", "opened", "refused", "approved", "late"]
    assert [line["surface"] for line in lines] == [None, "web", "web", "terminal", "api"]
    assert [(line["actor"] or {}).get("id") for line in lines] == ["ada", "ada", "ada", "operator", "operator"]
    assert lines[3]["data"] == {"arguments": {"amount": 5}}
    assert lines[0]["at"].endswith("Z")
    schema = {
        "$ref": "#/components/schemas/AuditLine",
        "components": {"schemas": here.app.openapi()["components"]["schemas"]},
    }
    for line in lines:
        jsonschema.validate(line, schema)
    after = await here.operator.get("/v1/approvals/audit", params={"after": lines[2]["seq"]})
    assert [json.loads(line) for line in after.text.splitlines()] == lines[3:]
    other = await here.operator.get("/v1/approvals/audit", params={"approval": "apr_none"})
    assert (other.status_code, other.text) == (200, "")


async def test_a_long_record_comes_whole(shop: Open, monkeypatch):
    """A record of many pages is one answer without a gap or a repetition."""
    monkeypatch.setattr("app.api.routes.runs.PAGE", 2)
    here = await shop()
    await asked(await here.visitor())
    path = f"/v1/approvals/{(await open_one(here.operator))['id']}"
    for n in range(6):
        await here.operator.post(path, json={"approved": False, **({"actor": f"late-{n}"} if n else {})})
        await here.operator.post(path, json={"approved": False, **({"actor": f"late-{n}"} if n else {})})
    lines = [json.loads(line) for line in (await here.operator.get("/v1/approvals/audit")).text.splitlines()]
    assert [line["kind"] for line in lines] == ["requested", "opened", "denied", *["late"] * 6], "once for each"
    assert len({line["seq"] for line in lines}) == 9


async def test_one_decides_though_many_press(shop: Open):
    """Of many decisions at once one is taken and the rest get its outcome; the call runs once at most."""
    here = await shop()
    ada = await here.visitor()
    _, run = await asked(ada)
    path = f"/v1/approvals/{(await open_one(here.operator))['id']}"
    callers = [here.operator, ada] * 10
    answers = await asyncio.gather(
        *(caller.post(path, json={"approved": n % 3 == 0}) for n, caller in enumerate(callers))
    )
    taken = [answer.json() for answer in answers if answer.status_code == 200]
    late = [answer.json()["approval"] for answer in answers if answer.status_code == 409]
    assert (len(taken), len(late)) == (1, 19)
    assert {each["status"] for each in late} == {taken[0]["status"]}
    await here.core.settled(run.rpartition("/")[2], timeout=PATIENCE)
    assert here.till.paid == ([5] if taken[0]["status"] == "approved" else [])


async def test_a_key_decides_for_others_with_its_scope_only(shop: Open):
    """With `approvals:as` the policy is judged for the named person; without it naming a person answers 403."""
    here = await shop(responders=["actor:cfo"])
    await asked(await here.visitor())
    path = f"/v1/approvals/{(await open_one(here.operator))['id']}"
    bare = await here.caller(here.tokens.operator(scopes=("approve",)).text)
    refused = await bare.post(path, json={"approved": True, "actor": "cfo"})
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert "approvals:as" in refused.json()["detail"]
    command = await here.caller(here.tokens.operator().text)
    for caller, body in (
        (bare, {"approved": True}),
        (here.operator, {"approved": True}),
        (command, {"approved": True, "actor": "eve"}),
        (command, {"approved": True, "actor": {"id": "operator", "kind": "service"}}),
    ):
        answer = await caller.post(path, json=body)
        assert (answer.status_code, answer.json()["code"]) == (403, "not_an_approver"), body
    assert here.till.paid == []
    done = (await command.post(path, json={"approved": True, "actor": {"id": "cfo", "name": "Cy"}})).json()
    assert (done["status"], done["decided_by"]) == ("approved", {"id": "cfo", "kind": "user", "name": "Cy"})


async def test_an_operator_is_no_operator_in_another_persons_name(shop: Open):
    """Where operators are asked, a person whom the key names is refused, and the key itself is not."""
    here = await shop(responders=["operators"])
    await asked(await here.visitor())
    path = f"/v1/approvals/{(await open_one(here.operator))['id']}"
    assert (await here.operator.post(path, json={"approved": True, "actor": "bob"})).status_code == 403
    assert (await here.operator.post(path, json={"approved": True})).status_code == 200


@pytest.mark.parametrize("asker", ["ann", {"id": "ann", "kind": "visitor"}])
async def test_the_asker_is_the_same_person_under_either_kind(shop: Open, asker):
    """Where another than the asker must decide, the asker is refused as user and as visitor alike."""
    here = await shop(responders=["anyone", "not_asker"])
    await here.operator.post("/v1/agents/assistant/runs", json={"input": "Pay", "actor": asker})
    path = f"/v1/approvals/{(await open_one(here.operator))['id']}"
    for name in ("ann", {"id": "ann", "kind": "visitor"}, {"id": "ann", "kind": "user"}):
        assert (await here.operator.post(path, json={"approved": True, "actor": name})).status_code == 403
    assert (await here.operator.post(path, json={"approved": True, "actor": "bob"})).status_code == 200


async def test_a_deleted_sessions_record_stays(shop: Open):
    """With its session an approval is gone, and the record of it is not."""
    here = await shop()
    session, _ = await asked(await here.visitor())
    found = await open_one(here.operator)
    await here.operator.post(f"/v1/approvals/{found['id']}", json={"approved": False})
    await events(here.operator, session)
    assert (await here.operator.delete(session)).status_code == 204
    assert (await here.operator.get(f"/v1/approvals/{found['id']}")).status_code == 404
    lines = (await here.operator.get("/v1/approvals/audit", params={"approval": found["id"]})).text.splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["requested", "opened", "denied"]


async def test_the_key_is_in_no_answer(shop: Open):
    """Neither objects, nor problems, nor the record hold the key that was used."""
    here = await shop()
    await asked(await here.visitor())
    path = f"/v1/approvals/{(await open_one(here.operator))['id']}"
    texts = [(await here.operator.post(path, json={"approved": True, "actor": "eve"})).text]
    texts += [(await here.operator.post(path, json={"approved": True})).text for _ in range(2)]
    texts.append((await here.operator.get("/v1/approvals/audit")).text)
    assert [text for text in texts if KEY in text] == []
