"""What a visitor's token may do, and which fields it does not see."""

import hashlib

import httpx
from fastapi import FastAPI

from agent_core.controls import Abilities, Caching
from agent_core.core import Core
from agent_core.messages import Actor, explanation
from agent_core.testing import ScriptedProvider, fail, say, usage
from app.compose import create_app
from app.storage import ApiKey
from channels.web.identity import TokenSigner
from tests.app.conftest import KEY, caller
from tests.app.frames import frames
from tests.cases import for_each
from tests.published import frame_schema

OPEN = {
    ("POST", "/v1/sessions"),
    ("GET", "/v1/sessions"),
    ("GET", "/v1/sessions/{id}"),
    ("GET", "/v1/sessions/{id}/messages"),
    ("POST", "/v1/sessions/{id}/messages"),
    ("GET", "/v1/sessions/{id}/events"),
    ("GET", "/v1/runs/{id}/events"),
    ("POST", "/v1/runs/{id}/cancel"),
    ("POST", "/v1/runs/{id}/feedback"),
    ("POST", "/v1/runs/{id}/tool-outputs"),
    ("GET", "/v1/approvals"),
    ("GET", "/v1/approvals/{id}"),
    ("POST", "/v1/approvals/{id}"),
    ("GET", "/v1/web/conversations"),
    ("PATCH", "/v1/web/conversations/{id}"),
    ("DELETE", "/v1/web/conversations/{id}"),
    ("POST", "/v1/web/conversations/{id}/branch"),
    ("GET", "/v1/web/conversations/{id}/feedback"),
    ("GET", "/v1/renders/{id}"),
    ("GET", "/v1/web/agent"),
    ("POST", "/v1/files"),
    ("GET", "/v1/files/{id}"),
    ("POST", "/v1/web/anonymous"),
    ("GET", "/v1/renders/{id}.png"),
    ("GET", "/v1/renders/{id}.svg"),
    ("GET", "/v1/renders/{id}.csv"),
    ("GET", "/v1/renders/{id}.json"),
}
BODIES = {
    "/v1/agents": {"name": "a", "instructions": "b"},
    "/v1/agents/{id}": {"instructions": "b"},
    "/v1/agents/{id}/runs": {"input": "Hi"},
    "/v1/sessions/{id}/replies": {"text": "Hi"},
    "/v1/renders/preview": {"kind": "table", "payload": {}},
    "/v1/web/visitor-tokens": {"agent": "assistant", "actor": "a"},
}


async def posted(visitor: httpx.AsyncClient) -> tuple[str, str]:
    """Open a session, say something, and return the session's path and the run's id."""
    path = f"/v1/sessions/{(await visitor.post('/v1/sessions', json={})).json()['id']}"
    run = (await visitor.post(f"{path}/messages", json={"text": "Hi"})).json()["run_id"]
    await visitor.get(f"/v1/runs/{run}/events")
    return path, run


async def test_everything_else_is_forbidden(visitor: httpx.AsyncClient, app: FastAPI):
    """Each route under /v1 that is not on the visitors' list answers 403 to a visitor."""
    closed = 0
    for path, operations in app.openapi()["paths"].items():
        for method in operations:
            if path.startswith("/v1/") and (method.upper(), path) not in OPEN:
                answer = await visitor.request(method, path.replace("{id}", "x"), json=BODIES.get(path))
                assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), (method, path)
                closed += 1
    assert closed >= 10


async def test_agent_and_actor_come_from_the_token(visitor: httpx.AsyncClient, taken):
    """A session opened with an empty body is Ada's with the assistant, and so are her messages."""
    session = (await visitor.post("/v1/sessions", json={})).json()
    assert session["actor"] == {"id": "ada", "kind": "visitor"}
    named = {"agent": "assistant", "actor": "ada"}
    assert (await visitor.post("/v1/sessions", json=named)).status_code == 201
    await visitor.post(f"/v1/sessions/{session['id']}/messages", json={"text": "Hi"})
    assert taken[0].actor == Actor(id="ada", kind="visitor")


@for_each("body", [{"agent": "other"}, {"actor": "bob"}, {"actor": {"id": "bob", "kind": "visitor"}}])
async def test_naming_others_is_forbidden(visitor: httpx.AsyncClient, body):
    """A body that names another agent or actor answers 403."""
    assert (await visitor.post("/v1/sessions", json=body)).status_code == 403


async def test_controls_are_the_operators(visitor: httpx.AsyncClient):
    """A visitor chooses neither model nor steps."""
    path, _ = await posted(visitor)
    answer = await visitor.post(f"{path}/messages", json={"text": "Hi", "controls": {"max_steps": 9}})
    assert answer.status_code == 403


async def test_foreign_ids_are_unknown(app: FastAPI, visitor: httpx.AsyncClient, core: Core, tokens: TokenSigner):
    """Another visitor, and the same one with another agent, get 404 for a session and its run."""
    path, run = await posted(visitor)
    agent = (await core.agents.get("assistant")).id
    for token in (
        tokens.visitor(Actor(id="bob", kind="visitor"), agent=agent),
        tokens.visitor(Actor(id="ada", kind="visitor"), agent="agent_other"),
    ):
        async with caller(app, token.text) as other:
            for method, place in (
                ("GET", path),
                ("GET", f"{path}/messages"),
                ("GET", f"{path}/events"),
                ("GET", f"/v1/runs/{run}/events"),
                ("POST", f"/v1/runs/{run}/cancel"),
                ("POST", f"/v1/runs/{run}/feedback"),
            ):
                body = {"rating": "up"} if place.endswith("feedback") else None
                assert (await other.request(method, place, json=body)).status_code == 404, place


async def test_a_list_holds_only_ones_own(visitor: httpx.AsyncClient, client: httpx.AsyncClient):
    """A visitor's list of sessions leaves out everybody else's."""
    await client.post("/v1/sessions", json={"agent": "assistant", "actor": "bob"})
    path, _ = await posted(visitor)
    items = (await visitor.get("/v1/sessions")).json()["items"]
    assert [f"/v1/sessions/{session['id']}" for session in items] == [path]
    assert (await visitor.get("/v1/sessions?actor=bob")).status_code == 403


async def test_a_list_holds_no_namesakes(app: FastAPI, client: httpx.AsyncClient, core: Core, tokens: TokenSigner):
    """A visitor sees what was opened for a person of the same id, never what was opened for a service or an agent."""
    agent = await core.agents.get("assistant")
    kinds = ("service", "agent", "user", "visitor", "service")
    bodies = [{"agent": "assistant", "actor": {"id": "bob", "kind": kind}} for kind in kinds]
    opened = [(await client.post("/v1/sessions", json=body)).json()["id"] for body in bodies]
    copied = (await client.post(f"/v1/sessions/{opened[0]}/fork")).json()["id"]
    async with caller(app, tokens.visitor(Actor(id="bob", kind="visitor"), agent=agent.id).text) as namesake:
        first = (await namesake.get("/v1/sessions?limit=1")).json()
        second = (await namesake.get(f"/v1/sessions?limit=1&cursor={first['next_cursor']}")).json()
    assert [session["id"] for session in first["items"] + second["items"]] == [opened[3], opened[2]]
    assert second["next_cursor"] is None
    seen = [session["id"] for session in (await client.get("/v1/sessions?actor=bob")).json()["items"]]
    assert seen == [copied, *reversed(opened)]


async def test_objects_leave_out_the_operators(visitor: httpx.AsyncClient):
    """A visitor's session has no metadata, messages no arguments of tools, a run no usage and no cost."""
    path, run = await posted(visitor)
    assert "metadata" not in (await visitor.get(path)).json()
    items = (await visitor.get(f"{path}/messages")).json()["items"]
    assert [set(part) for part in items[1]["parts"]] == [{"type", "call", "name"}]
    ended = (await visitor.post(f"/v1/runs/{run}/cancel")).json()
    assert ended["output"]["text"] == "You said: Hi"
    assert not {"usage", "cost"} & set(ended)


async def test_streams_leave_out_the_operators(visitor: httpx.AsyncClient, client: httpx.AsyncClient):
    """A visitor's stream has gaps where the operator's facts are; the operator's stream has them all."""
    path, run = await posted(visitor)
    seen = frames((await visitor.get(f"{path}/events?until=idle")).text)
    whole = frames((await client.get(f"{path}/events?until=idle")).text)
    assert [f.id for f in whole] == list(range(1, len(whole) + 1))
    hidden = {f.event for f in whole} - {f.event for f in seen}
    assert "snapshot.frozen" in hidden
    assert hidden <= {"snapshot.frozen", "context.added"}
    for found in seen:
        assert not {"usage", "cost", "controls", "arguments", "ref"} & set(found.data), found
        assert not any(set(part) & {"arguments", "parts"} for part in found.data.get("parts", ())), found
        assert found.event != "tool.completed" or "parts" not in found.data
        frame_schema().validate({name: value for name, value in found._asdict().items() if value is not None})
    assert frames((await visitor.get(f"/v1/runs/{run}/events")).text) == [f for f in seen if f.data["run"] == run]


async def test_cache_is_the_operators(make_core, settings, tokens: TokenSigner):
    """Of a call that missed the prompt cache, and of a change that loses it, a visitor's stream says nothing."""
    able = Abilities(caching=Caching(vendor="openai", least=1, short_s=300, long_s=300))
    used = {"input": 3, "output": 1, "cache_read": 0, "cache_write_short": 5_000, "cache_write_long": 0}
    core = await make_core(ScriptedProvider([(say("One."), usage(**used)), (say("Two."), usage(**used))], able=able))
    app = create_app(core, settings, tokens=tokens, api_key=ApiKey(hashlib.sha256(KEY.encode()).digest()))
    agent = await core.agents.get("assistant")
    token = tokens.visitor(Actor(id="ada", kind="visitor"), agent=agent.id).text
    async with caller(app, token) as visitor, caller(app, KEY) as client:
        path, run = await posted(visitor)
        await visitor.get(f"/v1/runs/{run}/events")
        sent = await client.post(f"{path}/messages", json={"text": "Again", "controls": {"effort": "high"}})
        assert sent.status_code == 202
        whole = frames((await client.get(f"{path}/events?until=idle")).text)
        seen = (await visitor.get(f"{path}/events?until=idle")).text
    (missed,) = [frame for frame in whole if frame.event == "cache.missed"]
    assert {name: missed.data[name] for name in ("n", "expected", "read", "cause")} == {
        "n": 1,
        "expected": 5_000,
        "read": 0,
        "cause": "prefix",
    }
    assert [frame.data.get("cache_note") is None for frame in whole if frame.event == "step.started"] == [True, False]
    assert "Two." in seen
    assert "cache" not in seen


async def test_a_failure_is_shown_without_what_the_operator_knows(make_core, settings, tokens: TokenSigner):
    """Of a failed run a visitor gets the person's sentence; the operator's detail is in neither event nor object."""
    core = await make_core(ScriptedProvider([[fail("auth", message="Key 7 of db-host is wrong.", retryable=False)]]))
    key = ApiKey(hashlib.sha256(KEY.encode()).digest())
    app = create_app(core, settings, tokens=tokens, api_key=key)
    agent = await core.agents.get("assistant")
    token = tokens.visitor(Actor(id="ada", kind="visitor"), agent=agent.id).text
    async with caller(app, token) as visitor, caller(app, KEY) as client:
        path, run = await posted(visitor)
        seen = (await visitor.get(f"{path}/events?until=idle")).text
        whole = (await client.get(f"{path}/events?until=idle")).text
        error = (await visitor.post(f"/v1/runs/{run}/cancel")).json()["error"]
        known = (await client.get(f"/v1/runs/{run}")).json()["error"]
    assert error == {"code": "provider_error", "message": explanation("auth"), "retryable": False}
    assert known == {**error, "detail": "Key 7 of db-host is wrong."}
    failed = next(frame for frame in frames(seen) if frame.event == "run.failed")
    assert failed.data["message"] == explanation("auth")
    assert "db-host" not in seen
    assert whole.count("db-host") == 2
