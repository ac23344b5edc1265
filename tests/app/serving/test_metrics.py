"""Metrics: what Prometheus reads of a server that has answered, failed, refused and been asked."""

import asyncio
import hashlib
import re
from collections.abc import Callable

import httpx
import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families

from agent_core.clock import SystemClock
from agent_core.core import Core
from agent_core.counters import OTHER, Counters
from agent_core.errors import Unavailable
from agent_core.testing import Answer, ScriptedProvider, fail, raw_call, say, step_of, usage
from agent_core.tools.builtin import calculate
from app.compose import create_app, create_watch
from app.serving import metrics as app_metrics
from app.serving.metrics import Metrics
from app.serving.readers import Starting
from app.settings import Settings
from app.storage import ApiKey
from channels.web.identity import TokenSigner
from tests.app.conftest import KEY, Model, caller
from tests.polling import PATIENCE

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]
PAID = usage(input=1000, output=50, reasoning=0, cache_read=5000, cache_write_short=3000, cache_write_long=1000)
ClientOf = Callable[[Core], httpx.AsyncClient]


@pytest.fixture
def app(core: Core, tokens: TokenSigner, settings: Settings) -> FastAPI:
    """An application that has counted nothing yet."""
    return create_app(core, settings, tokens=tokens, api_key=ApiKey(hashlib.sha256(KEY.encode()).digest()))


@pytest.fixture
def client_of(tokens: TokenSigner, settings: Settings) -> ClientOf:
    """Return an operator's client of a core."""
    key = ApiKey(hashlib.sha256(KEY.encode()).digest())
    return lambda core: caller(create_app(core, settings, tokens=tokens, api_key=key), KEY)


async def samples(client: httpx.AsyncClient) -> Samples:
    """Return what is read, by name and labels."""
    answer = await client.get("/metrics")
    assert (answer.status_code, answer.headers["content-type"].split(";")[0]) == (200, "text/plain")
    families = text_string_to_metric_families(answer.text)
    return {(each.name, frozenset(each.labels.items())): each.value for family in families for each in family.samples}


def at(found: Samples, name: str, **labels: str) -> float:
    return found.get((name, frozenset(labels.items())), 0)


async def ask(client: httpx.AsyncClient, text: str = "Hello", **more: object) -> dict[str, object]:
    answer = await client.post("/v1/agents/assistant/runs", json={"input": text, **more})
    assert answer.status_code in {200, 202}
    return answer.json()


async def test_a_run_is_counted_with_all_that_it_did(client: httpx.AsyncClient, model: Model):
    """Runs, steps, tool calls, times and requests are counted once each, from the facts of the log."""
    await ask(client)
    found = await samples(client)
    assert at(found, "parley_messages_total") == 1
    assert at(found, "parley_runs_started_total") == 1
    assert at(found, "parley_runs_ended_total", status="completed", reason="end_turn") == 1
    assert at(found, "parley_steps_total", model="scripted") == 2
    assert at(found, "parley_tool_calls_total", tool="calculate", outcome="done") == 1
    assert at(found, "parley_first_text_seconds_count") == 1
    assert at(found, "parley_run_seconds_count") == 1
    assert at(found, "parley_append_seconds_count") >= 2
    route = "/v1/agents/{id}/runs"
    assert at(found, "parley_http_requests_total", method="POST", route=route, status="200") == 1
    assert at(found, "parley_http_first_byte_seconds_count", route=route) == 1
    assert at(found, "parley_database_up") == 1
    assert not any(name.endswith("_created") for name, _ in found)


async def test_open_runs_are_read_from_the_database(client: httpx.AsyncClient, core: Core, model: Model):
    """Running and queued runs, the backlog and its age come from the database as it is now."""
    model.hold()
    session = (await client.post("/v1/sessions", json={"agent": "assistant", "actor": "ada"})).json()["id"]
    for _ in range(3):
        await client.post(f"/v1/sessions/{session}/messages", json={"text": "Hello"})
    found = await samples(client)
    assert at(found, "parley_open_runs", status="running") == 1
    assert at(found, "parley_open_runs", status="queued") == 2
    assert at(found, "parley_oldest_queued_seconds") == 0  # they wait for an answer before them, not for a worker


async def test_failures_retries_and_money(make_core, client_of):
    """Failed model calls count by kind, tries after them by model, tokens and dollars by model too."""
    script = [[fail("overloaded", retry_after=0.001)], [PAID, say("Fine.")]]
    definition = {"model": "anthropic:claude-sonnet-5"}
    core = await make_core(ScriptedProvider(script, name="anthropic"), definition=definition)
    async with client_of(core) as client:
        await ask(client)
        found = await samples(client)
    model = "anthropic:claude-sonnet-5"
    assert at(found, "parley_model_failures_total", kind="overloaded") == 1
    assert at(found, "parley_model_retries_total", model=model) == 1
    assert at(found, "parley_tokens_total", model=model, kind="input") == 1000
    assert at(found, "parley_tokens_total", model=model, kind="output") == 50
    kinds = ("cache_read", "cache_write_short", "cache_write_long")
    assert [at(found, "parley_tokens_total", model=model, kind=kind) for kind in kinds] == [5000, 3000, 1000]
    assert at(found, "parley_cache_share", model=model) == 0.5
    assert at(found, "parley_cost_usd_total", model=model) > 0


async def test_names_from_outside_share_one_label(make_core, client_of):
    """A tool that a model made up, an unknown path and an unknown method add no series of their own."""

    def answer(request) -> Answer:
        return [raw_call(f"made_up_{step_of(request)}", "{}")] if step_of(request) < 3 else [say("Sorry.")]

    core = await make_core(ScriptedProvider(answer), tools=(calculate,))
    async with client_of(core) as client:
        run = await ask(client)
        await client.get(f"/v1/runs/{run['id']}")
        await client.get(f"/v1/nothing/{run['id']}")
        await client.request("BREW", "/v1/runs")
        text = (await client.get("/metrics")).text
        found = await samples(client)
    assert at(found, "parley_tool_calls_total", tool=OTHER, outcome="failed") == 3
    assert at(found, "parley_http_requests_total", method="GET", route="none", status="404") == 1
    assert not re.search(r'made_up|BREW|"\w*(run|ses|msg|agent|wrk)_', text)


def test_models_beyond_a_bound_share_one_label():
    """However many models runs name, only so many get a series."""
    counters = Counters(SystemClock())
    for n in range(1000):
        counters.resumed_run(f"run_{n}", f"openai-compatible:model-{n}")
    assert len({run.model for run in counters._runs.values()}) <= 51
    for n in range(20_000):
        counters.resumed_run(f"run_{n}", "demo")
    assert len(counters._runs) <= 10_000


async def test_metrics_are_the_operators(anyone: httpx.AsyncClient, visitor: httpx.AsyncClient):
    """Without a key there are no metrics, and for a visitor neither."""
    assert (await anyone.get("/metrics")).status_code == 401
    assert (await visitor.get("/metrics")).status_code == 403


async def test_a_worker_has_metrics_too(core: Core):
    """What a worker serves for those who watch it holds its metrics, with the same key, once it is up."""
    watch = create_watch(Starting())
    async with caller(watch, KEY) as client:
        assert (await client.get("/metrics")).status_code == 401
        watch.state.api_key = ApiKey(hashlib.sha256(KEY.encode()).digest())
        assert (await client.get("/metrics")).status_code == 503
        watch.state.metrics = Metrics(core)
        assert at(await samples(client), "parley_database_up") == 1
        assert (await client.get("/healthz", headers={"Authorization": ""})).status_code == 200


async def test_metrics_while_the_database_is_away(
    client: httpx.AsyncClient, core: Core, monkeypatch: pytest.MonkeyPatch
):
    """The process still reports its own figures, and that the database is unavailable."""

    async def away() -> None:
        raise Unavailable("The database cannot be reached; try again in a moment.")

    await ask(client)
    monkeypatch.setattr(core.health, "figures", away)
    found = await samples(client)
    assert (at(found, "parley_database_up"), at(found, "parley_runs_started_total")) == (0, 1)
    assert not any(name == "parley_open_runs" for name, _ in found)


async def test_a_crash_is_counted(app: FastAPI, client: httpx.AsyncClient):
    """A route that raises is counted as the 500 that it answers, once."""

    @app.get("/v1/broken")
    async def broken() -> None:
        raise RuntimeError("a bug")

    assert (await client.get("/v1/broken")).status_code == 500
    found = await samples(client)
    assert at(found, "parley_http_requests_total", method="GET", route="/v1/broken", status="500") == 1


async def test_a_database_that_hangs_holds_up_no_metrics(
    client: httpx.AsyncClient, core: Core, monkeypatch: pytest.MonkeyPatch
):
    """A database that does not answer in time counts as unavailable; the rest is reported."""
    monkeypatch.setattr(core.health, "figures", asyncio.Event().wait)
    monkeypatch.setattr(app_metrics, "TIMEOUT", 0.01)
    async with asyncio.timeout(PATIENCE):
        assert at(await samples(client), "parley_database_up") == 0


async def test_streams_and_cancels(client: httpx.AsyncClient, model: Model):
    """A run that is stopped ends as cancelled."""
    model.hold()
    run = await ask(client, mode="background")
    await client.post(f"/v1/runs/{run['id']}/cancel")
    async with client.stream("GET", f"/v1/runs/{run['id']}/events") as stream:
        await stream.aread()
    found = await samples(client)
    assert at(found, "parley_runs_ended_total", status="cancelled", reason="") == 1
    assert at(found, "parley_streams") == 0
    assert {dict(labels)["status"]: n for (name, labels), n in found.items() if name == "parley_mcp_servers"} == (
        dict.fromkeys(("new", "ok", "failing", "changed", "disabled"), 0)
    )
