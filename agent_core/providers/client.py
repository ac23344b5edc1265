"""A vendor's SDK as a byte pipe: its client, auth, base URL, headers and typed errors; the stream is decoded by us.

The SDK's own typed stream costs 6 to 17 times as much per delta (one object each); its request transform grows with
the history. So a ready body goes in, and the data of the events of each network read comes out.
"""

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar

import aiohttp
import httpx2
import msgspec

from agent_core.net.sse import EventSplitter, EventTooLarge
from agent_core.providers.base import CallFailed, ModelDelta, OptionalFields, Spare, Vision
from agent_core.providers.failing import SECRETS, failed, part_at, refused

P = ParamSpec("P")
T = TypeVar("T")
Learn = Callable[[CallFailed], None]
CONNECT_SECONDS = 5.0
"""The SDKs' own limit for a connection."""
_OWN = (b"content-length", b"cookie")
"""Headers that differ for each request."""
_REFUSAL_SECONDS = 10.0
"""Limits, in seconds and bytes, of reading an error's body: an endless one is classified by its status."""
_MAX_REFUSAL = 1_000_000
_LAST_SECONDS = 1.0
"""Seconds that the end of a stream may take after its last event; then the connection is closed."""
_SENT = httpx2.Request("POST", "http://sent.invalid")
"""A placeholder for the request of a streaming answer."""
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, EventTooLarge)
_TALKATIVE = {"anthropic": logging.INFO, "openai": logging.INFO, "httpx2": logging.WARNING, "httpx": logging.WARNING}
"""Loggers with their first level: SDKs write whole requests below it, HTTP clients whole URLs, whose query has keys."""
_BROKEN = (httpx2.HTTPError, httpx2.StreamError, aiohttp.ClientError, OSError, TimeoutError)


class Fold(Protocol):
    """One wire's answer as it comes in: the data of events in, neutral deltas out."""

    @property
    def over(self) -> bool:
        """Return whether the answer has ended, complete or not."""
        ...

    def take(self, events: Sequence[bytes]) -> list[ModelDelta]:
        """Fold in the data of whole events; raises `msgspec.DecodeError` for anything else than JSON of this wire."""
        ...

    def end(self) -> list[ModelDelta]:
        """Return the remaining deltas at the end of the stream: none after a complete answer."""
        ...


class Sdk(NamedTuple):
    """An SDK's client, the HTTP client that it was given, and headers of requests beside its own."""

    client: Any
    http: Any
    headers: Mapping[str, Any] = MappingProxyType({})


class _Refused(Exception):
    """The answer is not a success; *body* is its JSON, or its text as far as it was received."""

    def __init__(self, status: int, headers: httpx2.Headers, body: Any) -> None:
        super().__init__(status)
        self.status, self.headers, self.body = status, headers, body


class _Redirected(Exception):
    """The answer is to be asked for at *origin*, where no key of ours belongs."""

    def __init__(self, origin: str) -> None:
        super().__init__(origin)
        self.origin = origin


class SdkClient:
    """One client of an SDK, made in a thread when first needed: importing an SDK takes a second.

    The first request of a kind is made by the SDK; its URL and headers are kept, and the ones after it are sent by the
    same HTTP client without being built again, which costs a quarter of a millisecond each. An answer that is an
    error forgets them. *idle* is the seconds without a byte after which a stream counts as broken; pings are bytes.
    """

    def __init__(self, provider: str, make: Callable[[], Sdk], *, idle: float, secrets: Collection[str] = ()) -> None:
        """*secrets* are what no error may repeat, beside the SDK's key."""
        self._provider, self._make, self._idle, self._also_secret = provider, make, idle, tuple(secrets)
        self._timeout = httpx2.Timeout(idle, connect=CONNECT_SECONDS)
        self._sdk: Sdk | None = None
        self._making: asyncio.Future[Sdk] | None = None
        self._heads: dict[str, tuple[httpx2.URL, httpx2.Headers]] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    async def prepare(self) -> Sdk:
        """Import the SDK and make its client, once."""
        if self._making is None:
            self._making = _in_thread(self._make)
        self._sdk = sdk = await asyncio.shield(self._making)
        _quiet()
        sdk.http.event_hooks = {"request": [partial(_stay, sdk.client.base_url.origin)], "response": [_refuse]}
        return sdk

    async def close(self) -> None:
        """Close every connection, without waiting for an import that is running."""
        await asyncio.gather(*self._leaving, return_exceptions=True)
        if self._making is not None and self._making.done() and self._making.exception() is None:
            await self._making.result().client.close()

    async def stream(
        self, path: str, body: bytes, fold: Fold, learn: Learn | None = None, spares: Sequence[Spare] = ()
    ) -> AsyncGenerator[Sequence[ModelDelta]]:
        """Post *body* and yield what *fold* makes of each network read; every failure comes as `CallFailed`.

        *learn* is called with a refusal of the request: to wrap this generator would cost every read a microsecond.
        A server that does not know fields of the prompt cache, or of the search for tools, is asked once more by those
        of the *spares* that answer its refusal, those that lack least first; what it says at last is the result.
        """
        response, accepted = await self._answer_of(path, body, learn, spares)
        if isinstance(response, CallFailed):
            yield [response]
            return
        # The request holds the whole conversation; it is not needed while the answer streams.
        del body, spares
        response.request, response.history = _SENT, []
        reading = _bytes(response)
        SECRETS.set(self._secrets)  # for the rest of this task: once per answer, not per read
        try:
            frames = EventSplitter()
            async for chunk in reading:
                if (events := frames.feed(chunk)) and (batch := fold.take(events)):
                    if accepted is not None:
                        accepted = _begun(batch, accepted)
                    yield batch
                if fold.over:
                    return
            if last := _ending(fold, frames.end()):
                yield last
        except _UNREADABLE as error:
            text = f"`{self._provider}` sent what cannot be read: {error}"
            yield [self._redacted(failed, "error", text)]
        except _BROKEN as error:
            yield [self._redacted(self._broken, error)]
        finally:
            self._leave(response, reading, whole=fold.over)

    def _leave(self, response: httpx2.Response, reading: AsyncGenerator[bytes], *, whole: bool) -> None:
        """Release the connection: read a *whole* answer to its end, so that the connection can be reused."""
        task = asyncio.create_task(_left(response, reading, whole=whole))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _answer_of(
        self, path: str, body: bytes, learn: Learn | None, spares: Sequence[Spare]
    ) -> tuple[httpx2.Response | CallFailed, Callable[[], None] | None]:
        """Return the answer, and what to call once it begins: a server that refused fields answers without them."""
        response, accepted = await self._answer(path, body, learn), None
        for spare in spares:
            if isinstance(response, CallFailed) and spare.answers(response):
                accepted = partial(spare.accepted, response)
                response = await self._answer(path, spare.body(), learn)
        return response, accepted

    async def _answer(self, path: str, body: bytes, learn: Learn | None) -> httpx2.Response | CallFailed:
        """Post *body* and return the answer or why there is none; *learn* is called with a refusal."""
        try:
            return await self._post(path, body)
        except Exception as error:  # noqa: BLE001 - the boundary: whatever the SDK raises is a failed call
            refusal = self._redacted(self._refusal, error)
        if refusal.path:
            refusal = replace(refusal, item=part_at(body, refusal.path))
        if learn is not None:
            learn(refusal)
        return refusal

    async def _post(self, path: str, body: bytes) -> httpx2.Response | CallFailed:
        response = await self._sent(path, body)
        if not response.headers.get("content-type", "").startswith("text/html"):
            return response
        self._heads.pop(path, None)
        await response.aclose()
        text = f"`{self._provider}` answered {response.status_code} with a web page: the base URL is not its API's"
        return failed("misconfigured", text)

    async def _sent(self, path: str, body: bytes) -> httpx2.Response:
        sdk = self._sdk or await self.prepare()
        head = self._heads.get(path)
        if head is None:
            response = await self._first(sdk, path, body)
            sent = response.history[0].request if response.history else response.request
            headers = [(name, value) for name, value in sent.headers.raw if name.lower() not in _OWN]
            self._heads[path] = (sent.url, httpx2.Headers(headers))
            return response
        headers = httpx2.Headers(head[1])
        headers["Content-Length"] = str(len(body))  # without it a redirected request would go in chunks
        # A stream, because for content the same headers would be looked for, and put together, again.
        stream, limits = httpx2.ByteStream(body), {"timeout": self._timeout.as_dict()}
        request = httpx2.Request("POST", head[0], headers=headers, stream=stream, extensions=limits)
        request.read()
        try:
            return await sdk.http.send(request, stream=True)
        except Exception:
            self._heads.pop(path, None)  # a call beside this one may have been faster
            raise

    async def _first(self, sdk: Sdk, path: str, body: bytes) -> httpx2.Response:
        """Ask by the SDK's own low-level call; raises its connection errors, and `_Refused` unwrapped."""
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream", "Accept-Encoding": "identity"}
        response = await sdk.client.post(
            path,
            cast_to=httpx2.Response,
            content=body,
            stream=True,
            options={"headers": {**headers, **sdk.headers}, "timeout": self._timeout, "max_retries": 0},
        )
        return getattr(response, "response", response)

    def _refusal(self, error: Exception) -> CallFailed:
        """Classify *error*, raised instead of an answer."""
        refusal = error.__cause__ if isinstance(error.__cause__, _Refused | _Redirected) else error
        if isinstance(refusal, _Refused):
            return refused(self._provider, refusal.status, refusal.body, refusal.headers)
        if isinstance(refusal, _Redirected):
            text = f"`{self._provider}` redirects to another host; set its base_url to it: {refusal.origin}"
            return failed("misconfigured", text)
        if isinstance(error, _BROKEN) or type(error).__name__ in ("APIConnectionError", "APITimeoutError"):
            return self._broken(error.__cause__ or error)
        return failed("misconfigured", f"`{self._provider}` could not be asked: {type(error).__name__}: {error}")

    @property
    def _secrets(self) -> tuple[str, ...]:
        key = getattr(self._sdk and self._sdk.client, "api_key", None)
        return (key, *self._also_secret) if isinstance(key, str) else self._also_secret

    def _redacted(self, describe: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of *describe* with the key taken out of its failures: some servers repeat it."""
        before = SECRETS.set(self._secrets)
        try:
            return describe(*args, **kwargs)
        finally:
            SECRETS.reset(before)

    def _broken(self, error: BaseException) -> CallFailed:
        """Classify how a connection ended by its root cause: the SDKs report many broken connections as timeouts."""
        root = error
        while root.__cause__ is not None:
            root = root.__cause__
        if isinstance(root, aiohttp.ConnectionTimeoutError):
            text = f"`{self._provider}` could not be reached within {CONNECT_SECONDS:g} s"
        elif isinstance(root, (httpx2.TimeoutException, TimeoutError)):
            text = f"`{self._provider}` was silent for {self._idle:g} s"
        else:
            text = f"The connection to `{self._provider}` broke: {type(root).__name__}: {root}"
        return failed("network", text)


class SdkProvider:
    """What providers share whose requests go through an SDK's *client*."""

    def __init__(self, client: SdkClient, name: str, vision: Vision | None) -> None:
        self._client, self.name, self._vision = client, name, vision
        self._fields = OptionalFields(name)

    def accepts(self, model: str) -> bool:
        """Accept any name: our table may lack models that the provider has."""
        return bool(model.strip())

    async def prepare(self) -> None:
        """Import the SDK ahead of the first request."""
        await self._client.prepare()

    async def close(self) -> None:
        """Close every connection."""
        await self._client.close()


def _quiet() -> None:
    """Let the loggers of SDKs and HTTP clients begin above what holds secrets, unless their own level is set."""
    for name, level in _TALKATIVE.items():
        if (logger := logging.getLogger(name)).level == logging.NOTSET:
            logger.setLevel(level)


async def _stay(origin: Any, request: httpx2.Request) -> None:
    """Raise `_Redirected` for a request to another origin than *origin*, as the hook of an HTTP client.

    A redirected request repeats the query, the conversation and the headers, of which clients drop one only.
    """
    if request.url.origin != origin:
        raise _Redirected(f"{request.url.scheme}://{request.url.netloc.decode('ascii', 'replace')}")


async def _refuse(answer: httpx2.Response) -> None:
    """Raise `_Refused` for an answer that is neither a success nor followed elsewhere, as the hook of an HTTP client.

    The body is read here, before the SDK makes an error of it: that would wait for an endless body, and would lose the
    status of one that is cut, badly encoded or nested too deep.
    """
    if answer.is_success or answer.has_redirect_location:
        return
    read = bytearray()
    with suppress(*_BROKEN):  # the status says the most
        async with asyncio.timeout(_REFUSAL_SECONDS):
            async for piece in answer.aiter_bytes():
                read += piece
                if len(read) > _MAX_REFUSAL:
                    break
    body: Any = read.decode("utf-8", "replace")
    with suppress(msgspec.DecodeError, RecursionError):
        body = msgspec.json.decode(body)
    raise _Refused(answer.status_code, answer.headers, body)


def _begun(batch: Sequence[ModelDelta], accepted: Callable[[], None]) -> None:
    """Call *accepted* if *batch*, the first one, begins an answer: a failure may come in a stream too."""
    if not isinstance(batch[0], CallFailed):
        accepted()


def _ending(fold: Fold, rest: Sequence[bytes]) -> list[ModelDelta]:
    """Return the deltas at the end of a stream; *rest* is its last event, which may be cut."""
    try:
        deltas = fold.take(rest)
    except _UNREADABLE:
        deltas = []
    return [*deltas, *fold.end()]


def _in_thread(make: Callable[[], Sdk]) -> asyncio.Future[Sdk]:
    """Run *make* in a daemon thread, which does not delay the exit."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def deliver(made: Any, error: BaseException | None) -> None:
        if error is not None:
            future.set_exception(error)
        elif not future.done():
            future.set_result(made)

    def work() -> None:
        made, error = None, None
        try:
            made = make()
        except BaseException as raised:  # noqa: BLE001 - passed on to the awaiting task
            error = raised
        with suppress(RuntimeError):  # the loop has ended, and nothing awaits the result
            loop.call_soon_threadsafe(deliver, made, error)

    threading.Thread(target=work, name="parley-sdk", daemon=True).start()
    return future


def _bytes(response: httpx2.Response) -> AsyncGenerator[bytes]:
    """Return the body as it comes, one network read at a time."""
    plain = response.headers.get("content-encoding", "identity") == "identity"
    stream: Any = response.stream if plain else response.aiter_bytes()
    return aiter(stream)


async def _left(response: httpx2.Response, reading: AsyncGenerator[bytes], *, whole: bool) -> None:
    """Read what is left of a *whole* answer: its connection can then be used again; another one is closed."""
    if whole:
        with suppress(*_BROKEN):
            async with asyncio.timeout(_LAST_SECONDS):
                async for _ in reading:
                    continue
    await response.aclose()
    await reading.aclose()
