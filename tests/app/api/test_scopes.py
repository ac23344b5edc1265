"""Every route takes a scope, and a key opens the routes of its scopes alone."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute

from app.api.body import GUARDED, OPEN
from app.api.guard import SCOPE_OF
from app.api.routes.keys import IN_THEIR_LOGS
from channels.web.identity import SCOPES, TokenSigner
from tests.app.conftest import caller

ELSEWHERE = "unknown"
KIND = re.compile(r":[a-z]+\}")


def guarded(app: FastAPI) -> set[str]:
    """Return the routes of *app* that ask for a credential, as the table names them."""
    found = [route for route in flat(app.routes) if route.path.startswith(GUARDED) and route.path not in OPEN]
    return {f"{method} {route.path}" for route in found for method in route.methods or ()}


def flat(routes: Sequence[Any]) -> Iterator[APIRoute]:
    """Give the routes, those of included routers too."""
    for route in routes:
        if isinstance(route, APIRoute):
            yield route
        elif (router := getattr(route, "original_router", None)) is not None:
            yield from flat(router.routes)


def place_of(template: str) -> str:
    """Return a path of the route at *template*, to what does not exist."""
    before, _, after = template.partition("{")
    return before + ELSEWHERE + after.partition("}")[2] if after else template


def test_every_route_has_a_scope(app: FastAPI):
    """Each guarded route is in the table of scopes, and each line of the table is a route."""
    assert guarded(app) == set(SCOPE_OF)
    assert set(SCOPE_OF.values()) == SCOPES - {"approvals:as"}, "that one is asked for in the body of a decision"


async def test_what_an_operator_does_is_on_the_record(app: FastAPI, tokens: TokenSigner):
    """Each guarded route that is no GET leaves a line with the object and the status, or is in another log."""
    routes = sorted(route for route in guarded(app) if not route.startswith("GET "))
    assert set(routes) >= IN_THEIR_LOGS, "each of them is a route"
    async with caller(app, tokens.operator(scopes=SCOPES).text) as operator:
        expected = []
        for route in sorted({*routes} - IN_THEIR_LOGS):
            method, path = route.split(" ")
            answer = await operator.request(method, place_of(path), json={})
            expected.append((KIND.sub("}", route), ELSEWHERE if "{" in path else None, answer.status_code))
        lines = [json.loads(line) for line in (await operator.get("/v1/audit")).text.splitlines()]
    found = [(line["route"], line["object"], line["result"]) for line in lines]
    place = next(n for n, (route, _, _) in enumerate(found) if "/v1/actors/" in route)
    assert found[place][1] != ELSEWHERE, "a person is recorded under a pseudonym"
    assert [*found[:place], *found[place + 1 :]] == [*expected[:place], *expected[place + 1 :]]
    assert (found[place][0], found[place][2]) == (expected[place][0], expected[place][2])


async def test_a_key_without_the_scope_of_a_route_is_refused(app: FastAPI, tokens: TokenSigner):
    """Each route answers 403 to a key that has every scope but the route's own, and names the missing one."""
    for route, scope in SCOPE_OF.items():
        method, path = route.split(" ")
        place = place_of(path)
        async with caller(app, tokens.operator(scopes=SCOPES - {scope}).text) as lacking:
            answer = await lacking.request(method, place, json={} if method in {"POST", "PATCH"} else None)
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), route
            assert f"`{scope}`" in answer.json()["detail"]
        async with caller(app, tokens.operator(scopes=(scope,)).text) as alone:
            answer = await alone.request(method, place, json={} if method in {"POST", "PATCH"} else None)
            assert answer.status_code != 403, (route, answer.text)
