"""Several processes on one Postgres: whichever is asked, whichever works, a reader sees one conversation."""

import asyncio
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from tests import forked
from tests.e2e.conftest import StartServer
from tests.e2e.follower import Follower, ends
from tests.e2e.server import SECRET, Server, environment, prepare, serving
from tests.e2e.test_kill import ASK, WHOLE, ask, holds_once, opened
from tests.postgres import PostgresServer, postgres_server

SOON = 60.0
Start = Callable[..., Server]
WEB, WORKER = ("serve", "--web-only"), ("worker",)


@pytest.fixture
def place(tmp_path: Path, template: Path) -> Path:
    return prepare(tmp_path / "place", template)


@pytest.fixture
def start(place: Path, postgres_url: str) -> Iterator[Start]:
    """Start a process on the test's Postgres; all end with the test, without a trace or a secret on any screen."""
    with ExitStack() as processes:
        yield lambda *words, **settings: processes.enter_context(
            serving(place, words=words or ("serve",), DATABASE_URL=postgres_url, **settings)
        )


def run(place: Path, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return forked.run("app", *words, cwd=place, env=environment(place, **settings), timeout=SOON)


async def ready(server: Server) -> tuple[int, str]:
    async with server.client(key=None) as client:
        found = await client.get("/readyz")
        return found.status_code, found.json().get("detail", "ok")


async def test_two_servers_and_two_workers_are_one(start: Start):
    """A run through one server streams through the other, letter for letter, and each knows it afterwards."""
    one, two = start("serve", rate=100), start("serve", rate=100)
    for _ in range(2):
        start(*WORKER, rate=100)
    assert await asyncio.gather(ready(one), ready(two)) == [(200, "ok")] * 2
    async with one.client() as client, two.client() as other:
        session = await opened(client)
        near, far = (Follower(server, f"{session}/events", ends) for server in (one, two))
        posted = await client.post(f"{session}/messages", json={"text": ASK})
        await far.text_of(10)
        frames, same = await far.end(SOON), await near.end(SOON)
        assert [answer.text for answer in frames.answers] == [WHOLE]
        assert len(frames.of("text.delta")) > 1
        assert [frame for frame in frames if frame.seq] == [frame for frame in same if frame.seq]
        for asked in (client, other):
            await holds_once(asked, session, posted.json()["run_id"], frames)


@pytest.mark.whole
async def test_a_server_that_drives_nothing_leaves_it_to_workers(start: Start):
    """What a web process takes in a worker drives, and a cancel through the web process reaches the worker."""
    web, _ = start(*WEB, rate=50), start(*WORKER, rate=50)
    async with web.client() as client:
        session, run = await ask(client)
        follower = Follower(web, f"{session}/events", ends)
        await follower.text_of(10)
        assert (await client.post(f"/v1/runs/{run}/cancel")).status_code == 202
        frames = await follower.end(SOON)
        assert frames.of("run.cancelled")
        partial = frames.of("message.completed")[0].data
        assert partial["partial"]
        assert WHOLE.startswith(partial["parts"][0]["text"])


@pytest.mark.whole
async def test_a_terminated_worker_hands_over(start: Start):
    """After SIGTERM what does not fit in the grace time goes on at a peer at once, and the reader has the text once."""
    web, first = start(*WEB, rate=100), start(*WORKER, rate=100, PARLEY_GRACE="0")
    async with web.client() as client:
        session, run = await ask(client)
        follower = Follower(web, f"{session}/events", ends)
        await follower.text_of(20)
        start(*WORKER, rate=0)
        assert await asyncio.to_thread(first.interrupt, signal.SIGTERM, within=SOON) == 0
        frames = await follower.end(SOON)
        assert len(frames.of("run.resumed")) == 1
        assert [answer.text for answer in frames.answers] == [WHOLE]
        await holds_once(client, session, run, frames)


@pytest.mark.whole
async def test_a_terminated_server_finishes_what_fits(start: Start):
    """Within the grace a run ends where it is driven: no process resumes it, and a reader elsewhere sees its end."""
    one, two = start("serve", rate=200), start(*WEB)
    async with one.client() as client:
        session, _ = await ask(client)
    follower = Follower(two, f"{session}/events", ends)
    await follower.text_of(10)
    assert await asyncio.to_thread(one.interrupt, signal.SIGTERM, within=SOON) == 0
    frames = await follower.end(SOON)
    assert frames.of("run.resumed") == []
    assert [answer.text for answer in frames.answers] == [WHOLE]


@pytest.mark.whole
async def test_one_key_for_all_is_made_once(place: Path, postgres_url: str, start: Start):
    """Without PARLEY_API_KEY the first process prints a key that all take; a visitor's token is everybody's too."""
    one, two = (start("serve", PARLEY_API_KEY="") for _ in range(2))
    key = re.findall(r"API key: (parley_\S+)", one.output)[0]
    assert "API key: the one printed at the first start" in two.output
    async with one.client(key) as client, two.client(key) as other:
        assert (await other.get("/v1/agents")).status_code == 200
        wanted = {"actor": {"id": "ada"}, "agent": "assistant"}
        token = (await client.post("/v1/web/visitor-tokens", json=wanted)).json()["token"]
    async with two.client(token) as visitor:
        assert (await visitor.post("/v1/sessions", json={})).status_code == 201


@pytest.mark.whole
async def test_commands_find_a_server(place: Path, postgres_url: str, start: Start):
    """On the server's machine by itself, elsewhere by PARLEY_URL; a conversation needs no server at all."""
    settings = {"DATABASE_URL": postgres_url, "PARLEY_SECRET_KEY": SECRET, "PARLEY_DEMO_RATE": "0"}
    failed = run(place, "runs", "list", **settings)
    assert failed.returncode == 1
    assert failed.stderr.count("\n") == 1
    assert "PARLEY_URL" in failed.stderr
    alone = run(place, "chat", "What is 12 * 7?", **settings)
    assert (alone.returncode, "84" in alone.stdout) == (0, True), alone.stderr
    assert "[info]" not in alone.stderr
    server = start(*WEB), start(*WORKER)
    here = run(place, "sessions", "list", **settings)
    assert (here.returncode, here.stderr) == (0, ""), here.stderr
    there = run(place, "chat", "What is 6 * 7?", PARLEY_URL=server[0].url, PARLEY_DATA=str(place / "none"))
    assert (there.returncode, "42" in there.stdout) == (0, True), there.stderr
    gone = run(place, "chat", "Hi", PARLEY_URL="http://127.0.0.1:1")
    assert "PARLEY_URL: no server answers" in gone.stderr


async def test_sqlite_has_no_workers(place: Path, start_server: StartServer):
    """A worker, and a server that drives nothing, are refused on SQLite in one line that names DATABASE_URL."""
    for words in (WORKER, WEB):
        refused = run(place, *words)
        assert refused.returncode == 1
        assert re.fullmatch(r"parley: DATABASE_URL: [^\n]+\n", refused.stderr)


class StreamingAnswer(NamedTuple):
    """A server on a Postgres of its own, in the middle of an answer with a reader."""

    postgres: PostgresServer
    server: Server
    client: httpx.AsyncClient
    session: str
    run: str

    @asynccontextmanager
    async def without_postgres(self) -> AsyncIterator[None]:
        await asyncio.to_thread(self.postgres.stop, "immediate")
        try:
            yield
        finally:
            await asyncio.to_thread(self.postgres.start)


@asynccontextmanager
async def talking(place: Path, rate: int) -> AsyncIterator[StreamingAnswer]:
    with (
        postgres_server() as postgres,
        postgres.database() as url,
        serving(place, rate=rate, DATABASE_URL=url) as server,
    ):
        async with server.client() as client:
            session, run = await ask(client)
            follower = Follower(server, f"{session}/events", ends)
            await follower.text_of(10)
            yield StreamingAnswer(postgres, server, client, session, run)
            await follower.leave()


@pytest.mark.whole
async def test_a_postgres_that_is_away_for_a_while(place: Path):
    """Requests say so and when to try again, nothing is logged but that; once it is back a run goes on to its end."""
    async with talking(place, rate=50) as talk:
        _, server, client, session, run = talk
        async with talk.without_postgres():
            answer = await client.get("/v1/agents")
            assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
            assert int(answer.headers["Retry-After"]) > 0
            assert (await client.post(f"{session}/messages", json={"text": "Hi"})).status_code == 503
            assert (await ready(server))[0] == 503
            assert (await client.get("/healthz")).status_code == 200
        assert (await until_completed(client, run))["output"]["text"] == WHOLE
        assert next(iter((await reread(server, session)).answers)).text == WHOLE


@pytest.mark.whole
async def test_a_stop_while_postgres_is_away(place: Path):
    """A process whose database is away ends at once on SIGTERM, whatever it still has to write there."""
    async with talking(place, rate=20) as talk, talk.without_postgres():
        assert (await ready(talk.server))[0] == 503
        assert await asyncio.to_thread(talk.server.interrupt, signal.SIGTERM, within=SOON) == 0


async def until_completed(client: httpx.AsyncClient, run: str) -> dict:
    """Return the run once it has ended, however often the server has to say that it cannot be asked now."""
    async with asyncio.timeout(SOON):
        while True:
            found = await client.get(f"/v1/runs/{run}/events")
            if found.status_code == 200 and "event: run.completed" in found.text:
                return (await client.get(f"/v1/runs/{run}")).json()


async def reread(server: Server, session: str):
    return await Follower(server, f"{session}/events", ends).end(SOON)
