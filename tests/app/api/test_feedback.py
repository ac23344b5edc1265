"""What people think of runs, over HTTP."""

import httpx
import jsonschema
from fastapi import FastAPI

from tests.app.api.test_visitors import posted
from tests.cases import for_each


async def ended(client: httpx.AsyncClient) -> str:
    """Return a run that has ended."""
    run = (await client.post("/v1/agents/assistant/runs", json={"input": "Hi"})).json()
    assert run["status"] == "completed"
    assert "feedback" not in run
    return f"/v1/runs/{run['id']}"


async def test_an_operator_keeps_what_people_think(client: httpx.AsyncClient, app: FastAPI):
    """It answers 201 for the named person, replaced by the same person's next word, and read in the run."""
    path = await ended(client)
    first = await client.post(f"{path}/feedback", json={"rating": "up", "actor": "ann"})
    assert first.status_code == 201
    again = {"rating": "down", "comment": "Wrong", "actor": {"id": "ann", "name": "Ann"}}
    given = (await client.post(f"{path}/feedback", json=again)).json()
    own = (await client.post(f"{path}/feedback", json={"rating": "up"})).json()
    assert (given["run"], given["rating"], given["comment"]) == (path.rpartition("/")[2], "down", "Wrong")
    assert given["actor"] == {"id": "ann", "kind": "user", "name": "Ann"}
    run = (await client.get(path)).json()
    assert {each["actor"]["id"]: each for each in run["feedback"]} == {"ann": given, own["actor"]["id"]: own}
    schemas = app.openapi()["components"]["schemas"]
    jsonschema.validate(run, {"$ref": "#/components/schemas/Run", "components": {"schemas": schemas}})


@for_each(
    "body, status",
    [
        ({}, 422),
        ({"rating": "great"}, 422),
        ({"rating": "up", "comment": " "}, 422),
        ({"rating": "up", "comment": "x" * 100_001}, 413),
        ({"rating": "up", "stars": 5}, 422),
    ],
)
async def test_what_is_no_opinion_is_refused(client: httpx.AsyncClient, body, status):
    """An unknown rating, a blank or endless comment and unknown fields are refused."""
    assert (await client.post(f"{await ended(client)}/feedback", json=body)).status_code == status


async def test_an_unknown_run_has_no_feedback(client: httpx.AsyncClient):
    """A run that is not there answers 404."""
    answer = await client.post("/v1/runs/run_none/feedback", json={"rating": "up"})
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_a_visitor_rates_own_answers(visitor: httpx.AsyncClient, client: httpx.AsyncClient):
    """A visitor speaks for the token's actor, in no other's name, and reads no one's opinion of the run."""
    _, run = await posted(visitor)
    given = await visitor.post(f"/v1/runs/{run}/feedback", json={"rating": "up", "actor": "ada"})
    assert (given.status_code, given.json()["actor"]) == (201, {"id": "ada", "kind": "visitor"})
    other = await visitor.post(f"/v1/runs/{run}/feedback", json={"rating": "down", "actor": "bob"})
    assert (other.status_code, other.json()["code"]) == (403, "forbidden")
    assert "feedback" not in (await visitor.post(f"/v1/runs/{run}/cancel")).json()
    assert [each["rating"] for each in (await client.get(f"/v1/runs/{run}")).json()["feedback"]] == ["up"]


async def test_a_visitor_reads_own_ratings_again(visitor: httpx.AsyncClient, client: httpx.AsyncClient):
    """After a reload a page knows what its person said of answers, as it was said last, and of no one else's."""
    path, run = await posted(visitor)
    place = f"/v1/web/conversations/{path.rpartition('/')[2]}/feedback"
    assert (await visitor.get(place)).json() == {"items": [], "next_cursor": None}
    for body in ({"rating": "up"}, {"rating": "down", "comment": "Wrong"}):
        await visitor.post(f"/v1/runs/{run}/feedback", json=body)
    await client.post(f"/v1/runs/{run}/feedback", json={"rating": "up"})
    (own,) = (await visitor.get(place)).json()["items"]
    assert (own["run"], own["rating"], own["comment"], own["actor"]["id"]) == (run, "down", "Wrong", "ada")
    (operators,) = (await client.get(place)).json()["items"]
    assert (operators["rating"], operators["actor"]["kind"]) == ("up", "service")
    assert (await visitor.get("/v1/web/conversations/ses_none/feedback")).status_code == 404
