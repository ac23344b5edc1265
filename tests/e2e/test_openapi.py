"""The API as it describes itself: whatever a caller sends, the answer is one that the description knows, and no 5xx."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.conftest import StartServer
from tests.e2e.server import KEY, Server
from tests.e2e.test_kill import RUNS, ask
from tests.e2e.visitors import opened_by, token_for
from tests.polling import PATIENCE

pytestmark = pytest.mark.whole

EVENTS = "/v1/sessions/{id}/events"
LEFT_OUT = ("--exclude-path", EVENTS)
SECONDS = 120.0
# 413 answers too long texts, which the description gives as `maxLength`.
CONFIG = """
[checks.negative_data_rejection]
expected-statuses = ["400", "401", "403", "404", "405", "409", "413", "422"]

[[operations]]
include-path = "/v1/agents/{id}/runs"
generation.max-examples = 20
"""
# Requests that fit the description may still name a model, an agent or a cursor that is not there. Wrong keys are
# answered 429 after the thirtieth: other tests try what is answered without a valid one.
FLAGS = (
    "--exclude-checks",
    "positive_data_acceptance,ignored_auth",
    "--continue-on-failure",
    "--seed",
    "1",
    "--request-timeout",
    "10",
)
# How an operator tries it, the requests that makes at least, and the runs that come of them: whole, and in the gate.
LONG = (("-n", "15"), 1_000, 20)
SHORT = (("--phases", "fuzzing,stateful", "-n", "4"), 120, 6)

CAREFUL = {
    "name": "careful",
    "instructions": "Ask.",
    "tools": ["calculate"],
    "hooks": [{"event": "PreToolUse", "type": "approval", "config": {"edit": True, "remember": True}}],
}


@pytest.fixture(scope="module")
def server(start_shared: StartServer) -> Server:
    """A server that answers flat out."""
    return start_shared(rate=0)


@pytest.fixture(scope="module")
def described(server: Server) -> dict[str, Any]:
    """What the server says of itself, made fit for trying it out."""
    spec = trimmed(httpx.get(f"{server.url}/openapi.json", trust_env=False, timeout=PATIENCE).json())
    for path in (EVENTS, "/v1/runs/{id}/events"):
        parameters = spec["paths"][path]["get"]["parameters"]
        # It takes precedence over `after`: a broken `after` beside it is rightly not looked at.
        parameters[:] = [each for each in parameters if each["name"] != "last-event-id"]
    return spec


def trimmed(value: Any) -> Any:
    """Return *value* without the bounds whose borders are many megabytes; other tests try those."""
    match value:
        case dict():
            kept = {name: each for name, each in value.items() if not is_far(name, each)}
            return {name: trimmed(each) for name, each in kept.items()}
        case list():
            return [trimmed(each) for each in value]
        case _:
            return value


def is_far(name: str, bound: Any) -> bool:
    return name in {"maxLength", "maxItems"} and isinstance(bound, int) and bound >= 1_000


def with_ids(spec: dict[str, Any], ids: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return *spec* with only these ids in paths that begin so; the longest beginning counts."""
    spec = json.loads(json.dumps(spec))
    for path, operations in spec["paths"].items():
        starts = sorted((start for start in ids if path.startswith(start)), key=len)
        for parameter in (each for operation in operations.values() for each in operation.get("parameters", ())):
            if starts and parameter["in"] == "path":
                parameter["schema"] = {"type": "string", "enum": list(ids[starts[-1]])}
    return spec


def tried(server: Server, folder: Path, spec: dict[str, Any], key: str | None, *flags: str) -> int:
    """Try everything that *spec* describes; return how many requests that were. Fails with what was found."""
    (folder / "spec.json").write_text(json.dumps(spec))
    (folder / "config.toml").write_text(CONFIG)
    header = () if key is None else ("--header", f"Authorization: Bearer {key}")
    command = [str(Path(sys.executable).with_name("schemathesis")), "--config-file", "config.toml", "run", "spec.json"]
    done = subprocess.run(
        [*command, "--url", server.url, *header, *FLAGS, *flags],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    found = re.search(r"(\d+) generated", done.stdout)
    assert found, done.stdout
    return int(found[1])


async def test_an_operator_gets_described_answers(
    server: Server, described: dict[str, Any], tmp_path: Path, whole: bool
):
    """With an operator's key, one request or several in a row, for what is there and what is not."""
    async with server.client() as operator:
        sessions = [(await operator.post("/v1/sessions", json={"agent": "assistant"})).json()["id"] for _ in range(2)]
        run = (await operator.post(RUNS, json={"input": "Hello"})).json()["id"]
        assert (await operator.post("/v1/agents", json=CAREFUL)).status_code == 201
        asks = (await operator.post("/v1/agents/careful/runs", json={"input": "What is 12 * 7?"})).json()
    ids = {
        "/v1/sessions/{id}": [sessions[0], "unknown"],  # it may be closed or deleted, those below live on
        **{f"/v1/sessions/{{id}}/{what}": [sessions[1], "unknown"] for what in ("messages", "events", "fork")},
        "/v1/runs/{id}": [run, "unknown"],
        "/v1/approvals/{id}": [asks["pending"][0]["approval"], "unknown"],
    }
    spec = with_ids(described, ids)
    for parameter in spec["paths"]["/v1/agents/{id}/runs"]["post"]["parameters"]:
        parameter["example"] = "assistant"  # no more than that: agents that are made meanwhile may be run too
    for body in spec["components"]["schemas"].values():  # files that were not sent can only be refused
        if {"files", "mode"} <= body.get("properties", {}).keys():
            del body["properties"]["files"]
            body["properties"]["session"] = {"enum": [None, sessions[1], "unknown"]}
    # The stream of a session has no end of its own; its own test is below.
    flags, requests, reached = LONG if whole else SHORT
    assert tried(server, tmp_path, spec, KEY, *LEFT_OUT, *flags) > requests
    # Those that began count: sessions are deleted meanwhile, and their runs with them.
    async with server.client() as operator:
        begun = re.search(r"(?m)^parley_runs_started_total (\d+)", (await operator.get("/metrics")).text)
    assert begun
    assert int(begun[1]) > reached + 1, "what is described was hardly reached"  # one is of the other agent


@pytest.mark.whole
async def test_a_visitor_gets_described_answers(server: Server, described: dict[str, Any], tmp_path: Path):
    """With a visitor's token, for what is the visitor's and what is not."""
    async with server.client() as operator:
        theirs, run = await ask(operator, "Hello")
        token = await token_for(operator, "ada", "assistant")
    async with server.client(token) as ada:
        session = await opened_by(ada)
        own = (await ada.post(f"{session}/messages", json={"text": "Hello"})).json()["run_id"]
    sessions = [session.rpartition("/")[2], theirs.rpartition("/")[2], "unknown"]
    spec = with_ids(described, {"/v1/sessions/{id}": sessions, "/v1/runs/{id}": [own, run, "unknown"]})
    phases = ("--phases", "coverage,fuzzing")
    assert tried(server, tmp_path, spec, token, *LEFT_OUT, *phases, "-n", "10") > 500


@pytest.mark.whole
def test_requests_without_a_key_get_described_answers(server: Server, described: dict[str, Any], tmp_path: Path):
    """Without a key: nothing below /v1 is more than a 401."""
    assert tried(server, tmp_path, described, None, *LEFT_OUT, "--phases", "coverage") > 500


@pytest.mark.whole
def test_streams_are_described_answers(server: Server, described: dict[str, Any], tmp_path: Path):
    """The stream of a session, as far as it ends by itself: with `until=idle`."""
    key = {"Authorization": f"Bearer {KEY}"}
    run = httpx.post(
        f"{server.url}{RUNS}", json={"input": "Hello"}, headers=key, trust_env=False, timeout=PATIENCE
    ).json()
    spec = with_ids(described, {"/v1/sessions/{id}": [run["session"], "unknown"]})
    for parameter in spec["paths"][EVENTS]["get"]["parameters"]:
        if parameter["name"] == "until":
            parameter |= {"required": True, "schema": {"enum": ["idle"]}}
    positive = ("--mode", "positive", "--phases", "coverage,fuzzing")
    assert tried(server, tmp_path, spec, KEY, "--include-path", EVENTS, *positive, "-n", "30") > 10
