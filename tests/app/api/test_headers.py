"""The headers that every answer has."""

from dataclasses import dataclass

import httpx
import pytest
from fastapi import FastAPI

from agent_core.core import Core
from app.compose import create_app
from app.settings import Settings
from app.storage import ApiKey
from channels.web.identity import TokenSigner


@pytest.mark.parametrize(
    ("path", "stored"),
    [
        ("/v1/agents", "no-store"),
        ("/v1/nothing", "no-store"),
        ("/metrics", "no-store"),
        ("/widget-demo", "no-store"),
        ("/widget/parley-chat.js", "no-cache"),
        ("/healthz", None),
    ],
)
async def test_data_is_stored_nowhere(client: httpx.AsyncClient, anyone: httpx.AsyncClient, path: str, stored: str):
    """Answers with data, errors among them, are not to be kept; static files keep their caching; none is sniffed."""
    caller = anyone if path.startswith("/widget") else client
    answer = await caller.get(path)
    assert answer.headers.get("Cache-Control") == stored
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "Strict-Transport-Security" not in answer.headers


async def test_a_refused_caller_gets_them_too(anyone: httpx.AsyncClient):
    """The answer to a caller without a key is not to be kept either."""
    answer = await anyone.get("/v1/agents")
    assert (answer.status_code, answer.headers["Cache-Control"]) == (401, "no-store")


@dataclass
class BrokenCore:
    """A core whose agents cannot be listed."""

    def __getattr__(self, name: str) -> object:
        raise RuntimeError(name)


async def test_a_crash_has_them_too(client: httpx.AsyncClient, core: Core, monkeypatch: pytest.MonkeyPatch):
    """An answer 500 is not to be kept and not to be sniffed."""
    monkeypatch.setattr(core, "agents", BrokenCore())
    answer = await client.get("/v1/agents")
    assert (answer.status_code, answer.headers["Cache-Control"]) == (500, "no-store")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    ("base", "public"), [("https://parley.test", None), ("http://parley.test", "https://a.example")]
)
async def test_https_stays_https(core: Core, tokens: TokenSigner, settings: Settings, base: str, public: str | None):
    """Where callers come by https, or PARLEY_PUBLIC_URL says so, browsers are asked to stay with it."""
    named = settings.model_copy(update={"public_url": public})
    app: FastAPI = create_app(core, named, tokens=tokens, api_key=ApiKey(bytes(32)))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=base) as anyone:
        answer = await anyone.get("/healthz")
    assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"
