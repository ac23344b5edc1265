"""The core over HTTP: what a conversation asks of a server, and how it survives a bad connection."""

import json
import socket
from collections import deque
from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from agent_core.channels import Inbound
from agent_core.messages import Actor, Text
from agent_core.testing import FakeClock
from app.cli.client import Bearer, Client, FrameReader, ServerRefused, Unreachable, credential
from app.cli.remote import PAUSES, Remote, read_frame, running_server
from app.settings import Settings
from app.storage import Keys, owned
from channels.web.identity import TokenSigner
from tests.cases import for_each

ANN = Actor("ann", "user", "Ann")
QUESTION = Inbound(parts=(Text("Hello"),), actor=ANN, key="key_1")
NOT_FOUND = {"status": 404, "code": "not_found", "title": "Not Found", "detail": "There is no session `x` here."}
POSTED = {"message_id": "msg_1", "run_id": "run_1", "seq": 3}
BROKEN = httpx.ReadError("The connection broke.")

Answer = httpx.Response | Exception


class HurriedClock(FakeClock):
    """A clock that moves by itself; *waits* lists the seconds slept."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.advance(seconds)


class ScriptedServer:
    """A server that gives the next of *answers* to each request."""

    def __init__(self, *answers: Answer | Callable[[], Answer]) -> None:
        self.answers = deque(answers)
        self.requests: list[httpx.Request] = []
        self.clock = HurriedClock()
        http = httpx.AsyncClient(transport=httpx.MockTransport(self._answer), base_url="http://parley.test")
        self.remote = Remote(Client(http), self.clock)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, httpx.Response)
        return answer


def fact(seq: int, kind: str, run: str = "run_1", **data) -> bytes:
    """Return a fact's frame."""
    place = {"run": run, "parent_run": None, "time": "2026-01-05T09:00:00.004Z", "session": "ses_1"}
    return f"id: {seq}\nevent: {kind}\ndata: {json.dumps({**data, **place})}\n\n".encode()


def delta(text: str) -> bytes:
    """Return a text delta's frame."""
    data = {"message": "msg_2", "part": 0, "epoch": 1, "attempt": 1, "offset": 0, "text": text}
    place = {"run": "run_1", "parent_run": None, "time": "2026-01-05T09:00:00.004Z"}
    return f"event: text.delta\ndata: {json.dumps({**data, **place}, ensure_ascii=False)}\n\n".encode()


def stream(*chunks: bytes, error: Exception | None = None) -> httpx.Response:
    """Return a stream of *chunks* that ends well, or with *error*."""

    async def content() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk
        if error is not None:
            raise error

    return httpx.Response(200, content=content())


END = fact(
    9,
    "run.completed",
    stop_reason="end_turn",
    usage=dict.fromkeys(("input", "output", "reasoning", "cache_read", "cache_write_short", "cache_write_long")),
    cost=None,
)


async def test_a_conversation_over_http_is_the_one_in_process(client):
    """Session, receipt, events and run are those of the core, whichever way they came."""
    remote = Remote(Client(client), FakeClock())
    session = await remote.open_session(agent="assistant", actor=ANN)
    assert session == await remote.session(session.id)
    assert session.actor == ANN
    receipt = await remote.receive(session.id, QUESTION)
    assert await remote.receive(session.id, QUESTION) == receipt
    events = [event async for batch in remote.follow_run(receipt.run) for event in batch]
    assert events[-1].type == "run.completed"
    said = next(event for event in reversed(events) if event.type == "message.completed")
    assert said.body.parts[0].text == "You said: Hello"  # type: ignore[union-attr]
    run = await remote.cancel(receipt.run, by=ANN)
    assert (run.id, run.status, run.text) == (receipt.run, "completed", "You said: Hello")


async def test_the_conversations_over_http_are_ones_own(client):
    """A person's list has the latest of their conversations, as many as asked for, and no one else's."""
    remote = Remote(Client(client), FakeClock())
    odd = Actor("terminal:ann&bob=1+1", "user", "Ann")
    first, second, _ = [await remote.open_session(agent="assistant", actor=who) for who in (odd, odd, ANN)]
    assert [each.id for each in (await remote.sessions(actor=odd.id, limit=20)).items] == [second.id, first.id]
    assert [each.id for each in (await remote.sessions(actor=odd.id, limit=1)).items] == [second.id]


async def test_a_lost_answer_is_asked_for_again_with_the_same_key():
    """A post that broke off is repeated, and so is one that a proxy could not deliver."""
    wire = ScriptedServer(httpx.ConnectError("Refused."), httpx.Response(503), httpx.Response(202, json=POSTED))
    receipt = await wire.remote.receive("ses_1", QUESTION)
    assert (receipt.session, receipt.message, receipt.run, receipt.seq) == ("ses_1", "msg_1", "run_1", 3)
    assert {json.loads(request.content)["idempotency_key"] for request in wire.requests} == {"key_1"}
    assert wire.clock.waits == list(PAUSES[:2])


async def test_a_server_that_stays_away_is_given_up_in_one_line():
    """After the last try the error says which server does not answer."""
    wire = ScriptedServer(*[httpx.ConnectError("Refused.")] * (len(PAUSES) + 1))
    with pytest.raises(Unreachable, match=r"http://parley\.test does not answer"):
        await wire.remote.receive("ses_1", QUESTION)


async def test_opening_a_session_is_not_repeated():
    """A session whose answer was lost is not opened twice."""
    wire = ScriptedServer(httpx.ReadError("Lost."))
    with pytest.raises(Unreachable):
        await wire.remote.open_session(agent="assistant", actor=ANN)


async def test_a_problem_becomes_the_servers_own_words():
    """What the server refuses is one readable line, for a call and for a stream."""
    wire = ScriptedServer(httpx.Response(404, json=NOT_FOUND), httpx.Response(404, json=NOT_FOUND))
    with pytest.raises(ServerRefused, match="There is no session `x` here"):
        await wire.remote.session("x/../y")
    assert wire.requests[0].url.raw_path == b"/v1/sessions/x%2F..%2Fy"
    with pytest.raises(ServerRefused, match="There is no session `x` here"):
        await anext(wire.remote.follow("x"))


async def test_a_broken_stream_resumes_where_it_broke():
    """After a break the client asks for what comes after the last fact it has, and gets each fact once."""
    first = stream(fact(4, "run.queued"), fact(5, "run.started", epoch=1) + delta("half"), error=BROKEN)
    wire = ScriptedServer(first, httpx.Response(502), stream(), stream(delta("whole") + END))
    batches = [batch async for batch in wire.remote.follow_run("run_1", after=3)]
    assert [[event.type for event in batch] for batch in batches] == [
        ["run.queued"],
        ["run.started", "text.delta"],
        ["text.delta", "run.completed"],
    ]
    assert [request.headers["Last-Event-ID"] for request in wire.requests] == ["3", "5", "5", "5"]


async def test_a_stream_of_a_session_has_no_end_but_a_lost_server():
    """The end of a run ends nothing for a session; a server that stays away does."""
    wire = ScriptedServer(stream(END), *[httpx.ConnectError("Refused.")] * len(PAUSES))
    batches = wire.remote.follow("ses_1")
    assert [event.type for event in await anext(batches)] == ["run.completed"]
    with pytest.raises(Unreachable, match="the answer may continue there"):
        await anext(batches)


async def test_frames_may_be_cut_anywhere():
    """Chunks end where the network likes, in the middle of a frame or of a code point."""
    whole = fact(4, "run.queued") + b": still here\n\n" + delta("Größe\u2028🎈") + END
    wire = ScriptedServer(stream(*(whole[n : n + 7] for n in range(0, len(whole), 7))))
    events = [event async for batch in wire.remote.follow_run("run_1") for event in batch]
    assert [event.type for event in events] == ["run.queued", "text.delta", "run.completed"]
    assert events[1].body.text == "Größe\u2028🎈"  # type: ignore[union-attr]


def test_frames_of_a_later_version_are_no_trouble():
    """An unknown live event and a comment are passed over; an unknown fact still moves the cursor."""
    moved = b'event: cursor.moved\ndata: {"time": "2026-01-05T09:00:00.004Z"}\n\n'
    frames = FrameReader().feed(fact(7, "poem.recited", lines=3) + b": still here\n\n" + moved)
    later, live = [read_frame(frame) for frame in frames]
    assert later is not None
    assert (later.type, getattr(later, "seq", None)) == ("poem.recited", 7)
    assert live is None


async def test_a_server_is_found_only_where_one_answers(settings):
    """Neither a missing note of the server nor one of a killed server counts as a server."""
    assert await running_server(settings) is None
    (settings.data / "secret.key").write_text("a secret of no less than 32 characters", "utf-8")
    with owned(settings), socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: a connection is refused
        note = json.dumps({"url": f"http://127.0.0.1:{taken.getsockname()[1]}", "pid": 1})
        (settings.data / "server.json").write_text(note, "utf-8")
        assert await running_server(settings) is None


@for_each("known", ["api_key", "secret_key"])
async def test_each_request_carries_a_credential_of_its_time(known: str):
    """Where the API key is not known each request has a token signed for it: a command may outlive one."""
    secret = "a-secret-of-no-less-than-32-characters"
    settings = Settings(_env_file=None, **{"PARLEY_" + known.upper(): secret})  # type: ignore[call-arg]
    sent: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers["Authorization"].removeprefix("Bearer "))
        return httpx.Response(200, json={})

    transport = httpx.MockTransport(answer)
    async with httpx.AsyncClient(auth=Bearer(credential(settings)), transport=transport, base_url="http://p") as http:
        for _ in range(2):
            await http.get("/v1/agents")
    if known == "api_key":
        assert sent == [secret] * 2
    else:
        signer = TokenSigner(Keys(secret.encode()).derive)
        assert sent[0] != sent[1]
        assert [each for each in sent if not ((found := signer.read(each)) and found.role == "operator")] == []
