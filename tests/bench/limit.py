"""The limit: a bare Starlette application that pipes the model server's bytes to the client, unparsed."""

import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import msgspec
from aiohttp import ClientSession, ClientTimeout, TCPConnector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from tests.bench.exchange import Exchange
from tests.bench.serving import Orders, listening, serve
from tests.bench.wires import WIRES

HEADERS = {"Authorization": "Bearer any", "Content-Type": "application/json", "anthropic-version": "2026-10-21"}


class Limit:
    """Parley's route of runs, with nothing but the model server at *url*."""

    def __init__(self, session: ClientSession, url: str) -> None:
        self._session, self._url = session, url

    def app(self) -> Starlette:
        return Starlette(routes=[Route("/v1/agents/{id}/runs", self._run, methods=["POST"])])

    async def _run(self, request: Request) -> Response:
        question = msgspec.json.decode(await request.body())["input"]
        wire = WIRES[request.path_params["id"]]
        body = wire.body % msgspec.json.encode(Exchange.read(question).plain.text)
        return StreamingResponse(self._pipe(self._url + wire.path, body), media_type="text/event-stream")

    async def _pipe(self, url: str, body: bytes) -> AsyncGenerator[bytes]:
        async with self._session.post(url, data=body, headers=HEADERS) as response:
            async for chunk in response.content.iter_any():
                yield chunk


@asynccontextmanager
async def running(url: str) -> AsyncIterator[tuple[int, Orders]]:
    """Serve the limit before the model server at *url*."""
    connector, timeout = TCPConnector(limit=0), ClientTimeout(total=None)
    async with (
        ClientSession(connector=connector, timeout=timeout) as session,
        listening(Limit(session, url).app()) as port,
    ):
        yield port, {}


if __name__ == "__main__":
    serve(running(sys.argv[1]))
