"""The side to compare with: a bare Starlette application that streams recorded frames from memory."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from tests.bench.exchange import Exchange
from tests.bench.serving import Orders, serve

DELTA = b"event: text.delta\n"
END = b"\n\n"


class Bare:
    """Recordings by the question that they answer, and a queue per session that somebody follows."""

    def __init__(self) -> None:
        self._recordings: dict[str, list[bytes]] = {}
        self._followed: dict[str, asyncio.Queue[str]] = {}

    def app(self) -> ASGIApp:
        """Return the application: Parley's own routes, as far as they are measured."""
        return Starlette(
            routes=[
                Route("/v1/agents/{id}/runs", self._run, methods=["POST"]),
                Route("/v1/sessions/{id}/messages", self._post, methods=["POST"]),
                Route("/v1/sessions/{id}/events", self._events),
            ]
        )

    def learn(self, text: str, path: str) -> None:
        """Answer the question *text* with the frames in the file *path* from now on."""
        self._recordings[text] = chunks(Path(path).read_bytes())

    async def _run(self, request: Request) -> Response:
        text = json.loads(await request.body())["input"]
        headers = {"Parley-Session": "ses_bare", "Cache-Control": "no-cache"}
        return StreamingResponse(self._play(text), media_type="text/event-stream", headers=headers)

    async def _post(self, request: Request) -> Response:
        text = json.loads(await request.body())["text"]
        self._followed[request.path_params["id"]].put_nowait(text)
        return JSONResponse({"message_id": "msg_bare", "run_id": "run_bare", "seq": 1}, status_code=202)

    async def _events(self, request: Request) -> Response:
        questions = self._followed[request.path_params["id"]] = asyncio.Queue()

        async def play() -> AsyncGenerator[bytes]:
            yield b": open\n\n"
            while True:
                async for chunk in self._play(await questions.get()):
                    yield chunk

        return StreamingResponse(play(), media_type="text/event-stream")

    async def _play(self, text: str) -> AsyncGenerator[bytes]:
        """Give the recording by the timetable of the scripted model, which costs both sides the same."""
        loop, exchange = asyncio.get_running_loop(), Exchange.read(text)
        rate = exchange.rate
        head, *rest = self._recordings[text]
        yield head
        await asyncio.sleep(exchange.delay)
        begin = loop.time()
        for n, chunk in enumerate(rest):
            await asyncio.sleep(max(0.0, begin + n / rate - loop.time()) if rate else 0)
            yield chunk


def chunks(recording: bytes) -> list[bytes]:
    """Cut *recording* into one chunk per delta; all frames before the first, and all behind the last, are one each."""
    frames = [frame + END for frame in recording.split(END) if frame]
    places = [n for n, frame in enumerate(frames) if frame.startswith(DELTA)]
    first, last = places[0], places[-1] + 1
    return [b"".join(frames[:first]), *frames[first:last], b"".join(frames[last:])]


@asynccontextmanager
async def building() -> AsyncIterator[tuple[ASGIApp, Orders]]:
    """Give the bare application."""
    bare = Bare()
    yield bare.app(), {"learn": bare.learn}


if __name__ == "__main__":
    serve(building())
