"""The schemas of declared tools: which are taken, and what becomes of a call when a stored one is of no use."""

import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from agent_core.runtime import agent_checks
from agent_core.testing import by_step, call, say
from tests.app.api.shop import WHERE, Open

pytestmark = pytest.mark.sampled(3)

NEW = {"name": "guide", "instructions": "Be."}
CALLS = by_step((call("where", what="a" * 200 + "!"),), (say("There."),))


@pytest.fixture
def elsewhere() -> Iterator[socket.socket]:
    """A port that no request may reach; `accept` returns one that did."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(0.2)  # a request that comes all the same gets no answer
    try:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.setblocking(False)
            yield listening
    finally:
        socket.setdefaulttimeout(before)


def declared(what: Any, **more: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"what": what}, **more}
    return {"name": "where", "kind": "client", "description": "Where.", "parameters": parameters}


@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("tool", "place"),
    [
        (declared({"$ref": "#/$defs/gone"}), ".properties.what.$ref"),
        (declared({"$ref": "http://127.0.0.1:1/schema.json"}), ".properties.what.$ref"),
        (declared({"$ref": "file:///etc/passwd"}), ".properties.what.$ref"),
        (declared({}, **{"$ref": "#"}), ""),
        (declared({"pattern": "(?=x)"}), ".properties.what.pattern"),
        (declared({"pattern": "x" * 1_001}), ".properties.what.pattern"),
        (declared({"description": "x" * 32_000}), ""),
        (declared({"type": "strin"}), ".properties.what.type"),
    ],
)
async def test_a_tool_that_no_call_could_fit_is_refused(client: httpx.AsyncClient, tool: dict[str, Any], place: str):
    """A new agent and a changed one with such parameters answer 422 with the place of the fault."""
    for answer in (
        await client.post("/v1/agents", json={**NEW, "tools": [tool]}),
        await client.patch("/v1/agents/assistant", json={"tools": [tool]}),
    ):
        assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, f"tools[0].parameters{place}")
        assert "no JSON Schema" in answer.json()["errors"][0]["message"]


@pytest.mark.sqlite
async def test_an_answers_schema_that_leads_nowhere_is_refused(client: httpx.AsyncClient):
    """An agent's and a run's alike: 422 with the place, and nothing begins."""
    schema = {"properties": {"a": {"$ref": "https://example.org/a"}}}
    controls = {"output_schema": schema}
    for answer in (
        await client.post("/v1/agents", json={**NEW, "controls": controls}),
        await client.post("/v1/agents/assistant/runs", json={"input": "Hi", "controls": controls}),
    ):
        assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, "controls.output_schema")
        assert "$.properties.a.$ref" in answer.json()["detail"]
    assert (await client.get("/v1/runs")).json()["items"] == []


@pytest.mark.parametrize(
    "parameters",
    [
        {"$ref": "#/$defs/gone"},
        {"$ref": "http://127.0.0.1:{port}/schema.json"},
        {"$ref": "#"},
        {"properties": {"what": {"pattern": "(?=x)"}}},
    ],
    ids=["gone", "elsewhere", "endless", "slow"],
)
async def test_a_stored_schema_of_no_use_fails_the_call_alone(
    shop: Open, monkeypatch: pytest.MonkeyPatch, elsewhere: socket.socket, parameters: dict[str, Any]
):
    """What an older version kept is a failed call for the model; no other host is asked."""
    monkeypatch.setattr(agent_checks, "check_parameters", lambda *_: None)
    port = elsewhere.getsockname()[1]
    given = {name: each.format(port=port) if isinstance(each, str) else each for name, each in parameters.items()}
    tool = type(WHERE)(name="where", kind="client", description="Where.", parameters={"type": "object", **given})
    here = await shop(CALLS, declared=(tool,))
    run = (await here.operator.post("/v1/agents/assistant/runs", json={"input": "Go"})).json()
    assert (run["status"], run["output"]["text"]) == ("completed", "There.")
    with pytest.raises(BlockingIOError):
        elsewhere.accept()


async def test_a_pattern_takes_no_longer_than_the_text(shop: Open):
    """A pattern that other libraries never end with is matched at once: the call fails, with an error for the model."""
    tool = type(WHERE)(
        name="where",
        kind="client",
        description="Where.",
        parameters={"type": "object", "properties": {"what": {"type": "string", "pattern": "^(a|a)*$"}}},
    )
    here = await shop(CALLS, declared=(tool,))
    run = (await here.operator.post("/v1/agents/assistant/runs", json={"input": "Go"})).json()
    assert (run["status"], run["output"]["text"]) == ("completed", "There.")
