"""Bodies that are nested deeply: one bound for all of them, and what it lets through is taken by all that follows."""

import json
from typing import Any

import httpx
import pytest

from agent_core.schemas import MAX_DEPTH
from tests.app.api.shop import LOOKS, WHERE, Open, asked, open_one
from tests.polling import PATIENCE

pytestmark = pytest.mark.sampled(3)

JSON = {"Content-Type": "application/json"}
HERE = '"?"'
LEVELS = (MAX_DEPTH + 1, 200, 500, 900, 1_000, 10_000)
HOOK = {"event": "PreToolUse", "type": "rule", "config": {"conditions": HERE}}
TOOL = {"name": "t", "kind": "client", "description": "d", "parameters": {"type": "object", "properties": HERE}}
NEW = {"name": "deep", "instructions": "Be."}
RUNS = "/v1/agents/assistant/runs"
FREE: dict[str, tuple[str, Any, str]] = {
    "metadata": ("/v1/sessions", {"agent": "assistant", "metadata": HERE}, "metadata.a.a.a.a"),
    "a tool": ("/v1/agents", {**NEW, "tools": ["calculate", TOOL]}, "tools[1].parameters.properties.a"),
    "a hook": ("/v1/agents", {**NEW, "hooks": [HOOK]}, "hooks[0].config.conditions.a"),
    "an agent's schema": ("/v1/agents", {**NEW, "controls": {"output_schema": HERE}}, "controls.output_schema.a.a.a"),
    "a run's schema": (RUNS, {"input": "Hi", "controls": {"output_schema": HERE}}, "controls.output_schema.a.a.a"),
    "a tool context": (RUNS, {"input": "Hi", "controls": {"tool_context": HERE}}, "controls.tool_context.a.a.a"),
    "an output": ("/v1/runs/run_x/tool-outputs", {"outputs": [{"call": "c", "output": HERE}]}, "outputs[0].output.a.a"),
    "an argument": ("/v1/approvals/apr_x", {"approved": True, "arguments": HERE}, "arguments.a.a.a.a"),
    "what no field is": ("/v1/web/visitor-tokens", {'odd"{': ["[}\\", HERE]}, 'odd"{[1].a.a.a'),
    "a list": ("/v1/sessions", [1, [], HERE], "[2].a.a.a.a"),
    "lists": ("/v1/sessions", HERE, "a.a.a.a.a"),
}


def nested(body: Any, levels: int) -> str:
    """Return *body* with objects in the place of `HERE`, so that it has as many *levels* in all."""
    text = json.dumps(body)
    above = text[: text.index(json.dumps(HERE))]
    own = sum(above.count(opens) for opens in "{[") - sum(above.count(ends) for ends in "}]")
    own = {'{"odd\\"{": ["[}\\\\", ': 2}.get(above, own)  # brackets of texts
    return text.replace(json.dumps(HERE), '{"a":' * (levels - own) + "1" + "}" * (levels - own))


@pytest.mark.sqlite
@pytest.mark.parametrize("free", FREE)
async def test_a_body_has_a_hundred_levels(client: httpx.AsyncClient, free: str):
    """However much deeper it is, it answers 422 with the path, wherever the depth is and before anything is done."""
    path, body, place = FREE[free]
    for levels in LEVELS:
        answer = await client.post(path, content=nested(body, levels), headers=JSON)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request"), (levels, answer.text)
        assert answer.json()["errors"] == [{"path": place, "message": "nested more than 100 levels deep."}]
    taken = await client.post(path, content=nested(body, MAX_DEPTH), headers=JSON)
    assert "nested more" not in taken.text


async def test_what_is_as_deep_as_it_may_be_is_kept(shop: Open):
    """A hundred levels in a session, an agent, a run, an output and a correction are accepted everywhere."""
    anything = {"type": "object", "properties": {"what": {}}}
    here = await shop(LOOKS, declared=(type(WHERE)(**{**_fields(WHERE), "parameters": anything}),))
    post = here.operator.post
    opened = await post("/v1/sessions", content=nested(FREE["metadata"][1], MAX_DEPTH), headers=JSON)
    assert opened.status_code == 201
    assert (await here.operator.get(f"/v1/sessions/{opened.json()['id']}")).json() == opened.json()
    parameters = {"type": "object", "properties": {"what": HERE}}
    tool = {**TOOL, "name": "deep", "parameters": parameters}
    text = nested({**NEW, "tools": [tool]}, MAX_DEPTH).replace('"a":', '"not":').replace("1}", "true}")
    made = await post("/v1/agents", content=text, headers=JSON)
    assert made.status_code == 201, made.text
    run = (await post(RUNS, json={"input": "Go"})).json()
    first, second = (call["call"] for call in run["pending"])
    body = {"outputs": [{"call": first, "output": HERE}, {"call": second, "output": 1}]}
    taken = await post(f"/v1/runs/{run['id']}/tool-outputs", content=nested(body, MAX_DEPTH), headers=JSON)
    assert taken.status_code == 200, taken.text
    assert (await here.core.settled(run["id"], timeout=PATIENCE)).status == "completed"


async def test_corrected_arguments_are_as_deep_as_any_body(shop: Open):
    """What the bound lets through is held against the tool's schema, as anything is."""
    here = await shop(edit=True)
    await asked(await here.visitor())
    path = f"/v1/approvals/{(await open_one(here.operator))['id']}"
    content = nested({"approved": True, "arguments": {"amount": HERE}}, MAX_DEPTH)
    answer = await here.operator.post(path, content=content, headers=JSON)
    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, "arguments.amount")
    assert here.till.paid == []


def _fields(tool: Any) -> dict[str, Any]:
    return {name: getattr(tool, name) for name in tool.__struct_fields__}
