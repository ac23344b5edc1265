"""Frames, and the streams that carry them."""

import asyncio
import json
from contextlib import ExitStack

import msgspec
import pytest

from agent_core.errors import NotFound, RateLimited, Unavailable, UnknownCursor
from agent_core.events import Fact, Heartbeat, Live, RunQueued, SessionOpened, TextDelta
from agent_core.messages import Actor
from app.api.sse import EventStream, frame, open_stream
from app.serving.readers import Readers, Seats, StreamBounds
from channels.web.identity import Principal
from tests.polling import PATIENCE

NOW = 1_767_603_600_123
OPENED = SessionOpened(agent="a", actor=Actor(id="ada", kind="visitor", name="Ada \n 🦊"))


def seat(readers: Readers, visitor: str, *, agent: str = "agent_1", **where) -> Seats:
    """Return where *readers* counts the streams of a visitor."""
    principal = Principal("visitor", Actor(id=visitor, kind="visitor"), agent=agent)
    return readers.of(principal, "ses_1", **where)


def fact(seq: int, body, run: str | None = "run_1") -> Fact:
    return Fact(
        seq=seq, type=body.type, session="ses_1", run=run, parent_run=None, time=NOW, raw=msgspec.json.encode(body)
    )


def live(text: str) -> Live:
    body = TextDelta(message="m", part=0, epoch=1, attempt=1, offset=0, text=text)
    return Live(session="ses_1", run="run_1", parent_run="run_0", time=NOW, body=body)


class AsgiRequest:
    """The server's side of one request: what was sent, and a way to hang up."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.started: dict = {}
        self.ended = asyncio.Event()
        self.gone = asyncio.Event()
        self._news = asyncio.Event()
        self.at_end = lambda: None

    async def send(self, message) -> None:
        if message["type"] == "http.response.start":
            self.started = message
        elif message["more_body"]:
            self.chunks.append(message["body"])
        else:
            self.at_end()
            self.ended.set()
        self._news.set()

    async def receive(self):
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def until(self, condition) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self._news.clear()
                await self._news.wait()


class Source:
    """Batches that a test gives one by one; None ends them."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue = asyncio.Queue()
        self.closed = False
        self.began = asyncio.Event()

    async def follow(self):
        self.began.set()
        try:
            while (batch := await self.queue.get()) is not None:
                if isinstance(batch, Exception):
                    raise batch
                yield batch
        finally:
            self.closed = True


class Running:
    """A stream at work; *gone* counts what was done because the reader left."""

    def __init__(self, *, silence: float = 15.0, show=None) -> None:
        self.source, self.wire, self.readers, self.left = Source(), AsgiRequest(), Readers(), 0
        stream = EventStream(
            self.source.follow(), [], show=show, readers=self.readers, gone=self._gone, silence=silence
        )
        self.task = asyncio.create_task(stream({"type": "http"}, self.wire.receive, self.wire.send))

    async def _gone(self) -> None:
        assert not self.wire.ended.is_set()
        self.left += 1

    async def end(self) -> None:
        await asyncio.wait_for(self.task, PATIENCE)
        assert self.wire.ended.is_set()
        assert self.source.closed
        assert self.readers.count == 0


def test_a_fact_is_framed_with_its_envelope():
    """A fact has its seq as id, its type as event, and its body with run, parent, time and session."""
    text = frame(fact(7, OPENED, run=None), None).decode()
    assert text.startswith("id: 7\nevent: session.opened\ndata: {")
    assert text.endswith("}\n\n")
    assert text.count("\n") == 4
    assert json.loads(text.split("data: ")[1]) == {
        "agent": "a",
        "actor": {"id": "ada", "kind": "visitor", "name": "Ada \n 🦊"},
        "run": None,
        "parent_run": None,
        "time": "2026-01-05T09:00:00.123Z",
        "session": "ses_1",
    }


def test_an_empty_body_is_framed_too():
    """An event that says nothing but its envelope is valid JSON."""
    lines = frame(fact(1, RunQueued()), None).decode().split("\n")
    assert json.loads(lines[2].removeprefix("data: "))["run"] == "run_1"


def test_a_live_event_has_no_id():
    """A live event has neither id nor session."""
    lines = frame(live("Hi"), None).decode().split("\n")
    assert lines[0] == "event: text.delta"
    data = json.loads(lines[1].removeprefix("data: "))
    assert (data["text"], data["offset"], data["parent_run"]) == ("Hi", 0, "run_0")
    assert "session" not in data


def test_a_frame_is_made_once_for_all_readers():
    """Operators share one frame of an event, and visitors share it where nothing is left out."""
    event = live("Hi")
    assert frame(event, None) is frame(event, None) is frame(event, "names") is frame(event, "full")
    heartbeat = Live(session="s", run="r", parent_run=None, time=NOW, body=Heartbeat())
    assert frame(heartbeat, "none") is frame(heartbeat, None)


async def test_a_wake_up_leaves_in_one_chunk():
    """All events of one batch are one send; a batch without anything for this reader is none."""
    running = Running(show="names")
    hidden = fact(1, OPENED)
    hidden.type = "context.added"
    for batch in ([fact(1, OPENED), live("a"), live("b")], [hidden], [live("c")], None):
        running.source.queue.put_nowait(batch)
    await running.end()
    assert [chunk.count(b"\n\n") for chunk in running.wire.chunks] == [3, 1]
    assert running.left == 0
    assert (b"content-type", b"text/event-stream; charset=utf-8") in running.wire.started["headers"]


async def test_the_response_ends_with_the_last_event():
    """The end of a stream does not wait for its cleanup; it comes once, and does not count as a disconnect."""
    running, held = Running(), list[int]()

    def at_end() -> None:
        held.append(running.readers.count)
        running.wire.gone.set()

    running.wire.at_end = at_end
    running.source.queue.put_nowait([live("a")])
    running.source.queue.put_nowait(None)
    await running.end()
    assert (held, running.left) == ([1], 0)


async def test_a_silent_stream_says_that_it_lives():
    """After a while without an event a comment goes out, again and again."""
    running = Running(silence=0.01)
    await running.wire.until(lambda: len(running.wire.chunks) >= 2)
    assert [chunk for chunk in running.wire.chunks if not (chunk.startswith(b":") and chunk.endswith(b"\n\n"))] == []
    running.source.queue.put_nowait(None)
    await running.end()


async def test_a_reader_who_leaves_is_dealt_with_first():
    """When the reader hangs up, what was asked for that case is done, and the source is let go."""
    running = Running()
    running.source.queue.put_nowait([live("a")])
    await running.wire.until(lambda: running.wire.chunks)
    running.wire.gone.set()
    await running.end()
    assert running.left == 1


async def test_a_stopping_server_ends_its_streams():
    """Closing the readers ends an open stream at once, and it is not taken for a reader who left."""
    running = Running()
    running.source.queue.put_nowait([live("a")])
    await running.wire.until(lambda: running.wire.chunks)
    running.readers.close()
    await running.end()
    assert running.left == 0


async def test_a_stream_that_comes_too_late_ends_too():
    """A stream that begins when the server is stopping ends before its first event."""
    running = Running()
    running.source.queue.put_nowait([live("a")])
    running.readers.close()
    await asyncio.wait_for(running.task, PATIENCE)
    assert running.wire.ended.is_set()
    assert running.wire.chunks == []


async def test_a_failing_source_ends_the_stream_and_is_raised():
    """An error in mid-stream closes the response, and is raised for the log."""
    running = Running()
    running.source.queue.put_nowait(NotFound("session", "ses_1"))
    with pytest.raises(NotFound):
        await running.end()
    assert running.wire.ended.is_set()


async def test_a_database_that_goes_away_ends_the_stream():
    """Without a database a stream ends as any does, and nothing is logged as a crash: its reader comes back."""
    running = Running()
    running.source.queue.put_nowait([fact(1, OPENED)])
    running.source.queue.put_nowait(Unavailable("away"))
    await running.end()
    assert len(running.wire.chunks) == 1


async def test_an_unknown_cursor_is_raised_before_the_stream():
    """What the source raises first is an answer of its own, not a broken stream."""
    source = Source()
    source.queue.put_nowait(UnknownCursor("after", "is beyond the end."))
    with pytest.raises(UnknownCursor):
        await open_stream(source.follow(), show=None, readers=Readers())


async def test_streams_of_one_reader_are_counted():
    """Of one reader so many streams are open and one more is refused, until one ends; others are not affected."""
    readers = Readers(most_of_one=2)
    ada, ben = seat(readers, "ada"), seat(readers, "ben")

    async def begin(seats: Seats) -> tuple[asyncio.Task[None], Source, AsgiRequest]:
        source, wire = Source(), AsgiRequest()
        source.queue.put_nowait([])
        stream = await open_stream(source.follow(), show=None, readers=seats)
        serving = asyncio.create_task(stream({}, wire.receive, wire.send))
        await wire.until(lambda: wire.started)
        return serving, source, wire

    (first, source, _), (second, other, _) = await begin(ada), await begin(ada)
    with pytest.raises(RateLimited):
        await begin(ada)
    third, third_source, _ = await begin(ben)
    fourth, fourth_source, _ = await begin(readers)
    source.queue.put_nowait(None)
    await first
    fifth, fifth_source, _ = await begin(ada)
    for each in (other, third_source, fourth_source, fifth_source):
        each.queue.put_nowait(None)
    await asyncio.gather(second, third, fourth, fifth)
    assert readers.count == 0


async def test_streams_of_one_address_are_counted():
    """However many visitors are at one address, their streams have one cap, over all agents; others have theirs."""
    readers = Readers(most_of_address=3)
    ids = iter(range(100))

    def one_more(address: str | None, agent: str = "agent_1") -> Seats:
        return seat(readers, f"anonymous_{next(ids)}", agent=agent, address=address)

    tasks = [asyncio.create_task(asyncio.Event().wait()) for _ in range(4)]
    with one_more("192.0.2.1").holding(tasks[0]), one_more("192.0.2.1", "agent_2").holding(tasks[1]):
        with one_more("192.0.2.1").holding(tasks[2]):
            with pytest.raises(RateLimited, match="Your network address has 3 open streams"):
                one_more("192.0.2.1", "agent_3").check()
            one_more("192.0.2.2").check()
            one_more(None).check()
            readers.of(Principal("operator", Actor(id="o", kind="service")), "ses_1").check()
        one_more("192.0.2.1").check()
    assert not readers._counts


async def test_an_agent_bounds_the_streams_of_its_visitors():
    """Of one visitor, of an address and of all of them an agent may have fewer, or more, than others."""
    readers = Readers(most_of_one=1)
    bounds = StreamBounds(visitor=2, address=3, everyone=4)
    refused: list[str] = []
    with ExitStack() as held:
        for visitor, address in (("ada", "a"), ("ada", "a"), ("ada", "a"), ("ben", "a"), ("cem", "a"), ("cem", "b")):
            one = seat(readers, visitor, address=address, bounds=bounds)
            try:
                one.check()
            except RateLimited as error:
                refused.append(str(error).partition(" open ")[0])
            else:
                held.enter_context(one.holding(asyncio.create_task(asyncio.Event().wait())))
        with pytest.raises(RateLimited, match="The people who use this assistant have 4 open streams"):
            seat(readers, "dan", address="c", bounds=bounds).check()
        seat(readers, "dan", agent="agent_2", address="c").check()
    assert refused == ["You have 2", "Your network address has 3"]


async def test_a_stream_that_is_refused_leaves_nothing_open():
    """When others of the same reader came first, the source of the late one is closed."""
    readers = Readers(most_of_one=1)
    source, late = Source(), asyncio.create_task(asyncio.Event().wait())
    opening = asyncio.create_task(open_stream(source.follow(), show=None, readers=seat(readers, "ada")))
    await source.began.wait()
    with seat(readers, "ada").holding(late):
        source.queue.put_nowait([])
        with pytest.raises(RateLimited):
            await opening
    assert source.closed
