"""A visitor's stream and objects, frame by frame: what is the operator's is left out, the rest is whole."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from agent_core.providers.demo import MARK, essay
from tests.e2e.conftest import StartServer
from tests.e2e.follower import ends
from tests.e2e.frames import LIVE, Frames, check_fields
from tests.e2e.server import Server
from tests.e2e.visitors import agent_showing, opened_by, token_for

SHOWN = ["none", "names", "full"]
ONE_SHOWN = [pytest.param(show, marks=() if show == "names" else pytest.mark.whole) for show in SHOWN]
"""What is left out is the same function in each stream and object: `channels/web/test_visible.py` has every case."""
BOTH = "What is 12 * 7, and what time is it?"


@pytest.fixture(scope="module")
def server(start_shared: StartServer) -> Server:
    """A server whose model writes 400 words a second."""
    return start_shared(rate=400)


@pytest.fixture(scope="module")
def slow_server(start_shared: StartServer) -> Server:
    """A server whose model is slow enough to be stopped."""
    return start_shared(rate=20)


@asynccontextmanager
async def visiting(server: Server, show: str) -> AsyncIterator[tuple[httpx.AsyncClient, httpx.AsyncClient]]:
    """Give a visitor of an agent that shows so much of its tools, and an operator."""
    async with server.client() as operator:
        token = await token_for(operator, "ada", await agent_showing(operator, show))
        async with server.client(token) as visitor:
            yield visitor, operator


async def said(visitor: httpx.AsyncClient, session: str, text: str, frames: Frames) -> str:
    """Post *text* and read the answer to its end; return the run's id."""
    posted = await visitor.post(f"{session}/messages", json={"text": text})
    assert posted.status_code == 202, posted.text
    async with visitor.stream("GET", f"{session}/events", params={"after": frames.seq}) as response:
        await frames.until(response, ends)
    return posted.json()["run_id"]


@pytest.mark.parametrize("show", SHOWN)
async def test_a_visitors_stream_has_what_a_visitor_may_see(server: Server, show: str):
    """Every frame keeps to section 3 of the contract, and all that visitors may see is there."""
    async with visiting(server, show) as (visitor, operator):
        session = await opened_by(visitor)
        theirs, ours = Frames(show=show), Frames()
        await said(visitor, session, BOTH, theirs)
        async with operator.stream("GET", f"{session}/events?until=idle") as response:
            async for _ in ours.read(response):
                pass
    tools = {frame.event for frame in theirs if frame.event.startswith("tool.")}
    assert tools == (set() if show == "none" else {"tool.requested", "tool.started", "tool.completed"})
    hidden = {"context.added", "hook.ruled", "snapshot.frozen"}
    hidden |= {frame.event for frame in ours if frame.event.startswith("tool.") and show == "none"}
    expected = [(frame.seq, frame.event) for frame in ours if frame.seq and frame.event not in hidden]
    assert [(frame.seq, frame.event) for frame in theirs if frame.seq] == expected
    assert "12 * 7 is 84." in theirs.answers[-1].text
    assert theirs.answers[-1].text == ours.answers[-1].text


async def test_full_means_all_of_the_tools_and_nothing_else(server: Server):
    """With `full` a visitor sees what went into a tool and what came out, in events and in messages."""
    async with visiting(server, "full") as (visitor, _):
        session, frames = await opened_by(visitor), Frames(show="full")
        await said(visitor, session, BOTH, frames)
        messages = (await visitor.get(f"{session}/messages")).json()["items"]
    asked = {frame.data["name"]: frame.data["arguments"] for frame in frames.of("tool.requested")}
    assert asked == {"calculate": {"expression": "12 * 7"}, "current_time": {"timezone": "UTC"}}
    assert [{"type": "text", "text": "84"}] in [frame.data["parts"] for frame in frames.of("tool.completed")]
    calls = [part for message in messages for part in message["parts"] if part["type"] == "tool_call"]
    assert {call["name"]: call["arguments"] for call in calls} == asked


@pytest.mark.whole
@pytest.mark.parametrize("show", ONE_SHOWN)
async def test_a_visitors_objects_have_what_a_visitor_may_see(slow_server: Server, show: str):
    """Sessions, lists, messages and the answer to a cancel leave out the same as the stream."""
    async with visiting(slow_server, show) as (visitor, operator):
        session = await opened_by(visitor)
        await said(visitor, session, BOTH, Frames(show=show))
        posted = (await visitor.post(f"{session}/messages", json={"text": f"{BOTH} At length!"})).json()
        async with visitor.stream("GET", f"{session}/events") as response:
            frames = Frames(show=show)
            await frames.until(response, lambda frame: frame.event == "text.delta" and len(frame.data["text"]) < 40)
            cancelled = await visitor.post(f"/v1/runs/{posted['run_id']}/cancel", json={})
            await frames.until(response, lambda frame: frame.event == "run.cancelled")
        assert cancelled.status_code in {200, 202}
        again = await visitor.post(f"/v1/runs/{posted['run_id']}/cancel", json={})
        assert (again.status_code, again.json()["status"]) == (200, "cancelled")
        for path in (session, f"{session}/messages", "/v1/sessions"):
            answer = await visitor.get(path)
            assert answer.status_code == 200
            check_fields(answer.json(), show)
        for answer in (cancelled, again):
            check_fields(answer.json(), show)
        whole = (await operator.get(f"/v1/runs/{posted['run_id']}")).json()
        assert {"usage", "cost"} <= set(whole), "an operator lacks what visitors must not see"


@pytest.mark.parametrize("show", ONE_SHOWN)
async def test_a_visitors_run_stream_is_no_way_around(server: Server, show: str):
    """The stream of the visitor's own run leaves out the same, and carries the same text."""
    async with visiting(server, show) as (visitor, _):
        session, frames = await opened_by(visitor), Frames(show=show)
        run = await said(visitor, session, f"{BOTH} At length!", frames)
        alone = Frames(show=show)
        async with visitor.stream("GET", f"/v1/runs/{run}/events") as response:
            async for _ in alone.read(response):
                pass
    assert [frame for frame in alone if frame.seq] == [frame for frame in frames if frame.seq and frame.data["run"]]
    assert alone.answers[-1].text.endswith(f"{essay(f'{BOTH} At length!')}\n\n{MARK}")


@pytest.mark.whole
@pytest.mark.parametrize("show", ONE_SHOWN)
async def test_a_visitor_who_joins_in_mid_stream(server: Server, show: str):
    """A second tab gets the open message whole, as one piece, and then goes on with the first."""
    async with visiting(server, show) as (visitor, _):
        session, first, second = await opened_by(visitor), Frames(show=show), Frames(show=show)
        await visitor.post(f"{session}/messages", json={"text": f"{BOTH} At length!"})
        async with visitor.stream("GET", f"{session}/events") as one:
            await first.until(one, lambda _: bool(first.answers and len(first.answers[-1].text) > 600))
            seen = first.answers[-1].text
            async with visitor.stream("GET", f"{session}/events") as two:
                delta = await second.until(two, lambda frame: frame.event in LIVE)
                assert delta.data["offset"] == 0
                assert delta.data["text"].startswith(seen)
                await second.until(two, ends)
            await first.until(one, ends)
    assert second.answers[-1].text == first.answers[-1].text
