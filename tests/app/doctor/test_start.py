"""What a server refuses to start with, and the doctor reports by the same words."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy

from agent_core.agents import Definition
from agent_core.channels import Channels
from agent_core.runtime.agent_checks import CHECKS
from agent_core.store import catalog
from app.channels import CHANNELS
from app.doctor import examine
from app.settings import Settings
from app.storage import check_secret, migrate
from tests.app.processes import Shell

AGENT = "name: a\ninstructions: b\n"
SECRET = "a secret of no less than 32 characters"
Break = Callable[[Path], dict[str, str]]


def writing(path: str, text: str) -> Break:
    """Return what writes *text* to the file *path* of a deployment."""

    def write(home: Path) -> dict[str, str]:
        (home / path).parent.mkdir(exist_ok=True)
        (home / path).write_text(text)
        (home / path).chmod(0o600)
        return {}

    return write


def agent(text: str) -> Break:
    return writing("agents/a.yaml", AGENT + text)


@pytest.fixture
def taken() -> Iterator[str]:
    """A port of this machine where something listens."""
    with socket.create_server(("127.0.0.1", 0)) as listens:
        yield str(listens.getsockname()[1])


def failures() -> list[str]:
    return [each.text for each in examine(offline=True, env_file=None) if each.level == "fail"]


def stored_in_slack(home: Path) -> dict[str, str]:
    """Have an agent of the database claim what an agent's file claims too."""
    channels, said = Channels(CHANNELS), {"slack": {"default": True}}
    made = Definition(name="stored", instructions="b", channels=said)
    engine = sqlalchemy.create_engine(f"sqlite:///{home / 'data' / 'parley.db'}")
    with engine.begin() as connection:
        catalog.create(connection, made, channels=channels, now=0)
    engine.dispose()
    return agent("slack: {default: true}\n")(home)


def servers(text: str) -> Break:
    return writing("mcp.json", f'{{"mcpServers": {text}}}')


URL = "http, config: {url: 'http://127.0.0.1:9/', secret: sixteen-or-more-bytes}"
HOOK = "tools: [calculate]\nhooks: [{{event: PreToolUse, type: {}}}]\n"
REFUSED = {
    "fields": (agent("controls: {tool_choice: {name: dig}}\n"), "controls.tool_choice"),
    "servers": (agent("mcp_servers: [nope]\n"), "there is no MCP server `nope`"),
    "tools": (agent("tools: [mcp__nope__x]\n"), "there is no tool `mcp__nope__x`"),
    "hooks": (agent(HOOK.format("rule, config: {}")), "hooks[0].config"),
    "addresses": (
        agent(HOOK.format(URL)),
        "hooks[0].config.url",
    ),
    "matchers": (agent(HOOK.format("approval, matcher: dig")), "no tool `dig`"),
}
"""For each check of an agent, an agent's file that it refuses, and words of the line."""


def test_each_check_of_an_agent_has_a_row():
    """No check of agents is without a file that both a start and the doctor refuse."""
    assert REFUSED.keys() == CHECKS.keys()


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("broken", "words"),
    [
        *(pytest.param(*row, id=f"check of {name}") for name, row in REFUSED.items()),
        pytest.param(servers('{"x": {}}'), "mcpServers.x.url", id="an MCP server without a place"),
        pytest.param(servers('{"x": {"url": "http://127.0.0.1:9"}}'), "127.0.0.1", id="an internal MCP server"),
        pytest.param(writing("mcp.json", "{"), "this is not JSON", id="mcp.json"),
        pytest.param(writing("agents/a.yaml", "name: ["), "line 1", id="YAML"),
        pytest.param(agent("modle: demo\n"), "did you mean `model`", id="a field"),
        pytest.param(agent("tools: [dig]\n"), "there is no tool `dig`", id="a tool"),
        pytest.param(agent("tools: [calculate, calculate]\n"), "there twice", id="a tool twice"),
        pytest.param(agent("limits: {max_runs: 0}\n"), "limits.max_runs", id="a limit"),
        pytest.param(agent("model: opnai\n"), "a model is written", id="a model"),
        pytest.param(
            writing("providers.yaml", "azure: {kind: azure}"), "`azure`: `kind` must be", id="named providers"
        ),
        pytest.param(agent("slack: {default: 1}\n"), "slack.default", id="a channel"),
        pytest.param(stored_in_slack, "`stored` and `a` both claim the default", id="a stored agent's channel"),
        pytest.param(writing("tools/a.py", "import nothing_of_the_kind\n"), "nothing_of_the_kind", id="own tools"),
        pytest.param(writing("data/secret.key", "short"), "holds no key", id="the secret"),
        pytest.param(writing("data/api_key.sha256", "zz"), "is damaged", id="the key"),
        pytest.param(lambda _: {"PARLEY_AGENTS": "nowhere"}, "there is no folder", id="no agents"),
        pytest.param(lambda _: {"PARLEY_MODEL": "acme:m"}, "is no provider", id="a provider"),
        pytest.param(lambda _: {"HOST": "192.0.2.1"}, "no address of this machine", id="a host"),
    ],
)
async def test_what_ends_a_start_fails_the_doctor(
    shell: Shell, template: Path, monkeypatch: pytest.MonkeyPatch, broken: Break, words: str
):
    """Each fault of files, settings and keys is one line of the start, and a failure of the doctor with its words."""
    shell.migrated(template)
    (shell.folder / "agents").mkdir()
    env = {"PARLEY_AGENTS": "agents", "PORT": "0", **broken(shell.folder)}
    assert words in await shell.refused("serve", **env)
    monkeypatch.chdir(shell.folder)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    found = failures()
    assert any(words in text for text in found), found


async def test_a_port_that_is_taken_fails_the_doctor(
    shell: Shell, template: Path, monkeypatch: pytest.MonkeyPatch, taken: str
):
    """A port where another listens ends the start and fails the doctor."""
    shell.migrated(template)
    assert "is in use" in await shell.refused("serve", PORT=taken)
    monkeypatch.chdir(shell.folder)
    monkeypatch.setenv("PORT", taken)
    (shell.folder / "agents").mkdir()
    assert [text for text in failures() if "is in use" in text]


def test_another_secret_than_that_of_the_others_fails_the_doctor(postgres_url: str, monkeypatch: pytest.MonkeyPatch):
    """Where processes of the same Postgres have another secret, the doctor says so, and keeps none of its own."""
    env = {"DATABASE_URL": postgres_url, "PARLEY_SECRET_KEY": SECRET, "PORT": "0"}
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    settings = Settings(_env_file=None)  # type: ignore[call-arg]
    migrate(settings)
    assert not [text for text in failures() if "PARLEY_SECRET_KEY" in text]
    other = Settings(_env_file=None, secret_key=SECRET[::-1])  # type: ignore[call-arg]
    check_secret(other)
    assert [text for text in failures() if "PARLEY_SECRET_KEY: the processes of this Postgres have another" in text]
