"""Routes of tools."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Annotated, Any

import httpx
import pytest
from pydantic import Field

from agent_core.agents import ToolDefinition
from agent_core.core import Core
from agent_core.errors import Fault
from agent_core.runtime import tools as dry_runs
from agent_core.schemas import problems
from agent_core.testing import ScriptedProvider
from agent_core.tools.base import CallContext
from agent_core.tools.functions import tool
from agent_core.tools.toolset import Static
from tests.cases import for_each
from tests.conftest import MakeCore


@tool(effect="write", timeout=5)
async def book(
    room: str, guests: Annotated[int, Field(ge=1)], context: CallContext, *, price: float = 10.0
) -> dict[str, Any]:
    """Book a room."""
    context.progress(f"Booking {room}")
    return {"room": room, "total": guests * price, "by": context.actor.id, "as": context.tool_context.get("email")}


@tool(timeout=0.05)
async def stuck() -> str:
    """Never answer."""
    await asyncio.Event().wait()
    return ""


@tool
async def rows(handle: str, context: CallContext) -> int:
    """Count rows."""
    return len(await context.rows(handle))


NEW = {
    "name": "book_suite",
    "kind": "python",
    "config": {"tool": "book"},
    "preset": {"price": 99},
    "output": "{total: total, by: by}",
    "title": "Booking a suite",
    "title_done": "Booked a suite",
}


@pytest.fixture
async def core(make_core: MakeCore) -> Core:
    return await make_core(ScriptedProvider([]), tools=(book, stuck, rows))


async def test_a_tool_is_defined_changed_and_deleted(client: httpx.AsyncClient):
    """Creating answers 201 with what holds, changing makes a version and keeps the rest, deleting answers 204."""
    made = await client.post("/v1/tools", json=NEW)
    assert made.status_code == 201, made.text
    body = made.json()
    assert {name: body[name] for name in NEW} == NEW
    assert (body["version"], body["source"], body["effect"], body["timeout_s"]) == (1, "api", "write", 30)
    assert (body["description"], sorted(body["parameters"]["properties"])) == (
        "Book a room.",
        ["guests", "price", "room"],
    )
    changed = await client.patch("/v1/tools/book_suite", json={"preset": {"room": "7"}, "title": None})
    assert changed.json() == {**body, "version": 2, "preset": {"room": "7"}, "title": None}
    found = (await client.get(f"/v1/tools/{body['id']}")).json()
    assert [each["version"] for each in found.pop("versions")] == [2, 1]
    assert (found.pop("agents"), found) == ([], changed.json())
    gone = await client.delete("/v1/tools/book_suite")
    assert (gone.status_code, gone.content) == (204, b"")
    assert (await client.get("/v1/tools/book_suite")).json()["code"] == "not_found"


async def test_the_list_has_every_tool_of_the_process(client: httpx.AsyncClient):
    """Defined or not, by name, in pages; one without a definition has its name as id, and no version."""
    made = (await client.post("/v1/tools", json=NEW)).json()
    first = (await client.get("/v1/tools?limit=3")).json()
    rest = (await client.get(f"/v1/tools?cursor={first['next_cursor']}")).json()
    items = first["items"] + rest["items"]
    assert [(each["name"], each["id"], each["kind"], each["version"]) for each in items] == [
        ("book", "book", "python", None),
        ("book_suite", made["id"], "python", 1),
        ("rows", "rows", "python", None),
        ("stuck", "stuck", "python", None),
    ]
    assert rest["next_cursor"] is None
    assert (await client.get("/v1/tools?cursor=no.cursor")).json()["code"] == "unknown_cursor"


@for_each(
    "given, path",
    [
        ({"name": "book"}, "name"),
        ({"name": "mcp__a__b"}, "name"),
        ({"name": "tool_0123456789abcdef"}, "name"),
        ({"name": "two words"}, "name"),
        ({"config": {"tool": "bok"}}, "config.tool"),
        ({"config": {"tol": "book"}}, "config.tol"),
        ({"kind": "smoke"}, "kind"),
        ({"preset": {"colour": "red"}}, "preset.colour"),
        ({"preset": {"guests": 0}}, "preset.guests"),
        ({"preset": {"guests": "two"}}, "preset.guests"),
        ({"output": "total["}, "output"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"timeout_s": 3601}, "timeout_s"),
        ({"result_limit": 0}, "result_limit"),
        ({"context": ["no key"]}, "context[0]"),
        ({"context": ["actor", "Actor"]}, "context[1]"),
        ({"context": ["actor-name"]}, "context[0]"),
        ({"context": ["e-mail", "e_mail"]}, "context[1]"),
        ({"parameters": {"type": "object"}}, "parameters"),
        ({"parameters": {"type": "object", "anyOf": [{"required": ["a"]}]}}, "parameters.anyOf"),
        ({"parameters": {"type": "object", "properties": {"$top": {}}}}, "parameters.properties.$top"),
        ({"effect": "both"}, "effect"),
        ({"tests": [{}, {"outcome": "late"}]}, "tests[1].outcome"),
        ({"tests": [{"arguments": {"room": "7"}}]}, "tests[0].arguments.guests"),
        ({"tests": [{"outcome": "failed"}] * 21}, "tests"),
        ({"colour": "red"}, "colour"),
    ],
)
async def test_a_definition_that_cannot_work_is_refused(client: httpx.AsyncClient, given: dict[str, Any], path: str):
    """Making and changing answer 422 with the field, and nothing is stored."""
    answer = await client.post("/v1/tools", json={**NEW, **given})
    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, path), answer.text
    await client.post("/v1/tools", json={**NEW, "name": "other"})
    answer = await client.patch("/v1/tools/other", json=given)
    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, path), answer.text
    assert (await client.get("/v1/tools/other")).json()["version"] == 1


async def test_a_name_is_taken_once(client: httpx.AsyncClient, core: Core):
    """The error of a taken name says where it is."""
    core.tools.definitions._places = lambda: {"book": "tools/hotel.py:3"}
    taken = await client.post("/v1/tools", json={**NEW, "name": "book"})
    assert "is defined at tools/hotel.py:3" in taken.json()["detail"]
    for _ in range(2):
        answer = await client.post("/v1/tools", json=NEW)
    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, "name")
    assert "`book_suite` is defined already" in answer.json()["detail"]


async def test_tools_that_are_not_stored_here_are_read_only(client: httpx.AsyncClient, core: Core):
    """Those of files and of Python answer 409 managed_by_file to a change."""
    await core.tools.definitions.sync_files([ToolDefinition(name="filed", kind="python", config={"tool": "book"})])
    for name in ("filed", "book"):
        for answer in (
            await client.patch(f"/v1/tools/{name}", json={"title": "New"}),
            await client.delete(f"/v1/tools/{name}"),
        ):
            assert (answer.status_code, answer.json()["code"]) == (409, "managed_by_file")


async def test_agents_attach_tools_by_name_and_glob(client: httpx.AsyncClient):
    """A tool's agents are those that name it or have a glob that matches it; one that is named cannot be deleted."""
    await client.post("/v1/tools", json=NEW)
    for name, tools in (("anna", ["book_*"]), ("berta", ["book_suite", "book*"]), ("carl", ["rows", "nothing_*"])):
        made = await client.post("/v1/agents", json={"name": name, "instructions": "Help.", "tools": tools})
        assert (made.status_code, made.json()["tools"]) == (201, tools)
    assert (await client.get("/v1/tools/book_suite")).json()["agents"] == ["anna", "berta"]
    assert (await client.get("/v1/tools/book")).json()["agents"] == ["assistant", "berta"]
    refused = await client.delete("/v1/tools/book_suite")
    assert (refused.status_code, refused.json()["code"]) == (409, "tool_in_use")
    assert "`berta`" in refused.json()["detail"]
    assert "anna" not in refused.json()["detail"]
    unknown = await client.post("/v1/agents", json={"name": "dora", "instructions": "Help.", "tools": ["book_sute"]})
    assert "did you mean `book_suite`" in unknown.json()["detail"]


async def test_a_dry_run_calls_the_tool_for_the_operator(client: httpx.AsyncClient):
    """It has the presets, the mapping and the operator as actor; progress and the time are in the answer."""
    await client.post("/v1/tools", json={**NEW, "output": "{total: total, by: by, as: as}"})
    body = {"arguments": {"room": "7", "guests": 2}, "tool_context": {"email": "ann@site.example"}}
    answer = await client.post("/v1/tools/book_suite/call", json=body)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (found["outcome"], found["progress"], found["truncated"]) == ("done", ["Booking 7"], False)
    assert found["text"] == '{"total":198.0,"by":"operator","as":"ann@site.example"}'
    assert found["duration_ms"] >= 0
    assert (await client.post("/v1/tools/nothing/call", json={"arguments": {}})).status_code == 404


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("book", {"room": "7", "guests": 0}, "$.guests: 0 is less than the minimum of 1"),
        ("book", {}, "$.room: it is required."),
        ("book_suite", {"room": "7", "guests": 1, "price": 1}, "$.price: there is no such property"),
        ("stuck", {}, "did not answer within 0.05 s."),
        ("rows", {"handle": "r1"}, "This call is of no session."),
    ],
)
async def test_a_dry_run_fails_as_a_call_of_a_run(
    client: httpx.AsyncClient, name: str, arguments: dict[str, Any], said: str
):
    """What does not fit, takes too long, or needs a session is a failed outcome that says why."""
    await client.post("/v1/tools", json=NEW)
    answer = await client.post(f"/v1/tools/{name}/call", json={"arguments": arguments})
    assert (answer.status_code, answer.json()["outcome"]) == (200, "failed")
    assert said in answer.json()["text"]


async def test_a_result_that_cannot_be_mapped_is_not_shown(client: httpx.AsyncClient):
    """The tool has run: the outcome says so, and what is wrong with the expression."""
    await client.post("/v1/tools", json={**NEW, "output": "sum(room)"})
    body = {"arguments": {"room": "7", "guests": 1}}
    found = (await client.post("/v1/tools/book_suite/call", json=body)).json()
    assert found["outcome"] == "done"
    assert found["text"].startswith("It ran; its result cannot be shown (its `output`, `sum(room)`, failed:")


async def test_a_long_result_is_cut(client: httpx.AsyncClient):
    """The answer has `result_limit` characters and says how many there were."""
    await client.post("/v1/tools", json={**NEW, "output": None, "result_limit": 10})
    answer = (await client.post("/v1/tools/book_suite/call", json={"arguments": {"room": "7", "guests": 1}})).json()
    assert answer["truncated"] is True
    assert answer["parts"][0]["text"] == '{"room":"7'
    assert "[Cut after 10 of" in answer["text"]


async def test_visitors_see_no_tools(visitor: httpx.AsyncClient):
    """Every route of tools answers a visitor 403."""
    for method, path in (
        ("GET", "/v1/tools"),
        ("GET", "/v1/tools/book"),
        ("POST", "/v1/tools"),
        ("PATCH", "/v1/tools/book"),
        ("DELETE", "/v1/tools/book"),
        ("POST", "/v1/tools/book/call"),
        ("POST", "/v1/tools/book/test"),
    ):
        answer = await visitor.request(method, path, json=None if method in {"GET", "DELETE"} else {})
        assert answer.status_code == 403, (method, path)


async def test_arguments_are_checked_in_a_thread(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch):
    """As many as a request has values are checked outside of the event loop, and five faults are named."""
    on_loop: list[bool] = []

    def noted(schema: dict[str, Any], value: Any) -> Sequence[Fault]:
        on_loop.append(threading.current_thread() is threading.main_thread())
        return problems(schema, value)

    await client.post("/v1/tools", json=NEW)
    monkeypatch.setattr(dry_runs, "problems", noted)
    body = {"arguments": {f"a{n}": n for n in range(9_000)}}
    answer = (await client.post("/v1/tools/book_suite/call", json=body)).json()
    assert (answer["outcome"], answer["text"].count("$.a"), on_loop) == ("failed", 5, [False]), answer["text"]


async def test_a_tool_is_tested_without_a_call(client: httpx.AsyncClient, core: Core):
    """What keeps it from working is named; nothing is the matter with one that can be called."""
    await client.post("/v1/tools", json=NEW)
    for name in ("book_suite", "book"):
        assert (await client.post(f"/v1/tools/{name}/test")).json()["faults"] == []
    core.tools.definitions._base = Static({})
    found = (await client.post("/v1/tools/book_suite/test")).json()
    assert (found["name"], len(found["faults"])) == ("book_suite", 1)
    assert "there is no tool `book`" in found["faults"][0]
    assert (await client.get("/v1/tools/book_suite")).json()["available"] is False
