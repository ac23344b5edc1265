"""Ctrl-C: the server ends in time, not only after its grace, says goodbye to everybody, and loses nothing."""

import asyncio
import signal

import httpx
import pytest

from tests.e2e.conftest import StartServer
from tests.e2e.follower import Follower, ends
from tests.e2e.frames import Frames
from tests.e2e.server import Server
from tests.e2e.test_kill import ASK, RUNS, WHOLE, ask, holds_once, id_of, opened
from tests.polling import PATIENCE


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_ctrl_c_in_mid_stream(start_server: StartServer, number: signal.Signals):
    """A stop ends open streams properly and exits with 0 in time; after the next start the answer goes on."""
    server = start_server(rate=50)
    async with server.client() as client:
        session, run = await ask(client)
        follower = Follower(server, f"{session}/events", ends)
        await follower.text_of(30)
        codes: list[int] = []
        server.hurry()
        await follower.restart(lambda: codes.append(server.interrupt(number)))
        frames = await follower.end()
        assert codes == [0]
        assert follower.broken[0] == "ended", "the stream was cut, not ended"
        assert len(frames.of("run.resumed")) == 1
        assert [answer.text for answer in frames.answers] == [WHOLE]
        await holds_once(client, session, run, frames)


@pytest.mark.whole
async def test_ctrl_c_answers_waiting_readers(start_server: StartServer):
    """Waits and streams of runs, and readers of an idle session, are all let go at once."""
    server = start_server(rate=50)
    async with server.client() as client:
        session = await opened(client)
        idle = Follower(server, f"{await opened(client)}/events", ends)
        follower = Follower(server, f"{session}/events", ends)
        body = {"input": ASK, "mode": "wait", "session": id_of(session)}
        waiting = asyncio.create_task(client.post(RUNS, json=body))
        await follower.text_of(10)
        await idle.until(lambda frames: bool(frames.all))
        run = frames_run(follower)
        async with client.stream("GET", f"/v1/runs/{run}/events") as response:
            stream = asyncio.create_task(read(Frames(gaps=True), response))
            assert await asyncio.to_thread(server.interrupt) == 0
            await asyncio.wait_for(stream, PATIENCE)
        answer = await waiting
        assert (answer.status_code, answer.json()["status"], answer.json()["id"]) == (202, "running", run)
        assert server.afterwards == ""
        await follower.leave()
        await idle.leave()


@pytest.mark.whole
async def test_ctrl_c_without_readers(server: Server):
    """A server without readers ends with 0, takes its note of where it is along, and starts again."""
    assert (server.data / "server.json").exists()
    assert server.interrupt() == 0
    assert not (server.data / "server.json").exists()
    server.start()
    async with server.client() as client:
        assert (await client.get("/readyz")).json() == {"status": "ok"}


@pytest.mark.whole
async def test_a_hundred_readers_are_let_go_in_time(start_server: StartServer):
    """Ctrl-C with a hundred streams open still ends the server in time, each stream properly."""
    server = start_server(rate=20)
    limits = httpx.Limits(max_connections=None)
    async with server.client(limits=limits) as client:
        session, _ = await ask(client)
        all_there = asyncio.Barrier(101)
        readers = [asyncio.create_task(whole(client, session, all_there)) for _ in range(100)]
        await asyncio.wait_for(all_there.wait(), PATIENCE)
        assert await asyncio.to_thread(server.interrupt) == 0
        texts = await asyncio.gather(*readers)
        assert [text for text in texts if not (text and WHOLE.startswith(text))] == []


def frames_run(follower: Follower) -> str:
    """Return the id of the run that *follower* sees."""
    return follower.frames.of("run.started")[0].data["run"]


async def read(frames: Frames, response: httpx.Response) -> None:
    """Read *response* to its end."""
    async for _ in frames.read(response):
        pass


async def whole(client: httpx.AsyncClient, session: str, all_there: asyncio.Barrier) -> str:
    """Read a session's stream to its end and return the answer so far; say when its text has begun."""
    frames = Frames()
    async with client.stream("GET", f"{session}/events") as response:
        said = None
        async for _ in frames.read(response):
            if frames.answers and said is None:
                said = await all_there.wait()
    return frames.answers[0].text
