"""Calls of tools of MCP servers: secrets go out at the last moment and never come back."""

from dataclasses import replace
from typing import Any

from agent_core.clock import SystemClock
from agent_core.listings import spec_of
from agent_core.mcp.served import NoSecrets, ServedTool
from agent_core.messages import Actor, Text
from agent_core.servers import FilledServer, McpOAuth, McpServer
from agent_core.tools.base import CallContext, Done, ToolError, context_headers
from tests.agent_core.mcp_servers import ScriptedServers, listing, mcp_tool
from tests.cases import for_each

SERVER = McpServer(
    name="github",
    url="https://mcp.example.com/mcp",
    headers={"Authorization": "Bearer {{secret:TOKEN}}"},
    context=("actor", "email"),
)


class OneSecret:
    async def values(self, _names: object, /) -> dict[str, str]:
        return {"TOKEN": "opensesame"}


def tool_of(servers: ScriptedServers, secrets: Any) -> ServedTool:
    spec = spec_of(SERVER, mcp_tool("get"), "mcp__github__get")
    return ServedTool(spec, SERVER, "get", servers, secrets)


def context(shown: list[str]) -> CallContext:
    ann, mail = Actor("ann", "user"), {"email": "ann@example.com", "plan": "gold"}
    return CallContext("call_1", "ses_1", "run_1", ann, "web", SystemClock(), shown.append, mail)


async def test_a_call_takes_secrets_and_context_along_and_brings_none_back():
    """The server gets the secret and the caller's keys that it lists; result, error and progress have it masked."""
    servers, shown = ScriptedServers(github=listing("get")), list[str]()
    servers.answers["get"] = Done((Text("The token is opensesame."),))
    tool = tool_of(servers, OneSecret())
    assert await tool.call({"q": 1}, context(shown)) == Done((Text("The token is [secret TOKEN]."),))
    ((server, name, arguments, headers),) = servers.calls
    assert isinstance(server, FilledServer)
    assert server.secrets == {"TOKEN": "opensesame"}
    assert (server.headers, name, arguments) == ({"Authorization": "Bearer opensesame"}, "get", {"q": 1})
    assert headers == {"X-Parley-Context-Actor": "ann", "X-Parley-Context-Email": "ann@example.com"}
    assert shown == ["with ['Bearer [secret TOKEN]']"]
    servers.answers["get"] = ToolError("401 for opensesame")
    assert await tool.call({}, context(shown)) == ToolError("401 for [secret TOKEN]")


async def test_arguments_go_under_the_servers_own_names_once_they_fit_its_own_schema():
    """What the model is shown otherwise is the server's again, and checked by all that it says."""
    either = [{"required": ["$filter"]}, {"required": ["id"]}]
    said = {"type": "object", "properties": {"$filter": {"type": "string"}, "id": {}}, "anyOf": either}
    get, servers = mcp_tool("get", parameters=said), ScriptedServers(github=listing("get"))
    tool = ServedTool(spec_of(SERVER, get, "mcp__github__get"), SERVER, "get", servers, OneSecret(), get.parameters)
    assert tool.spec.parameters["properties"].keys() == {"filter", "id"}
    refused = await tool.call({}, context([]))
    assert isinstance(refused, ToolError)
    assert "`mcp__github__get`: $" in refused.message
    await tool.call({"filter": "a eq 1"}, context([]))
    assert [arguments for _, _, arguments, _ in servers.calls] == [{"$filter": "a eq 1"}]


WRITTEN = McpServer(
    name="github",
    url="https://mcp.example.com/mcp?api_key=url-pass-1&lang=en-english",
    headers={"Authorization": "Bearer literal/pass-2", "X-Team": "sales-team", "X-Plain": "ghp_0123456789abcdefghij"},
    env={"GITHUB_TOKEN": "env-pass-3", "NODE_ENV": "production", "PROJECT_ID": "550e8400-e29b-41d4-a716"},
    args=("--api-key=arg-pass-4", "--token", "arg-pass-5", "/srv/data/2026", "-H", "Authorization: Basic arg-pass-6"),
    oauth=McpOAuth(client_id="parley-client", client_secret="oauth-pass-7"),
)


@for_each(
    "said, read",
    [
        ("url-pass-1 en-english", "[secret url api_key] en-english"),
        ("Bearer literal\\/pass-2", "Bearer [secret header Authorization]"),
        ("ghp_0123456789abcdefghij sales-team", "[secret header X-Plain] sales-team"),
        ("env-pass-3 production", "[secret env GITHUB_TOKEN] production"),
        ("arg-pass-4 arg-pass-5 arg-pass-6", "[secret args[0]] [secret args[2]] [secret args[5]]"),
        ("/srv/data/2026/x.txt 550e8400-e29b-41d4-a716", "/srv/data/2026/x.txt 550e8400-e29b-41d4-a716"),
        ("oauth-pass-7 parley-client", "[secret oauth.client_secret] parley-client"),
    ],
)
async def test_credentials_written_into_a_server_come_back_masked(said: str, read: str):
    """Those that are no references to secrets are masked too; paths, regions and the like are words of results."""
    servers = ScriptedServers(github=listing("get"))
    servers.answers["get"] = Done((Text(said),))
    tool = ServedTool(spec_of(WRITTEN, mcp_tool("get"), "mcp__github__get"), WRITTEN, "get", servers, NoSecrets())
    assert await tool.call({}, context([])) == Done((Text(read),))


async def test_no_caller_sets_a_header_of_the_core():
    """A key whose header is that of one of the core's own, or of a key before it, is not sent."""
    forged = {"Actor": "forged", "actor-name": "forged", "email": "a@b.example", "E_MAIL": "c", "e-mail": "d"}
    known = replace(context([]), tool_context=forged)
    keys = ["Actor", "actor-name", "actor_kind", "email", "E_MAIL", "e-mail"]
    assert context_headers(keys, known) == {
        "X-Parley-Context-Actor-Kind": "user",
        "X-Parley-Context-Email": "a@b.example",
        "X-Parley-Context-E-Mail": "c",
    }


async def test_without_its_secret_a_server_is_not_called():
    """The model reads which secret is missing, and nothing goes out with a reference in its place."""
    servers = ScriptedServers(github=listing("get"))
    outcome = await tool_of(servers, NoSecrets()).call({}, context([]))
    assert isinstance(outcome, ToolError)
    assert "`TOKEN`, which is not stored" in outcome.message
    assert not servers.calls
