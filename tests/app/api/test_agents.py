"""Routes of agents."""

import httpx
import msgspec

from agent_core.agents import Limits
from agent_core.core import Core
from agent_core.tools.toolset import Static
from tests.cases import for_each

NEW = {"name": "scout", "instructions": "Look around."}


async def test_an_agent_is_made_changed_and_deleted(client: httpx.AsyncClient):
    """Creating answers 201, changing makes a version and keeps the rest, deleting answers 204."""
    made = await client.post(
        "/v1/agents", json={**NEW, "tools": ["calculate"], "limits": {"max_context_messages": None}}
    )
    assert made.status_code == 201
    body = made.json()
    assert (body["version"], body["tools"], body["limits"]) == (
        1,
        ["calculate"],
        {**msgspec.to_builtins(Limits()), "max_context_messages": None},
    )
    changed = await client.patch("/v1/agents/scout", json={"controls": {"max_steps": 3}})
    assert changed.json() == {**body, "version": 2, "controls": {"max_steps": 3}}
    assert (await client.get(f"/v1/agents/{body['id']}")).json()["version"] == 2
    gone = await client.delete("/v1/agents/scout")
    assert (gone.status_code, gone.content) == (204, b"")
    assert (await client.get("/v1/agents/scout")).status_code == 404


async def test_a_change_within_a_group_keeps_the_rest_of_it(client: httpx.AsyncClient):
    """Absent stays in controls and limits too: one of them is changed without naming the others."""
    groups = {"controls": {"max_steps": 7, "tool_choice": "none"}, "limits": {"max_context_messages": 9}}
    made = (await client.post("/v1/agents", json={**NEW, **groups, "web": {"show_tools": "full"}})).json()
    change = {"controls": {"max_steps": 8}, "limits": {}, "web": {}}
    changed = (await client.patch("/v1/agents/scout", json=change)).json()
    assert changed == {**made, "version": 2, "controls": {"max_steps": 8, "tool_choice": "none"}}
    cleared = (await client.patch("/v1/agents/scout", json={"controls": {"tool_choice": None}})).json()
    assert cleared["controls"] == {"max_steps": 8}


async def test_no_agent_is_named_like_an_id(client: httpx.AsyncClient):
    """A name that begins as ids do answers 422 with the remedy, so that an id always means its own agent."""
    await client.post("/v1/agents", json=NEW)
    for answer in (
        await client.post("/v1/agents", json={**NEW, "name": "agent_x"}),
        await client.patch("/v1/agents/scout", json={"name": "agent_x"}),
    ):
        assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, "name")
        assert "choose another name" in answer.json()["detail"]


async def test_controls_of_the_model_are_kept(client: httpx.AsyncClient):
    """Effort, length, temperature and fallback models are fields of an agent, and null takes one back."""
    controls = {"max_output_tokens": 4000, "effort": "high", "temperature": 0.5}
    given = {**NEW, "fallback_models": ["scripted:spare"], "controls": controls}
    made = await client.post("/v1/agents", json=given)
    assert (made.status_code, made.json()["fallback_models"]) == (201, ["scripted:spare"])
    assert made.json()["controls"] == controls
    change = {"fallback_models": [], "controls": {"effort": None, "temperature": 1}}
    changed = (await client.patch("/v1/agents/scout", json=change)).json()
    assert changed["fallback_models"] == []
    assert changed["controls"] == {"max_output_tokens": 4000, "temperature": 1.0}


@for_each(
    "given, path",
    [
        ({"fallback_models": ["acme:m"]}, "fallback_models[0]"),
        ({"fallback_models": "scripted:m"}, "fallback_models"),
        ({"controls": {"max_output_tokens": 0}}, "controls.max_output_tokens"),
        ({"controls": {"effort": "huge"}}, "controls.effort"),
        ({"controls": {"temperature": 2.1}}, "controls.temperature"),
        ({"controls": {"temperature": "warm"}}, "controls.temperature"),
        ({"controls": {"model": "acme:m"}}, "controls.model"),
    ],
)
async def test_controls_that_no_model_takes_are_refused(client: httpx.AsyncClient, given, path):
    """A provider that is not there, an unknown effort and numbers out of bounds answer 422 with the field."""
    answer = await client.post("/v1/agents", json={**NEW, **given})
    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, path)


async def test_an_agent_whose_tool_is_gone_opens_nothing(client: httpx.AsyncClient, core: Core):
    """After a start without one of its tools an agent answers 422 with its name and the tool's."""
    await client.post("/v1/agents", json={**NEW, "tools": ["calculate"]})
    core.agents._toolset = Static({})
    for path, body in (("/v1/sessions", {"agent": "scout"}), ("/v1/agents/scout/runs", {"input": "Hi"})):
        answer = await client.post(path, json=body)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
        assert "`scout` uses the tool `calculate`" in answer.json()["detail"]


async def test_agents_of_files_are_read_only(client: httpx.AsyncClient):
    """Changing or deleting an agent that a file defines answers 409 managed_by_file."""
    changed = await client.patch("/v1/agents/filed", json={"model": None})
    deleted = await client.delete("/v1/agents/filed")
    assert [changed.status_code, deleted.status_code] == [409, 409]
    assert changed.json()["code"] == "managed_by_file"


async def test_lists_come_in_pages(client: httpx.AsyncClient):
    """A page has the cursor of the next one; the last has null."""
    first = (await client.get("/v1/agents?limit=1")).json()
    second = (await client.get(f"/v1/agents?limit=1&cursor={first['next_cursor']}")).json()
    assert [a["name"] for a in first["items"] + second["items"]] == ["assistant", "filed"]
    assert second["next_cursor"] is None


WHERE = {"name": "where", "kind": "client", "description": "Where?", "parameters": {"type": "object"}}


async def test_hooks_and_tools_of_others_are_fields_of_an_agent(client: httpx.AsyncClient):
    """Names and declared tools are mixed in one list, hooks have their defaults; a change replaces a list whole."""
    asks = {"event": "PreToolUse", "type": "approval", "matcher": "calculate", "config": {"quorum": 2}}
    made = await client.post("/v1/agents", json={**NEW, "tools": ["calculate", WHERE], "hooks": [asks]})
    assert made.status_code == 201, made.text
    assert made.json()["tools"] == ["calculate", {**WHERE, "effect": "read"}]
    assert made.json()["hooks"] == [{**asks, "order": 0, "name": None}]
    assert (await client.get("/v1/agents/scout")).json() == made.json()
    kept = (await client.patch("/v1/agents/scout", json={"instructions": "Look twice."})).json()
    assert (kept["tools"], kept["hooks"]) == (made.json()["tools"], made.json()["hooks"])
    changed = (await client.patch("/v1/agents/scout", json={"tools": [{**WHERE, "kind": "none"}], "hooks": []})).json()
    assert (changed["version"], changed["tools"][0]["kind"], changed["hooks"]) == (3, "none", [])


def asks(**config) -> dict:
    """Return an agent's hooks: people are asked, as *config* says."""
    return {"hooks": [{"event": "PreToolUse", "type": "approval", "config": config}]}


DEEP: dict = {}
for _ in range(900):
    DEEP = {"properties": DEEP}


@for_each(
    "given, path",
    [
        ({"tools": [1]}, "tools[0]"),
        ({"tools": [{**WHERE, "kind": "server"}]}, "tools[0].kind"),
        ({"tools": [{"name": "where", "kind": "client"}]}, "tools[0].description"),
        ({"tools": [{**WHERE, "effect": "both"}]}, "tools[0].effect"),
        ({"tools": [{**WHERE, "name": "where is it"}]}, "tools[0].name"),
        ({"tools": [{**WHERE, "name": "calculate"}]}, "tools[0].name"),
        ({"tools": [WHERE, WHERE]}, "tools[1]"),
        ({"tools": [{**WHERE, "parameters": {"type": "text"}}]}, "tools[0].parameters"),
        ({"hooks": [{"event": "Sometimes", "type": "rule"}]}, "hooks[0].event"),
        ({"hooks": [{"event": "OnRunStart", "type": "approval"}]}, "hooks[0].event"),
        (asks(responders=["me"]), "hooks[0].config.responders"),
        (asks(people=2), "hooks[0].config"),
        (asks(quorum=0), "hooks[0].config.quorum"),
        (asks(timeout_s=0), "hooks[0].config.timeout_s"),
        (asks(deliver_to=["somewhere"]), "hooks[0].config.deliver_to"),
        (asks(deliver_to=["slak:C1"]), "hooks[0].config.deliver_to"),
        (asks(**DEEP), "hooks[0].config.properties.properties"),
        ({"tools": [{**WHERE, "parameters": {"type": "object", **DEEP}}]}, "tools[0].parameters.properties.properties"),
        ({"hooks": [{"event": "PreToolUse", "type": "approval"}] * 51}, "hooks"),
        ({"hooks": {"event": "PreToolUse"}}, "hooks"),
    ],
)
async def test_hooks_and_tools_that_cannot_be_are_refused(client: httpx.AsyncClient, given, path):
    """What is no tool and no hook answers 422 with its place, and nothing is made."""
    answer = await client.post("/v1/agents", json={**NEW, **given})
    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, path), answer.text
    assert (await client.get("/v1/agents/scout")).status_code == 404


async def test_agents_that_cannot_run_are_refused(client: httpx.AsyncClient):
    """An unknown tool or provider, and a name that is taken, answer 422 with the field."""
    for more, path in (({"tools": ["dig"]}, "tools"), ({"model": "acme:m"}, "model"), ({"name": "filed"}, "name")):
        answer = await client.post("/v1/agents", json={**NEW, **more})
        assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, path)


async def test_an_agent_has_its_places(client: httpx.AsyncClient):
    """Where in Slack an agent answers is a field of it; a change within keeps the rest, and defaults are shown."""
    made = await client.post("/v1/agents", json={**NEW, "slack": {"default": ["T1"], "channels": ["C1", "T2/C2"]}})
    assert made.status_code == 201
    assert made.json()["slack"] == {
        "default": ["T1"],
        "channels": ["C1", "T2/C2"],
        "follow_up": True,
        "allow_mentions": False,
        "external": "refuse",
        "loading": [],
        "prompts": [],
    }
    changed = await client.patch("/v1/agents/scout", json={"slack": {"default": False, "loading": ["Looking"]}})
    assert changed.json()["slack"] == {**made.json()["slack"], "default": False, "loading": ["Looking"]}


@for_each(
    "slack, path",
    [
        ({"channels": ["#general"]}, "slack.channels[0]"),
        ({"channels": "C1"}, "slack.channels"),
        ({"default": "T1"}, "slack.default"),
        ({"default": []}, "slack.default"),
        ({"external": "ask"}, "slack.external"),
        ({"loading": ["x"] * 11}, "slack.loading"),
        ({"mentions": True}, "slack.mentions"),
    ],
)
async def test_places_that_cannot_be_are_refused(client: httpx.AsyncClient, slack, path):
    """What is no id, no list or no setting answers 422 with the field."""
    answer = await client.post("/v1/agents", json={**NEW, "slack": slack})
    assert (answer.status_code, answer.json()["errors"][0]["path"].removesuffix(".bool")) == (422, path)


async def test_a_place_has_one_agent(client: httpx.AsyncClient):
    """Claiming a channel that another agent claims answers 422 with both names."""
    await client.post("/v1/agents", json={**NEW, "slack": {"channels": ["C1"]}})
    for answer in (
        await client.post("/v1/agents", json={**NEW, "name": "late", "slack": {"channels": ["T1/C1"]}}),
        await client.patch("/v1/agents/assistant", json={"slack": {"channels": ["C1"]}}),
    ):
        assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, "slack.channels")
        assert "`scout`" in answer.json()["detail"]
