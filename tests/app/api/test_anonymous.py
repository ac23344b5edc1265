"""People whom no site names: where they are let in, that they stay the same, and what they are refused."""

import time
from dataclasses import dataclass, replace

import httpx
import pytest
from fastapi import FastAPI

from agent_core.core import Core
from app.compose import create_app
from app.serving import caps
from app.serving.caps import Newcomers
from app.settings import Settings
from app.storage import ApiKey, Keys
from channels.web.identity import SECRET_SECONDS, VISITOR_SECONDS, TokenSigner
from tests.app.conftest import KEY, caller
from tests.app.conftest import SECRET as SERVER_SECRET
from tests.app.frames import frames

SITE = "https://shop.example"
ELSEWHERE = "https://other.example"
WEB = {"anonymous": {"origins": [SITE, "http://localhost:3000"]}}


@dataclass
class BrowserPage:
    """A page in a browser: *anyone* sends without a credential, from *origin*."""

    app: FastAPI
    anyone: httpx.AsyncClient
    operator: httpx.AsyncClient

    async def ask(self, origin: str | None = SITE, agent: str = "shop", **more: str) -> httpx.Response:
        headers = {} if origin is None else {"Origin": origin}
        return await self.anyone.post("/v1/web/anonymous", json={"agent": agent, **more}, headers=headers)

    async def visitor(self, **more: str) -> tuple[httpx.AsyncClient, dict[str, str]]:
        answer = await self.ask(**more)
        assert answer.status_code == 201, answer.text
        return caller(self.app, answer.json()["token"]), answer.json()


@pytest.fixture
async def page(app: FastAPI, anyone: httpx.AsyncClient, client: httpx.AsyncClient) -> BrowserPage:
    """A page in front of `shop`, which talks to anybody there, and of `assistant`, which does not."""
    body = {"name": "shop", "instructions": "Sell.", "web": WEB}
    assert (await client.post("/v1/agents", json=body)).status_code == 201
    app.state.services = replace(app.state.services, newcomers=Newcomers())
    return BrowserPage(app, anyone, client)


async def test_the_same_browser_is_the_same_visitor(page: BrowserPage):
    """With its secret a browser finds its conversation again; without it, or elsewhere, one is another."""
    first, given = await page.visitor()
    session = (await first.post("/v1/sessions", json={})).json()
    assert session["actor"]["kind"] == "visitor"
    assert session["actor"]["id"].startswith("anonymous_")
    again, renewed = await page.visitor(secret=given["secret"])
    assert renewed["secret"] != given["secret"]
    assert [each["id"] for each in (await again.get("/v1/sessions")).json()["items"]] == [session["id"]]
    other, _ = await page.visitor()
    assert (await other.get("/v1/sessions")).json()["items"] == []
    assert (await other.get(f"/v1/sessions/{session['id']}")).status_code == 404


async def test_what_is_said_reaches_the_model_without_a_context(page: BrowserPage, taken):
    """An anonymous visitor talks as others do; tools learn nothing of them, and the agent answers."""
    visitor, _ = await page.visitor()
    session = (await visitor.post("/v1/sessions", json={})).json()["id"]
    sent = await visitor.post(f"/v1/sessions/{session}/messages", json={"text": "Hi"})
    seen = frames((await visitor.get(f"/v1/runs/{sent.json()['run_id']}/events")).text)
    assert seen[-1].event == "run.completed"
    assert (taken[0].tool_context, taken[0].via, taken[0].origin.address) == (None, None, "elsewhere")
    refused = await page.ask(tool_context="x")
    assert refused.status_code == 422


@pytest.mark.parametrize(
    ("origin", "agent"),
    [
        (None, "shop"),
        (ELSEWHERE, "shop"),
        ("null", "shop"),
        ("https://shop.example.evil.test", "shop"),
        ("http://shop.example", "shop"),
        ("https://shop.example:8443", "shop"),
        ("https://SHOP.example", "shop"),
        (SITE, "assistant"),
        (SITE, "unknown"),
    ],
)
async def test_a_refused_page_gets_one_sentence(page: BrowserPage, origin: str | None, agent: str):
    """A foreign or missing origin, an agent without anonymous mode and none at all are refused with what would help."""
    refused = await page.ask(origin, agent)
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    if origin is not None:
        assert refused.json()["detail"] == (
            f"Pages of this origin may not talk to an agent `{agent}` without a token; "
            f"`web: {{anonymous: {{origins: [{origin}]}}}}` in that agent lets them."
        )
    assert set(refused.json()) == {"type", "title", "status", "code", "detail"}


async def test_secrets_that_are_good_for_nothing_are_refused(page: BrowserPage, core: Core, tokens: TokenSigner):
    """Forged, of another agent, of another site, expired, and a visitor's token: none gives a token."""
    _, given = await page.visitor()
    shop = (await core.agents.get("shop")).id
    another = (await core.agents.get("assistant")).id
    forged = TokenSigner(lambda purpose: purpose.encode().ljust(32, b"x")).anonymous(shop, SITE)[1].text
    earlier = TokenSigner(Keys(SERVER_SECRET).derive, now=lambda: time.time() - SECRET_SECONDS - 1)
    late = earlier.anonymous(shop, SITE)[1].text
    for secret in (
        forged,
        late,
        given["token"],
        tokens.anonymous(another, SITE)[1].text,
        tokens.anonymous(shop, ELSEWHERE)[1].text,
        given["secret"][:-4] + "AAAA",
        "x",
    ):
        refused = await page.ask(secret=secret)
        assert (refused.status_code, refused.json()["code"]) == (401, "secret_refused"), secret
    assert (await page.anyone.get("/v1/sessions", headers=_bearer(given["secret"]))).status_code == 401


async def test_files_are_taken_of_them_only_where_the_agent_says_so(page: BrowserPage):
    """Visitors whom a site names send files; anonymous ones do where the agent has `files: {anonymous: true}`."""
    visitor, _ = await page.visitor()
    shop = (await page.operator.get("/v1/agents/shop")).json()["id"]
    tokened = await page.operator.post("/v1/web/visitor-tokens", json={"agent": shop, "actor": "ada"})
    named = caller(page.app, tokened.json()["token"])
    form = {"file": ("a.txt", b"a", "text/plain")}
    assert (await named.get("/v1/web/agent")).json()["files"]["max_count"] == 5
    assert (await visitor.get("/v1/web/agent")).json()["files"] is None
    assert (await named.post("/v1/files", files=form)).status_code == 201
    refused = await visitor.post("/v1/files", files=form)
    assert (refused.status_code, refused.json()["detail"]) == (
        403,
        "This agent takes no files of visitors whom no site names.",
    )
    await page.operator.patch("/v1/agents/shop", json={"web": {**WEB, "files": {"anonymous": True}}})
    assert (await visitor.get("/v1/web/agent")).json()["files"]["max_count"] == 5
    assert (await visitor.post("/v1/files", files=form)).status_code == 201


async def test_a_revoked_visitor_comes_back_with_no_secret(page: BrowserPage):
    """After a revocation neither the token nor any secret of the visitor is taken, one that was renewed included."""
    visitor, given = await page.visitor()
    _, renewed = await page.visitor(secret=given["secret"])
    who = (await visitor.post("/v1/sessions", json={})).json()["actor"]["id"]
    assert (await page.operator.post("/v1/web/revocations", json={"actor": who})).status_code == 201
    assert (await visitor.get("/v1/sessions")).status_code == 401
    for secret in (given["secret"], renewed["secret"]):
        assert (await page.ask(secret=secret)).json()["code"] == "secret_refused"


async def test_a_deleted_visitor_comes_back_as_another(page: BrowserPage):
    """Whose data was deleted is not continued: the secret is refused."""
    visitor, given = await page.visitor()
    who = (await visitor.post("/v1/sessions", json={})).json()["actor"]["id"]
    assert (await page.operator.delete(f"/v1/actors/{who}")).status_code == 200
    assert (await page.ask(secret=given["secret"])).json()["code"] == "secret_refused"


async def test_an_origin_that_is_taken_away_gives_no_more_tokens(page: BrowserPage):
    """The agent's newest version decides, for those who were here before too."""
    _, given = await page.visitor()
    await page.operator.patch("/v1/agents/shop", json={"web": {"anonymous": None}})
    assert (await page.ask(secret=given["secret"])).json()["code"] == "forbidden"


async def test_tokens_are_short_and_for_one_agent(page: BrowserPage, core: Core, tokens: TokenSigner):
    """A token lasts minutes, opens one agent, and is a visitor's like any other."""
    _, given = await page.visitor()
    read = tokens.read(given["token"])
    assert read is not None
    assert (read.agent, read.is_anonymous, read.tool_context) == ((await core.agents.get("shop")).id, True, None)
    assert read.expires is not None
    assert read.expires - read.issued <= 1000 * (VISITOR_SECONDS + 1)


async def test_limits_hold_without_being_configured(page: BrowserPage):
    """Twenty messages a minute of one visitor; beyond it 429 with a sentence, and what was said is all there."""
    visitor, _ = await page.visitor()
    path = f"/v1/sessions/{(await visitor.post('/v1/sessions', json={})).json()['id']}/messages"
    sent = [await visitor.post(path, json={"text": f"Message {n}"}) for n in range(21)]
    assert [each.status_code for each in sent] == [202] * 20 + [429]
    assert sent[-1].json()["detail"].startswith("You have sent 20 messages within a minute")
    assert int(sent[-1].headers["retry-after"]) > 0
    kept = (await visitor.get(f"{path}?limit=100")).json()["items"]
    assert [each["parts"][0]["text"] for each in kept if each["role"] == "user"] == [f"Message {n}" for n in range(20)]


async def test_new_secrets_do_not_give_new_quotas_of_an_address(page: BrowserPage):
    """All anonymous visitors from one address, or from an unknown one, count together."""
    quota = {"limits": {"address": {"sessions_per_day": 2}}}
    assert (await page.operator.patch("/v1/agents/shop", json=quota)).status_code == 200
    answers = []
    for _ in range(3):
        visitor, _ = await page.visitor()
        answers.append(await visitor.post("/v1/sessions", json={}))
    assert [each.status_code for each in answers] == [201, 201, 429]
    assert answers[-1].json()["detail"].startswith("Your network address has begun 2 conversations within a day")


async def test_tokens_are_limited_by_address(page: BrowserPage, monkeypatch: pytest.MonkeyPatch):
    """Too many new visitors within a minute are refused with a sentence; who was here before is let in."""
    monkeypatch.setattr(caps, "MAX_OF_ALL", 2)
    _, given = await page.visitor()
    await page.visitor()
    refused = await page.ask()
    assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
    assert "within a minute; try again in" in refused.json()["detail"]
    assert int(refused.headers["retry-after"]) > 0
    await page.visitor(secret=given["secret"])


async def test_browsers_may_call_from_the_agents_origins(
    core: Core, settings: Settings, tokens: TokenSigner, client: httpx.AsyncClient
):
    """Preflights and answers name exactly the origins of settings and agents; others read what would help."""
    await client.post("/v1/agents", json={"name": "shop", "instructions": "Sell.", "web": WEB})
    app = create_app(core, settings, tokens=tokens, api_key=ApiKey(b"x" * 32))
    asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type, authorization"}
    async with caller(app, KEY) as browser:
        for origin, allowed in (
            (SITE, True),
            ("http://localhost:3000", True),
            ("https://site.example", True),
            (ELSEWHERE, False),
            ("null", False),
        ):
            preflight = await browser.options("/v1/sessions", headers={"Origin": origin, **asks})
            assert preflight.status_code == (200 if allowed else 403), origin
            assert preflight.headers.get("access-control-allow-origin") == (origin if allowed else None)
            answer = await browser.get("/v1/sessions", headers={"Origin": origin})
            assert answer.headers.get("access-control-allow-origin") == (origin if allowed else None)
            assert "access-control-allow-credentials" not in answer.headers
    assert "PARLEY_ORIGINS" in preflight.json()["detail"]
    assert "anonymous" in preflight.json()["detail"]


def _bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}
