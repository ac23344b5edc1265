"""Keys of sites over HTTP: registered, used for visitors' tokens, removed; and what those tokens do not open."""

import base64
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from fastapi import FastAPI
from jwt.algorithms import ECAlgorithm

from agent_core.core import Core
from agent_core.messages import Actor
from app.serving.credentials import Credentials
from app.serving.readers import Readers
from channels.web.identity import TokenSigner
from tests.app.api.test_anonymous import SITE
from tests.app.api.test_anonymous import WEB as ANONYMOUS
from tests.app.conftest import caller
from tests.app.frames import frames
from tests.cases import for_each

KEY, ANOTHER = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
ADA = Actor("ada", "visitor")


def pem(key: Any = KEY) -> str:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def signed(key: Any = KEY, *, kid: str = "site", **claims: Any) -> str:
    now = int(time.time())
    body = {"sub": "ada", "aud": "parley", "agent": "assistant", "iat": now, "exp": now + 600, **claims}
    return jwt.encode(body, key, "ES256", headers={"kid": kid})


async def registered(client: httpx.AsyncClient) -> str:
    made = await client.post("/v1/web/keys", json={"name": "Our site", "key": pem(), "kid": "site"})
    assert made.status_code == 201, made.text
    return made.json()["id"]


async def test_a_site_signs_tokens_itself(app: FastAPI, client: httpx.AsyncClient, taken):
    """Its token is a visitor's like any other: a session, an answer, and a context that tools are given."""
    await registered(client)
    token = signed(name="Ada", tool_context={"account": "A-1"}, jti="t1")
    async with caller(app, token) as ada:
        session = (await ada.post("/v1/sessions", json={})).json()
        assert session["actor"] == {"id": "ada", "kind": "visitor", "name": "Ada"}
        sent = await ada.post(f"/v1/sessions/{session['id']}/messages", json={"text": "Hi"})
        seen = frames((await ada.get(f"/v1/runs/{sent.json()['run_id']}/events")).text)
        assert seen[-1].event == "run.completed"
        assert (await ada.get("/v1/web/agent")).json()["agent"]["name"] == "assistant"
        assert (await ada.get("/v1/agents")).status_code == 403
    assert (taken[0].tool_context, taken[0].via) == ({"account": "A-1"}, None)
    agent = session["agent"]
    async with caller(app, signed(agent=agent)) as same:
        assert (await same.get(f"/v1/sessions/{session['id']}")).status_code == 200, "the agent's id names it too"


async def test_a_token_for_one_agent_opens_no_other(app: FastAPI, client: httpx.AsyncClient):
    """The same person with a token for another agent, or for none that there is, reaches nothing of this one."""
    await registered(client)
    async with caller(app, signed()) as ada:
        session = (await ada.post("/v1/sessions", json={})).json()["id"]
    async with caller(app, signed(agent="filed")) as other:
        assert (await other.get(f"/v1/sessions/{session}")).status_code == 404
        assert (await other.get("/v1/sessions")).json()["items"] == []
        assert (await other.post("/v1/sessions", json={"agent": "assistant"})).status_code == 403
    async with caller(app, signed(agent="unknown")) as lost:
        missing = await lost.post("/v1/sessions", json={})
        assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
        assert "`unknown`" in missing.json()["detail"]


async def test_a_key_for_some_agents_opens_no_other(app: FastAPI, client: httpx.AsyncClient):
    """What it signs for another agent, or for one that is not there, is refused alike; the agents exist."""
    body = {"name": "Our site", "key": pem(), "kid": "site"}
    for wrong, path in ((["assistant", "none"], "agents[1]"), ([], "agents")):
        refused = await client.post("/v1/web/keys", json={**body, "agents": wrong})
        assert (refused.status_code, refused.json()["errors"][0]["path"]) == (422, path)
    made = (await client.post("/v1/web/keys", json={**body, "agents": ["assistant"]})).json()
    agent = (await client.get("/v1/agents/assistant")).json()["id"]
    assert made["agents"] == [agent]
    for named, status in (("assistant", 200), (agent, 200), ("filed", 403), ("unknown", 403)):
        async with caller(app, signed(agent=named)) as ada:
            answer = await ada.get("/v1/sessions")
            assert answer.status_code == status, named
            assert status == 200 or "registered for other agents" in answer.json()["detail"]


async def test_keys_are_listed_and_removed(app: FastAPI, client: httpx.AsyncClient):
    """A key shows its public half alone; once removed its tokens are refused, and its name is free."""
    id = await registered(client)
    (found,) = (await client.get("/v1/web/keys")).json()["items"]
    assert {name: found[name] for name in ("id", "name", "kid", "algorithm")} == {
        "id": id,
        "name": "Our site",
        "kid": "site",
        "algorithm": "ES256",
    }
    assert set(found["jwk"]) == {"crv", "kty", "x", "y"}
    again = await client.post("/v1/web/keys", json={"name": "Again", "key": pem(ANOTHER), "kid": "site"})
    assert (again.status_code, again.json()["code"]) == (409, "conflict")
    async with caller(app, signed()) as ada:
        assert (await ada.get("/v1/sessions")).status_code == 200
        assert (await client.delete(f"/v1/web/keys/{id}")).status_code == 204
        assert (await ada.get("/v1/sessions")).status_code == 401
    assert (await client.delete(f"/v1/web/keys/{id}")).status_code == 404
    jwk = {**json.loads(ECAlgorithm.to_jwk(ANOTHER.public_key())), "kid": "site"}
    assert (await client.post("/v1/web/keys", json={"name": "New", "key": jwk})).json()["kid"] == "site"
    async with caller(app, signed(ANOTHER)) as ada:
        assert (await ada.get("/v1/sessions")).status_code == 200


@for_each(
    "body, path",
    [
        ({"key": "hello"}, "key"),
        ({"key": {"kty": "oct", "k": "AAAA"}}, "key"),
        ({"key": {**json.loads(ECAlgorithm.to_jwk(KEY.public_key())), "kid": "a\nb"}}, "key.kid"),
        ({"key": 5}, "key"),
        ({"kid": "a\u200bb"}, "kid"),
        ({"name": ""}, "name"),
        ({"secret": "x"}, "secret"),
    ],
)
async def test_what_is_no_key_is_refused(client: httpx.AsyncClient, body: dict[str, Any], path: str):
    """The field at fault is named."""
    answer = await client.post("/v1/web/keys", json={"name": "Our site", "key": pem(), **body})
    assert (answer.status_code, [each["path"] for each in answer.json()["errors"]]) == (422, [path])


async def test_a_signer_reads_what_is_wrong(app: FastAPI, client: httpx.AsyncClient):
    """A genuine token with a wrong claim is refused with a sentence about it, and is no failed login."""
    await registered(client)
    async with caller(app, signed(aud="elsewhere")) as ada:
        for _ in range(40):
            refused = await ada.get("/v1/sessions")
        assert (refused.status_code, refused.json()["code"]) == (401, "unauthorized")
        assert "`aud`" in refused.json()["detail"]


@dataclass
class Others:
    """What someone has who wants to be Ada: her session, and everything that a token can be made of."""

    session: str
    assistant: str
    filed: str
    tokens: TokenSigner

    def hers(self, **more: Any) -> str:
        return self.tokens.visitor(ADA, agent=self.assistant, **more).text


NO_ALGORITHM = base64.urlsafe_b64encode(b'{"alg":"none","kid":"site"}').rstrip(b"=").decode()
UNSIGNED = f"{NO_ALGORITHM}.{signed().split('.')[1]}."
FORGERIES: dict[str, tuple[Callable[[Others], str], int]] = {
    "forged": (lambda at: TokenSigner(lambda _: b"x" * 32).visitor(ADA, agent=at.assistant).text, 401),
    "expired": (lambda at: at.hers(seconds=-1), 401),
    "of another visitor": (lambda at: at.tokens.visitor(Actor("eve", "visitor"), agent=at.assistant).text, 404),
    "for another agent": (lambda at: at.tokens.visitor(ADA, agent=at.filed).text, 404),
    "a cookie": (lambda at: at.tokens.cookie("ada").text, 401),
    "an anonymous secret": (lambda at: at.tokens.anonymous(at.assistant, SITE)[1].text, 401),
    "an anonymous visitor's": (lambda at: at.tokens.anonymous(at.assistant, SITE)[0].text, 404),
    "signed by an unknown key": (lambda _: signed(ANOTHER), 401),
    "signed under an unknown name": (lambda _: signed(kid="other"), 401),
    "signed and expired": (lambda _: signed(exp=int(time.time()) - 1), 401),
    "signed for too long": (lambda _: signed(exp=int(time.time()) + 2 * 86_400), 401),
    "signed for elsewhere": (lambda _: signed(aud="https://elsewhere.example"), 401),
    "signed for another agent": (lambda _: signed(agent="filed"), 404),
    "signed for another visitor": (lambda _: signed(sub="eve"), 404),
    "signed for an operator": (lambda _: signed(sub="operator:key_1"), 401),
    "unsigned": (lambda _: UNSIGNED, 401),
    "signed with the public key": (
        lambda at: jwt.encode({"sub": "ada", "agent": at.assistant}, "x" * 32, "HS256", headers={"kid": "site"}),
        401,
    ),
}


@pytest.fixture
async def others(app: FastAPI, client: httpx.AsyncClient, core: Core, tokens: TokenSigner) -> Others:
    await client.patch("/v1/agents/assistant", json={"web": ANONYMOUS})
    await registered(client)
    ids = [(await core.agents.get(name)).id for name in ("assistant", "filed")]
    async with caller(app, tokens.visitor(ADA, agent=ids[0]).text) as ada:
        session = (await ada.post("/v1/sessions", json={})).json()["id"]
        sent = await ada.post(f"/v1/sessions/{session}/messages", json={"text": "My secret wish"})
        await ada.get(f"/v1/runs/{sent.json()['run_id']}/events")
    return Others(session, ids[0], ids[1], tokens)


async def _tried(app: FastAPI, session: str, token: str, status: int) -> None:
    """Check that *token* gets *status* everywhere in a foreign session, and nothing of it."""
    async with caller(app, token) as eve:
        for method, path, body in (
            ("GET", f"/v1/sessions/{session}", None),
            ("GET", f"/v1/sessions/{session}/messages", None),
            ("GET", f"/v1/sessions/{session}/events", None),
            ("POST", f"/v1/sessions/{session}/messages", {"text": "Hi"}),
        ):
            answer = await eve.request(method, path, json=body)
            assert answer.status_code == status, (path, answer.text)
            assert answer.headers["content-type"] == "application/problem+json"
            assert "wish" not in answer.text
            assert "ada" not in answer.text
        listed = await eve.get("/v1/sessions")
        assert session not in listed.text


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("make", "status"), FORGERIES.values(), ids=FORGERIES)
async def test_no_other_token_opens_a_visitors_session(
    app: FastAPI, others: Others, make: Callable[[Others], str], status: int
):
    """Forged, expired, another's, for elsewhere: refused, as unknown or unauthorized, and nothing is leaked."""
    await _tried(app, others.session, make(others), status)


@pytest.mark.parametrize("what", ["token", "actor", "key"])
async def test_a_token_that_is_replayed_after_a_revocation_is_refused(
    app: FastAPI, client: httpx.AsyncClient, others: Others, what: str
):
    """The token by its `jti`, the person, or the key that signed it: afterwards the same token opens nothing."""
    token = signed(jti="t1", iat=int(time.time()) - 5)
    async with caller(app, token) as ada:
        assert (await ada.get(f"/v1/sessions/{others.session}")).status_code == 200
    match what:
        case "token":
            done = await client.post("/v1/web/revocations", json={"token": "t1"})
        case "actor":
            done = await client.post("/v1/web/revocations", json={"actor": "ada"})
        case _:
            (key,) = (await client.get("/v1/web/keys")).json()["items"]
            done = await client.delete(f"/v1/web/keys/{key['id']}")
    assert done.is_success
    await _tried(app, others.session, token, 401)


async def test_a_token_from_a_clock_that_is_ahead_is_revoked_too(app: FastAPI, client: httpx.AsyncClient):
    """Signed a moment before and dated after the revocation, it opens nothing; another person's stays good."""
    await registered(client)
    now = int(time.time())
    before = [signed(iat=now + ahead) for ahead in (0, 50)]
    for token in before:
        async with caller(app, token) as ada:
            assert (await ada.get("/v1/sessions")).status_code == 200
    assert (await client.post("/v1/web/revocations", json={"actor": "ada"})).is_success
    for token in before:
        async with caller(app, token) as ada:
            assert (await ada.get("/v1/sessions")).status_code == 401
    async with caller(app, signed(sub="bob", iat=now + 50)) as bob:
        assert (await bob.get("/v1/sessions")).status_code == 200


async def test_keys_survive_a_restart_and_reach_other_processes(
    core: Core, client: httpx.AsyncClient, tokens: TokenSigner
):
    """Another process reads the keys at its start, and takes its tokens by the public address too."""
    await registered(client)
    other = Credentials(core.access, tokens, None, readers=Readers(), public_url="https://chat.example/")
    assert other.identify(signed()) is None
    await other.load()
    for audience in ("parley", "https://chat.example", ["https://chat.example/"]):
        found = other.identify(signed(aud=audience))
        assert found is not None
        assert (found.actor, found.agent) == (Actor("ada", "visitor"), "assistant")
