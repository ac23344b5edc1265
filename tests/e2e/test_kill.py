"""The server is killed in the middle of an answer: its readers and its callers end with everything, once."""

import asyncio

import httpx
import pytest

from agent_core.providers.demo import MARK, essay
from tests.e2e.follower import Follower, ends
from tests.e2e.frames import Frames
from tests.e2e.server import Server

ASK = "Explain at length"
WHOLE = f"{essay(ASK)}\n\n{MARK}"
RUNS = "/v1/agents/assistant/runs"


async def test_a_reader_of_a_killed_server_ends_with_the_text_once(server: Server):
    """After kill -9 in mid-stream and a restart a reader has every fact and the whole text exactly once."""
    async with server.client() as client:
        session, run = await ask(client)
        follower = Follower(server, f"{session}/events", ends)
        await follower.text_of(60)
        server.hurry()
        await follower.restart(server.kill)
        frames = await follower.end()
        assert follower.connections >= 2
        assert follower.broken[0] != "ended", "it was no crash"
        assert [frame.data["epoch"] for frame in frames.of("run.started", "run.resumed")] == [1, 2]
        assert [answer.text for answer in frames.answers] == [WHOLE]
        await holds_once(client, session, run, frames)


@pytest.mark.whole
async def test_a_cut_text_is_replaced_by_the_next_attempt(server: Server):
    """What was shown of the step that died is replaced: its second try begins at the first letter."""
    async with server.client() as client:
        session, _ = await ask(client)
        follower = Follower(server, f"{session}/events", ends)
        await follower.text_of(60)
        server.hurry(rate=150)
        await follower.restart(server.kill)
        frames = await follower.end()
    deltas = [frame.data for frame in frames.of("text.delta")]
    assert {delta["epoch"] for delta in deltas} == {1, 2}
    again = [delta for delta in deltas if delta["epoch"] == 2]
    assert again[0]["offset"] == 0
    assert "".join(delta["text"] for delta in again) == WHOLE
    steps = [frame.data for frame in frames.of("step.started")]
    assert len({step["message"] for step in steps}) == 1
    assert [(step["n"], step["attempt"]) for step in steps] == [(1, 1), (1, 2)]


@pytest.mark.whole
async def test_killed_again_and_again(server: Server):
    """Three kills in one answer cost its reader nothing."""
    async with server.client() as client:
        session, run = await ask(client)
        follower = Follower(server, f"{session}/events", ends)
        for kill in range(1, 4):
            await follower.until(lambda frames, epoch=kill: writes(frames, epoch, letters=300))
            if kill == 3:
                server.hurry()
            await follower.restart(server.kill)
        frames = await follower.end()
        assert [frame.data["epoch"] for frame in frames.of("run.resumed")] == [2, 3, 4]
        assert [answer.text for answer in frames.answers] == [WHOLE]
        await holds_once(client, session, run, frames)


async def test_a_tool_call_before_the_kill_is_not_made_again(server: Server):
    """A killed run goes on from its last fact: the step with the tools is not repeated."""
    async with server.client() as client:
        session, _ = await ask(client, f"What is 12 * 7? And then: {ASK}")
        follower = Follower(server, f"{session}/events", ends)
        await follower.text_of(60)
        server.hurry()
        await follower.restart(server.kill)
        frames = await follower.end()
    for kind in ("tool.requested", "tool.started", "tool.completed"):
        assert len(frames.of(kind)) == 1
    assert frames.answers[-1].text.startswith("12 * 7 is 84.")


@pytest.mark.whole
async def test_a_killed_wait_is_asked_again_with_its_key(server: Server):
    """Who waited for a run gets that very run by repeating the request with its idempotency key."""
    async with server.client() as client:
        session = await opened(client)
        follower = Follower(server, f"{session}/events", ends)
        body = {"input": ASK, "mode": "wait", "session": id_of(session), "idempotency_key": "once"}
        waiting = asyncio.create_task(client.post(RUNS, json=body))
        await follower.text_of(60)
        server.hurry()
        await follower.restart(server.kill)
        assert isinstance((await asyncio.gather(waiting, return_exceptions=True))[0], httpx.TransportError)
        again = await client.post(RUNS, json=body)
        assert (again.status_code, again.json()["status"]) == (200, "completed")
        assert again.json()["output"]["text"] == WHOLE
        frames = await follower.end()
        assert len(frames.of("message.received")) == len(frames.of("run.queued")) == 1
        assert again.json()["id"] == frames.of("run.resumed")[0].data["run"]
        await holds_once(client, session, again.json()["id"], frames)


@pytest.mark.whole
async def test_a_killed_stream_of_a_run_is_asked_again_with_its_key(server: Server):
    """Who streamed a run in the request that began it streams the same run by repeating that request."""
    body = {"input": ASK, "mode": "stream", "idempotency_key": "once"}
    async with server.client() as client:
        before = Frames(gaps=True)
        async with client.stream("POST", RUNS, json=body) as response:
            run, session = response.headers["Parley-Run"], response.headers["Parley-Session"]
            await before.until(response, lambda _: bool(before.answers and len(before.answers[0].text) > 300))
            server.hurry()
            await asyncio.to_thread(server.restart)
        after = Frames(gaps=True)
        async with client.stream("POST", RUNS, json=body) as response:
            assert (response.headers["Parley-Run"], response.headers["Parley-Session"]) == (run, session)
            await after.until(response, ends)
        assert [answer.text for answer in after.answers] == [WHOLE]
        events = [frame.event for frame in after if frame.event != "context.added"]
        assert events[:2] == ["message.received", "run.queued"]
        assert len((await client.get("/v1/runs")).json()["items"]) == 1


@pytest.mark.whole
async def test_a_message_that_waited_its_turn_survives(server: Server):
    """A message that stood in the queue when the server was killed is answered after the first."""
    async with server.client() as client:
        session, _ = await ask(client)
        second = (await client.post(f"{session}/messages", json={"text": "What is 2 + 3?"})).json()["run_id"]
        follower = Follower(server, f"{session}/events", lambda frame: ends(frame) and frame.data["run"] == second)
        await follower.text_of(60)
        server.hurry()
        await follower.restart(server.kill)
        frames = await follower.end()
        assert [frame.event for frame in frames if ends(frame)] == ["run.completed"] * 2
        assert frames.answers[0].text == WHOLE
        assert "2 + 3 is 5." in frames.answers[-1].text


async def opened(client: httpx.AsyncClient) -> str:
    """Open a session and return its path."""
    answer = await client.post("/v1/sessions", json={"agent": "assistant"})
    assert answer.status_code == 201
    return f"/v1/sessions/{answer.json()['id']}"


async def ask(client: httpx.AsyncClient, text: str = ASK) -> tuple[str, str]:
    """Post *text* in a new session; return the session's path and the run's id."""
    session = await opened(client)
    answer = await client.post(f"{session}/messages", json={"text": text})
    assert answer.status_code == 202
    return session, answer.json()["run_id"]


async def holds_once(client: httpx.AsyncClient, session: str, run: str, frames: Frames) -> None:
    """Hold what the API tells afterwards against what the reader saw: one run, one question, one answer."""
    messages = (await client.get(f"{session}/messages")).json()["items"]
    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert [part["text"] for part in messages[1]["parts"]] == [WHOLE]
    found = (await client.get(f"/v1/runs/{run}")).json()
    assert (found["status"], found["output"]["text"], found["steps"]) == ("completed", WHOLE, 1)
    assert [
        item["id"] for item in (await client.get("/v1/runs", params={"session": id_of(session)})).json()["items"]
    ] == [run]
    again = Frames()
    async with client.stream("GET", f"{session}/events?until=idle") as response:
        async for _ in again.read(response):
            pass
    assert [frame for frame in again if frame.seq] == [frame for frame in frames if frame.seq]


def writes(frames: Frames, epoch: int, *, letters: int) -> bool:
    """Return whether the attempt of *epoch* has written so much."""
    return any(each.tried[0] == epoch and len(each.text) >= letters for each in frames.answers)


def id_of(session: str) -> str:
    """Return the id in a session's path."""
    return session.rpartition("/")[2]
