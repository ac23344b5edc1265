"""The command `parley`, as a person types it."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.app.processes import ROOT, PlainShell, Serving, Shell, start
from tests.polling import PATIENCE


@pytest.fixture
async def started(plain_shell: PlainShell, template: Path) -> AsyncIterator[Serving]:
    """A server in a process that began with nothing."""
    async with start(plain_shell.migrated(template)) as serving:
        yield serving


async def test_a_server_says_how_to_reach_it_and_stops_within_seconds(started: Serving):
    """The page, the key and what `demo` is are printed; Ctrl-C ends it with exit code 0 while a stream is open."""
    serving = started
    assert f"{serving.url}/widget-demo" in serving.printed
    assert "a demonstration" in serving.printed
    headers = {"Authorization": f"Bearer {serving.key}"}
    async with httpx.AsyncClient(base_url=serving.url, headers=headers, timeout=PATIENCE) as client:
        session = (await client.post("/v1/sessions", json={"agent": "assistant"})).json()
        async with client.stream("GET", f"/v1/sessions/{session['id']}/events") as stream:
            lines = stream.aiter_lines()
            assert await anext(lines) == "id: 1"
            assert await serving.stop() == 0
            assert [line async for line in lines if line.startswith("id")] == ["id: 2"]
    assert not (serving.shell.data / "server.json").exists()


async def test_commands_talk_to_the_running_server(serving: Serving):
    """Agents, runs and sessions are listed, shown, followed and stopped by thin commands."""
    shell = serving.shell
    headers = {"Authorization": f"Bearer {serving.key}"}
    async with httpx.AsyncClient(base_url=serving.url, headers=headers, timeout=PATIENCE) as client:
        run = (await client.post("/v1/agents/assistant/runs", json={"input": "Hello"})).json()
    id, session = run["id"], run["session"]
    listed, runs, shown, tail, cancelled, sessions, talk, frozen, line, other = await asyncio.gather(
        shell.said("agents", "list"),
        shell.said("runs", "list"),
        shell.said("runs", "show", id),
        shell.said("runs", "tail", id),
        shell.said("runs", "cancel", id),
        shell.said("sessions", "list"),
        shell.said("sessions", "show", session),
        shell.said("sessions", "refreeze", session),
        shell.refused("runs", "show", "run_none?run=1"),
        shell.refused("chat", "--session", session, "Hello"),
    )
    assert "assistant" in listed
    assert id in runs
    assert json.loads(shown)["status"] == "completed"
    assert any("message.received" in line for line in tail.splitlines()[:2])
    assert "run.completed" in tail.splitlines()[-1]
    assert "completed" in cancelled
    assert session in sessions
    assert "user: Hello" in talk
    assert frozen == f"{session}  idle\n"
    assert "run_none?run=1" in line
    assert f"`{session}` is a conversation of " in other


async def test_approvals_are_decided_from_the_command_line(serving: Serving):
    """Open questions are listed, corrected, decided as oneself or another, and on record; a refusal is one line."""
    shell, (id, two) = serving.shell, await asking(serving, {"edit": True}, {"quorum": 2})
    listed, lines, none, *refused = await asyncio.gather(
        shell.said("approvals", "list"),
        shell.said("approvals", "list", "--json"),
        shell.said("approvals", "list", "--status", "denied"),
        shell.refused("approvals", "decide", id, "--approve", "--as", "eve"),
        shell.refused("approvals", "decide", id, "--approve", "--arguments", "[1]"),
        shell.refused("approvals", "decide", id, "--approve", "--arguments", '{"expression": 1}'),
        shell.refused("approvals", "decide", "apr_none", "--deny"),
    )
    titles, *rows = listed.splitlines()
    assert titles.split() == ["AGE", "ASKS", "TOOL", "WHAT", "FOR", "ID"]
    assert [row.split()[-1] for row in rows] == [id, two]
    assert [row for row in rows if 'ann   calculate  {"expression": "12 * 7"}  operators, bob' not in row] == []
    assert "(0 of 2 said yes)" in rows[1]
    assert ([json.loads(line)["id"] for line in lines.splitlines()], none) == ([id, two], "")
    expected = ("`eve` may not decide", "one JSON object", "arguments.expression", "apr_none")
    assert [(words, line) for words, line in zip(expected, refused, strict=True) if words not in line] == []
    assert await shell.said("approvals", "decide", two, "--approve") == f"{two}  open  1 of 2 said yes\n"
    corrected = ("--arguments", '{"expression": "12 * 8"}', "--as", "bob")
    assert await shell.said("approvals", "decide", id, "--approve", *corrected) == f"{id}  approved\n"
    late = await shell.refused("approvals", "decide", id, "--deny", "--reason", "No.")
    assert "approved already by bob" in late
    record = [json.loads(line) for line in (await shell.said("approvals", "audit", "--approval", id)).splitlines()]
    assert [line["kind"] for line in record] == ["requested", "refused", "approved", "late"]
    assert {line["surface"] for line in record[1:]} == {"terminal"}
    rest = await shell.said("approvals", "audit", "--after", str(record[1]["seq"]), "--approval", id)
    assert [json.loads(line) for line in rest.splitlines()] == record[2:]


async def asking(serving: Serving, *policies: dict[str, Any]) -> list[str]:
    """Make an agent for each of *policies*, have it ask for a sum, and return the approvals."""
    asked = []
    headers = {"Authorization": f"Bearer {serving.key}"}
    async with httpx.AsyncClient(base_url=serving.url, headers=headers, timeout=PATIENCE) as client:
        for n, policy in enumerate(policies):
            config = {"responders": ["operators", "actor:bob"], **policy}
            hook = {"event": "PreToolUse", "type": "approval", "config": config}
            agent = {"name": f"careful-{n}", "instructions": "Ask.", "tools": ["calculate"], "hooks": [hook]}
            assert (await client.post("/v1/agents", json=agent)).status_code == 201
            body = {"input": "What is 12 * 7?", "actor": "ann"}
            run = (await client.post(f"/v1/agents/careful-{n}/runs", json=body)).json()
            asked.append(run["pending"][0]["approval"])
    return asked


@pytest.mark.whole
async def test_agents_are_applied_from_files(serving: Serving, tmp_path):
    """A file makes an agent and, changed, its next version; an agent of the server's own folder is refused."""
    file = tmp_path / "scout.yaml"
    file.write_text("name: scout\ninstructions: Look.\n")
    assert "scout  v1" in (await serving.shell.run("agents", "apply", str(file)))[1]
    file.write_text("name: scout\ninstructions: Look twice.\ncontrols: {max_steps: 3}\n")
    assert "scout  v2" in (await serving.shell.run("agents", "apply", str(tmp_path)))[1]
    file.write_text("name: scout\ninstructions: Look twice.\n")
    assert "scout  v3" in (await serving.shell.run("agents", "apply", str(file)))[1]
    assert "comes from a file" in await serving.shell.refused("agents", "apply", str(ROOT / "agents"))
    assert "no such file" in await serving.shell.refused("agents", "apply", str(tmp_path / "none.yaml"))


async def test_a_folder_has_one_server(serving: Serving):
    """A second server on the same folder ends with one line; a migration that is done already does no harm."""
    assert "PARLEY_DATA" in await serving.shell.refused("serve")
    assert (await serving.shell.run("migrate"))[0] == 0


@pytest.mark.whole
async def test_without_a_server_commands_name_the_database(shell: Shell, plain_shell: PlainShell):
    """Without a server there is one line that names DATABASE_URL, also when a server died and left its file."""
    assert "DATABASE_URL" in await plain_shell.refused("runs", "list")
    shell.data.mkdir()
    (shell.data / "secret.key").write_text("s" * 32)
    (shell.data / "server.json").write_text('{"url": "http://127.0.0.1:9", "pid": 1}')
    assert "DATABASE_URL" in await shell.refused("sessions", "list")


async def test_a_start_that_cannot_work_ends_in_one_line(shell: Shell, tmp_path):
    """No database yet, no database at all, a wrong setting: the setting and the remedy, no trace."""
    (tmp_path / "odd.db").write_text("this is no database" * 100)
    (tmp_path / "empty.db").touch()
    for name in ("odd.db", "empty.db"):  # what is open to others is closed, with a line of its own
        (tmp_path / name).chmod(0o600)
    assert "parley migrate" in await shell.refused("serve")
    lines = await asyncio.gather(
        shell.refused("migrate", DATABASE_URL="sqlite:///odd.db", PARLEY_DATA="a"),
        shell.refused("serve", DATABASE_URL="sqlite:///empty.db", PARLEY_DATA="b"),
        shell.refused("serve", PARLEY_MODEL="acme:m", PARLEY_DATA="c"),
    )
    for line, words in zip(lines, ("odd.db", "revision none", "PARLEY_MODEL"), strict=True):
        assert words in line


async def test_a_migration_needs_nothing_but_the_database(shell: Shell):
    """Without a folder of agents, with a model and keys that cannot work, the database is brought up to date."""
    env = {"PARLEY_AGENTS": "nowhere", "PARLEY_MODEL": "acme:m", "SLACK_BOT_TOKEN": "xoxb-1"}
    code, out, err = await shell.run("migrate", **env)
    assert (code, err) == (0, "")
    assert out.startswith("revision none -> ")
    assert "PARLEY_MODEL" in await shell.refused("serve", **env)


@pytest.mark.whole
async def test_example_calls_of_a_definition_are_made_on_demand(serving: Serving):
    """They end as the definition says or are named; one that writes is called only when it is named."""
    shell, headers = serving.shell, {"Authorization": f"Bearer {serving.key}"}
    sums = {"kind": "python", "config": {"tool": "calculate"}}
    dozen = {"arguments": {"expression": "3 * 4"}, "contains": ["12"]}
    definitions = [
        {"name": "sum_fits", "tests": [dozen, {"arguments": {"expression": "3 *"}, "outcome": "failed"}]},
        {"name": "sum_differs", "tests": [{**dozen, "contains": ["13"]}, {**dozen, "outcome": "failed"}]},
        {"name": "sum_writes", "effect": "write", "tests": [dozen]},
        {"name": "sum_unseen", "output": "sum(@)", "tests": [{**dozen, "contains": []}]},
    ]
    async with httpx.AsyncClient(base_url=serving.url, headers=headers) as client:
        for each in definitions:
            assert (await client.post("/v1/tools", json={**sums, **each})).status_code == 201
    unmade, every, named = await asyncio.gather(
        shell.said("tools", "test"),
        shell.run("tools", "test", "--call"),
        shell.said("tools", "test", "sum_writes", "sum_fits", "--call"),
    )
    assert "sum_differs  ok\n" in unmade
    assert every[0] == 1
    assert "sum_fits  ok  2 calls as expected\n" in every[1]
    differs = "sum_differs  tests[0]: the result has no `13`: 12  tests[1]: done, and not failed: 12\n"
    assert differs in every[1]
    assert "sum_unseen  tests[0]: It ran; its result cannot be shown (" in every[1]
    assert "sum_writes  ok  1 not made, as it writes: name it\n" in every[1]
    assert named == "sum_writes  ok  1 call as expected\nsum_fits  ok  2 calls as expected\n"


@pytest.mark.whole
async def test_tools_are_listed_shown_called_and_tested(serving: Serving):
    """Each command prints what it is about; a call that fails and a wrong name end with exit code 1 and one line."""
    shell = serving.shell
    headers = {"Authorization": f"Bearer {serving.key}"}
    given = {
        "name": "gross",
        "kind": "python",
        "title": "A gross",
        "config": {"tool": "calculate"},
        "preset": {"expression": "12 * 12"},
    }
    async with httpx.AsyncClient(base_url=serving.url, headers=headers) as client:
        assert (await client.post("/v1/tools", json=given)).status_code == 201
    listed, lines, shown, called, tested, unknown = await asyncio.gather(
        shell.said("tools", "list"),
        shell.said("tools", "list", "--json"),
        shell.said("tools", "show", "gross"),
        shell.said("tools", "call", "calculate", "--arg", "expression=3 * 4"),
        shell.said("tools", "test"),
        shell.refused("tools", "show", "groos"),
    )
    failed = await shell.run("tools", "call", "calculate", '{"expression": "3 *"}')
    found = {each["name"]: each for each in map(json.loads, lines.splitlines())}
    assert found["calculate"]["kind"] == "builtin"
    assert (found["gross"]["preset"], found["gross"]["version"]) == ({"expression": "12 * 12"}, 1)
    assert "api v1" in next(line for line in listed.splitlines() if line.startswith("gross"))
    assert "versions:" in shown
    assert '"expression": "12 * 12"' in shown
    assert called.splitlines()[0] == "  12", "indented: no text passes for a line of the command"
    assert called.splitlines()[1].startswith("done  ")
    assert "gross  ok" in tested
    assert "did you mean `gross`" in unknown.lower()
    assert failed[0] == 1
