"""A visitor's token says who asks: its `tool_context` reaches the tools, and nothing and no one else."""

import base64
import json
from typing import Any

import httpx
from structlog.testing import capture_logs

from agent_core.messages import Actor
from agent_core.testing import by_step, call, say
from tests.app.api.shop import WHERE, Open, Shop, asked, events, open_one
from tests.cases import for_each

SECRET = "s3cret-of-c-7"
MINE: dict[str, Any] = {"customer": SECRET, "roles": ["buyer"]}
TOKENS = "/v1/web/visitor-tokens"


async def minted(here: Shop, context: Any = MINE, name: str = "ada") -> str:
    """Return a token that the operator asks for."""
    body = {"actor": {"id": name, "name": "Ada"}, "agent": here.agent, "tool_context": context}
    answer = await here.operator.post(TOKENS, json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()["token"]


def claims_of(token: str) -> dict[str, Any]:
    """Return what a page can read of its token."""
    return json.loads(base64.urlsafe_b64decode(f"{token.split('.')[1]}=="))


async def test_it_reaches_the_tools_over_an_approval_and_is_shown_nowhere(shop: Open):
    """The tool finds the actor, the channel and the context; the page, the API, events and logs have none of it."""
    here = await shop()
    with capture_logs() as logs:
        token = await minted(here)
        visitor = await here.caller(token)
        path, run = await asked(visitor)
        held = await open_one(here.operator)
        await here.operator.post(f"/v1/approvals/{held['id']}", json={"approved": True})
        shown = str([await events(client, path) for client in (visitor, here.operator)])
    (context,) = here.till.contexts
    assert context.tool_context == MINE
    assert (context.actor, context.channel) == (Actor("ada", "visitor", "Ada"), "web")
    places = (path, run, "/v1/runs", "/v1/sessions", f"{path}/messages", "/v1/approvals", "/v1/agents", "/v1/audit")
    answers = [(await here.operator.get(place)).text for place in places]
    readable = json.dumps(claims_of(token))
    assert SECRET not in "".join((shown, *answers, str(logs), readable, token))
    assert SECRET.encode() not in base64.urlsafe_b64decode(claims_of(token)["ctx"].split(".")[2])


async def test_equal_contexts_do_not_look_equal(shop: Open):
    """Two tokens for one customer share nothing that a page could compare."""
    here = await shop()
    first, second = claims_of(await minted(here)), claims_of(await minted(here))
    assert first["ctx"] != second["ctx"]


async def test_a_visitor_cannot_say_who_they_are(shop: Open):
    """Whatever a visitor's request says of a tool context is refused, and the run has the token's."""
    here = await shop(by_step((call("where"),), (call("pay", amount=1),), (say("Done."),)), declared=(WHERE,), hooks=())
    visitor = await here.caller(await minted(here))
    forged = {"customer": "c-9"}
    session = f"/v1/sessions/{(await visitor.post('/v1/sessions', json={'metadata': forged})).json()['id']}"
    for body, status in (({"controls": {"tool_context": forged}}, 403), ({"tool_context": forged}, 422)):
        assert (await visitor.post(f"{session}/messages", json={"text": "Pay", **body})).status_code == status
        assert (await visitor.post("/v1/sessions", json=body)).status_code == 422
    run = (await visitor.post(f"{session}/messages", json={"text": "Pay"})).json()["run_id"]
    await visitor.get(f"/v1/runs/{run}/events")
    waits = (await here.operator.get(f"/v1/runs/{run}")).json()
    outputs = {"outputs": [{"call": waits["pending"][0]["call"], "output": forged}]}
    refused = await visitor.post(f"/v1/runs/{run}/tool-outputs", json={**outputs, "tool_context": forged})
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert (await visitor.post(f"/v1/runs/{run}/tool-outputs", json=outputs)).status_code == 200
    await visitor.get(f"/v1/runs/{run}/events")
    assert [each.tool_context for each in here.till.contexts] == [MINE]


async def test_a_forged_or_foreign_context_opens_nothing(shop: Open):
    """A token with a changed, a foreign or no context, under its old signature, is 401 as any forgery is."""
    here = await shop()
    token, foreign = await minted(here), await minted(here, {"customer": "c-9"}, "bob")
    head, _, signature = token.split(".")
    said = claims_of(token)
    for changed in (
        {**said, "ctx": claims_of(foreign)["ctx"]},
        {**said, "ctx": {"customer": "c-9"}},
        {name: value for name, value in said.items() if name != "ctx"},
    ):
        claims = base64.urlsafe_b64encode(json.dumps(changed).encode()).rstrip(b"=").decode()
        visitor = await here.caller(f"{head}.{claims}.{signature}")
        assert (await visitor.post("/v1/sessions", json={})).status_code == 401


async def test_each_message_brings_what_its_own_token_says(shop: Open):
    """A fresh token speaks for the messages sent with it; a token without a context, as all once were, brings none."""
    here = await shop(by_step((call("pay", amount=1),), (say("Done."),)), hooks=())
    path = None
    for token in (await minted(here, {"customer": 1}), await minted(here, {"customer": 2}), await minted(here, None)):
        visitor = await here.caller(token)
        path = path or f"/v1/sessions/{(await visitor.post('/v1/sessions', json={})).json()['id']}"
        run = (await visitor.post(f"{path}/messages", json={"text": "Pay"})).json()["run_id"]
        await visitor.get(f"/v1/runs/{run}/events")
    assert [each.tool_context for each in here.till.contexts] == [{"customer": 1}, {"customer": 2}, {}]


@for_each(
    "context, message",
    [
        ('"c-7"', "valid dictionary"),
        ('["c-7"]', "valid dictionary"),
        (json.dumps({"x": "x" * 4_000}), "at most 4,000 bytes of JSON"),
        ('{"x": "\\ud800"}', ""),
        ('{"\\ud800": 1}', ""),
        ('{"x": 1e999}', ""),
        ('{"x": NaN}', ""),
        ("{1: 2}", ""),
        ("{" * 200, ""),
    ],
)
async def test_a_context_that_is_none_is_refused(client: httpx.AsyncClient, context: str, message: str):
    """Whatever is no object of JSON, or too much of one, is an error of the request, and no token is made."""
    body = f'{{"agent": "assistant", "actor": "ada", "tool_context": {context}}}'
    answer = await client.post(TOKENS, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422), answer.text
    assert message in answer.text
    assert "expires_at" not in answer.text


async def test_the_largest_context_fits_into_a_header(shop: Open):
    """A token of the most that it may say works as any other, in a header that proxies accept."""
    here = await shop(by_step((call("pay", amount=1),), (say("Done."),)), hooks=())
    context = {"x": "x" * (4_000 - len('{"x":""}'))}
    token = await minted(here, context)
    assert len(f"Authorization: Bearer {token}") < 8_000
    await asked(await here.caller(token))
    assert here.till.contexts[0].tool_context == context
