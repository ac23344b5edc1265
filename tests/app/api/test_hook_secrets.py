"""Secrets of webhooks over HTTP: given once, never shown again."""

from typing import Any

import httpx

from tests.conftest import SECRETS

SECRET = "whsec-0123456789abcdef"


def body(secret: str, url: str = "https://rules.example/") -> dict[str, Any]:
    hook = {"event": "PreToolUse", "type": "http", "config": {"url": url, "secret": secret}}
    return {"name": "scout", "instructions": "Look around.", "hooks": [hook]}


async def test_a_secret_is_not_shown_again(client: httpx.AsyncClient):
    """Every answer has a mask in its place, which may be sent back as it came."""
    made = await client.post("/v1/agents", json=body(SECRET))
    assert (made.status_code, made.json()["hooks"][0]["config"]["secret"]) == (201, "********")
    changed = await client.patch("/v1/agents/scout", json={"hooks": made.json()["hooks"]})
    assert (changed.status_code, changed.json()["version"]) == (200, 1)
    answers = [made, changed, await client.get("/v1/agents"), await client.get("/v1/agents/scout")]
    assert SECRET not in "".join(answer.text for answer in answers)
    assert SECRETS.seal(SECRET, "hook") not in "".join(answer.text for answer in answers)


async def test_a_mask_is_no_secret(client: httpx.AsyncClient):
    """A mask where nothing is kept, or for another URL, answers 422 with the field."""
    assert (await client.post("/v1/agents", json=body(SECRET))).status_code == 201
    for answer in (
        await client.post("/v1/agents", json={**body("********"), "name": "late"}),
        await client.patch("/v1/agents/scout", json={"hooks": body("********", "https://evil.example/")["hooks"]}),
    ):
        assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, "hooks[0].config.secret")


async def test_what_is_wrong_with_a_hook_shows_no_secret(client: httpx.AsyncClient):
    """An answer that refuses a webhook names its field, and holds nothing of its secret."""
    for wrong in (body("too-short"), body(SECRET, "ftp://x/"), body("${PARLEY_SECRET_KEY}")):
        answer = await client.post("/v1/agents", json=wrong)
        assert (answer.status_code, answer.json()["errors"][0]["path"][:16]) == (422, "hooks[0].config.")
        assert wrong["hooks"][0]["config"]["secret"] not in answer.text
