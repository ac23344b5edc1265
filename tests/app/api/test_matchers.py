"""Matchers of hooks over HTTP: a name that is no tool of the agent is refused, whichever of the two is changed."""

import httpx
import pytest

WHERE = {"name": "where", "kind": "client", "description": "Where?", "parameters": {"type": "object"}}
NEW = {"name": "careful", "instructions": "Be brief.", "tools": ["calculate", WHERE]}


def asks(matcher: str) -> dict[str, object]:
    return {"hooks": [{"event": "PreToolUse", "type": "approval", "matcher": matcher}]}


async def test_a_mistyped_matcher_makes_no_agent(client: httpx.AsyncClient) -> None:
    """An approval that would never be asked is a 422 that names the field and the tools; the agent is not there."""
    refused = await client.post("/v1/agents", json={**NEW, **asks("calculat")})
    assert refused.status_code == 422
    (fault,) = refused.json()["errors"]
    assert fault["path"] == "hooks[0].matcher"
    assert "no tool `calculat` (did you mean `calculate`?); its tools are: `calculate`, `where`." in fault["message"]
    assert (await client.get("/v1/agents/careful")).status_code == 404


@pytest.mark.parametrize("change", [asks("calculat"), {"tools": [WHERE]}])
async def test_no_change_leaves_a_hook_without_its_tool(client: httpx.AsyncClient, change: dict[str, object]) -> None:
    """Neither other hooks nor other tools alone take the guard off: both are changed together, or nothing is."""
    made = (await client.post("/v1/agents", json={**NEW, **asks("calculate")})).json()
    refused = await client.patch("/v1/agents/careful", json=change)
    assert (refused.status_code, refused.json()["errors"][0]["path"]) == (422, "hooks[0].matcher")
    assert (await client.get("/v1/agents/careful")).json() == made
    both = {"tools": [WHERE], **asks("wher?")}
    assert (await client.patch("/v1/agents/careful", json=both)).status_code == 200


async def test_hooks_may_be_there_before_the_tools(client: httpx.AsyncClient) -> None:
    """An agent without tools takes any hook; tools that the hook does not name are refused when they come."""
    made = await client.post("/v1/agents", json={**NEW, "tools": [], **asks("calculate")})
    assert made.status_code == 201
    assert (await client.patch("/v1/agents/careful", json={"tools": [WHERE]})).status_code == 422
    assert (await client.patch("/v1/agents/careful", json={"tools": ["calculate"]})).status_code == 200
