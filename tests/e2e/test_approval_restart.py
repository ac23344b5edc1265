"""A real server is killed while people think: all that it asked is asked after the restart, and goes on once decided.

`make chaos` has a thousand questions on each database, `make test` a few.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import Any

import httpx
import pytest

from tests.e2e.conftest import StartServer
from tests.e2e.frames import Frames
from tests.e2e.server import Server

WAITING = int(os.environ.get("PARLEY_WAITING", "40"))
AT_ONCE = 20
MB = 1_000_000
ASKS_FIRST = {"responders": ["operators"], "timeout_s": 86_400}
AGENT = {
    "name": "careful",
    "instructions": "Ask before you calculate.",
    "tools": ["calculate"],
    "hooks": [{"event": "PreToolUse", "type": "approval", "config": ASKS_FIRST}],
}


@pytest.fixture
def careful(backend: str, request: pytest.FixtureRequest, start_server: StartServer) -> Server:
    """A server on the database of the test, whose demonstration answers at once."""
    settings = {"DATABASE_URL": request.getfixturevalue("postgres_url")} if backend == "postgres" else {}
    return start_server(rate=0, **settings)


async def together(work: Callable[..., Coroutine[Any, Any, object]], items: Iterable[Any]) -> None:
    """Do *work* for each of *items*, some at a time."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(item: Any) -> None:
        async with room:
            await work(item)

    async with asyncio.TaskGroup() as group:
        for item in items:
            group.create_task(one(item))


async def ask(http: httpx.AsyncClient, n: int, status: str = "waiting") -> str:
    """Have a sum asked for in a session of its own; return its run, which waits for people."""
    answer = await http.post("/v1/agents/careful/runs", json={"input": f"What is {n} * 7?", "actor": "ann"})
    assert answer.status_code == 200, answer.text
    assert answer.json()["status"] == status
    return answer.json()["id"]


async def still_open(http: httpx.AsyncClient) -> AsyncIterator[dict[str, Any]]:
    """Give every open approval, page by page."""
    cursor: str | None = ""
    while cursor is not None:
        query = {"status": "open", "limit": 100} | ({"cursor": cursor} if cursor else {})
        page = (await http.get("/v1/approvals", params=query)).json()
        for each in page["items"]:
            yield each
        cursor = page["next_cursor"]


async def decide(http: httpx.AsyncClient, approval: str, *, approved: bool) -> None:
    answer = await http.post(f"/v1/approvals/{approval}", json={"approved": approved})
    assert answer.json()["status"] == ("approved" if approved else "denied"), answer.text


async def check(http: httpx.AsyncClient, run: str, n: int, *, approved: bool) -> None:
    """See a run through, and hold its facts against what was decided: it goes on once, with its own call."""
    frames = Frames(gaps=True)
    async with http.stream("GET", f"/v1/runs/{run}/events") as response:
        await frames.until(response, lambda frame: frame.event == "run.completed")
    assert [each.data["status"] for each in frames.of("approval.decided")] == ["approved" if approved else "denied"]
    assert len(frames.of("approval.requested")) == 1
    assert len(frames.of("tool.started")) == approved, "what was denied ran, or what was approved not once"
    (done,) = frames.of("tool.completed")
    assert done.data["outcome"] == ("done" if approved else "denied")
    assert (f"{n} * 7 is {n * 7}." in frames.answers[-1].text) is approved


async def test_every_question_outlives_a_killed_server(careful: Server):
    """Asked before a SIGKILL and decided after it, each run goes on; a yes executes its call once, a no never does."""
    runs: dict[str, int] = {}

    async def asking(n: int) -> None:
        runs[await ask(http, n)] = n

    async with careful.client() as http:
        assert (await http.post("/v1/agents", json=AGENT)).status_code == 201
        await asking(0)
        before = careful.memory
        await together(asking, range(1, WAITING))
        after = careful.memory
    await asyncio.to_thread(careful.restart)
    async with careful.client() as http:
        await asking(WAITING)  # so that the new process has done what the old one had when it was first looked at
        restarted = careful.memory
        print(f"{WAITING} open: {(after - before) / MB:+.2f} MB, {(restarted - before) / MB:+.2f} MB after a restart")
        votes = {each["id"]: each["run"] async for each in still_open(http)}
        assert sorted(votes.values()) == sorted(runs)
        await together(lambda id: decide(http, id, approved=runs[votes[id]] % 2 == 0), votes)
        await together(lambda run: check(http, run, runs[run], approved=runs[run] % 2 == 0), runs)
        assert [each async for each in still_open(http)] == []


async def grown(server: Server, agent: dict[str, Any], status: str) -> float:
    """Return the megabytes by which a server grows with its questions, the first of which does not count."""
    async with server.client() as http:
        assert (await http.post("/v1/agents", json=agent)).status_code == 201
        await ask(http, 0, status)
        before = server.memory
        await together(lambda n: ask(http, n, status), range(1, WAITING))
        return (server.memory - before) / MB


@pytest.mark.whole
@pytest.mark.sqlite
async def test_waiting_runs_hold_no_more_memory_than_ended_ones(start_shared: StartServer, backend: str):
    """A server that asked people and waits for them has no more in memory than one whose agent needs no approval."""
    waiting = await grown(start_shared(rate=0), AGENT, "waiting")
    answered = await grown(start_shared(rate=0), {**AGENT, "hooks": []}, "completed")
    print(f"{WAITING} open: {waiting:+.2f} MB, as many answered: {answered:+.2f} MB")
    assert waiting < answered + 2
