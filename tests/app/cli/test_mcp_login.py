"""`parley mcp login` on the operator's machine: what the page leads back to."""

import asyncio

import httpx

from app.cli.mcp_login import _listening
from app.cli.mcp_servers import _facts, _login


async def test_only_the_page_of_this_login_is_taken():
    """Another path, and another state, as any page may send, end nothing; the answer is the whole address."""
    async with _listening(0) as listener, httpx.AsyncClient(trust_env=False) as browser:
        listener.state = "ours"
        home = listener.address.removesuffix("/callback")
        for wrong in (f"{home}/favicon.ico?state=ours", f"{listener.address}?state=theirs&code=1", listener.address):
            assert (await browser.get(wrong)).status_code == 404
        assert not listener.returned.done()
        answer = await browser.get(f"{listener.address}?code=a%20b&state=ours&iss=https%3A%2F%2Fas.example")
        assert (answer.status_code, "back to the terminal" in answer.text) == (200, True)
        async with asyncio.timeout(5):
            returned = await listener.returned
        assert returned == f"{listener.address}?code=a%20b&state=ours&iss=https%3A%2F%2Fas.example"


def test_a_list_says_how_each_login_is():
    """In a word, with the command in `show`."""
    login = {
        "status": "ended",
        "issuer": "https://as.example",
        "why": "it was refused",
        "remedy": "run x",
        "scope": None,
    }
    assert [_login({"login": each}) for each in (None, login, {**login, "status": "none"})] == [
        "",
        "log in again",
        "not logged in",
    ]
    server = {"name": "a", "source": "api", "url": "u", "status": "ok", "error": None, "info": None, "trusted": False}
    facts = dict(_facts({**server, "tools": [], "left_out": [], "login": login}))
    assert facts["login"] == "it was refused; run x"
