"""The processes: one that serves and drives, one that only serves, one that only drives; each ends without loss."""

import asyncio
import gc
import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

import structlog
import uvloop
from fastapi import FastAPI

from agent_core.clock import SystemClock
from agent_core.core import Core
from agent_core.errors import ConfigError
from agent_core.store.queue import Kind
from agent_core.tools.base import Tool
from app import logs
from app.api.body import UnnamedProxies, trust_proxies
from app.collector import SELDOM
from app.compose import CHANNELS, GRACE, create_app, create_watch, running, serving_channels
from app.files import Files
from app.logs import say
from app.models import running_models, why_demo
from app.serving.connections import ConnectionBounds, Connections
from app.serving.credentials import Credentials
from app.serving.metrics import Metrics
from app.serving.readers import Readers, Ready, Starting
from app.serving.server import EVERY, Server, Signals, config, listening, place_of, room_for, url_of
from app.settings import DEMO, SERVER_FILE, Settings
from app.storage import (
    ApiKey,
    address_place,
    find_api_key,
    load_api_key,
    load_keys,
    owned,
    prepare_data,
    private_files,
    secure,
)
from channels.spec import ChannelSpec
from channels.web.identity import TokenSigner

CHECK_EVERY = 1.0
"""Seconds between two checks of a process that its engine still works."""
_log = structlog.get_logger("parley.process")


def serve(
    settings: Settings, *, web_only: bool = False, tools: Sequence[Tool] | None = None, live: Files | None = None
) -> None:
    """Serve until a signal comes; raise ConfigError when that cannot begin.

    With *web_only* this process drives no runs: others on the same Postgres do. *tools* are all that agents may use,
    those that ship and the own ones when None. With *live* files agents and own tools change while it serves.
    """
    logs.complete(settings.log)
    if web_only:
        check_shared(settings, "serve --web-only")
    with private_files(), _place(settings) as known_here:
        _run(_serve(settings, "web" if web_only else "both", tools, live, known_here=known_here))


def work(settings: Settings, *, tools: Sequence[Tool] | None = None, health_port: int | None = None) -> None:
    """Drive runs and serve nothing until a signal comes; *health_port* answers `/healthz` and `/readyz`."""
    logs.complete(settings.log)
    check_shared(settings, "worker")
    _run(_work(settings, tools, health_port))


def listen(settings: Settings, *, channel: str, tools: Sequence[Tool] | None = None) -> None:
    """Receive from *channel* by connections opened here, and drive runs, until a signal comes; raise ConfigError."""
    logs.complete(settings.log)
    spec = next(each for each in CHANNELS if each.name == channel)
    if (missing := spec.no_socket(settings)) is not None:
        raise ConfigError(missing)
    if settings.postgres is None:
        prepare_data(settings)
    with private_files(), owned(settings) if settings.postgres is None else nullcontext():
        _run(_listen(settings, tools, spec))


def check_shared(settings: Settings, command: str) -> None:
    """Raise ConfigError when the database is not one that several processes share."""
    if settings.postgres is None:
        raise ConfigError(
            f"DATABASE_URL: SQLite has one process, `parley serve`; for `parley {command}` set a postgres:// address."
        )


def _run(main: Coroutine[Any, Any, None]) -> None:
    ends = (KeyboardInterrupt, asyncio.CancelledError)
    with suppress(*ends), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        loop = runner.get_loop()
        work = loop.create_task(main)
        # With this a Ctrl-C raises no KeyboardInterrupt: one is of foreign code. `Signals` takes its place.
        loop.add_signal_handler(signal.SIGINT, work.cancel)
        work.add_done_callback(lambda _: loop.remove_signal_handler(signal.SIGINT))
        while not work.done():
            try:
                runner.run(_ended(work))
            except (SystemExit, KeyboardInterrupt) as error:
                if work.done():
                    raise
                # It is of a task that foreign code began; what awaits that task gets it too.
                remedy = "no tool may call `sys.exit`, or raise KeyboardInterrupt: raise another error there"
                _log.warning("process.exit_refused", error=type(error).__name__, remedy=remedy)
        work.result()


async def _ended(work: asyncio.Task[None]) -> None:
    await asyncio.wait((work,))


@contextmanager
def _place(settings: Settings) -> Iterator[bool]:
    """Give whether the commands of this machine find this server by PARLEY_DATA; on SQLite it is its only owner."""
    if settings.postgres is not None:
        with address_place(settings) as first:
            secure(settings)
            yield first
        return
    prepare_data(settings)
    with owned(settings):
        yield True


def _credentials(settings: Settings, core: Core, tokens: TokenSigner, api_key: ApiKey, readers: Readers) -> Credentials:
    shared, url = settings.postgres is not None, settings.public_url
    return Credentials(core.access, tokens, api_key, readers=readers, shared=shared, public_url=url)


async def _serve(
    settings: Settings, kind: Kind, tools: Sequence[Tool] | None, live: Files | None, *, known_here: bool
) -> None:
    readers, connections = Readers(most_of_address=settings.connections_per_address), _connections(settings)
    with Signals().taken() as signals, listening(settings.host, settings.port) as sock:
        async with (
            running_models(settings, SystemClock()) as models,
            running(settings, models, kind=kind, tools=tools, grace=_grace(settings), live=live) as composed,
            # On Postgres each of many servers would receive by a socket of its own: there `parley slack` does.
            serving_channels(composed.core, composed.database, settings, socket=settings.postgres is None) as routes,
        ):
            api_key, tokens = load_api_key(settings), TokenSigner(load_keys(settings).derive)
            credentials = _credentials(settings, composed.core, tokens, api_key, readers)
            app = create_app(
                composed.core,
                settings,
                tokens=tokens,
                api_key=api_key,
                readers=readers,
                connections=connections,
                look=composed.look,
                broken=composed.files.broken,
                channels=routes,
                credentials=credentials,
            )
            url, up = url_of(settings.host, sock), asyncio.Event()
            with announced(settings.data, url) if known_here else nullcontext(lambda: None) as announce:

                def started() -> None:
                    announce()
                    greet(settings, url, api_key, composed.files.broken() if composed.files.broken else ())
                    up.set()

                server = _server(app, settings, readers, connections, started)
                signals.ask(lambda: server.handle_exit(signal.SIGTERM, None))
                end = partial(server.handle_exit, signal.SIGTERM, None)
                prepare = None if kind == "web" else models.prepare
                following = credentials.following(), composed.files.following(composed.core)
                async with following[0], following[1], _beside(_settle(up, prepare)), _working(composed.core, end):
                    await server.serve(sockets=[sock])


def _server(
    app: FastAPI, settings: Settings, readers: Readers, connections: Connections, started: Callable[[], None]
) -> Server:
    inner = trust_proxies(app, proxies=settings.proxies) if settings.proxies else app
    served = config(UnnamedProxies(inner, proxies=settings.proxies), connections)
    return Server(served, readers=readers, connections=connections, started=started)


async def _work(settings: Settings, tools: Sequence[Tool] | None, health_port: int | None) -> None:
    readers, stop, up = Readers(), asyncio.Event(), asyncio.Event()
    watch = create_watch(Starting())
    with Signals().taken() as signals:
        async with (
            _watched(watch, settings.host, health_port) as url,
            running_models(settings, SystemClock()) as models,
            running(settings, models, kind="worker", tools=tools, grace=settings.grace) as composed,
        ):
            watch.state.ready = Ready(composed.core, readers, composed.look)
            watch.state.metrics, watch.state.api_key = Metrics(composed.core), find_api_key(settings)
            signals.ask(lambda: (readers.close(), stop.set()))
            greet(settings, url)
            up.set()
            tokens = TokenSigner(load_keys(settings).derive)
            credentials = Credentials(composed.core.access, tokens, None, readers=readers, shared=True)
            watch.state.credentials = credentials
            async with credentials.following(), _beside(_settle(up, models.prepare)), _beside(_learn(watch, settings)):
                await _until(stop, composed.core)


async def _listen(settings: Settings, tools: Sequence[Tool] | None, channel: ChannelSpec[Settings]) -> None:
    stop, up = asyncio.Event(), asyncio.Event()
    with Signals().taken() as signals:
        async with (
            running_models(settings, SystemClock()) as models,
            running(settings, models, kind="both", tools=tools, grace=_grace(settings)) as composed,
            serving_channels(composed.core, composed.database, settings, socket=True, channels=(channel,)),
        ):
            signals.ask(stop.set)
            where = channel.name.capitalize()
            say(f"Parley listens to {where}; Ctrl-C ends it.\nModel:   {model_line(settings)}")
            up.set()
            async with _beside(_settle(up, models.prepare)):
                await _until(stop, composed.core)


def _connections(settings: Settings) -> Connections:
    most = room_for(settings.connections)
    return Connections(ConnectionBounds(most, settings.connections_per_address), trusted=settings.proxies)


def _grace(settings: Settings) -> float:
    """Return the seconds that runs get to finish at the end: few where no other process takes them over."""
    return GRACE if settings.postgres is None else settings.grace


@asynccontextmanager
async def _beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Have *work* go on while the block lasts."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()


async def _learn(watch: FastAPI, settings: Settings) -> None:
    """Give *watch* the API key once the first server has made it, which may start after this worker."""
    while watch.state.api_key is None:
        await asyncio.sleep(CHECK_EVERY)
        with suppress(ConfigError):  # the database is unavailable: readiness and the engine report it
            watch.state.api_key = await asyncio.to_thread(find_api_key, settings)


@asynccontextmanager
async def _working(core: Core, end: Callable[[], None]) -> AsyncIterator[None]:
    """Call *end* when the engine of *core* stops by itself, and raise ConfigError at the end of the block then."""
    looking = asyncio.create_task(_until(asyncio.Event(), core))
    looking.add_done_callback(lambda task: None if task.cancelled() else end())
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.wait((looking,))
    if not looking.cancelled():
        await looking


async def _until(stop: asyncio.Event, core: Core) -> None:
    """Return once *stop* is set; raise ConfigError when the engine has stopped: a supervisor restarts us."""
    while core.is_working:
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), CHECK_EVERY)
            return
    raise ConfigError("The engine of this process has stopped; the log says why. Start the process again.")


@asynccontextmanager
async def _watched(watch: object, host: str, port: int | None) -> AsyncIterator[str | None]:
    """Serve *watch* on *port*, if there is one, until the very end, and give its address."""
    if port is None:
        yield None
        return
    with listening(host, port, "--health-port") as sock:
        up = asyncio.Event()
        connections = Connections()
        server = Server(config(watch, connections), readers=Readers(), connections=connections, started=up.set)
        serving = asyncio.create_task(server.serve(sockets=[sock]))
        try:
            await up.wait()
            yield url_of(host, sock)
        finally:
            server.should_exit = True
            await asyncio.wait((serving,))


async def _settle(up: asyncio.Event, prepare: Callable[[], Awaitable[None]] | None) -> None:
    """Once the server is *up*, *prepare* what the default model needs; of what comes after, garbage is collected.

    A process that asks no model has nothing to prepare.
    """
    await up.wait()
    try:
        if prepare is not None:
            await prepare()
    finally:
        settle_memory()


@contextmanager
def announced(data: Path, url: str) -> Iterator[Callable[[], None]]:
    """Give a function that writes where the server is, for the commands of this machine; remove it at the end."""
    path = data / SERVER_FILE

    def announce() -> None:
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps({"url": url, "pid": os.getpid()}) + "\n", encoding="utf-8")
        fresh.replace(path)

    try:
        yield announce
    finally:
        path.unlink(missing_ok=True)


def greet(settings: Settings, url: str | None, api_key: ApiKey | None = None, broken: Sequence[str] = ()) -> None:
    """Print what a person needs to begin, and which files are *broken*; a worker has no *api_key*."""
    if api_key is None:
        lines = ["Parley drives the runs of this database; Ctrl-C ends it."]
        lines += [f"Health:  {url}/readyz"] if url else []
    else:
        lines = [f"Parley listens on {place_of(settings.host, url or '')}; Ctrl-C ends it."]
        lines += [f"Page:    {page}"] if (page := page_line(settings, url)) else []
        lines += [f"Console: {url}/operator (asks for an API key)"]
        lines += _key_lines(api_key)
        ways = [(channel.name, channel.receives(settings, settings.public_url or url)) for channel in CHANNELS]
        lines += [f"{name.capitalize() + ':':<8} {how}" for name, how in ways if how is not None]
    lines.append(f"Model:   {model_line(settings)}")
    say("\n".join([*lines, *broken]))


def page_line(settings: Settings, url: str | None) -> str | None:
    """Return where the demo page is and who may see it, or what opens it; None when PARLEY_DEMO is off."""
    if settings.demo:
        where = "on this machine " if settings.host in EVERY else ""
        return f"{where}{url}/widget-demo" + (" (asks for PARLEY_DEMO_PASSWORD)" if settings.demo_password else "")
    if settings.demo_page is False:
        return None
    return f"off, as {settings.fronted} lets others than this machine in; PARLEY_DEMO_PASSWORD opens it"


def _key_lines(key: ApiKey) -> list[str]:
    if key.generated:
        return [f"API key: {key.generated}", "         (shown this once; only its hash is kept)"]
    if key.renewal:
        return ["API key: the one printed at the first start", f"         (for a new one {key.renewal})"]
    return ["API key: PARLEY_API_KEY"]


def model_line(settings: Settings) -> str:
    """Return the model in use, and plainly what `demo` is."""
    if settings.default_model == DEMO:
        return f"demo, a demonstration: a script answers, no model does. {why_demo(settings)}"
    if settings.model is None:
        return f"{settings.default_model}, the default of {settings.default_key}; PARLEY_MODEL names another"
    return settings.default_model


def settle_memory() -> None:
    """Keep the collector away from what was imported: its pauses showed in the slowest answers.

    Nothing is collected first: what imports leave behind is little, and the loop would be blocked for over 0.1 s.
    """
    gc.freeze()
    gc.set_threshold(*SELDOM)
