"""`parley dev` serves a project that `parley init` made, and takes up what changes in it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest
import structlog
from sqlalchemy import text

from agent_core.core import Core
from app import dev as workshop
from app.own_tools import OwnTools
from app.settings import Settings
from app.storage import connected
from tests import forked
from tests.app.dev.processes import PATIENCE, DevServer, dev_server, environment, made, process
from tests.polling import until

pytestmark = pytest.mark.processes

LOOK_UP = 'use lookup_order {"order": "A-1001"}'


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    with dev_server(made(tmp_path_factory.mktemp("dev"))) as server:
        yield server


@contextmanager
def changed(path: Path, old: str, new: str) -> Iterator[None]:
    """Have *new* in the place of *old* in a file for a while."""
    before = path.read_text("utf-8")
    assert old in before
    path.write_text(before.replace(old, new), "utf-8")
    try:
        yield
    finally:
        path.write_text(before, "utf-8")


def test_it_serves_a_new_project_without_a_key(dev: DevServer):
    """The page is printed and shows the agent, and the demonstration uses the project's tool."""
    assert f"{dev.url}/widget-demo" in dev.printed
    assert 'agent="assistant"' in httpx.get(f"{dev.url}/widget-demo", timeout=PATIENCE).text
    run = dev.run(LOOK_UP)
    assert run["status"] == "completed", run
    assert '"status":"delivered"' in run["output"]["text"]


def test_a_changed_agent_is_a_new_version_for_new_conversations(dev: DevServer):
    """A conversation keeps the version that it began with; the next one gets the changed file."""
    first = dev.run("Hello")
    with changed(dev.folder / "agents/assistant.yaml", "Be brief and friendly.", "Be brief."):
        version = first["agent_version"] + 1
        dev.printing.until(f"Agent, for new conversations: assistant, version {version}")
        assert dev.run("Hello")["agent_version"] == version
        assert dev.run("Hello", session=first["session"])["agent_version"] == first["agent_version"]
    dev.printing.until(f"version {version + 1}")


def test_an_agent_comes_and_goes_with_its_file(dev: DevServer):
    """A new file is a new agent at once; one whose file is gone stays in the database, no longer read-only."""
    path = dev.folder / "agents/second.yaml"
    path.write_text("name: second\ninstructions: Be brief.\n", "utf-8")
    dev.printing.until("Agent, for new conversations: second, version 1")
    assert dev.client.patch("/v1/agents/second", json={"instructions": "Be long."}).status_code == 409
    path.unlink()
    dev.printing.until("Agent second is in no file any more: it stays in the database")
    assert dev.client.delete("/v1/agents/second").status_code == 204


def test_an_agent_of_an_unknown_provider_says_so(dev: DevServer):
    """Its file is no broken one: it is taken up, and the terminal says that no model can answer for it."""
    path = dev.folder / "agents/fourth.yaml"
    path.write_text("name: fourth\ninstructions: Be brief.\nmodel: opnai:m\n", "utf-8")
    dev.printing.until("`fourth` is unavailable: its model `opnai:m` needs the provider `opnai`")
    path.unlink()
    dev.printing.until("Agent fourth is in no file any more")
    assert dev.client.delete("/v1/agents/fourth").status_code == 204


def test_a_renamed_agent_leaves_the_one_of_the_old_name_and_says_so(dev: DevServer):
    """Another name in a file is another agent; the former one goes on answering until it is deleted."""
    path = dev.folder / "agents/third.yaml"
    path.write_text("name: alpha\ninstructions: Be brief.\n", "utf-8")
    dev.printing.until("Agent, for new conversations: alpha, version 1")
    path.write_text("name: beta\ninstructions: Be brief.\n", "utf-8")
    dev.printing.until("Agent alpha is in no file any more: it stays in the database; `DELETE /v1/agents/alpha`")
    dev.printing.until("Agent, for new conversations: beta, version 1")
    path.unlink()
    dev.printing.until("Agent beta is in no file any more")
    assert {dev.client.delete(f"/v1/agents/{name}").status_code for name in ("alpha", "beta")} == {204}


def test_only_the_tools_of_a_changed_file_are_named(dev: DevServer):
    """A new file leaves the tools of the others as they are."""
    path = dev.folder / "tools/more.py"
    path.write_text('from parley import tool\n\n\n@tool\ndef more() -> str:\n    """More."""\n    return ""\n', "utf-8")
    assert dev.printing.until("Tools, from the next call on:")[-1].endswith(": more")
    path.unlink()
    assert dev.printing.until("Tools that are gone:")[-1].endswith(": more")


def test_tools_of_yaml_and_servers_of_mcp_json_are_taken_up(dev: DevServer):
    """A tool that a YAML file defines is there for the next call, and an agent may have a server of mcp.json."""
    tool, agent = dev.folder / "tools/wiki.yaml", dev.folder / "agents/fifth.yaml"
    tool.write_text("name: wiki\ndescription: Read.\nconfig: {url: 'https://wiki.example.com/x'}\n", "utf-8")
    assert dev.printing.until("Tools, from the next call on:")[-1].endswith(": wiki")
    server = '"mcpServers": {"desk": {"url": "https://desk.example.com/mcp", "disabled": true}}'
    with changed(dev.folder / "mcp.json", '"mcpServers": {}', server):
        agent.write_text("name: fifth\ninstructions: Be brief.\nmcp_servers: [desk]\ntools: [wiki]\n", "utf-8")
        dev.printing.until("Agent, for new conversations: fifth, version 1")
        agent.unlink()
        dev.printing.until("Agent fifth is in no file any more")
    tool.unlink()
    assert dev.printing.until("Tools that are gone:")[-1].endswith(": wiki")
    assert dev.client.delete("/v1/agents/fifth").status_code == 204


async def test_an_agent_that_strangers_may_use_at_any_cost_is_warned_of_when_its_file_says_so(
    core: Core, tmp_path: Path
):
    """Once for each change of its file that takes the budget away; the start warns of what it finds by itself."""
    settings = Settings(_env_file=None, agents=tmp_path / "agents")  # type: ignore[call-arg]
    settings.agents.mkdir()
    path, shop = settings.agents / "open.yaml", workshop.Workshop(settings, OwnTools(tmp_path / "tools", reserved=()))
    anonymous = "web: {anonymous: {origins: ['https://shop.example']}}"
    budget = "limits: {everyone: {cost_per_day: '5'}}"
    warned = list[int]()
    for lines in (budget, "", "", budget, ""):
        path.write_text(f"name: open\ninstructions: Help\n{anonymous}\n{lines}\n", "utf-8")
        with structlog.testing.capture_logs() as logs:
            await shop.load(core)
        warned.append(sum(line["event"] == "agent.no_budget" for line in logs))
    assert warned == [0, 1, 0, 0, 1]


async def test_files_that_take_long_to_load_are_reported(core: Core, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """While a tool's file waits, the terminal says where to look."""
    monkeypatch.setattr(workshop, "SLOW_S", 0.0)
    said = list[str]()
    monkeypatch.setattr(workshop, "say", said.append)
    own = OwnTools(tmp_path / "tools", reserved=())
    monkeypatch.setattr(own, "refresh", partial(until, lambda: bool(said)))
    settings = Settings(_env_file=None, agents=tmp_path / "agents")  # type: ignore[call-arg]
    await workshop.Workshop(settings, own).load(core)
    assert f"`{tmp_path / 'tools'}` takes long" in said[0]


def test_a_changed_tool_is_the_next_calls(dev: DevServer):
    """Also a conversation that has begun runs the new code."""
    first = dev.run(LOOK_UP)
    with changed(dev.folder / "tools/orders.py", '"status": found["status"]', '"status": "changed"'):
        assert "lookup_order, refund_order" in dev.printing.until("Tools, from the next call on:")[-1]
        assert '"status":"changed"' in dev.run(LOOK_UP, session=first["session"])["output"]["text"]
    dev.printing.until("Tools, from the next call on:")


def test_the_tool_that_the_readme_of_a_project_shows_works(dev: DevServer):
    """Its first tool, put into the tools' file and named in the agent's, is there for the next conversation."""
    (shown,) = re.findall(r"```python\n(@tool.*?)```", (dev.folder / "README.md").read_text("utf-8"), re.DOTALL)
    agent = dev.folder / "agents/assistant.yaml"
    with (
        changed(dev.folder / "tools/orders.py", "@contextmanager\n", f"{shown}\n\n@contextmanager\n"),
        changed(agent, "tools: [", "tools: [opening_hours, "),
    ):
        dev.printing.until("Agent, for new conversations: assistant")
        assert "closed" in dev.run('use opening_hours {"day": "Sunday"}')["output"]["text"]
    dev.printing.until("Agent, for new conversations: assistant")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("path", "old", "new", "said"),
    [
        ("tools/orders.py", "\ndef _refunded(", "\ndef _refunded(,", "tools/orders.py:"),
        ("agents/assistant.yaml", "tools: [lookup_order", "tools: [lookup_orders", "agents/assistant.yaml: `tools`"),
        ("agents/assistant.yaml", "tools: [", "tools: ]", "agents/assistant.yaml: line "),
        ("mcp.json", '"mcpServers": {}', '"mcpServers": []', 'mcp.json: write {"mcpServers"'),
    ],
)
def test_a_broken_file_is_reported_and_the_one_before_serves(dev: DevServer, path: str, old: str, new: str, said: str):
    """The fault is printed and on the page until it is corrected; what was loaded before stays in use."""
    with changed(dev.folder / path, old, new):
        assert said in dev.printing.until("What was loaded before stays in use")[-2]
        (fault,) = dev.problems()
        assert fault.startswith(said)
        assert '"status":"delivered"' in dev.run(LOOK_UP)["output"]["text"]
    assert "in no file" not in "".join(dev.printing.until("Corrected: all files are in use again."))
    assert dev.problems() == []


def answer(dev: DevServer, token: str, text: str) -> str:
    """Return what the assistant answers the visitor of *token* in a new conversation."""
    with httpx.Client(base_url=dev.url, headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE) as visitor:
        opened = visitor.post("/v1/sessions", json={"agent": "assistant"})
        assert opened.status_code == 201, opened.text
        session = opened.json()["id"]
        assert visitor.post(f"/v1/sessions/{session}/messages", json={"text": text}).status_code == 202
        visitor.get(f"/v1/sessions/{session}/events?until=idle")
        said = visitor.get(f"/v1/sessions/{session}/messages").json()["items"][-1]
    assert said["role"] == "assistant"
    return "".join(part["text"] for part in said["parts"] if part["type"] == "text")


def test_the_demo_page_asks_as_the_customer_of_the_settings(dev: DevServer):
    """PARLEY_DEMO_TOOL_CONTEXT, which `parley init` sets, says who asks there: the tool shows their order."""
    token = httpx.get(f"{dev.url}/widget-demo/token", timeout=PATIENCE).json()["token"]
    assert '"status":"delivered"' in answer(dev, token, LOOK_UP)
    assert "no order A-1002" in answer(dev, token, LOOK_UP.replace("1001", "1002"))


def test_the_page_of_a_project_shows_people_their_own_orders(dev: DevServer):
    """`web/server.py` serves a page with the widget, and tokens with which each customer sees their own orders only."""
    with process(dev.folder, "web/server.py", SITE_PORT="0", PARLEY_URL=dev.url) as printing:
        site = re.findall(r"http://[\d.:]+", printing.until("Your page:")[-1])[0]
        with httpx.Client(base_url=site, timeout=PATIENCE) as browser:
            page = browser.get("/").text
            assert f'src="{dev.url}/widget/parley-chat.js"' in page
            assert f'server="{dev.url}" agent="assistant" token-url="/parley-token" storage-key="C-1"' in page
            ada = browser.get("/parley-token").json()["token"]
            assert browser.get("/sign-in?customer=C-2").headers["Location"] == "/"
            ben = browser.get("/parley-token").json()["token"]
            assert 'storage-key="C-2"' in browser.get("/").text
            browser.cookies.set("customer", "C-99")
            assert 'storage-key="C-1"' in browser.get("/").text
            assert browser.get("/elsewhere").status_code == 404
    assert '"status":"delivered"' in answer(dev, ada, LOOK_UP)
    assert "no order A-1001" in answer(dev, ben, LOOK_UP)
    script = httpx.get(
        f"{dev.url}/widget/parley-chat.js", headers={"Origin": "http://localhost:3000"}, timeout=PATIENCE
    )
    assert script.headers["access-control-allow-origin"] == "http://localhost:3000"


def test_the_page_says_what_is_missing(dev: DevServer):
    """Without Parley the token's route answers 502 with what to do."""
    with process(dev.folder, "web/server.py", SITE_PORT="0", PARLEY_URL="http://127.0.0.1:9") as printing:
        site = re.findall(r"http://[\d.:]+", printing.until("Your page:")[-1])[0]
        refused = httpx.get(f"{site}/parley-token", timeout=PATIENCE)
    assert refused.status_code == 502
    assert "start `parley dev`" in refused.json()["error"]


@pytest.mark.whole
def test_a_project_that_is_broken_at_the_start_is_served(tmp_path: Path):
    """`parley dev` starts, says what is broken, and takes the corrected file up."""
    folder = made(tmp_path, sample=False)
    path = folder / "agents/assistant.yaml"
    whole = path.read_text("utf-8")
    path.write_text(f"{whole}\nmodle: demo\n", "utf-8")
    with dev_server(folder, HOST="0.0.0.0") as server:  # noqa: S104 - what a deployment has in .env; here it is ignored
        assert server.url.startswith("http://127.0.0.1:")
        assert "modle" in server.printing.until("agents/assistant.yaml")[-1]
        assert server.client.get("/v1/agents").json()["items"] == []
        path.write_text(whole, "utf-8")
        server.printing.until("Agent, for new conversations: assistant, version 1")
        assert server.problems() == []
        assert '"status":"delivered"' in server.run(LOOK_UP)["output"]["text"]


@pytest.mark.whole
def test_a_project_on_postgres_takes_a_change_up(tmp_path: Path, postgres_url: str):
    """With DATABASE_URL the versions of an agent lie in Postgres: a changed file is one more there, and serves."""
    folder = made(tmp_path, sample=False)
    path = folder / "agents/assistant.yaml"
    with dev_server(folder, DATABASE_URL=postgres_url) as server:
        path.write_text(path.read_text("utf-8").replace("Be brief and friendly.", "Be brief."), "utf-8")
        server.printing.until("Agent, for new conversations: assistant, version 2")
        assert '"status":"delivered"' in server.run(LOOK_UP)["output"]["text"]
        with connected(postgres_url) as connection:
            kept = connection.execute(text("SELECT count(*), max(version) FROM agent_version")).one()
    assert tuple(kept) == (2, 2)
    assert not list(folder.rglob("*.db"))


@pytest.mark.whole
@pytest.mark.parametrize("sample", [True, pytest.param(False, marks=pytest.mark.whole)])
def test_the_tests_of_a_project_pass(tmp_path: Path, sample: bool):
    """What `parley init` makes is tested, with what its requirements-dev.txt names."""
    folder = made(tmp_path, sample=sample)
    plugins = ("-p", "no:cacheprovider", "-p", "pytest_asyncio.plugin")
    env = environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    done = forked.run("pytest", "-q", *plugins, cwd=folder, env=env, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout
    assert "warning" not in done.stdout
