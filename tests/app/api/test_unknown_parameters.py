"""Query parameters that a route does not take are refused, on every route of the API."""

import re

import httpx
import pytest
from fastapi import FastAPI

METHODS = ("get", "post", "patch", "delete")


def operations(app: FastAPI) -> list[tuple[str, str]]:
    """Return the method and the path of each operation that OpenAPI describes."""
    paths = app.openapi()["paths"]
    return [
        (method, re.sub(r"\{\w+\}", "x", path)) for path, each in paths.items() for method in METHODS if method in each
    ]


async def test_every_route_refuses_an_unknown_query_parameter(client: httpx.AsyncClient, app: FastAPI):
    """Each operation of OpenAPI answers 422 and names the parameter, streams included, before anything else."""
    found = operations(app)
    assert ("get", "/v1/runs/x/events") in found
    assert len(found) > 25
    for method, path in found:
        answer = await client.request(method, f"{path}?colour=red&after_all=1")
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request"), (method, path)
        assert [error["path"] for error in answer.json()["errors"]] == ["colour", "after_all"], (method, path)
        assert "`colour`" in answer.json()["detail"]


async def test_known_parameters_and_headers_are_taken(client: httpx.AsyncClient):
    """What OpenAPI describes of a route is accepted, and a stream's `Last-Event-ID` needs no parameter."""
    session = (await client.post("/v1/sessions", json={"agent": "assistant"})).json()["id"]
    for path in ("/v1/agents?limit=1", "/v1/sessions?actor=a&agent=assistant&status=idle&limit=2"):
        assert (await client.get(path)).status_code == 200
    events = f"/v1/sessions/{session}/events"
    for query in ("?until=idle", "?until=idle&after=0"):
        answer = await client.get(events + query, headers={"Last-Event-ID": "0"})
        assert answer.status_code == 200


async def test_a_misspelt_parameter_is_named(client: httpx.AsyncClient):
    """A filter that is misspelt is refused instead of ignored."""
    answer = await client.get("/v1/runs?stauts=failed")
    assert answer.status_code == 422
    assert answer.json()["errors"] == [{"path": "stauts", "message": "there is no such query parameter."}]


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_probes_without_parameters_are_answered(client: httpx.AsyncClient, path: str):
    """A probe that adds nothing to the path is answered."""
    assert (await client.get(path)).status_code == 200
