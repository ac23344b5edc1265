"""The server process: one socket, one loop, one core; it says how to reach it and ends without loss."""

import asyncio
import errno
import gc
import json
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import uvicorn
import uvloop

from agent_core import ConfigError, SystemClock
from app.api.readers import Readers
from app.compose import create_app, running_core
from app.keys import ApiKey, load_api_key, load_keys, prepare_data
from app.lock import owned
from app.models import running_models, why_demo
from app.settings import DEMO, SERVER_FILE, Settings
from channels.web.identity import Tokens

# Seconds that open requests get to end after Ctrl-C; streams are ended at once. The core's own grace comes after.
GRACE = 2
# Seconds of it after which whoever neither reads what is sent nor sends what was begun is hung up on.
PATIENCE = 1.5
BACKLOG = 2048


class Server(uvicorn.Server):
    """uvicorn that ends open streams before it waits for requests, and says when it is up."""

    def __init__(self, config: uvicorn.Config, *, readers: Readers, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._readers, self._on_started = readers, started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_started()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take signals on the loop, and do not raise them again: what comes after the server must still run."""
        loop, signals = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM)
        for each in signals:
            loop.add_signal_handler(each, self.handle_exit, each, None)
        try:
            yield
        finally:
            for each in signals:
                loop.remove_signal_handler(each)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        timer = asyncio.get_running_loop().call_later(PATIENCE, self._hang_up)
        try:
            await super().shutdown(sockets)
        finally:
            timer.cancel()

    def _hang_up(self) -> None:
        for connection in tuple(self.server_state.connections):
            connection.transport.abort()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._readers.close()
        super().handle_exit(sig, frame)


def serve(settings: Settings) -> None:
    """Serve until a signal comes; raise ConfigError when that cannot begin."""
    prepare_data(settings)
    with owned(settings), suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings))


async def _serve(settings: Settings) -> None:
    keys, api_key, readers = load_keys(settings), load_api_key(settings), Readers()
    with listening(settings) as sock:
        async with running_models(settings, SystemClock()) as models, running_core(settings, models) as core:
            app = create_app(core, settings, tokens=Tokens(keys.derive), api_key=api_key, readers=readers)
            url, up = url_of(settings, sock), asyncio.Event()
            settling = asyncio.create_task(_settle(up, models.prepare))
            with announced(settings.data, url) as announce:

                def started() -> None:
                    announce()
                    greet(settings, api_key, url)
                    up.set()

                try:
                    await Server(config(app, settings), readers=readers, started=started).serve(sockets=[sock])
                finally:
                    settling.cancel()


async def _settle(up: asyncio.Event, prepare: Callable[[], Awaitable[None]]) -> None:
    """Once the server is *up*, *prepare* what the default model needs, and let the collector work again after that."""
    await up.wait()
    try:
        await prepare()
    finally:
        settle_memory()


def config(app: object, settings: Settings) -> uvicorn.Config:
    """Return how uvicorn serves *app*; what is started and stopped around it is ours."""
    return uvicorn.Config(
        app,  # pyright: ignore[reportArgumentType] - any ASGI application
        host=settings.host,
        port=settings.port,
        http="httptools",
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,  # `app.logs` sets up the logs of all
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=GRACE,
    )


@contextmanager
def listening(settings: Settings) -> Iterator[socket.socket]:
    """Give a bound socket; raise ConfigError naming PORT or HOST when there is none to have."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((settings.host, settings.port))
        # Bound is not yet taken: only listening refuses a second server on the same port.
        sock.listen(BACKLOG)
        yield sock
    except OSError as error:
        raise _refused(settings, error) from None
    finally:
        sock.close()


def _refused(settings: Settings, error: OSError) -> Exception:
    match error.errno:
        case errno.EADDRINUSE:
            return ConfigError(
                f"PORT: {settings.port} is in use on {settings.host}; stop what listens there, or set another PORT."
            )
        case errno.EACCES:
            return ConfigError(f"PORT: {settings.port} needs more rights than this user has; set a PORT above 1023.")
        case _ if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            return ConfigError(f"HOST: `{settings.host}` is no address of this machine; use 127.0.0.1 or 0.0.0.0.")
        case _:
            return error


def url_of(settings: Settings, sock: socket.socket) -> str:
    """Return the address under which this machine reaches the server."""
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "::1": "[::1]"}.get(settings.host, settings.host)  # noqa: S104
    return f"http://{host}:{sock.getsockname()[1]}"


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


def greet(settings: Settings, api_key: ApiKey, url: str) -> None:
    """Print what a person needs to begin."""
    lines = [f"Parley listens on {url}; Ctrl-C ends it."]
    if settings.demo:
        lines.append(f"Page:    {url}/widget-demo")
    if api_key.generated:
        lines.append(f"API key: {api_key.generated}")
        lines.append("         (shown this once; only its hash is kept)")
    elif api_key.from_file:
        file = settings.data / "api_key.sha256"
        lines.append("API key: the one printed at the first start")
        lines.append(f"         (for a new one remove {file} and start again, or set PARLEY_API_KEY)")
    else:
        lines.append("API key: PARLEY_API_KEY")
    lines.append(f"Model:   {model_line(settings)}")
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def model_line(settings: Settings) -> str:
    """Return the model in use, and plainly what `demo` is."""
    if settings.default_model == DEMO:
        return f"demo, a demonstration: a script answers, no model does. {why_demo(settings)}"
    if settings.model is None:
        return f"{settings.default_model}, the default of {settings.default_key}; PARLEY_MODEL names another"
    return settings.default_model


def settle_memory() -> None:
    """Keep the collector away from what was imported: its pauses showed in the slowest answers.

    Nothing is collected first: what imports leave behind is little, and the loop would stand still for over 0.1 s.
    """
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 50, 100)
