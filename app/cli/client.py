"""A client of the running server, and how it is found."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx

from agent_core.errors import ConfigError, InvalidInput, ParleyError
from agent_core.net import sse
from app.settings import SQLITE, Settings, json_object
from app.storage import SECRET_FILE, load_keys, server_note
from channels.web.identity import TokenSigner


def json_option(option: str, text: str, remedy: str) -> dict[str, Any]:
    """Return the JSON object in *text*; raise `InvalidInput` for *option* with *remedy*, without what was given."""
    try:
        return json_object(text)
    except ValueError:
        raise InvalidInput(option, remedy) from None


@dataclass(frozen=True, slots=True)
class Frame:
    """One event of a stream; *id* is the seq of a fact, None in a live event; *data* is JSON."""

    id: int | None
    type: str
    data: bytes


class FrameReader:
    """Cuts a stream into frames."""

    def __init__(self) -> None:
        self._stream = sse.EventSplitter()

    def feed(self, chunk: bytes) -> list[Frame]:
        """Return the frames that *chunk* completes, without comments; raises `EventTooLarge`."""
        return [frame for event in self._stream.split(chunk) if (frame := _read(event)) is not None]


def _read(event: bytes) -> Frame | None:
    """Return the frame that the lines of *event* make up; None for a comment."""
    fields = {name: value for name, colon, value in (line.partition(b": ") for line in event.split(b"\n")) if colon}
    if b"event" not in fields or b"data" not in fields:
        return None
    seq = int(fields[b"id"]) if b"id" in fields else None
    return Frame(seq, fields[b"event"].decode(), fields[b"data"])


TIMEOUT = httpx.Timeout(30.0, read=60.0)
"""Seconds; a silent stream sends a comment every 15 s, so that 60 s of nothing is a lost connection."""
_UNAVAILABLE = frozenset({502, 503, 504})


class ServerRefused(ParleyError):
    """The server refused a request; the message is the problem's `detail`."""

    code = "refused"

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class ServerUnavailable(ServerRefused):
    """The server, or a proxy before it, cannot answer now; the same request may succeed later."""

    code = "server_unavailable"


class Unreachable(ParleyError):
    """No server answers at the address, or the connection broke."""

    code = "unreachable"


class Client:
    """One connection to a server; *http* knows its address and the key.

    Every method raises `ServerRefused` with the server's own words, and `Unreachable` when no answer comes.
    """

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    @property
    def address(self) -> str:
        """The server's address."""
        return str(self._http.base_url)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def call(self, method: str, path: str, *, body: Any = None, **query: str | int | None) -> Any:
        """Return the answer's JSON, None for an empty answer; *path* has no query of its own."""
        try:
            answer = await self._http.request(method, path, params=_without_none(query), json=body)
        except httpx.TransportError as error:
            raise self._unreachable() from error
        _check(answer)
        return answer.json() if answer.content else None

    async def items(self, path: str, **query: str | int | None) -> AsyncIterator[dict[str, Any]]:
        """Yield the items of a list, page by page."""
        cursor: str | None = None
        while True:
            page = await self.call("GET", path, cursor=cursor, **query)
            for item in page["items"]:
                yield item
            cursor = page["next_cursor"]
            if cursor is None:
                return

    async def lines(self, path: str, **query: str | int | None) -> AsyncIterator[dict[str, Any]]:
        """Yield the lines of an answer in JSON Lines as they come."""
        async with self._stream(path, params=_without_none(query)) as answer:
            rest = b""
            async for chunk in answer.aiter_bytes():  # cut as bytes: text may hold what Python calls line ends
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    yield json.loads(line)

    async def frames(self, path: str, *, after: int = 0) -> AsyncGenerator[list[Frame]]:
        """Yield the frames of an event stream beyond seq *after*, those of one read together.

        The first list is empty: it says that the stream is open.
        """
        headers = {"Last-Event-ID": str(after), "Accept": "text/event-stream"}
        async with self._stream(path, headers=headers) as answer:
            yield []
            frames = FrameReader()
            async for chunk in answer.aiter_bytes():
                yield frames.feed(chunk)

    @asynccontextmanager
    async def _stream(self, path: str, **options: Any) -> AsyncIterator[httpx.Response]:
        try:
            async with self._http.stream("GET", path, **options) as answer:
                if not answer.is_success:
                    await answer.aread()
                _check(answer)
                yield answer
        except httpx.TransportError as error:
            raise self._unreachable() from error

    def _unreachable(self) -> Unreachable:
        return Unreachable(f"The server at {self.address} does not answer; look whether it still runs.")


@asynccontextmanager
async def connected(settings: Settings) -> AsyncIterator[Client]:
    """Give a client of the server that *settings* name; raise ConfigError when none answers there."""
    client = client_of(settings)
    try:
        yield client
    except Unreachable:
        raise no_server(settings) from None
    finally:
        await client.aclose()


def client_of(settings: Settings) -> Client:
    """Return a client of the server that *settings* name, to be closed; raise ConfigError when none is known."""
    url, auth = server_url(settings), Bearer(credential(settings))
    return Client(httpx.AsyncClient(base_url=url, auth=auth, timeout=TIMEOUT, trust_env=False))


class Bearer(httpx.Auth):
    """Sends what *credential* returns with each request: a token lasts minutes, and a command may run for hours."""

    def __init__(self, credential: Callable[[], str]) -> None:
        self._credential = credential

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response]:
        request.headers["Authorization"] = f"Bearer {self._credential()}"
        yield request


def server_url(settings: Settings) -> str:
    """Return the server's address, from PARLEY_URL or noted in PARLEY_DATA; raise ConfigError when none runs.

    A noted address counts only while a process owns the folder: what listens on the port of a killed server may be
    any program, and must not be sent the key.
    """
    if settings.url is not None:
        return settings.url
    if not (note := server_note(settings)):
        raise no_server(settings)
    return note["url"]


def credential(settings: Settings) -> Callable[[], str]:
    """Return what gives the API key when it is known here, else a token that only a holder of the secret can sign."""
    if settings.api_key is not None:
        return settings.api_key.get_secret_value
    if settings.secret_key is not None or (settings.data / SECRET_FILE).exists():
        signer = TokenSigner(load_keys(settings).derive)
        return lambda: signer.operator().text
    if settings.url is not None:
        raise ConfigError(f"PARLEY_API_KEY: set the key of the server at {settings.url}, as it was printed there.")
    raise no_server(settings)


def no_server(settings: Settings) -> ConfigError:
    """Return the error for a command that finds no running server."""
    if settings.url is not None:
        return ConfigError(f"PARLEY_URL: no server answers at {settings.url}; check that it runs, or correct the URL.")
    if settings.postgres is not None:
        return ConfigError(
            "No server of this DATABASE_URL is known on this machine; set PARLEY_URL to the address of one "
            "(https://parley.example.com), or start one here with `parley serve`."
        )
    return ConfigError(
        f"No server runs on DATABASE_URL {SQLITE}{settings.database}; start one with `parley serve`, "
        "or set PARLEY_DATA to the folder of a running server."
    )


def segment(id: str) -> str:
    """Return *id*, whatever it contains, as one segment of a path."""
    return quote(id, safe="")


def _without_none(query: dict[str, str | int | None]) -> dict[str, str | int]:
    """Return the parameters that have a value."""
    return {name: value for name, value in query.items() if value is not None}


def _check(answer: httpx.Response) -> None:
    """Raise `ServerRefused` or `ServerUnavailable` unless *answer*, read whole, is a success; redirects are refused."""
    if not answer.is_success:
        error = ServerUnavailable if answer.status_code in _UNAVAILABLE else ServerRefused
        raise error(answer.status_code, _detail(answer))


def _detail(answer: httpx.Response) -> str:
    """Return the `detail` of a problem."""
    try:
        return str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return f"The server answered {answer.status_code}."
