"""Large bodies: they are validated once, outside of the event loop."""

import threading
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from pydantic import BaseModel
from starlette.requests import Request

from app.api import body, guard
from app.api.body import BodyRoute
from app.api.guard import FORMS, QUICK_BYTES, QUICK_VALUES, Entrances
from tests.app.api.test_scopes import flat

RUNS = "/v1/agents/assistant/runs"
OTHERS = {"POST /v1/web/visitor-tokens"}
"""A channel's own, which takes 64 kB alone."""


def test_each_route_with_a_body_takes_what_was_read(app: FastAPI):
    """Each is a `BodyRoute`, and its body is one model, which can be read before it."""
    entrances = Entrances(app.routes)
    found = [route for route in flat(app.routes) if route.body_field is not None and route.path not in FORMS]
    assert len(found) > 20
    for route in found:
        method = next(iter(route.methods or ()))
        entrance = entrances.find(method, route.path.replace("{", "x").replace("}", "x"))
        assert f"{method} {route.path}" in OTHERS or isinstance(route, BodyRoute), route.path
        assert entrance is not None
        assert entrance.model is not None, route.path


@pytest.mark.parametrize(
    ("fault", "status"), [({}, 202), ({"messages": [{"role": "user"}]}, 422), ({"input": 3}, 422)], ids=str
)
async def test_a_large_body_is_read_in_a_thread(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, fault: dict[str, Any], status: int
):
    """So are its faults: the route gets a value, and nothing of it is parsed on the loop."""
    main: list[bool] = []
    original = body.read

    def noted(given: bytes, model: type[BaseModel]) -> Any:
        main.append(threading.current_thread() is threading.main_thread())
        return original(given, model)

    async def parsed(_: Request) -> Any:
        pytest.fail("a large body is parsed on the event loop")

    monkeypatch.setattr(guard, "read", noted)
    monkeypatch.setattr(Request, "json", parsed)
    history = [{"role": "user", "text": "a"}] * QUICK_VALUES
    answer = await client.post(RUNS, json={"messages": history, "mode": "background"} | fault | _padding(fault))
    assert (answer.status_code, main) == (status, [False]), answer.text


def _padding(fault: dict[str, Any]) -> dict[str, Any]:
    """Return what makes a body large whose fault replaces its history."""
    return {} if "messages" not in fault else {"idempotency_key": "k" * QUICK_BYTES}
