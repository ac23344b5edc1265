"""Controls over HTTP: what is taken, what is refused with its path, and what is never shown."""

import json
from typing import Any

import httpx

from agent_core.agents import Controls
from agent_core.controls import NamedTool
from agent_core.schemas import MAX_DEPTH
from agent_core.testing import call, say
from tests.app.frames import frames
from tests.cases import for_each

PATH = "/v1/agents/assistant/runs"
SECRET = "tok-2718281828459045"
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
WHOLE: dict[str, Any] = {
    "max_steps": 7,
    "max_output_tokens": 100,
    "effort": "low",
    "temperature": 0.5,
    "tool_choice": {"tool": "calculate"},
    "active_tools": ["calculate"],
    "step_rules": [{"step": 2, "tool_choice": "none"}, {"step": 3, "active_tools": []}],
    "stop_conditions": [{"type": "has_tool_call", "tool": "calculate"}],
    "output_schema": SCHEMA,
    "budget": {"usd": "0.50", "tokens": 1000},
    "include_render": False,
}


async def test_all_controls_are_an_agents_and_a_runs(client: httpx.AsyncClient, taken):
    """Each field comes back as it was sent, and reaches the core in a run of its own."""
    given = {"name": "scout", "instructions": "Look around.", "tools": ["calculate"], "controls": WHOLE}
    made = await client.post("/v1/agents", json=given)
    assert (made.status_code, made.json()["controls"]) == (201, WHOLE)
    await client.post(PATH, json={"input": "Hi", "controls": WHOLE, "mode": "background"})
    (inbound,) = taken
    assert inbound.controls.tool_choice == NamedTool("calculate")
    assert inbound.controls.step_rules[1].active_tools == ()
    assert inbound.controls.budget.usd == "0.50"


async def test_a_structured_answer_is_in_the_run_and_in_its_end(client: httpx.AsyncClient, visitor, model):
    """`output.structured` and `run.completed.structured` are the value, for a visitor too; absent without a schema."""
    model.provider._script = lambda request: [say('{"n": 7}')]
    run = (await client.post(PATH, json={"input": "Hi", "controls": {"output_schema": SCHEMA}})).json()
    assert run["output"]["structured"] == {"n": 7}
    seen = frames((await client.get(f"/v1/runs/{run['id']}/events")).text)
    assert seen[-1].data["structured"] == {"n": 7}
    plain = (await client.post(PATH, json={"input": "Hi"})).json()
    assert "structured" not in plain["output"]


async def test_a_tool_context_is_never_shown(client: httpx.AsyncClient, core, model):
    """It is in no answer and no event, and a change of something else keeps it; only the tools are handed it."""
    context = {"controls": {"tool_context": {"token": SECRET}}}
    changed = await client.patch("/v1/agents/assistant", json=context)
    kept = await client.patch("/v1/agents/assistant", json={"controls": {"max_steps": 9}})
    assert (changed.status_code, kept.json()["controls"]) == (200, {"max_steps": 9})
    run = (await client.post(PATH, json={"input": "1 + 1", **context})).json()
    events = (await client.get(f"/v1/runs/{run['id']}/events")).text
    listed = [(await client.get(path)).text for path in ("/v1/agents", "/v1/runs", f"/v1/runs/{run['id']}")]
    assert SECRET not in "".join((changed.text, kept.text, json.dumps(run), events, *listed))
    stored = await core.agents.find("assistant")
    assert stored.object.definition.controls == Controls(max_steps=9, tool_context={"token": SECRET})


@for_each(
    "controls, path",
    [
        ({"tool_choice": "any"}, "controls.tool_choice"),
        ({"tool_choice": {"tool": "gone"}}, "controls.tool_choice.tool"),
        ({"tool_choice": {"name": "calculate"}}, "controls.tool_choice.tool"),
        ({"active_tools": "calculate"}, "controls.active_tools"),
        ({"active_tools": ["gone"]}, "controls.active_tools"),
        ({"step_rules": [{"step": 0}]}, "controls.step_rules[0].step"),
        ({"step_rules": [{"step": 1, "max_steps": 2}]}, "controls.step_rules[0].max_steps"),
        ({"step_rules": [{"step": 1, "active_tools": []}] * 2}, "controls.step_rules[1].step"),
        ({"stop_conditions": [{"type": "never", "tool": "calculate"}]}, "controls.stop_conditions[0].type"),
        ({"output_schema": {"$ref": "https://example.org/schema"}}, "controls.output_schema"),
        ({"output_schema": True}, "controls.output_schema"),
        ({"budget": {}}, "controls.budget"),
        ({"budget": {"usd": 0.5}}, "controls.budget.usd"),
        ({"budget": {"usd": "1\n"}}, "controls.budget.usd"),
        ({"budget": {"eur": "1"}}, "controls.budget.eur"),
        ({"tool_context": "token"}, "controls.tool_context"),
        ({"include_render": "yes"}, "controls.include_render"),
        ({"knowledge": []}, "controls.knowledge"),
    ],
)
async def test_controls_that_cannot_be_followed_are_refused(client: httpx.AsyncClient, taken, controls, path):
    """The answer is 422 with the field's path, for a run, a message and an agent; no run begins."""
    session = (await client.post("/v1/sessions", json={"agent": "assistant"})).json()["id"]
    for answer in (
        await client.post(PATH, json={"input": "Hi", "controls": controls}),
        await client.post(f"/v1/sessions/{session}/messages", json={"text": "Hi", "controls": controls}),
        await client.patch("/v1/agents/assistant", json={"controls": controls}),
    ):
        assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, path)
        assert SECRET not in answer.text
    assert (await client.get("/v1/runs")).json()["items"] == []


async def test_a_secret_is_not_repeated_in_a_refusal(client: httpx.AsyncClient):
    """What is wrong beside a context, or with it, is reported without it."""
    for wrong in ({"max_steps": 0}, {"budget": {}}, {"tool_context": [SECRET]}):
        controls = {"tool_context": {"token": SECRET}, **wrong}
        answer = await client.post(PATH, json={"input": "Hi", "controls": controls})
        assert (answer.status_code, SECRET in answer.text) == (422, False)


@for_each("depth", [98, 99, 800, 950, 990, 5000])
@for_each("field", ["tool_context", "output_schema"])
async def test_no_depth_breaks_the_server(client: httpx.AsyncClient, field: str, depth: int):
    """However deep a value is nested, it is taken, or refused with its place."""
    deep = '{"a":' * depth + "1" + "}" * depth
    body = '{"input": "Hi", "controls": {"%s": %s}}' % (field, deep)  # noqa: UP031 - braces
    answer = await client.post(PATH, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == (422 if depth + 2 > MAX_DEPTH else 200), answer.text


async def test_a_run_that_must_call_calls(client: httpx.AsyncClient, model):
    """Words are not taken where a call must come; the run ends as its stop condition says."""
    answers = iter([[say("No.")], [call("calculate", expression="6 * 7")]])
    model.provider._script = lambda request: next(answers)
    controls = {"tool_choice": "required", "stop_conditions": WHOLE["stop_conditions"]}
    run = (await client.post(PATH, json={"input": "Hi", "controls": controls})).json()
    assert (run["status"], run["stop_reason"], run["steps"]) == ("completed", "stop_condition", 1)
