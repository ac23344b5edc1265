"""Fields of an agent's prompt over HTTP, and the route by which a session takes up the newest version."""

from typing import Any

import httpx

from agent_core.agents import AgentDefaults
from agent_core.core import Core
from tests.app.api.test_sessions import opened
from tests.cases import for_each

NEW = {"name": "scout", "instructions": "Look around."}
FIELDS = {
    "persona": {"identity": "You are Otto.", "style": None, "avoid": "Puns.", "defaults": None},
    "operating_contract": "Obey Ann.",
    "prompt_caching": False,
    "idle_refreeze_s": 60,
    "tool_limit": 0,
    "compaction": {"kind": "cut", "model": None},
}
ABSENT = {
    "persona": None,
    "operating_contract": None,
    "prompt_caching": True,
    "idle_refreeze_s": 1800,
    "tool_limit": 40,
    "compaction": {"kind": "summary", "model": None},
}


def of_prompt(agent: dict[str, Any]) -> dict[str, Any]:
    return {name: agent[name] for name in FIELDS}


async def test_fields_of_the_prompt_are_kept_changed_and_taken_away(client: httpx.AsyncClient):
    """What an author gives is shown; a PATCH changes what it names, and null takes a value away."""
    made = await client.post("/v1/agents", json={**NEW, **FIELDS})
    assert (made.status_code, of_prompt(made.json())) == (201, FIELDS)
    change = {"persona": {"avoid": None, "style": "Short."}, "compaction": {"model": "scripted:small"}}
    changed = (await client.patch("/v1/agents/scout", json=change)).json()
    persona = {"identity": "You are Otto.", "style": "Short.", "avoid": None, "defaults": None}
    compaction = {"kind": "cut", "model": "scripted:small"}
    assert of_prompt(changed) == {**FIELDS, "persona": persona, "compaction": compaction}
    nothing = {**dict.fromkeys(FIELDS), "compaction": {"kind": "summary", "model": None}}
    taken = await client.patch("/v1/agents/scout", json=nothing)
    assert (taken.status_code, of_prompt(taken.json())) == (200, ABSENT)
    assert (await client.patch("/v1/agents/scout", json={"operating_contract": ""})).json()["operating_contract"] == ""


async def test_absent_fields_show_what_holds(client: httpx.AsyncClient, core: Core):
    """Without a word of the agent's, what holds for its prompts and its clock is what the process says."""
    made = (await client.post("/v1/agents", json=NEW)).json()
    assert of_prompt(made) == ABSENT
    core.agents.defaults = AgentDefaults(prompt_caching=False, idle_refreeze_s=7, tool_limit=9, clock="Asia/Tokyo")
    shown = (await client.get("/v1/agents/scout")).json()
    listed = [each for each in (await client.get("/v1/agents")).json()["items"] if each["name"] == "scout"]
    assert listed == [shown]
    assert [shown[name] for name in ("prompt_caching", "idle_refreeze_s", "tool_limit", "clock")] == [
        False,
        7,
        9,
        "Asia/Tokyo",
    ]


@for_each(
    "given, path, says",
    [
        ({"compaction": {"model": "acme:m"}}, "compaction.model", "no provider `acme` here"),
        ({"compaction": {"kind": "squeeze"}}, "compaction.kind", "'summary', 'cut' or 'off'"),
        ({"persona": {"mood": "dark"}}, "persona.mood", ""),
        ({"persona": {"style": 1}}, "persona.style", ""),
        ({"persona": {"style": "x" * 50_001}}, "persona.style", "50000"),
        ({"operating_contract": "x" * 50_001}, "operating_contract", "50000"),
        ({"clock": "CEST!"}, "clock", "Europe/Berlin"),
        ({"idle_refreeze_s": -1}, "idle_refreeze_s", ""),
        ({"idle_refreeze_s": 2_592_001}, "idle_refreeze_s", "2592000"),
        ({"prompt_caching": "yes"}, "prompt_caching", ""),
        ({"tool_limit": 1_001}, "tool_limit", "1000"),
        ({"router": "some"}, "router", "'auto', 'meta', 'native' or 'off'"),
    ],
)
async def test_fields_that_cannot_be_are_refused(client: httpx.AsyncClient, given: Any, path: str, says: str):
    """A model without a provider, an unknown field and a value out of bounds answer 422 and name the field."""
    for answer in (
        await client.post("/v1/agents", json={**NEW, **given}),
        await client.patch("/v1/agents/assistant", json=given),
    ):
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
        (fault,) = answer.json()["errors"]
        assert fault["path"] == path
        assert says in fault["message"]


async def test_a_session_takes_up_the_newest_version_when_it_is_asked_to(client: httpx.AsyncClient):
    """The answer is the session; its log says that the prompt changed, and its next run is of the newest version."""
    session = await opened(client)
    path = f"/v1/sessions/{session['id']}"
    await client.patch("/v1/agents/assistant", json={"persona": {"style": "Formal."}})
    for _ in range(2):
        asked = await client.post(f"{path}/refreeze")
        assert (asked.status_code, asked.json()["id"]) == (200, session["id"])
    events = (await client.get(f"{path}/events", params={"until": "idle"})).text
    assert events.count('"reason":"asked"') == 1
    body = {"input": "Hello", "session": session["id"]}
    assert (await client.post("/v1/agents/assistant/runs", json=body)).json()["agent_version"] == 2
    assert (await client.post("/v1/sessions/ses_none/refreeze")).status_code == 404
    await client.post(f"{path}/close")
    late = await client.post(f"{path}/refreeze")
    assert (late.status_code, late.json()["code"]) == (409, "session_closed")
