"""Approvals at a real server: asked before a kill and decided after it, pressed by many at once, tried by strangers."""

import asyncio

import httpx
import pytest

from tests.e2e.follower import ends
from tests.e2e.frames import Frames
from tests.e2e.server import Server
from tests.e2e.visitors import opened_by, token_for

AGENT = {
    "name": "careful",
    "instructions": "Ask before you calculate.",
    "tools": ["calculate"],
    "hooks": [{"event": "PreToolUse", "type": "approval", "config": {"responders": ["asker", "operators"]}}],
}


async def asked(operator: httpx.AsyncClient, visitor: httpx.AsyncClient, frames: Frames) -> tuple[str, str]:
    """Have the visitor ask for a sum, and return the paths of the session and of the approval."""
    session = await opened_by(visitor)
    await visitor.post(f"{session}/messages", json={"text": "What is 12 * 7?"})
    async with visitor.stream("GET", f"{session}/events") as response:
        await frames.until(response, lambda frame: frame.event == "run.waiting")
    (found,) = (await operator.get("/v1/approvals", params={"status": "open"})).json()["items"]
    return session, f"/v1/approvals/{found['id']}"


async def test_a_question_outlives_the_server(server: Server):
    """A visitor who was asked before a kill decides after it, and the answer goes on in the same log."""
    async with server.client() as operator:
        assert (await operator.post("/v1/agents", json=AGENT)).status_code == 201
        token = await token_for(operator, "ada", "careful")
        async with server.client(token) as ada:
            frames = Frames(show="names")
            session, approval = await asked(operator, ada, frames)
    server.restart()
    async with server.client() as operator, server.client(token) as ada:
        assert (await ada.get(session)).json()["status"] == "waiting"
        assert (await ada.get(approval)).json()["arguments"] == {"expression": "12 * 7"}
        assert (await ada.post(approval, json={"approved": True})).status_code == 200
        async with ada.stream("GET", f"{session}/events", params={"after": frames.seq}) as response:
            await frames.until(response, ends)
        assert "12 * 7 is 84." in frames.answers[-1].text
        decided = frames.of("approval.decided")[0].data
        assert (decided["status"], decided["by"]["id"], decided["surface"]) == ("approved", "ada", "web")


@pytest.mark.whole
async def test_one_of_many_is_taken_and_strangers_never(server: Server):
    """Votes at once by operator, visitor and strangers: one counts, the late get its outcome, strangers nothing."""
    async with server.client() as operator:
        assert (await operator.post("/v1/agents", json=AGENT)).status_code == 201
        tokens = [await token_for(operator, name, "careful") for name in ("ada", "eve")]
        async with server.client(tokens[0]) as ada, server.client(tokens[1]) as eve:
            session, approval = await asked(operator, ada, Frames(show="names"))
            callers = [operator, ada, eve] * 10
            votes = (each.post(approval, json={"approved": n % 2 == 0}) for n, each in enumerate(callers))
            answers = await asyncio.gather(*votes)
            assert {answer.status_code for answer in answers[2::3]} == {404}
            mine = [answer for n, answer in enumerate(answers) if n % 3 != 2]
            assert sorted(answer.status_code for answer in mine) == [200, *[409] * 19]
            outcome = next(answer.json()["status"] for answer in mine if answer.status_code == 200)
            assert {answer.json()["approval"]["status"] for answer in mine if answer.status_code == 409} == {outcome}
            frames = Frames()
            async with operator.stream("GET", f"{session}/events") as response:
                await frames.until(response, ends)
            assert len(frames.of("approval.decided")) == 1
            assert len(frames.of("tool.started")) == (outcome == "approved")
