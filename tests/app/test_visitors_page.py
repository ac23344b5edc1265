"""docs/visitors.md: its examples work."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import httpx
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from fastapi import FastAPI

from tests.app.conftest import caller

PAGE = (Path(__file__).parents[2] / "docs" / "visitors.md").read_text("utf-8")
(AGENT,) = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
(SIGNING,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
ASKING, _ = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)


async def test_a_server_asks_for_a_token(app: FastAPI, client: httpx.AsyncClient):
    """The request of the page gives a token that opens a session of that person."""
    assert (await client.post("/v1/agents", json=AGENT)).status_code == 201
    body = json.loads(shlex.split(ASKING)[-1])
    made = await client.post("/v1/web/visitor-tokens", json=body)
    assert (made.status_code, set(made.json())) == (201, {"token", "expires_at", "id"})
    await _opens(app, made.json()["token"])


async def test_a_server_signs_a_token(app: FastAPI, client: httpx.AsyncClient, tmp_path: Path, monkeypatch):
    """The program of the page signs a token that opens a session, once its key is registered."""
    await client.post("/v1/agents", json=AGENT)
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "site-private.pem").write_bytes(private)
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    monkeypatch.chdir(tmp_path)
    found: dict[str, Any] = {}
    exec(SIGNING, found)  # noqa: S102 - the page's own program
    body = {"name": "Our site", "key": public, "kid": "site-2027"}
    assert (await client.post("/v1/web/keys", json=body)).status_code == 201
    await _opens(app, found["token"])


async def test_a_page_asks_for_a_token(app: FastAPI, anyone: httpx.AsyncClient, client: httpx.AsyncClient):
    """A page of each origin of the example gets a token and a secret; a bad secret gets the code of the page."""
    await client.post("/v1/agents", json=AGENT)
    for origin in AGENT["web"]["anonymous"]["origins"]:
        made = await anyone.post("/v1/web/anonymous", json={"agent": "helpdesk"}, headers={"Origin": origin})
        assert set(made.json()) == {"token", "expires_at", "id", "secret"}
        bad = {"agent": "helpdesk", "secret": "x"}
        refused = await anyone.post("/v1/web/anonymous", json=bad, headers={"Origin": origin})
        assert (refused.status_code, refused.json()["code"]) == (401, "secret_refused")
        assert "401 `secret_refused`" in PAGE


async def _opens(app: FastAPI, token: str) -> None:
    async with caller(app, token) as visitor:
        session = (await visitor.post("/v1/sessions", json={})).json()
    assert session["actor"] == {"id": "c-7", "kind": "visitor", "name": "Ada"}
