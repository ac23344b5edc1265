"""The server on a real socket: streams, readers who leave, and a stop that loses nothing."""

import asyncio
import gc
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import Mock

import httpx
import pytest
from fastapi import FastAPI

from agent_core.errors import ConfigError
from agent_core.tools.base import ForeignError, called
from app import main
from app.collector import SELDOM
from app.compose import create_watch
from app.main import _settle, _working, greet
from app.serving.connections import Connections
from app.serving.readers import Readers, Starting
from app.serving.server import Server, config, listening, url_of
from app.settings import Settings
from app.storage import ApiKey
from tests.app.conftest import KEY, Model
from tests.app.frames import frames
from tests.polling import PATIENCE

RUNS = "/v1/agents/assistant/runs"
RARELY = (10_000, 1_000, 1_000)


class Served:
    """A server at work, and an operator who calls it."""

    def __init__(self, server: Server, readers: Readers, task: asyncio.Task[None], url: str) -> None:
        self.server, self.readers, self.task = server, readers, task
        self.client = httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {KEY}"}, timeout=PATIENCE)

    async def stop(self) -> None:
        self.server.handle_exit(signal.SIGINT, None)
        await asyncio.wait_for(self.task, PATIENCE)

    @asynccontextmanager
    async def stream(self, method: str, path: str, body: dict | None = None) -> AsyncIterator["StreamLines"]:
        async with self.client.stream(method, path, json=body) as response:
            assert response.status_code == 200
            yield StreamLines(response)

    async def session(self) -> str:
        session = (await self.client.post("/v1/sessions", json={"agent": "assistant"})).json()
        return f"/v1/sessions/{session['id']}"

    async def ended(self, run: str) -> str:
        """Return how *run* ended."""
        return frames((await self.client.get(f"/v1/runs/{run}/events")).text)[-1].event


@pytest.fixture
async def served(app: FastAPI, settings: Settings, readers: Readers) -> AsyncIterator[Served]:
    up = asyncio.Event()
    with listening(settings.host, 0) as sock:
        connections = Connections()
        server = Server(config(app, connections), readers=readers, connections=connections, started=up.set)
        task = asyncio.create_task(server.serve(sockets=[sock]))
        served = Served(server, readers, task, url_of(settings.host, sock))
        await up.wait()
        async with served.client:
            yield served
        await served.stop()


class StreamLines:
    """The lines of a stream, read as they come."""

    def __init__(self, response: httpx.Response) -> None:
        self.headers = response.headers
        self._lines = response.aiter_lines()

    async def until(self, event: str) -> None:
        """Return once *event* has come."""
        async for line in self._lines:
            if line == f"event: {event}":
                return
        raise AssertionError(f"the stream ended without {event}")

    async def end(self) -> None:
        """Return once the stream has ended."""
        async for _ in self._lines:
            pass


async def test_two_readers_see_the_same_stream(served: Served, model: Model):
    """Text arrives while the model speaks, and a second tab sees the same facts."""
    path = await served.session()
    model.hold()
    async with served.stream("GET", f"{path}/events") as one, served.stream("GET", f"{path}/events") as two:
        await served.client.post(f"{path}/messages", json={"text": "Hi"})
        await one.until("step.started")
        model.release()
        await one.until("text.delta")
        await one.until("run.completed")
        await two.until("run.completed")


async def test_a_reader_who_is_up_to_date_is_connected_at_once(served: Served):
    """At the newest seq the answer's head comes before the next event does."""
    path = await served.session()
    async with asyncio.timeout(PATIENCE), served.stream("GET", f"{path}/events?after=2"):
        assert served.readers.count == 1


async def test_closing_a_tab_stops_nothing(served: Served, model: Model):
    """A run whose reader disconnected runs to its end."""
    model.hold()
    async with served.stream("POST", RUNS, {"input": "Hi", "mode": "stream"}) as stream:
        await stream.until("step.started")
        run = stream.headers["Parley-Run"]
    model.release()
    assert await served.ended(run) == "run.completed"


async def test_leaving_a_stream_cancels_when_that_was_asked_for(served: Served, model: Model):
    """With on_disconnect cancel a streamed run ends with its only reader."""
    model.hold()
    body = {"input": "Hi", "mode": "stream", "on_disconnect": "cancel"}
    async with served.stream("POST", RUNS, body) as stream:
        await stream.until("step.started")
        run = stream.headers["Parley-Run"]
    assert await served.ended(run) == "run.cancelled"


async def test_leaving_a_wait_cancels_when_that_was_asked_for(served: Served, model: Model):
    """With on_disconnect cancel a run ends when the caller who waits for it hangs up."""
    path = await served.session()
    model.hold()
    body = {"input": "Hi", "on_disconnect": "cancel", "session": path.rpartition("/")[2]}
    async with served.stream("GET", f"{path}/events") as stream:
        waiting = asyncio.create_task(served.client.post(RUNS, json=body))
        await stream.until("step.started")
        waiting.cancel()
        await stream.until("run.cancelled")


async def test_a_stop_ends_streams_and_waits(served: Served, model: Model):
    """Ctrl-C ends open streams at once and answers a waiting caller with the run as it is."""
    path = await served.session()
    model.hold()
    body = {"input": "Hi", "session": path.rpartition("/")[2]}
    async with served.stream("GET", f"{path}/events") as stream:
        waiting = asyncio.create_task(served.client.post(RUNS, json=body))
        await stream.until("step.started")
        await served.stop()
        await stream.end()
    answer = await waiting
    assert (answer.status_code, answer.json()["status"]) == (202, "running")


def test_a_taken_port_is_named():
    """Another server on the port fails the start with the name of the setting and the remedy."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        with pytest.raises(ConfigError, match=r"PORT: \d+ is in use"), listening("127.0.0.1", taken):
            pass
        with pytest.raises(ConfigError, match="another --health-port"), listening("127.0.0.1", taken, "--health-port"):
            pass


@pytest.mark.parametrize(
    ("host", "url", "listens"),
    [
        ("127.0.0.1", "http://127.0.0.1", "http://127.0.0.1:{port};"),
        ("0.0.0.0", "http://127.0.0.1", "0.0.0.0:{port}, on this machine http://127.0.0.1:{port};"),  # noqa: S104
        ("::", "http://[::1]", "[::]:{port}, on this machine http://[::1]:{port};"),
        ("::1", "http://[::1]", "http://[::1]:{port};"),
    ],
)
def test_a_server_prints_where_it_listens(
    host: str, url: str, listens: str, tmp_path, capsys: pytest.CaptureFixture[str]
):
    """HOST is printed as it is; where it means every address, the one of this machine is named as that."""
    given: dict[str, Any] = {"host": host, "data": tmp_path, "demo_password": "open sesame"}
    settings = Settings(_env_file=None, **given)  # type: ignore[call-arg]
    with listening("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
        assert url_of(host, sock) == f"{url}:{port}"
        greet(settings, url_of(host, sock), ApiKey(b""))
    printed = capsys.readouterr().out
    assert f"Parley listens on {listens.format(port=port)}" in printed
    assert f"{'' if '127' in host or host == '::1' else 'on this machine '}{url}:{port}/widget-demo" in printed


def test_the_address_for_slack_is_the_public_one(tmp_path, capsys: pytest.CaptureFixture[str]):
    """Where Slack sends requests is printed as PARLEY_PUBLIC_URL names it: Slack reaches no loopback address."""
    given: dict[str, Any] = {
        "slack_bot_token": "xoxb-1",
        "slack_signing_secret": "s",
        "public_url": "https://p.example",
    }
    settings = Settings(_env_file=None, data=tmp_path, **given)  # type: ignore[call-arg]
    greet(settings, "http://127.0.0.1:8000", ApiKey(b""))
    assert "Slack:   https://p.example/slack/events" in capsys.readouterr().out


def test_a_host_that_is_not_here_is_named():
    """An address of another machine, and a name that is none, fail the start with HOST."""
    for host in ("192.0.2.1", "no.such.host.invalid"):
        with pytest.raises(ConfigError, match=r"HOST: "), listening(host, 8000):
            pass


@pytest.fixture
def starting() -> Iterator[None]:
    """Keep the collector from running in a test by itself, and set it back."""
    threshold = gc.get_threshold()
    gc.set_threshold(*RARELY)
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)


async def test_what_the_model_needs_is_kept_from_the_collector(starting):
    """The collector looks at all that is made after the default model's imports, never at them, and no loop waits."""
    up, imported = asyncio.Event(), []

    async def prepare():
        imported.append([gc.get_threshold()])

    up.set()
    before = gc.get_stats()[1:]
    await _settle(up, prepare)
    assert gc.get_stats()[1:] == before
    assert (imported, gc.get_threshold()) == ([[RARELY]], SELDOM)
    assert not any(each is imported[0] for each in gc.get_objects())


async def test_a_process_that_asks_no_model_prepares_none(starting):
    """A server that drives no runs imports no SDK; its collector works all the same."""
    up = asyncio.Event()
    up.set()
    await _settle(up, None)
    assert gc.get_threshold() == SELDOM


def test_idle_connections_outlast_those_of_a_proxy():
    """A proxy that keeps connections for a minute never sends a request on one that is just being closed."""
    assert config(FastAPI(), Connections()).timeout_keep_alive > 60


async def test_a_server_whose_work_ended_ends(monkeypatch: pytest.MonkeyPatch):
    """When its engine stops, the server ends with an error that says so, for a supervisor."""
    ended = asyncio.Event()
    core = Mock(is_working=False)
    monkeypatch.setattr(main, "CHECK_EVERY", 0.01)
    with pytest.raises(ConfigError, match="The engine of this process has stopped"):
        async with asyncio.timeout(PATIENCE), _working(core, ended.set):
            await ended.wait()


async def test_a_worker_learns_the_key_that_a_server_makes_later(settings: Settings, monkeypatch: pytest.MonkeyPatch):
    """A worker that was there first takes the key once a server has made it, also after an outage."""
    key, watch = ApiKey(b""), create_watch(Starting())
    monkeypatch.setattr(main, "CHECK_EVERY", 0)
    monkeypatch.setattr(main, "find_api_key", Mock(side_effect=[None, ConfigError("away"), key]))
    async with asyncio.timeout(PATIENCE):
        await main._learn(watch, settings)
    assert watch.state.api_key is key


def test_an_exit_of_a_task_ends_its_call_and_not_the_process():
    """What asyncio lets out of the loop, as a child task of foreign code raised it, arrives where that is awaited."""

    async def leave(error: BaseException) -> None:
        raise error

    async def work() -> None:
        for error in (SystemExit(3), KeyboardInterrupt()):
            with pytest.raises(ForeignError, match=type(error).__name__):
                await called(lambda error=error: asyncio.gather(leave(error)))
        sys.exit(4)

    with pytest.raises(SystemExit, match="4"):
        main._run(work())


def test_ctrl_c_ends_what_has_not_yet_taken_the_signals():
    """A process that is only starting ends too, and leaves the signal as it was."""

    async def work() -> None:
        signal.raise_signal(signal.SIGINT)
        async with asyncio.timeout(PATIENCE):
            await asyncio.Event().wait()

    main._run(work())
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
