"""Attackers with tokens: forged, expired, of another user; none opens what belongs to others."""

import base64
import json
import time

import httpx
import pytest

from agent_core.messages import Actor
from app.storage import Keys
from channels.web.identity import TokenSigner
from tests.e2e.conftest import StartServer
from tests.e2e.problems import refused
from tests.e2e.raw import exchange, get
from tests.e2e.server import SECRET, Server
from tests.e2e.test_kill import RUNS, ask
from tests.e2e.visitors import agent_showing, opened_by, token_for

ADA = Actor(id="ada", kind="visitor")
AGES = 10 * 365 * 24 * 3600


@pytest.fixture(scope="module")
def server(start_shared: StartServer) -> Server:
    """A server that answers flat out."""
    return start_shared(rate=0)


def encoded(value: object) -> str:
    """Return a part of a token."""
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def forgeries(genuine: str, agent: str) -> dict[str, str]:
    """Return tokens that the holder of a genuine one could forge without the key."""
    head, claims, signature = genuine.split(".")
    said = json.loads(base64.urlsafe_b64decode(f"{claims}=="))
    other = TokenSigner(Keys(b"another secret of another installation").derive).visitor(ADA, agent=agent).text
    late = TokenSigner(Keys(SECRET.encode()).derive, now=lambda: time.time() - AGES).visitor(ADA, agent=agent).text
    none = encoded({"alg": "none", "typ": "JWT"})
    return {
        "another actor": f"{head}.{encoded({**said, 'sub': 'bob'})}.{signature}",
        "another agent": f"{head}.{encoded({**said, 'agent': 'agent_x'})}.{signature}",
        "no end": f"{head}.{encoded({**said, 'exp': said['exp'] + AGES})}.{signature}",
        "another signature": f"{head}.{claims}.{signature[:-4]}AAAA",
        "no signature": f"{head}.{claims}.",
        "alg none": f"{none}.{claims}.",
        "alg none, signed": f"{none}.{claims}.{signature}",
        "alg None": f"{encoded({'alg': 'None'})}.{claims}.",
        "operator by name": f"{head}.{encoded({**said, 'aud': 'operator', 'sub': 'operator'})}.{signature}",
        "another secret": other,
        "expired": late,
        "a cookie": TokenSigner(Keys(SECRET.encode()).derive).cookie("ada").text,
        "two tokens": f"{genuine} {genuine}",
        "no token": "Bearer",
        "nothing": "",
        "a letter more": f"{genuine}A",
        "not ASCII": "ÿþ",
        "long": "x" * 30_000,
    }


async def test_no_forged_token_is_taken(server: Server):
    """Whatever is changed about a token, the answer is 401 in the usual shape, and says nothing of why."""
    async with server.client() as operator:
        agent = await agent_showing(operator, "names")
        genuine = await token_for(operator, "ada", agent)
    details = set()
    for name, forged in forgeries(genuine, agent).items():
        answer = await exchange(server, get("/v1/sessions", b"Authorization: Bearer " + forged.encode("latin-1")))
        details.add(refused(answer, 401, "unauthorized")["detail"])
        assert answer.headers["www-authenticate"] == "Bearer", name
        assert len(forged) < 20 or forged not in answer.text
    assert len(details) == 1
    taken = await exchange(server, get("/v1/sessions", b"Authorization: bearer " + genuine.encode()))
    assert taken.status_code == 200


async def test_every_path_needs_a_key(server: Server):
    """Below /v1 there is nothing without a key or a token, whether a route exists or not."""
    routes = [("GET", "/v1/sessions"), ("GET", "/v1/nothing"), ("POST", RUNS), ("DELETE", "/v1/agents/x")]
    async with server.client(None) as anyone:
        for value in (None, "Basic b3BlcmF0b3I6", "Bearer", "token x", "Bearer wrong-key"):
            headers = {} if value is None else {"Authorization": value}
            for method, path in routes:
                refused(await anyone.request(method, path, headers=headers), 401, "unauthorized")
        for path in ("/healthz", "/readyz", "/openapi.json"):
            assert (await anyone.get(path)).status_code == 200


async def test_a_visitor_cannot_find_others_sessions(server: Server):
    """Sessions and runs of other visitors, of operators and of other agents are not found, like those that are not."""
    async with server.client() as operator:
        names, full = await agent_showing(operator, "names"), await agent_showing(operator, "full")
        theirs, run = await ask(operator, "Hello")
        tokens = [await token_for(operator, *who) for who in (("ada", names), ("bob", names), ("ada", full))]
        async with server.client(tokens[0]) as ada:
            session = await opened_by(ada)
            posted = (await ada.post(f"{session}/messages", json={"text": "Hello"})).json()["run_id"]
            await reach_nothing(ada, theirs, run)
        for token in tokens[1:]:
            async with server.client(token) as other:
                await reach_nothing(other, session, posted)
                assert (await other.get("/v1/sessions")).json()["items"] == []


async def reach_nothing(visitor: httpx.AsyncClient, session: str, run: str) -> None:
    """Try everything that a visitor may do with a session and a run that are not theirs."""
    for method, path in [
        ("GET", session),
        ("GET", f"{session}/messages"),
        ("GET", f"{session}/events"),
        ("POST", f"{session}/messages"),
        ("GET", f"/v1/runs/{run}/events"),
        ("POST", f"/v1/runs/{run}/cancel"),
    ]:
        body = {"text": "Hello"} if path.endswith("messages") and method == "POST" else {}
        foreign = refused(
            await visitor.request(method, path, json=body if method == "POST" else None), 404, "not_found"
        )
        there = session if "sessions" in path else run
        stranger = path.replace(there.rpartition("/")[2], "unknown")
        asked = await visitor.request(method, stranger, json=body if method == "POST" else None)
        known = foreign["detail"].replace(there.rpartition("/")[2], "unknown")
        assert refused(asked, 404, "not_found")["detail"] == known, "a foreign id differs from an unknown one"


async def test_a_visitor_cannot_name_another_actor(server: Server):
    """A body that names another agent or actor than the token is refused; the token's own are fine."""
    async with server.client() as operator:
        agent = await agent_showing(operator, "names")
        async with server.client(await token_for(operator, "ada", agent)) as ada:
            for body in ({"agent": "assistant"}, {"actor": "bob"}, {"actor": {"id": "bob", "kind": "user"}}):
                refused(await ada.post("/v1/sessions", json=body), 403, "forbidden")
            refused(await ada.get("/v1/sessions", params={"actor": "bob"}), 403, "forbidden")
            refused(await ada.get("/v1/sessions", params={"agent": "assistant"}), 403, "forbidden")
            session = await opened_by(ada)
            controls = {"text": "Hello", "controls": {"model": "demo"}}
            refused(await ada.post(f"{session}/messages", json=controls), 403, "forbidden")
            own = await ada.post("/v1/sessions", json={"agent": agent, "actor": "ada"})
            assert (own.status_code, own.json()["actor"]["kind"]) == (201, "visitor")


async def test_what_is_the_operators_stays_the_operators(server: Server):
    """A visitor's token opens no operator's route, not even for what is the visitor's own."""
    async with server.client() as operator:
        agent = await agent_showing(operator, "names")
        async with server.client(await token_for(operator, "ada", agent)) as ada:
            session = await opened_by(ada)
            run = (await ada.post(f"{session}/messages", json={"text": "Hello"})).json()["run_id"]
            for method, path in [
                ("GET", "/v1/agents"),
                ("GET", f"/v1/agents/{agent}"),
                ("PATCH", f"/v1/agents/{agent}"),
                ("DELETE", f"/v1/agents/{agent}"),
                ("POST", f"/v1/agents/{agent}/runs"),
                ("GET", "/v1/runs"),
                ("GET", f"/v1/runs/{run}"),
                ("GET", f"/v1/runs/{run}/tree"),
                ("DELETE", session),
                ("POST", f"{session}/fork"),
                ("POST", f"{session}/close"),
            ]:
                body = {"input": "Hello"} if path.endswith("runs") else {}
                sent = body if method in {"POST", "PATCH"} else None
                refused(await ada.request(method, path, json=sent), 403, "forbidden")
            minting = {"actor": "bob", "agent": agent}
            refused(await ada.post("/v1/web/visitor-tokens", json=minting), 403, "forbidden")


async def test_a_visitor_is_not_named_like_an_operator(server: Server):
    """No token is made for a visitor called like an operator, or like someone of another channel."""
    async with server.client() as operator:
        for name in ("operator", "operator:key_1", "slack:T1:U1", "terminal:ann", "ann\u202e"):
            answer = await operator.post("/v1/web/visitor-tokens", json={"actor": name, "agent": "assistant"})
            refused(answer, 422, "invalid_request")
