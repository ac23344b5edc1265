"""Routes of agents."""

import httpx

NEW = {"name": "scout", "instructions": "Look around."}


async def test_an_agent_is_made_changed_and_deleted(client: httpx.AsyncClient):
    """Creating answers 201, changing makes a version and keeps the rest, deleting answers 204."""
    made = await client.post(
        "/v1/agents", json={**NEW, "tools": ["calculate"], "limits": {"max_context_messages": None}}
    )
    assert made.status_code == 201
    body = made.json()
    assert (body["version"], body["tools"], body["limits"]) == (1, ["calculate"], {"max_context_messages": None})
    changed = await client.patch("/v1/agents/scout", json={"controls": {"max_steps": 3}})
    assert changed.json() == {**body, "version": 2, "controls": {"max_steps": 3}}
    assert (await client.get(f"/v1/agents/{body['id']}")).json()["version"] == 2
    gone = await client.delete("/v1/agents/scout")
    assert (gone.status_code, gone.content) == (204, b"")
    assert (await client.get("/v1/agents/scout")).status_code == 404


async def test_agents_of_files_are_read_only(client: httpx.AsyncClient):
    """Changing or deleting an agent that a file defines answers 409 managed_by_file."""
    changed = await client.patch("/v1/agents/filed", json={"model": None})
    deleted = await client.delete("/v1/agents/filed")
    assert [changed.status_code, deleted.status_code] == [409, 409]
    assert changed.json()["code"] == "managed_by_file"


async def test_lists_come_in_pages(client: httpx.AsyncClient):
    """A list says where it goes on, and ends with null."""
    first = (await client.get("/v1/agents?limit=1")).json()
    second = (await client.get(f"/v1/agents?limit=1&cursor={first['next_cursor']}")).json()
    assert [a["name"] for a in first["items"] + second["items"]] == ["assistant", "filed"]
    assert second["next_cursor"] is None


async def test_unbuilt_fields_are_refused(client: httpx.AsyncClient):
    """A hook, which is not built yet, answers 422 with its path."""
    answer = await client.post("/v1/agents", json={**NEW, "hooks": []})
    assert answer.json()["errors"][0]["path"] == "hooks"


async def test_agents_that_cannot_run_are_refused(client: httpx.AsyncClient):
    """An unknown tool or provider, and a name that is taken, answer 422 with the field."""
    for more, path in (({"tools": ["dig"]}, "tools"), ({"model": "acme:m"}, "model"), ({"name": "filed"}, "name")):
        answer = await client.post("/v1/agents", json={**NEW, **more})
        assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, path)
