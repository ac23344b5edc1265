"""OAuth client credentials: one token for many calls, fetched once, dropped when a server refuses it."""

import asyncio
import json
from base64 import b64decode
from typing import Any
from urllib.parse import parse_qs

import pytest

from agent_core.net.fetch import Fetch
from agent_core.net.tokens import ClientCredentials, ClientTokens, TokenFailed
from agent_core.testing import FakeClock
from tests.agent_core.net.stage import ok
from tests.agent_core.tools.http.calling import Calling

SECRET = "s+cr/t with: signs"


def token(text: str = "tok-1", **more: Any) -> bytes:
    return ok(json.dumps({"access_token": text, "token_type": "Bearer", "expires_in": 100, **more}).encode())


def oauth(api: Calling, **more: Any) -> dict[str, Any]:
    """Return the `oauth` of a definition whose endpoint is the site itself."""
    api.secrets["S"] = SECRET
    return {
        "token_url": api.site.url("/token", "127.0.0.1"),
        "client_id": "shop:1",
        "client_secret": "{{secret:S}}",
        **more,
    }


async def test_a_token_is_fetched_once_for_calls_that_come_together(api: Calling):
    """Twenty calls at once ask the endpoint once, and each carries the token."""
    api.site.answers["/token"] = token()
    given = oauth(api, scope="orders:read", audience="https://api")
    await asyncio.gather(*(api.done(oauth=given) for _ in range(20)))
    asked = [sent for sent in api.site.requests if sent.path == "/token"]
    assert {sent.headers["authorization"] for sent in api.site.requests if sent.path == "/orders"} == {"Bearer tok-1"}
    (only,) = asked
    assert b64decode(only.headers["authorization"].removeprefix("Basic ")) == b"shop%3A1:s%2Bcr%2Ft%20with%3A%20signs"
    fields = {"grant_type": ["client_credentials"], "scope": ["orders:read"], "audience": ["https://api"]}
    assert parse_qs(only.body.decode()) == fields


async def test_a_client_may_name_itself_in_the_form(api: Calling):
    """With `auth: post` the id and the secret are fields."""
    api.site.answers["/token"] = token()
    await api.done(oauth=oauth(api, auth="post"))
    fields = parse_qs(api.site.requests[0].body.decode())
    assert (fields["client_id"], fields["client_secret"]) == (["shop:1"], [SECRET])
    assert "authorization" not in api.site.requests[0].headers


@pytest.mark.parametrize(
    ("fields", "sent"), [({}, 2), ({"method": "POST"}, 1), ({"method": "POST", "idempotent": True}, 2)]
)
async def test_a_refused_token_is_replaced_once_where_that_is_safe(api: Calling, fields: Any, sent: int):
    """After a 401 reads and idempotent writes are sent once more with the same key; others are not."""
    api.site.answers |= {"/token": token(), "/orders": ok(b"", status="401 No")}
    assert "401" in await api.failed(oauth=oauth(api), **fields)
    orders = [each for each in api.site.requests if each.path == "/orders"]
    assert (len(orders), len({each.headers.get("idempotency-key") for each in orders})) == (sent, 1)
    assert len([each for each in api.site.requests if each.path == "/token"]) == sent


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (
            ok(b'{"error":"invalid_client","error_description":"wrong: s+cr/t with: signs"}', status="401 No"),
            "invalid_client",
        ),
        (ok(b"<html>", status="500 No"), "answered 500."),
        (ok(b"{}"), "without an `access_token`"),
        (ok(b'{"access_token":"a\\nb"}'), "without an `access_token`"),
        (ok(b'{"access_token":"a","token_type":"mac"}'), "another type"),
        (ok(b"[1"), "without an `access_token`"),
    ],
)
async def test_an_endpoint_without_a_token_is_named(api: Calling, answer: bytes, says: str):
    """The model reads which endpoint failed and what it said, and not the secret; the tool's server is not asked."""
    api.site.answers["/token"] = answer
    message = await api.failed(oauth=oauth(api))
    assert says in message
    assert f"127.0.0.1:{api.site.port}" in message
    assert SECRET not in message
    assert [each.path for each in api.site.requests] == ["/token"]


async def test_a_server_that_repeats_the_token_does_not_show_it(api: Calling):
    """What an answer repeats of the token and of the client's credentials is masked."""
    api.site.answers["/token"] = token("tok-secret-1")
    api.site.answers["/orders"] = ok(b"you sent Bearer tok-secret-1", "Content-Type: text/plain")
    assert await api.done(oauth=oauth(api)) == "you sent Bearer [secret access token]"


async def test_a_token_is_used_until_a_little_before_its_end(api: Calling):
    """A token of 100 seconds is asked for again after 90; a drop of an older one changes nothing."""
    clock, fetch = FakeClock(), Fetch((f"127.0.0.1:{api.site.port}",))
    tokens = ClientTokens(fetch, clock)
    who = ClientCredentials(api.site.url("/token", "127.0.0.1"), "c", "secret")
    api.site.answers["/token"] = token()
    assert await tokens.token(who) == "tok-1"
    api.site.answers["/token"] = token("tok-2")
    clock.advance(89)
    assert await tokens.token(who) == "tok-1"
    clock.advance(2)
    assert await tokens.token(who) == "tok-2"
    tokens.drop(who, "tok-1")
    assert (await tokens.token(who), len(api.site.requests)) == ("tok-2", 2)
    await fetch.close()


async def test_a_caller_who_leaves_ends_no_request_that_others_wait_for(api: Calling):
    """The first of two callers is cancelled, and the second gets the token of the same request."""
    fetch = Fetch((f"127.0.0.1:{api.site.port}",))
    tokens = ClientTokens(fetch, FakeClock())
    who = ClientCredentials(api.site.url("/token", "127.0.0.1"), "c", "secret")
    api.site.answers["/token"] = token()
    first, second = (asyncio.ensure_future(tokens.token(who)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second, len(api.site.requests)) == ("tok-1", 1)
    api.site.answers["/token"] = ok(b"", status="500 No")
    tokens.drop(who, "tok-1")
    with pytest.raises(TokenFailed):
        await tokens.token(who)
    await fetch.close()
