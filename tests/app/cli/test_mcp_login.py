"""`parley mcp login` and `logout`, whole: the command, a server, an authorization server, and what is left of each."""

import asyncio
import os
import signal
import sys
import webbrowser
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from agent_core.core import Core
from app import __main__ as command
from app.cli.mcp import _facts, _listening, _login
from app.serving.readers import Readers
from tests import forked
from tests.agent_core.tools.mcp.login_site import LoginStage, login_stage
from tests.app.conftest import KEY
from tests.app.processes import ROOT
from tests.app.served import served
from tests.conftest import MakeCore
from tests.polling import PATIENCE, until


class LoginShell:
    """The command against a served core; *opened* are the pages that it opened in the browser, which consents."""

    def __init__(self, patch: pytest.MonkeyPatch, url: str) -> None:
        self._patch, self.opened = patch, list[str]()
        self.env = {"PARLEY_URL": url, "PARLEY_API_KEY": KEY}
        for name, value in self.env.items():
            patch.setenv(name, value)
        patch.setattr(webbrowser, "open", self._browse)

    async def run(self, *words: str) -> object:
        """Return the exit code of `parley mcp` with *words*."""
        self._patch.setattr(sys, "argv", ["parley", "mcp", *words])
        return await asyncio.to_thread(self._code)

    def _code(self) -> object:
        with pytest.raises(SystemExit) as ended:
            command.main()
        return ended.value.code

    def _browse(self, page: str) -> bool:
        self.opened.append(page)
        with httpx.Client(trust_env=False, follow_redirects=True) as browser:
            assert "back to the terminal" in browser.get(page).text
        return True


@pytest.fixture
async def stage(make_core: MakeCore) -> AsyncIterator[LoginStage]:
    async with login_stage(make_core) as stage:
        yield stage


@pytest.fixture
def core(stage: LoginStage) -> Core:
    return stage.core


@pytest.fixture
async def shell(app: FastAPI, readers: Readers, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LoginShell]:
    async with served(app, readers) as url:
        yield LoginShell(monkeypatch, url)


async def test_a_login_by_the_browser_serves_calls_until_a_logout(
    shell: LoginShell, stage: LoginStage, capsys: pytest.CaptureFixture[str]
):
    """The command registers a client, opens the page, takes its answer and ends with 0; then calls have the token."""
    assert await shell.run("login", "fake", "--scope", "tools more") == 0
    [asked], [wanted] = stage.site.seen["authorize"], stage.site.seen["register"]
    assert (asked["scope"], wanted["redirect_uris"]) == ("tools more", [asked["redirect_uri"]])
    said = capsys.readouterr().out
    assert f"Log in at {stage.site.issuer}" in said
    assert "fake  logged in  7 tools" in said
    assert "access-1" not in said
    assert await stage.said() == "hi"
    assert await shell.run("logout", "fake") == 0
    assert [each["token"] for each in stage.site.seen["revoke"]] == ["refresh-1"]
    assert "run `parley mcp login fake`" in await stage.said()


async def test_a_fixed_port_is_what_the_page_leads_back_to(
    shell: LoginShell, stage: LoginStage, capsys: pytest.CaptureFixture[str]
):
    """`--port` is that of the redirect address; a port that is taken ends the command with 2, and begins no login."""
    async with _listening(0) as other:
        taken = other.address.split(":")[2].removesuffix("/callback")
        assert await shell.run("login", "fake", "--port", taken) == 2
        assert "cannot be opened here" in " ".join(capsys.readouterr().err.replace("│", " ").split())
        assert not shell.opened
    assert await shell.run("login", "fake", "--port", taken) == 0
    assert stage.site.seen["authorize"][0]["redirect_uri"] == f"http://127.0.0.1:{taken}/callback"


@pytest.mark.parametrize(("typed", "code"), [("good", 0), ("http://[", 1), ("", 1)])
async def test_an_address_is_pasted_where_the_browser_is_elsewhere(
    shell: LoginShell, stage: LoginStage, monkeypatch: pytest.MonkeyPatch, typed: str, code: int
):
    """`--paste` takes the last address of the page; another text, or none, ends with 1 and stores nothing."""
    pages: list[str] = []
    monkeypatch.setattr("app.cli.mcp.say", pages.append)

    def pasted(_prompt: str) -> str:
        page = next(each for each in pages if "/authorize?" in each).split("\n")[2]
        return httpx.get(page, trust_env=False).headers["Location"] if typed == "good" else typed

    monkeypatch.setattr("builtins.input", pasted)
    assert await shell.run("login", "fake", "--paste") == code
    assert not shell.opened
    assert ((await stage.core.tools.servers.get("fake")).login is not None) == (code == 0)


async def test_ctrl_c_at_the_prompt_ends_the_command_at_once(shell: LoginShell, stage: LoginStage, tmp_path: Path):
    """With 130, though nothing is typed; there is no login, and no code was exchanged."""
    keyboard, hand = os.pipe()
    env = {**os.environ, **shell.env, "PYTHONPATH": str(ROOT)}
    with (tmp_path / "said").open("w") as out:
        fds = (keyboard, out.fileno(), out.fileno())
        words = ("mcp", "login", "fake", "--paste")
        process = await asyncio.to_thread(forked.Forked, "app", words, tmp_path, env, fds)
        await until(lambda: "paste it here" in (tmp_path / "said").read_text())
        process.send_signal(signal.SIGINT)
        assert await asyncio.to_thread(process.wait, PATIENCE) == 130
    os.close(keyboard)
    os.close(hand)
    assert (await stage.core.tools.servers.get("fake")).login is None
    assert not stage.site.seen["token"]


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
        async with asyncio.timeout(PATIENCE):
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
