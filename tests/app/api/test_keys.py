"""API keys over HTTP: made, used, rotated, revoked, and what a holder of one cannot do."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from agent_core.core import Core
from tests.app.api.shop import Open, asked, open_one
from tests.app.api.test_web_keys import pem, signed
from tests.app.conftest import caller
from tests.cases import for_each

ALL = ["read", "run", "approve", "approvals:as", "admin"]


async def made(operator: httpx.AsyncClient, *scopes: str, **more: Any) -> dict[str, Any]:
    """Make a key with *scopes*."""
    answer = await operator.post("/v1/keys", json={"name": "Deploys", "scopes": list(scopes), **more})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def test_a_key_opens_what_its_scopes_say(app: FastAPI, client: httpx.AsyncClient):
    """A key with `read` reads and runs nothing; what is shown of it later has no secret."""
    key = await made(client, "read")
    assert key["secret"].startswith(f"pk_{key['id']}_")
    assert (key["actor"], key["created_by"]["id"], key["used_at"]) == (f"operator:{key['id']}", "operator", None)
    async with caller(app, key["secret"]) as reader:
        assert (await reader.get("/v1/agents")).status_code == 200
        refused = await reader.post("/v1/sessions", json={"agent": "assistant"})
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        assert "`run`" in refused.json()["detail"]
    shown = (await client.get(f"/v1/keys/{key['id']}")).json()
    assert shown == {name: value for name, value in key.items() if name != "secret"}
    assert (await client.get("/v1/keys")).json()["items"] == [shown]


async def test_no_secret_is_stored(core: Core, client: httpx.AsyncClient):
    """The database holds the hash of a key's secret, and nothing that begins like one."""
    key = await made(client, "read")
    (stored,) = await core.access.usable_keys()
    assert key["secret"] not in repr(stored)
    assert len(stored.digest) == 32


@pytest.mark.parametrize("change", ["cut", "longer", "other", "unknown"])
async def test_another_secret_is_refused(app: FastAPI, client: httpx.AsyncClient, change: str):
    """A secret that differs in one letter, and that of an unknown key, are answered alike."""
    text = (await made(client, "read"))["secret"]
    wrong = {
        "cut": text[:-1],
        "longer": f"{text}A",
        "other": text[:-1] + ("A" if text[-1] != "A" else "B"),
        "unknown": text.replace("pk_key_", "pk_key_AA")[: len(text)],
    }
    async with caller(app, wrong[change]) as stranger:
        answer = await stranger.get("/v1/agents")
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")


async def test_a_rotated_key_has_two_secrets_for_a_while(app: FastAPI, client: httpx.AsyncClient):
    """The new secret works at once, the old one within the grace, and without a grace no more."""
    key = await made(client, "read")
    fresh = (await client.post(f"/v1/keys/{key['id']}/rotate", json={"grace": 60})).json()
    for secret in (key["secret"], fresh["secret"]):
        async with caller(app, secret) as reader:
            assert (await reader.get("/v1/agents")).status_code == 200
    last = (await client.post(f"/v1/keys/{key['id']}/rotate", json={"grace": 0})).json()
    for secret, status in ((key["secret"], 401), (fresh["secret"], 401), (last["secret"], 200)):
        async with caller(app, secret) as reader:
            assert (await reader.get("/v1/agents")).status_code == status


async def test_a_revoked_key_opens_nothing(app: FastAPI, client: httpx.AsyncClient):
    """A revoked key is refused at once, stays in the list, and cannot be changed or rotated any more."""
    key = await made(client, "read")
    assert (await client.delete(f"/v1/keys/{key['id']}")).status_code == 204
    async with caller(app, key["secret"]) as reader:
        assert (await reader.get("/v1/agents")).status_code == 401
    (shown,) = (await client.get("/v1/keys")).json()["items"]
    assert shown["revoked_at"] is not None
    place = f"/v1/keys/{key['id']}"
    for answer in (
        await client.delete(place),
        await client.patch(place, json={"name": "Other"}),
        await client.post(f"{place}/rotate", json={}),
    ):
        assert answer.status_code == 404


async def test_a_key_is_changed(app: FastAPI, client: httpx.AsyncClient):
    """A changed key has its new name, scopes and end from the next request on."""
    key = await made(client, "read", "run")
    soon = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    body = {"name": "Reports", "scopes": ["read"], "expires_at": soon}
    changed = (await client.patch(f"/v1/keys/{key['id']}", json=body)).json()
    assert (changed["name"], changed["scopes"], changed["expires_at"][:16]) == ("Reports", ["read"], soon[:16])
    async with caller(app, key["secret"]) as reader:
        assert (await reader.post("/v1/sessions", json={"agent": "assistant"})).status_code == 403
    again = (await client.patch(f"/v1/keys/{key['id']}", json={"expires_at": None})).json()
    assert (again["name"], again["expires_at"]) == ("Reports", None)


@for_each(
    "body",
    [
        {"name": "", "scopes": ["read"]},
        {"name": "a\u202eb", "scopes": ["read"]},
        {"name": "a", "scopes": []},
        {"name": "a", "scopes": ["everything"]},
        {"name": "a", "scopes": ["read"], "expires_at": "2020-01-01T00:00:00Z"},
        {"name": "a", "scopes": ["read"], "expires_at": "2090-01-01T00:00:00"},
        {"name": "a", "scopes": ["read"], "expires_at": "soon"},
    ],
)
async def test_a_key_that_makes_no_sense_is_refused(client: httpx.AsyncClient, body: dict[str, Any]):
    """A key has a name that can be seen, scopes that exist, and an end that lies ahead."""
    assert (await client.post("/v1/keys", json=body)).status_code == 422


async def test_a_key_gives_no_more_than_it_has(app: FastAPI, client: httpx.AsyncClient):
    """A key with `admin` makes no key with another scope than its own, and gets no secret of another holder."""
    one, other = await made(client, "admin"), await made(client, "admin")
    async with caller(app, one["secret"]) as admin:
        answer = await admin.post("/v1/keys", json={"name": "More", "scopes": ["admin", "approve"]})
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
        assert "`approve`" in answer.json()["detail"]
        assert (await admin.patch(f"/v1/keys/{one['id']}", json={"scopes": ALL})).status_code == 403
        assert (await admin.post(f"/v1/keys/{other['id']}/rotate", json={})).status_code == 403
        mine = await made(admin, "admin")
        assert mine["actor"] == one["actor"], "two keys of one holder act as one"
        assert (await admin.post(f"/v1/keys/{mine['id']}/rotate", json={})).status_code == 200


async def test_the_holder_of_one_key_is_one_person(shop: Open):
    """In a quorum of two a holder's second key adds no vote; another holder's does."""
    here = await shop(responders=["operators"], quorum=2)
    await asked(await here.visitor())
    path = f"/v1/approvals/{(await open_one(here.operator))['id']}"
    one = await made(here.operator, "approve", "admin")
    mine = await here.caller(one["secret"])
    second = await here.caller((await made(mine, "approve"))["secret"])
    for key in (mine, second, mine):
        assert (await key.post(path, json={"approved": True})).json()["status"] == "open"
    named = await mine.post(path, json={"approved": True, "actor": "bob"})
    assert (named.status_code, named.json()["code"]) == (403, "forbidden")
    other = await here.caller((await made(here.operator, "approve"))["secret"])
    decided = (await other.post(path, json={"approved": True})).json()
    assert decided["status"] == "approved"
    assert decided["decided_by"]["id"].startswith("operator:key_")


async def test_the_key_that_asked_is_the_asker(shop: Open):
    """Under `not_asker` a key decides nothing that it asked for, in its own name, another's, or by a token it made."""
    here = await shop(responders=["operators", "not_asker"])
    mine = await here.caller((await made(here.operator, "read", "run", "approve"))["secret"])
    other = await here.caller((await made(here.operator, "approve"))["secret"])
    token = (await mine.post("/v1/web/visitor-tokens", json={"actor": "ann", "agent": here.agent})).json()["token"]
    visitor = await here.caller(token)
    session, _ = await asked(visitor)
    runs = f"/v1/agents/{here.agent}/runs"
    await mine.post(runs, json={"input": "Pay", "actor": "bob"})
    await mine.post(runs, json={"input": "Pay"})
    found = (await here.operator.get("/v1/approvals", params={"status": "open"})).json()["items"]
    assert len(found) == 3
    for each in found:
        path = f"/v1/approvals/{each['id']}"
        answer = await mine.post(path, json={"approved": True})
        assert (answer.status_code, answer.json()["code"]) == (403, "not_an_approver")
        assert (await visitor.post(path, json={"approved": True})).status_code in {403, 404}
        assert (await other.post(path, json={"approved": True})).json()["status"] == "approved"
    seen = (await visitor.get(f"{session}/events?until=idle")).text
    assert "operator:" not in seen, "of operators a visitor sees that they are operators"


async def test_a_token_of_a_key_that_acts_for_others_decides(shop: Open):
    """A visitor whose token was made with `approvals:as` decides what the visitor asked."""
    here = await shop(responders=["asker"])
    site = await here.caller((await made(here.operator, "run", "approvals:as"))["secret"])
    token = (await site.post("/v1/web/visitor-tokens", json={"actor": "ann", "agent": here.agent})).json()["token"]
    visitor = await here.caller(token)
    await asked(visitor)
    path = f"/v1/approvals/{(await open_one(visitor))['id']}"
    assert (await visitor.post(path, json={"approved": True})).json()["status"] == "approved"


async def test_what_a_registered_key_signs_decides_as_its_registrar_may(shop: Open):
    """What a signing key signs decides only while the key that registered it is there and has `approvals:as`."""
    here = await shop(responders=["asker"])
    acting = await made(here.operator, "admin", "approvals:as")
    plain = await made(here.operator, "admin")
    for kid, key in (("acting", acting), ("plain", plain)):
        body = {"name": kid, "key": pem(), "kid": kid}
        assert (await (await here.caller(key["secret"])).post("/v1/web/keys", json=body)).status_code == 201

    async def decided(kid: str) -> int:
        visitor = await here.caller(signed(kid=kid, sub=f"ann of {kid}", agent=here.agent))
        session, _ = await asked(visitor)
        (approval,) = [
            each
            for each in (await here.operator.get("/v1/approvals", params={"status": "open"})).json()["items"]
            if session.endswith(each["session"])
        ]
        return (await visitor.post(f"/v1/approvals/{approval['id']}", json={"approved": True})).status_code

    assert (await decided("acting"), await decided("plain")) == (200, 403)
    assert (await here.operator.delete(f"/v1/keys/{acting['id']}")).status_code == 204
    assert await decided("acting") == 403


async def test_what_a_registered_key_signs_counts_as_its_owner(shop: Open):
    """Under `not_asker` who registered a key decides nothing that its invented visitors ask."""
    here = await shop(responders=["operators", "not_asker"])
    mine = await here.caller((await made(here.operator, "admin", "approve"))["secret"])
    body = {"name": "mine", "key": pem(), "kid": "mine"}
    assert (await mine.post("/v1/web/keys", json=body)).status_code == 201
    visitor = await here.caller(signed(kid="mine", sub="nobody", agent=here.agent))
    await asked(visitor)
    path = f"/v1/approvals/{(await open_one(here.operator))['id']}"
    assert (await mine.post(path, json={"approved": True})).status_code == 403
    assert (await here.operator.post(path, json={"approved": True})).json()["status"] == "approved"


async def test_operators_are_on_record(app: FastAPI, client: httpx.AsyncClient, core: Core):
    """Who changed what, and with which result, is in the record before the answer; what is refused too."""
    key = await made(client, "read", "admin")
    async with caller(app, key["secret"]) as admin:
        agent = (await admin.post("/v1/agents", json={"name": "b", "instructions": "Be."})).json()["id"]
        await admin.delete(f"/v1/agents/{agent}")
        await admin.post("/v1/approvals/apr_1", json={"approved": True})
        await admin.post("/v1/agents", json={"name": "x" * 2_000_000})
        text = (await admin.get("/v1/audit")).text
    lines = [httpx.Response(200, text=line).json() for line in text.splitlines()]
    mine = [line for line in lines if line["actor"]["id"] == key["actor"]]
    assert [(line["route"], line["object"], line["result"]) for line in mine] == [
        ("POST /v1/agents", agent, 201),
        ("DELETE /v1/agents/{id}", agent, 204),
        ("POST /v1/approvals/{id}", "apr_1", 403),
        ("POST /v1/agents", None, 413),
    ]
    assert (lines[0]["route"], lines[0]["object"], lines[0]["actor"]["id"]) == ("POST /v1/keys", key["id"], "operator")
    assert key["secret"] not in text
    after = (await client.get("/v1/audit", params={"after": lines[-2]["seq"]})).text.splitlines()
    assert len(after) == 1
