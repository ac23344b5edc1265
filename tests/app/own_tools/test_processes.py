"""Own tools in real processes, in a project whose files have the names of our packages."""

import asyncio
import shutil
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

import httpx
import pytest

from agent_core.testing import call, say
from agent_core.testing.models import FakeModels
from tests.app import signing
from tests.app.frames import frames
from tests.app.processes import PlainShell, Process, Shell, start
from tests.app.test_own_tool import check
from tests.polling import PATIENCE

pytestmark = pytest.mark.processes

OURS = ("app", "channels", "migrations", "agent_core", "parley")
TOOL = '''
from parley import CallContext, tool

from ._shop import NAME

@tool
def {name}(context: CallContext) -> str:
    """Say where it is."""
    return f"{{NAME}} {{__file__}} {{context.actor.id}} {{context.channel}}"
'''
AGENT = "name: shop\ninstructions: Answer.\ntools: [{}]\n"
COMMAND = Path(sys.executable).with_name("parley")


class ScriptShell(PlainShell):
    """Commands by the installed script `parley`, as users start them: the working folder is no place of modules."""

    async def start(self, *words: str, typed: str = "", **env: str) -> Process:
        env = {name: value for name, value in {**self._env, **env}.items() if name != "PYTHONPATH"}
        return await asyncio.create_subprocess_exec(
            COMMAND, *words, cwd=self.folder, env=env, stdin=DEVNULL, stdout=PIPE, stderr=PIPE
        )


@pytest.fixture
def project(tmp_path: Path, template: Path):
    """Make a project in which every file that could be in our way has the name of one of our packages."""
    for folder in ("tools", "agents"):
        (tmp_path / folder).mkdir()
    (tmp_path / "tools" / "_shop.py").write_text("NAME = 'Roof & Co'")
    for name in OURS:
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the working folder')")
        (tmp_path / "tools" / f"{name}.py").write_text(TOOL.format(name=f"ask_{name}"))
    (tmp_path / "agents" / "shop.yaml").write_text(AGENT.format(", ".join((*(f"ask_{name}" for name in OURS), "sign"))))
    shutil.copy(signing.__file__, tmp_path / "tools" / "signing.py")
    return ScriptShell(tmp_path).migrated(template)


@pytest.mark.whole
async def test_a_project_may_have_files_of_any_name(project: ScriptShell):
    """A server in a project with an `app.py`, in `tools/` too, serves all tools of the project; one signs RS256."""
    script = [(*(call(f"ask_{name}") for name in OURS), call("sign", subject="ann")), (say("Done."),)]
    async with FakeModels(script) as models:
        env = {"PARLEY_AGENTS": "agents", "ANTHROPIC_API_KEY": "any", "ANTHROPIC_BASE_URL": models.url}
        async with start(project, **env) as serving:
            headers = {"Authorization": f"Bearer {serving.key}"}
            async with httpx.AsyncClient(base_url=serving.url, headers=headers, timeout=PATIENCE) as client:
                body = {"input": "Where?", "actor": {"id": "ann", "kind": "user"}}
                run = (await client.post("/v1/agents/shop/runs", json=body)).json()
                assert run["status"] == "completed", run
                events = frames((await client.get(f"/v1/runs/{run['id']}/events")).text)
    *said, signed = [event.data["parts"][0]["text"] for event in events if event.event == "tool.completed"]
    check(signed)
    assert set(said) == {f"Roof & Co {project.folder / 'tools' / f'{name}.py'} ann api" for name in OURS}


async def test_chat_knows_own_tools_and_a_broken_one_ends_the_start(project: ScriptShell):
    """`parley chat` without a server loads the same tools; with a broken file it ends with the line that says where."""
    async with FakeModels([(call("ask_app"),), (say("From your own tool."),)]) as models:
        env = {"PARLEY_AGENTS": "agents", "ANTHROPIC_API_KEY": "any", "ANTHROPIC_BASE_URL": models.url}
        shell = Shell(project.folder)
        code, out, err = await shell.run("chat", "Where?", "--agent", "shop", **env)
        assert (code, "From your own tool." in out) == (0, True), err
        (project.folder / "tools" / "orders.py").write_text("import stripe_not_here\n")
        code, _, err = await shell.run("chat", "Where?", **env)
    where = "parley: tools/orders.py:1: there is no module `stripe_not_here`; install its package"
    assert (code, err.splitlines()[-1].startswith(where)) == (1, True), err


@pytest.mark.parametrize("command", ["worker", "slack"])
async def test_workers_and_slack_load_own_tools_at_their_start(command: str, project: ScriptShell, postgres_url: str):
    """A file of tools that cannot be loaded ends these commands with the line that says where, as it ends a server."""
    (project.folder / "tools" / "orders.py").write_text("import stripe_not_here\n")
    place = {"DATABASE_URL": postgres_url, "PARLEY_SECRET_KEY": "k" * 40} if command == "worker" else {}
    keys = {"SLACK_BOT_TOKEN": "xoxb-1", "SLACK_APP_TOKEN": "xapp-1"}
    code, _, err = await Shell(project.folder).run(command, PARLEY_AGENTS="agents", **keys, **place)
    assert (code, "tools/orders.py:1: there is no module `stripe_not_here`" in err) == (1, True), err
