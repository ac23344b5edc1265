"""Routes of MCP servers."""

import httpx
import pytest

from agent_core.core import Core
from agent_core.runtime.tools import ToolPorts
from tests.agent_core.mcp_servers import ScriptedServers, listing, mcp_tool
from tests.cases import for_each
from tests.conftest import MakeCore

NEW = {
    "name": "github",
    "url": "https://mcp.example.com/mcp",
    "headers": {"Authorization": "Bearer opensesame", "X-Team": "{{secret:TEAM}}"},
    "deny": ["delete_*"],
}


@pytest.fixture
def servers() -> ScriptedServers:
    return ScriptedServers(github=listing("get_issue", "delete_repo", instructions="Be careful."))


@pytest.fixture
async def core(make_core: MakeCore, servers: ScriptedServers) -> Core:
    core = await make_core(tool_ports=ToolPorts(mcp=servers))
    await core.tools.secrets.put("TEAM", "blue-team")
    return core


async def test_a_server_is_defined_looked_at_accepted_and_deleted(client: httpx.AsyncClient, servers: ScriptedServers):
    """What it says is shown before an agent has it; a change waits for the digest that was looked at."""
    made = await client.post("/v1/mcp-servers", json=NEW)
    assert made.status_code == 201, made.text
    assert made.json()["headers"] == {"Authorization": "[hidden]", "X-Team": "{{secret:TEAM}}"}
    found = (await client.post("/v1/mcp-servers/github/refresh")).json()
    assert (found["status"], [tool["name"] for tool in found["tools"]]) == ("ok", ["mcp__github__get_issue"])
    assert found["info"]["instructions"] == "Be careful."
    assert servers.seen[-1].headers == {"Authorization": "Bearer opensesame", "X-Team": "blue-team"}
    servers.says["github"] = listing(mcp_tool("get_issue", "Read it. The team is blue-team."))
    held = (await client.post("/v1/mcp-servers/github/refresh")).json()
    assert (held["status"], held["changes"][0]["now"]["description"]) == (
        "changed",
        "Read it. The team is [secret TEAM].",
    )
    (listed,) = (await client.get("/v1/mcp-servers")).json()["items"]
    assert (listed["status"], [each["tool"] for each in listed["changes"]]) == ("changed", ["get_issue"])
    assert (await client.post("/v1/mcp-servers/github/accept", json={"digest": "0" * 32})).status_code == 422
    accepted = await client.post("/v1/mcp-servers/github/accept", json={"digest": held["digest"]})
    assert (accepted.json()["status"], accepted.json()["changes"]) == ("ok", [])
    changed = await client.patch("/v1/mcp-servers/github", json={"headers": made.json()["headers"], "trusted": True})
    assert (changed.json()["trusted"], changed.json()["headers"]) == (True, made.json()["headers"])
    assert "opensesame" not in changed.text + accepted.text + made.text
    assert (await client.delete("/v1/mcp-servers/github")).status_code == 204
    assert (await client.get("/v1/mcp-servers/github")).status_code == 404


@for_each(
    "fields, path",
    [
        ({"name": "a b"}, "name"),
        ({"url": "file:///etc/passwd"}, "url"),
        ({"url": "https://user:pass@example.com/mcp"}, "url"),
        ({"url": None}, "url"),
        ({"transport": "stdio", "url": None, "headers": {}, "command": "sh"}, "transport"),
        ({"headers": {"Mcp-Session-Id": "1"}}, "headers.Mcp-Session-Id"),
        ({"headers": {"X-A": "{{secret:MISSING}}"}}, "headers.X-A"),
        ({"url": "https://mcp.example.com/{{secret:MISSING}}"}, "url"),
        ({"headers": {"X-A": "two\nlines"}}, "headers.X-A"),
        ({"context": ["a b"]}, "context[0]"),
        ({"context": ["email", "actor-name"]}, "context[1]"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"args": ["x"]}, "args"),
    ],
)
async def test_a_server_that_cannot_work_is_refused(client: httpx.AsyncClient, fields: dict[str, object], path: str):
    """A definition that could never work is refused with its field, and none of its private texts."""
    answer = await client.post("/v1/mcp-servers", json={**NEW, **fields})
    assert answer.status_code == 422, answer.text
    assert path in [each["path"] for each in answer.json()["errors"]]
    assert "opensesame" not in answer.text


async def test_how_a_client_names_itself_is_one_of_two_words(client: httpx.AsyncClient):
    """Another `oauth.auth` is refused at its field."""
    oauth = {"client_id": "parley", "client_secret": "{{secret:TEAM}}", "auth": "digest"}
    refused = await client.post("/v1/mcp-servers", json={**NEW, "oauth": oauth})
    assert (refused.status_code, refused.json()["errors"][0]["path"]) == (422, "oauth.auth")
