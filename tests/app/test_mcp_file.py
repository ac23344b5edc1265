"""mcp.json: the form that every client reads, with variables of the environment, and errors with line and key."""

import json
from pathlib import Path
from typing import Any

import pytest
import structlog

from agent_core.errors import ConfigError
from agent_core.servers import McpServer
from app.files import read_mcp_file
from app.settings import Settings

ENVIRONMENT = {"TOKEN": "opensesame", "EMPTY": ""}


def settings(path: Path) -> Settings:
    return Settings.model_validate({"PARLEY_MCP": str(path)})


def read(tmp_path: Path, servers: Any) -> list[McpServer]:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers}, indent=2), encoding="utf-8")
    return list(read_mcp_file(settings(path), ENVIRONMENT))


def test_the_usual_form_is_read(tmp_path: Path):
    """Servers over stdio and HTTP, as other clients have them, with Parley's own fields beside."""
    found = read(
        tmp_path,
        {
            "files": {"command": "npx", "args": ["-y", "server", "${ROOT:-/srv}"], "env": {"KEY": "${TOKEN}"}},
            "github": {
                "type": "streamable-http",
                "url": "https://mcp.example.com/mcp",
                "headers": {"Authorization": "Bearer ${TOKEN}", "X-Team": "{{secret:TEAM}}", "X-None": "${EMPTY:-no}"},
                "allow": ["get_*"],
                "on_change": "adopt",
                "disabled": True,
            },
        },
    )
    assert found == [
        McpServer(
            name="files",
            transport="stdio",
            command="npx",
            args=("-y", "server", "/srv"),
            env={"KEY": "opensesame"},
        ),
        McpServer(
            name="github",
            url="https://mcp.example.com/mcp",
            headers={"Authorization": "Bearer opensesame", "X-Team": "{{secret:TEAM}}", "X-None": "no"},
            allow=("get_*",),
            on_change="adopt",
            enabled=False,
        ),
    ]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"url": "u", "type": "sse"}, "line 5: `mcpServers.one.type`: servers over HTTP\\+SSE"),
        ({"url": "u", "headers": {"A": "${MISSING}"}}, "line 6: `mcpServers.one.headers.A`: the variable MISSING"),
        ({"url": "u", "auto": 1}, "line 5: `mcpServers.one.auto`: unknown"),
        ({"url": "u", "denny": ["*"]}, "line 5: `mcpServers.one.denny`: unknown"),
        ({"url": "u", "deny": ["a"], "disabledTools": ["b"]}, "`mcpServers.one.disabledTools`: `deny` says the same"),
        ({"url": "u", "type": "carrier pigeon"}, "line 5: `mcpServers.one.type`: `http` or `stdio`"),
        ({"url": 1}, "line 3: `mcpServers.one`: Expected `str | null`, got `int`"),
        ([], "line 3: `mcpServers.one`: an object"),
    ],
)
def test_a_broken_entry_is_named(tmp_path: Path, entry: Any, message: str):
    """An error has the file, the line, the key and the remedy, and no value of the environment."""
    with pytest.raises(ConfigError, match=message) as raised:
        read(tmp_path, {"one": entry})
    assert "opensesame" not in str(raised.value)


def test_what_other_clients_write_is_taken_or_named(tmp_path: Path):
    """Their names, fields and types are read as ours; what has no meaning here is in one warning."""
    servers = {
        "awslabs.core-mcp-server": {"command": "uvx", "autoApprove": [], "timeout": 60, "disabledTools": ["rm"]},
        "github.com/upstash/context7-mcp": {
            "type": "streamableHttp",
            "serverUrl": "https://a.example",
            "timeout": 9000,
        },
        "plain": {"transportType": "local", "command": "uvx", "description": "Plain.", "includeTools": ["get"]},
    }
    with structlog.testing.capture_logs() as logs:
        found = read(tmp_path, servers)
    assert found == [
        McpServer(name="awslabs_core-mcp-server", transport="stdio", command="uvx", timeout_s=60, deny=("rm",)),
        McpServer(name="github_com_upstash_context7-mcp", url="https://a.example", timeout_s=9),
        McpServer(name="plain", transport="stdio", command="uvx", allow=("get",)),
    ]
    [warning] = logs
    assert (warning["event"], warning["notes"]) == (
        "mcp.file",
        [
            "`awslabs.core-mcp-server` is called `awslabs_core-mcp-server`",
            "`awslabs.core-mcp-server.autoApprove` is not used",
            "`github.com/upstash/context7-mcp` is called `github_com_upstash_context7-mcp`",
            "`plain.description` is not used",
        ],
    )


@pytest.mark.parametrize("names", [("a.b", "a/b"), ("a" * 33,), ("ü",), ("",)])
def test_a_name_that_cannot_be_made_plain_is_refused(tmp_path: Path, names: tuple[str, ...]):
    """Two servers never share a name, and the error says to rename one."""
    with pytest.raises(ConfigError, match=r"rename (it|one)\."):
        read(tmp_path, {name: {"command": "uvx"} for name in names})


def test_a_file_that_is_not_there_is_fine_unless_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Without PARLEY_MCP a project needs no mcp.json; text that is no JSON is refused with its line."""
    monkeypatch.chdir(tmp_path)
    assert list(read_mcp_file(Settings.model_validate({}))) == []
    path = tmp_path / "other.json"
    with pytest.raises(ConfigError, match="there is no file"):
        read_mcp_file(settings(path))
    path.write_text('{"mcpServers": {\n  oops\n}}')
    with pytest.raises(ConfigError, match="line 2: this is not JSON"):
        read_mcp_file(settings(path))
