"""Approvals and client calls of visitors, hostile ones among them."""

import json

import httpx
import pytest
from structlog.testing import capture_logs

from agent_core.agents import DeclaredTool
from agent_core.errors import Unavailable
from agent_core.testing import by_step, call, say
from tests.app.api.shop import LOOKS, WHERE, Open, Shop, asked, events, open_one
from tests.polling import PATIENCE

SEEN = {"arguments", "asked", "digest"}


async def approval_of(here: Shop, visitor: httpx.AsyncClient) -> tuple[str, str, str]:
    """Let *visitor* ask for something; return the paths of the session, the run and the approval."""
    session, run = await asked(visitor)
    found = await open_one(here.operator, session=session.rpartition("/")[2])
    return session, run, f"/v1/approvals/{found['id']}"


async def test_a_visitor_decides_what_the_visitor_asked(shop: Open):
    """The asker sees the exact call, approves it, and the answer continues in the same stream."""
    here = await shop()
    ada = await here.visitor()
    session, run, path = await approval_of(here, ada)
    found = (await ada.get(path)).json()
    assert (found["arguments"], found["may_decide"], found["responders"]) == (
        {"amount": 5},
        True,
        ["asker", "operators"],
    )
    assert (await ada.get(session)).json()["status"] == "waiting"
    seq = (await events(ada, session))[-1].id
    decided = await ada.post(path, json={"approved": True})
    assert (decided.status_code, decided.json()["status"]) == (200, "approved")
    assert decided.json()["decided_by"] == {"id": "ada", "kind": "visitor"}
    assert [vote["surface"] for vote in decided.json()["votes"]] == ["web"]
    await ada.get(f"{run}/events?after={seq}")
    assert (await ada.get(session)).json()["status"] == "idle"
    assert here.till.paid == [5]
    late = await ada.post(path, json={"approved": False})
    assert (late.status_code, late.json()["approval"]) == (409, (await ada.get(path)).json())


@pytest.mark.parametrize(
    ("responders", "show"),
    [(["asker", "operators"], "none"), (["anyone"], "names"), (["actor:ada"], "names"), (["asker"], "full")],
)
async def test_a_decider_sees_the_arguments(shop: Open, responders, show):
    """In objects and streams a visitor who may decide sees the arguments, whatever the agent shows of its tools."""
    here = await shop(show=show, responders=responders)
    ada = await here.visitor()
    session, run, path = await approval_of(here, ada)
    assert (await ada.get(path)).json()["arguments"] == {"amount": 5}
    assert (await open_one(ada))["arguments"] == {"amount": 5}
    await ada.post(path, json={"approved": True})
    await here.core.settled(run.rpartition("/")[2], timeout=PATIENCE)
    shown = [frame for frame in await events(ada, session) if frame.event.startswith("approval.")]
    assert [frame.data["arguments"] for frame in shown] == [{"amount": 5}] * 2
    assert shown[0].data["may_decide"] is True
    assert not any({"hook", "deliver_to"} & set(frame.data) for frame in shown)
    assert not any(":" in name for name in shown[0].data["responders"])


@pytest.mark.parametrize(
    ("responders", "show"),
    [(["actor:bob"], "none"), (["actor:bob"], "names"), (["slack:U1", "actor:bob"], "full"), (["not_asker"], "names")],
)
async def test_a_visitor_who_may_not_decide_is_refused(shop: Open, responders, show):
    """Without the right to decide a visitor gets 403, and sees arguments only of an agent that shows its tools."""
    here = await shop(show=show, responders=responders)
    ada = await here.visitor()
    session, _, path = await approval_of(here, ada)
    for body in ({"approved": True}, {"approved": False}, {"approved": True, "arguments": {"amount": "x"}}):
        answer = await ada.post(path, json=body)
        hidden = show == "none"  # as for the GET below
        expected = (404, "not_found") if hidden else (403, "not_an_approver")
        assert (answer.status_code, answer.json()["code"]) == expected
        assert not any(name in answer.text for name in ("bob", "slack:"))
    seen = await ada.get(path)
    assert (seen.status_code == 404) == (show == "none")
    if show == "none":  # that anybody was asked is not shown at all
        assert (await ada.get("/v1/approvals")).json()["items"] == []
    else:
        assert seen.json()["may_decide"] is False
        assert bool(SEEN & set(seen.json())) == (show == "full")
    assert (await here.operator.post(path, json={"approved": False, "actor": "bob"})).status_code == 200
    stream = await events(ada, session)
    shown = [frame for frame in stream if frame.event.startswith("approval.")]
    assert bool(shown) == (show != "none")
    assert [frame for frame in shown if ("arguments" in frame.data) != (show == "full")] == []
    assert [frame.data["by"]["id"] for frame in shown] == (["ada", "someone"] if shown else [])
    if shown:
        found = (await ada.get(path)).json()
        assert (found["decided_by"]["id"], found["asker"]["id"]) == ("someone", "ada")
        late = await ada.post(path, json={"approved": True})
        assert (late.status_code, "bob" in late.text) == (409, False), late.text
    later = await ada.get(f"{session}/events?until=idle&after={stream[-2].id}")
    assert show == "full" or '"amount"' not in later.text
    assert here.till.paid == []


async def test_a_stream_that_begins_after_the_question_knows_who_was_asked(shop: Open):
    """A reader who comes back between the question and the decision sees the same of it as one who stayed."""
    here = await shop(edit=True)
    ada = await here.visitor()
    session, run, path = await approval_of(here, ada)
    seq = (await events(ada, session))[-1].id
    await here.operator.post(path, json={"approved": True, "arguments": {"amount": 3}})
    await here.core.settled(run.rpartition("/")[2], timeout=PATIENCE)
    whole = await events(ada, session)
    text = (await ada.get(f"{session}/events?until=idle", headers={"Last-Event-ID": str(seq)})).text
    decided = next(frame for frame in whole if frame.event == "approval.decided")
    assert (decided.data["arguments"], decided.data["edited"]) == ({"amount": 3}, True)
    assert '"arguments":{"amount":3}' in text


async def test_approvals_of_others_are_unknown(shop: Open):
    """Another visitor, and the same one of another agent, find, see and decide nothing; guessed ids are unknown."""
    here = await shop(responders=["anyone"])
    ada = await here.visitor()
    session, run, path = await approval_of(here, ada)
    name = {"session": session.rpartition("/")[2], "run": run.rpartition("/")[2]}
    for other in (await here.visitor("bob"), await here.visitor("ada", agent="agent_other")):
        for query in ({}, {"status": "open"}, {"session": name["session"]}, {"run": name["run"]}):
            assert (await other.get("/v1/approvals", params=query)).json().get("items", []) == []
        for place in (path, path[:-1], f"{path}x", "/v1/approvals/apr_1"):
            for answer in (await other.get(place), await other.post(place, json={"approved": True})):
                assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
                assert name["session"] not in answer.text
    assert await record(here) == [("requested", None, "ada"), ("opened", "web", "ada")], "the visitor who asked"
    assert (await open_one(ada))["votes"] == []


async def test_no_visitor_decides_in_anothers_name(shop: Open):
    """A visitor who names another actor, kind, or surface is refused; naming oneself changes nothing."""
    here = await shop(responders=["operators", "actor:cfo"])
    ada = await here.visitor()
    _, _, path = await approval_of(here, ada)
    for more in ({"actor": "cfo"}, {"actor": {"id": "operator", "kind": "service"}}, {"surface": "terminal"}):
        answer = await ada.post(path, json={"approved": True, **more})
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), more
    for own in ("ada", {"id": "ada", "kind": "service"}, {"id": "ada", "kind": "user"}):
        answer = await ada.post(path, json={"approved": True, "actor": own})
        assert (answer.status_code, answer.json()["code"]) == (403, "not_an_approver")
    namesake = await here.visitor("operator")
    assert (await namesake.post(path, json={"approved": True})).status_code == 401
    assert here.till.paid == []


async def test_the_record_is_the_operators(shop: Open):
    """A visitor does not read who was asked, where, and what they said."""
    ada = await (await shop()).visitor()
    answer = await ada.get("/v1/approvals/audit")
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


async def test_a_person_of_the_embedding_site_is_the_visitor(shop: Open):
    """A session that the site opened for a user is decided of by the visitor of that id, as the one who asked."""
    here = await shop(responders=["asker"], quorum=1)
    body = {"agent": "assistant", "actor": {"id": "ada", "kind": "user", "name": "Ada"}}
    session = (await here.operator.post("/v1/sessions", json=body)).json()["id"]
    run = (await here.operator.post(f"/v1/sessions/{session}/messages", json={"text": "Pay"})).json()["run_id"]
    await here.core.settled(run, timeout=PATIENCE)
    ada = await here.visitor()
    found = await open_one(ada)
    assert found["arguments"] == {"amount": 5}
    assert (await ada.post(f"/v1/approvals/{found['id']}", json={"approved": True})).status_code == 200


async def test_the_asker_is_the_same_person_as_a_visitor(shop: Open):
    """Where another than the asker must decide, the user who asked is refused as a visitor too."""
    here = await shop(responders=["anyone", "not_asker"])
    body = {"agent": "assistant", "actor": "ada"}
    session = (await here.operator.post("/v1/sessions", json=body)).json()["id"]
    run = (await here.operator.post(f"/v1/sessions/{session}/messages", json={"text": "Pay"})).json()["run_id"]
    await here.core.settled(run, timeout=PATIENCE)
    ada = await here.visitor()
    assert (await ada.post(f"/v1/approvals/{(await open_one(ada))['id']}", json={"approved": True})).status_code == 403


async def record(here: Shop) -> list[tuple[str, str | None, str | None]]:
    """Return kind, surface and actor of each line of the record."""
    text = (await here.operator.get("/v1/approvals/audit")).text
    lines = [json.loads(line) for line in text.splitlines()]
    return [(line["kind"], line["surface"], (line["actor"] or {}).get("id")) for line in lines]


async def test_a_question_shown_to_a_visitor_is_recorded_once(shop: Open):
    """Each stream shows the question again; the record has one line, and none for a question that is decided."""
    here = await shop()
    ada = await here.visitor()
    session, _, path = await approval_of(here, ada)
    for _ in range(3):
        await events(ada, session)
    await ada.post(path, json={"approved": False})
    await events(ada, session)
    assert await record(here) == [("requested", None, "ada"), ("opened", "web", "ada"), ("denied", "web", "ada")]


async def test_reading_approvals_writes_nothing(shop: Open, monkeypatch: pytest.MonkeyPatch):
    """A visitor's GET of an approval, and of a list with its arguments, writes nothing, however often it comes."""
    here = await shop()
    ada = await here.visitor()
    session = (await ada.post("/v1/sessions", json={})).json()["id"]
    run = (await ada.post(f"/v1/sessions/{session}/messages", json={"text": "Pay"})).json()["run_id"]
    await here.core.settled(run, timeout=PATIENCE)
    asked_about = await open_one(here.operator)

    async def refused(*_: object) -> None:
        raise AssertionError("A GET writes.")

    with monkeypatch.context() as patched:
        patched.setattr(here.core._store.database, "write", refused)
        for _ in range(2):
            assert (await open_one(ada))["arguments"] == {"amount": 5}
            assert (await ada.get(f"/v1/approvals/{asked_about['id']}")).json()["arguments"] == {"amount": 5}
    assert await record(here) == [("requested", None, "ada")]


async def test_a_stream_goes_on_although_its_opening_cannot_be_recorded(shop: Open, monkeypatch: pytest.MonkeyPatch):
    """A visitor reads a question to its end although the database cannot record that they did, which is logged."""
    here = await shop()
    ada = await here.visitor()

    async def away(*_: object, **__: object) -> None:
        raise Unavailable("The database is away.")

    with monkeypatch.context() as patched, capture_logs() as lines:
        patched.setattr(here.core.approvals, "note", away)
        session, _, path = await approval_of(here, ada)
        shown = [frame.event for frame in await events(ada, session)]
    assert {"approval.requested", "run.waiting"} <= set(shown)
    unrecorded = [line["approvals"] for line in lines if line["event"] == "approval.opened_unrecorded"]
    assert unrecorded
    assert [ids for ids in unrecorded if ids != [path.rpartition("/")[2]]] == []
    await events(ada, session)
    assert ("opened", "web", "ada") in await record(here)


async def test_a_stream_that_hides_the_call_records_nothing(shop: Open):
    """A visitor who sees that something waits, but not what, has opened nothing."""
    here = await shop(responders=["operators"])
    ada = await here.visitor()
    await approval_of(here, ada)
    assert "arguments" not in await open_one(ada)
    assert await record(here) == [("requested", None, "ada")]


async def test_a_page_executes_its_own_calls(shop: Open):
    """The visitor's page gets the calls and their arguments, sends the outputs, and the answer continues."""
    here = await shop(LOOKS, declared=(WHERE,))
    ada = await here.visitor()
    session, run = await asked(ada)
    assert (await ada.get(session)).json()["status"] == "requires_action"
    pending = [frame.data for frame in await events(ada, session) if frame.event == "tool.pending"]
    assert [(each["tool"], each["arguments"]) for each in pending] == [
        ("where", {"what": "home"}),
        ("where", {"what": "work"}),
    ]
    first, second = (each["call"] for each in pending)
    partly = (
        await ada.post(f"{run}/tool-outputs", json={"outputs": [{"call": second, "output": {"at": [1, 2]}}]})
    ).json()
    assert (partly["status"], [call["call"] for call in partly["pending"]]) == ("requires_action", [first])
    assert partly["pending"][0]["arguments"] == {"what": "home"}
    assert not {"usage", "cost"} & set(partly)
    body = {"outputs": [{"call": first, "error": "The door is closed."}]}
    assert (await ada.post(f"{run}/tool-outputs", json=body)).status_code == 200
    ended = await here.core.settled(run.rpartition("/")[2], timeout=PATIENCE)
    assert (ended.status, ended.text) == ("completed", "There.")
    again = await ada.post(f"{run}/tool-outputs", json=body)
    assert (again.status_code, again.json()["code"]) == (409, "already_decided")


async def test_outputs_of_others_runs_are_refused(shop: Open):
    """Another visitor, and a guessed run, get 404; nothing is taken."""
    here = await shop(LOOKS, declared=(WHERE,))
    session, run = await asked(await here.visitor())
    pending = [frame.data["call"] for frame in await events(here.operator, session) if frame.event == "tool.pending"]
    bob = await here.visitor("bob")
    for place in (run, "/v1/runs/run_none"):
        answer = await bob.post(f"{place}/tool-outputs", json={"outputs": [{"call": pending[0], "output": "here"}]})
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert len((await here.operator.get(run)).json()["pending"]) == 2


async def test_an_approved_call_of_the_page_has_the_corrected_arguments(shop: Open):
    """A client call that people corrected reaches the page as they left it."""
    script = by_step((call("where", what="home"),), (say("There."),))
    here = await shop(script, declared=(WHERE,), matcher="where", edit=True)
    ada = await here.visitor()
    session, run, path = await approval_of(here, ada)
    await here.operator.post(path, json={"approved": True, "arguments": {"what": "work"}})
    await here.core.settled(run.rpartition("/")[2], timeout=PATIENCE)
    (sent,) = [f.data for f in await events(ada, session) if f.event == "tool.pending" and f.data["on"] == "client"]
    assert sent["arguments"] == {"what": "work"}


async def test_the_arguments_of_an_answer_are_no_visitors(shop: Open):
    """The structured answer that is a call of a tool without executor is shown as the agent shows its tools."""
    report = DeclaredTool(name="report", kind="none", description="The report.", parameters={"type": "object"})
    for show in ("names", "full"):
        here = await shop(by_step((call("report", secret="s 3"),)), declared=(report,), show=show)
        if show == "full":
            await here.operator.patch("/v1/agents/assistant", json={"web": {"show_tools": "full"}})
        ada = await here.visitor()
        session, run = await asked(ada)
        assert ("s 3" in (await ada.get(f"{session}/events?until=idle")).text) == (show == "full")
        whole = (await here.operator.get(run)).json()
        assert (whole["stop_reason"], whole["output"]["structured"]) == ("no_executor", {"secret": "s 3"})
        assert ("structured" in (await ada.post(f"{run}/cancel")).json()["output"]) == (show == "full")
