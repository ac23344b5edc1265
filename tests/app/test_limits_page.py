"""The page about limits: its examples are agents, and its defaults are those of the code."""

import json
import re
from pathlib import Path

import httpx
import msgspec
import yaml

from agent_core.agents import Definition, gathered
from agent_core.core import Core
from agent_core.quotas import VisitorQuota

PAGE = (Path(__file__).parents[2] / "docs" / "limits.md").read_text("utf-8")
(YAML,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
(CHANGE,) = re.findall(r"-d '(.*?)'\n", PAGE)


async def test_the_example_is_an_agent_with_the_defaults_of_visitors(core: Core):
    """The YAML example can be run as it is, and the quota of visitors in it is the one that holds without it."""
    definition = msgspec.convert(gathered(yaml.safe_load(YAML)), Definition)
    core.agents.check(definition, ())
    assert definition.limits.visitor == VisitorQuota()


async def test_the_change_keeps_the_other_bounds(client: httpx.AsyncClient):
    """The example of a change does what the page says of it."""
    agent = {"name": "helpdesk", "instructions": "Help.", "limits": yaml.safe_load(YAML)["limits"]}
    assert (await client.post("/v1/agents", json=agent)).status_code == 201
    changed = (await client.patch("/v1/agents/helpdesk", json=json.loads(CHANGE))).json()["limits"]
    assert changed["visitor"] == {**agent["limits"]["visitor"], "messages_per_day": 50}
    assert changed["everyone"]["cost_per_day"] is None
