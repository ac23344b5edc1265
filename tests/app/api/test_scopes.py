"""Every route takes a scope, and a key opens the routes of its scopes alone."""

from collections.abc import Iterator, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute

from app.api.entrance.callers import GUARDED, OPEN
from app.api.entrance.scopes import SCOPE_OF
from app.api.operations import RECORDED
from channels.web.identity import SCOPES, TokenSigner
from tests.app.conftest import caller

ELSEWHERE = "unknown"


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


def test_every_route_has_a_scope(app: FastAPI):
    """Each guarded route is in the table of scopes, and each line of the table is a route."""
    assert guarded(app) == set(SCOPE_OF)
    assert set(SCOPE_OF.values()) == SCOPES - {"approvals:as"}, "that one is asked for in the body of a decision"


def test_what_is_recorded_are_routes(app: FastAPI):
    """Each route of the record exists."""
    templates = {route.replace(":approval", "") for route in guarded(app)}
    assert set(RECORDED) <= templates


async def test_a_key_without_the_scope_of_a_route_is_refused(app: FastAPI, tokens: TokenSigner):
    """Each route answers 403 to a key that has every scope but the route's own, and names the missing one."""
    for route, scope in SCOPE_OF.items():
        method, path = route.split(" ")
        place = path.partition("{")[0] + ELSEWHERE + path.partition("}")[2] if "{" in path else path
        async with caller(app, tokens.operator(scopes=SCOPES - {scope}).text) as lacking:
            answer = await lacking.request(method, place, json={} if method in {"POST", "PATCH"} else None)
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), route
            assert f"`{scope}`" in answer.json()["detail"]
        async with caller(app, tokens.operator(scopes=(scope,)).text) as alone:
            answer = await alone.request(method, place, json={} if method in {"POST", "PATCH"} else None)
            assert answer.status_code != 403, (route, answer.text)
