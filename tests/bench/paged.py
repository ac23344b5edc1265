"""A long conversation as the stream of a session, and an answer that is being written, over real sockets.

The page is the widget alone, under the policy of the demo page.
"""

import asyncio
import json
import socket
from bisect import bisect_left
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from channels.web.routes import POLICY, STATIC

PAGE = b"""<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<link rel="icon" href="data:,"><title>Bench</title><script type="module" src="/widget/parley-chat.js"></script>
<parley-chat token="a-token" storage-key="kept"></parley-chat></html>"""
ANSWER = (
    "**Order {n}** left the warehouse on Tuesday and is on its way.\n\n"
    "- Carrier: `DHL`, reference 00{n}\n- Expected: Friday before noon\n\nTell me if you want it held at the depot."
)
WORDS = ("Honey", "keeps", "for", "years,", "because", "*bees*", "fan", "it", "dry", "until", "`yeast`", "dies.")


def event(type: str, data: dict[str, Any], run: str, seq: int | None = None) -> bytes:
    place = {"session": "ses_1", "run": run, "parent_run": None, "time": "2026-01-05T09:00:00.000Z"}
    head = "" if seq is None else f"id: {seq}\n"
    return f"{head}event: {type}\ndata: {json.dumps({**data, **place})}\n\n".encode()


def log(messages: int) -> Iterator[bytes]:
    """Yield the facts of a session of so many *messages*: questions and answers by turns, a call in every tenth run."""
    seq = 0
    for n in range(messages // 2):
        run, asked, answered = f"run_{n}", f"msg_{n}_1", f"msg_{n}_2"
        parts = [{"type": "text", "text": f"Where is my order {n}?"}]
        facts: list[tuple[str, dict[str, Any]]] = [
            ("message.received", {"message": asked, "parts": parts}),
            ("run.queued", {}),
            ("run.started", {"epoch": 1}),
            ("step.started", {"n": 1, "attempt": 1, "message": answered, "takes": [seq + 1]}),
        ]
        if n % 10 == 0:
            call = {"call": f"call_{n}", "name": "get_order", "title": "Look up an order", "step": 1}
            facts += [
                ("tool.requested", call),
                ("tool.started", {"call": call["call"]}),
                (
                    "tool.completed",
                    {"call": call["call"], "outcome": "done", "parts": [{"type": "text", "text": "sent"}]},
                ),
            ]
        text = [{"type": "text", "text": ANSWER.format(n=n)}]
        facts += [
            ("message.completed", {"message": answered, "role": "assistant", "parts": text, "stop": "done"}),
            ("run.completed", {"stop_reason": "end_turn"}),
        ]
        for type, data in facts:
            seq += 1
            yield event(type, data, run, seq)


@dataclass
class PagedLog:
    """What the stand-in server gives: a log, and, once *go* is set, *rate* deltas a second for *seconds*."""

    messages: int
    rate: float = 100
    seconds: float = 4
    go: asyncio.Event = field(default_factory=asyncio.Event)
    done: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._log = list(log(self.messages))
        self._last = len(self._log)
        self._runs = [seq for seq, fact in enumerate(self._log, 1) if b"event: message.received" in fact]
        self.url = ""

    def start_of(self, last: int, before: int | None = None) -> int:
        """Return the seq after which the *last* newest messages before seq *before* follow, whole runs."""
        runs = len(self._runs) if before is None else bisect_left(self._runs, before)
        return self._runs[max(0, runs - (last + 1) // 2)] - 1 if runs else 0

    def page(self, after: int, before: int) -> bytes:
        return b"".join(self._log[after : before - 1])

    async def frames(self, after: int) -> AsyncIterator[bytes]:
        yield b"".join(self._log[after:])
        await self.go.wait()
        for n, (type, data) in enumerate(
            (
                ("message.received", {"message": "msg_live", "parts": [{"type": "text", "text": "And honey?"}]}),
                ("run.queued", {}),
                ("run.started", {"epoch": 1}),
                ("step.started", {"n": 1, "attempt": 1, "message": "msg_now", "takes": [self._last + 1]}),
            ),
            self._last + 1,
        ):
            yield event(type, data, "run_live", n)
        clock, offset = asyncio.get_running_loop(), 0
        begin = clock.time()
        for n in range(int(self.rate * self.seconds)):
            word = WORDS[n % len(WORDS)] + (" " if n % 60 else "\n\n")
            delta = {"message": "msg_now", "part": 0, "epoch": 1, "attempt": 1, "offset": offset, "text": word}
            offset += len(word)
            await asyncio.sleep(max(0.0, begin + n / self.rate - clock.time()))
            yield event("text.delta", delta, "run_live")
        self.done.set()
        await asyncio.Event().wait()  # until the page goes


@asynccontextmanager
async def served(stream: PagedLog) -> AsyncIterator[PagedLog]:
    """Serve *stream* and the page on loopback; `stream.url` says where."""

    async def page(request: Request) -> Response:
        return Response(PAGE, headers={"Content-Security-Policy": POLICY}, media_type="text/html")

    async def script(request: Request) -> Response:
        return Response((STATIC / request.path_params["name"]).read_bytes(), media_type="text/javascript")

    async def events(request: Request) -> Response:
        last, before = (int(request.query_params.get(name, 0)) for name in ("last", "before"))
        after = stream.start_of(last, before or None) if last else int(request.headers.get("Last-Event-ID", 0))
        headers = {"Parley-After": str(after)} if last else {}
        if before:
            return Response(stream.page(after, before), headers=headers, media_type="text/event-stream")
        return StreamingResponse(stream.frames(after), headers=headers, media_type="text/event-stream")

    routes = [Route("/page", page), Route("/widget/{name}", script), Route("/v1/sessions/ses_1/events", events)]
    listening = socket.create_server(("127.0.0.1", 0))
    stream.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    server = uvicorn.Server(
        uvicorn.Config(Starlette(routes=routes), log_level="error", lifespan="off", timeout_graceful_shutdown=1)
    )
    running = asyncio.create_task(server.serve([listening]))
    try:
        yield stream
    finally:
        server.should_exit = True
        server.force_exit = True
        await running
        listening.close()
