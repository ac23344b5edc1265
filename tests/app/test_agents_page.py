"""docs/agents.md against the product: its example is an agent, its commands run, its numbers are the code's."""

import json
import re
import shlex
from pathlib import Path
from typing import get_args

import httpx
import msgspec
import yaml

from agent_core.agents import MAX_IDLE, PLAIN_DEFAULTS, Persona
from agent_core.channels import Overlap
from agent_core.core import Core
from agent_core.events import SnapshotFrozen
from app.api.wire import AgentFields
from channels.web.settings import Web
from tests.agent_core.scenes import log_of

PAGE = (Path(__file__).parents[2] / "docs" / "agents.md").read_text("utf-8")
EXAMPLE, CLOCK, ON_A_PAGE = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
CURLS = [shlex.split(line) for block in BLOCKS for line in re.sub(r"\\\n", " ", block).splitlines()]


async def test_the_example_runs(client: httpx.AsyncClient, core: Core):
    """The agent of the page is made, edited, and taken up by a session as the page says."""
    assert (await client.post("/v1/agents", json={**EXAMPLE, **CLOCK})).status_code == 201
    session = (await client.post("/v1/sessions", json={"agent": "concierge", "actor": "ann"})).json()["id"]
    edit, refreeze = CURLS
    path = edit[edit.index("PATCH") + 1].removeprefix("localhost:8000")
    edited = await client.patch(path, json=json.loads(edit[-1]))
    assert (edited.status_code, edited.json()["persona"]["style"]) == (200, "Formal.")
    path = refreeze[refreeze.index("POST") + 1].removeprefix("localhost:8000").replace("$SESSION", session)
    assert (await client.post(path)).status_code == 200
    frozen = [fact.body for fact in await log_of(core, session) if isinstance(fact.body, SnapshotFrozen)]
    assert [each.reason for each in frozen] == ["opened", "asked"]


async def test_the_place_on_a_page_is_what_a_page_gets(client: httpx.AsyncClient):
    """What the page configures of `web` is taken, and is in the face of the agent; each field is in its table."""
    await client.post("/v1/agents", json={**EXAMPLE, **ON_A_PAGE})
    face = (await client.get("/v1/web/agent?agent=concierge")).json()
    given = {name: value for name, value in ON_A_PAGE["web"].items() if name != "show_tools"}
    assert {name: face[name] for name in given} == given
    assert [name for name in given if f"| `{name}` |" not in PAGE] == []


def test_the_page_names_what_there_is():
    """Its fields are an agent's, its texts of a persona are all there are, its numbers are the defaults and bounds."""
    named = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
    values = {"idle", "compaction", "asked", *get_args(Overlap)}
    assert set(named) - values <= {*AgentFields.__struct_fields__, *Web.__struct_fields__}
    assert [name for name in Persona.__struct_fields__ if f"`{name}`" not in PAGE] == []
    assert f"{PLAIN_DEFAULTS.idle_refreeze_s:,}" in PAGE
    assert f"{MAX_IDLE:,}" in PAGE
    assert msgspec.convert(EXAMPLE, AgentFields).persona is not None
