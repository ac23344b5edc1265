"""docs/approvals.md against the product: its agents load, its examples run in order, its numbers are the code's."""

import json
import re
import shlex
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import yaml

from agent_core.agents import ApprovalConfig, Definition
from agent_core.clock import SystemClock
from agent_core.objects import MAX_QUORUM, MAX_TIMEOUT, AuditKind
from agent_core.providers.demo import DemoProvider
from agent_core.testing import ScriptedProvider, call, say, step_of
from agent_core.tools.builtin import calculate
from app.compose import create_app
from app.files import read_agent
from app.storage import ApiKey
from tests.app.conftest import KEY, caller
from tests.app.frames import frames
from tests.polling import PATIENCE

PAGE = (Path(__file__).parents[2] / "docs" / "approvals.md").read_text("utf-8")
BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
CURLS = [shlex.split(line) for block in BLOCKS for line in re.sub(r"\\\n", " ", block).splitlines()]
YAMLS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def guide(request: Any) -> Any:
    """Use the tool that the message names, as the fake models do; then say something."""
    if step_of(request):
        return [say("In Bern.")]
    name, given = re.findall(r"use (\w+) (\{.*\})", request.messages[-1].message.parts[0].text)[0]
    return [call(name, **json.loads(given))]


async def run(client: httpx.AsyncClient, words: list[str], **names: str) -> httpx.Response:
    """Ask what a `curl` of the page asks, with *names* for its variables."""
    assert words[0] == "curl"
    assert words[words.index("-H") + 1] == "Authorization: Bearer $KEY"
    url, body = next(word for word in words if word.startswith("localhost:8000")), None
    for name, value in names.items():
        url = url.replace(f"${name}", value)
    if "-d" in words:
        body = words[words.index("-d") + 1]
        body = re.sub(r"\$(\w+)", lambda found: names[found[1]], body)
    assert "$" not in url
    headers = {"Content-Type": "application/json"} if body else {}
    return await client.request("POST" if body else "GET", url[len("localhost:8000") :], content=body, headers=headers)


async def operator(make_core, settings, tokens, provider, definition: dict[str, Any]) -> tuple[Any, httpx.AsyncClient]:
    core = await make_core(provider, tools=(calculate,))
    await core.agents.create(msgspec.convert(definition, Definition))
    app = create_app(core, settings, tokens=tokens, api_key=ApiKey(sha256(KEY.encode()).digest()))
    return core, caller(app, KEY)


async def test_the_approval_of_the_page_can_be_followed(make_core, settings, tokens):
    """Asked, listed, decided, streamed, denied as another person, corrected, on record: each example as it is."""
    demo = DemoProvider(SystemClock(), rate=0)
    _, client = await operator(make_core, settings, tokens, demo, yaml.safe_load(YAMLS[0]))
    ask, listing, yes, stream, no, correct, audit, *_ = CURLS
    async with client:
        waits = (await run(client, ask)).json()
        assert waits["status"] == "waiting"
        (found,) = (await run(client, listing)).json()["items"]
        assert found["id"] == waits["pending"][0]["approval"]
        assert (await run(client, yes, APPROVAL=found["id"])).json()["status"] == "approved"
        stream_frames = frames((await run(client, stream, RUN=waits["id"])).text)
        assert stream_frames[-1].event == "run.completed"
        said = next(frame for frame in reversed(stream_frames) if frame.event == "message.completed")
        assert "12 * 7 is 84" in said.data["parts"][0]["text"]
        again = (await run(client, ask)).json()["pending"][0]["approval"]
        denied = (await run(client, no, APPROVAL=again)).json()
        assert (denied["status"], denied["decided_by"]["name"]) == ("denied", "Ann")
        third = (await run(client, ask)).json()["pending"][0]["approval"]
        corrected = (await run(client, correct, APPROVAL=third)).json()
        assert (corrected["status"], corrected["arguments"]) == ("approved", {"expression": "12 * 7.5"})
        kinds = [json.loads(line)["kind"] for line in (await run(client, audit)).text.splitlines()]
        assert kinds == ["requested", "approved", "requested", "denied", "requested", "approved"]


async def test_the_client_tool_of_the_page_can_be_followed(make_core, settings, tokens):
    """The run needs the client, takes its output, and goes on to its end."""
    provider = ScriptedProvider(guide)
    core, client = await operator(make_core, settings, tokens, provider, yaml.safe_load(YAMLS[1]))
    *_, ask, output = CURLS
    async with client:
        waits = (await run(client, ask)).json()
        assert waits["status"] == "requires_action"
        assert waits["pending"][0]["arguments"] == {"what": "home"}
        names = {"RUN": waits["id"], "CALL": waits["pending"][0]["call"]}
        assert (await run(client, output, **names)).status_code == 200
    assert (await core.settled(waits["id"], timeout=PATIENCE)).text == "In Bern."


@pytest.mark.parametrize("text", YAMLS)
def test_the_files_are_agents(tmp_path, text):
    """Each agent on the page can be read as a file."""
    (tmp_path / "agent.yaml").write_text(text)
    assert read_agent(tmp_path / "agent.yaml").name in {"careful", "guide"}


def test_the_tables_are_the_codes():
    """Every field of a policy, every kind of the record, and the bounds are on the page."""
    for field in ApprovalConfig.__struct_fields__:
        assert re.search(rf"^\|.*`{field}`", PAGE, re.MULTILINE), field
    defaults = ApprovalConfig()
    assert (
        f"| `timeout_s` | {defaults.timeout_s} | seconds until it is over, 1 to {MAX_TIMEOUT:,.0f} (30 days) |" in PAGE
    )
    assert f"1 to {MAX_QUORUM};" in PAGE
    assert f"`[{', '.join(defaults.responders)}]`" in PAGE
    record = PAGE[PAGE.index("## The record") :]
    assert [kind for kind in AuditKind.__args__ if f"`{kind}`" not in record] == []
