"""A client that follows a session through every interruption, as the widget does."""

import asyncio
from collections.abc import Callable

import httpx

from tests.e2e.frames import Frames, StreamedEvent
from tests.e2e.server import KEY, Server

Wanted = Callable[[StreamedEvent], bool]


class Follower:
    """One reader of *path*, who comes back with `Last-Event-ID` whenever the stream ends before *done*."""

    def __init__(
        self, server: Server, path: str, done: Wanted, *, frames: Frames | None = None, key: str = KEY
    ) -> None:
        self.frames = frames or Frames()
        self.connections = 0
        self.broken: list[str] = []
        self._server, self._path, self._done, self._key = server, path, done, key
        self._up, self._news = asyncio.Event(), asyncio.Event()
        self._up.set()
        self._task = asyncio.create_task(self._follow())

    async def until(self, wanted: Callable[[Frames], bool], seconds: float = 60) -> None:
        """Return once the frames so far are *wanted*."""
        async with asyncio.timeout(seconds):
            while not wanted(self.frames):
                self._news.clear()
                news = asyncio.create_task(self._news.wait())
                await asyncio.wait({news, self._task}, return_when=asyncio.FIRST_COMPLETED)
                news.cancel()
                if self._task.done():
                    self._task.result()
                    assert wanted(self.frames), "the stream is over"

    async def text_of(self, words: int) -> None:
        """Return once some answer has that many words."""
        await self.until(lambda frames: any(len(each.text.split()) >= words for each in frames.answers))

    async def end(self, seconds: float = 60) -> Frames:
        """Return all frames once the last one that is wanted has come."""
        async with asyncio.timeout(seconds):
            await self._task
        return self.frames

    async def restart(self, stop: Callable[[], object]) -> None:
        """Stop the server by *stop* and start it again; this reader comes back when it is up."""
        self._up.clear()
        await asyncio.to_thread(stop)
        await asyncio.to_thread(self._server.start)
        self._up.set()

    async def leave(self) -> None:
        """Hang up."""
        self._task.cancel()
        await asyncio.wait({self._task})

    async def _follow(self) -> None:
        while not any(map(self._done, self.frames)):
            await self._up.wait()
            headers = {"Last-Event-ID": str(self.frames.seq)} if self.frames.seq else {}
            try:
                async with (
                    self._server.client(self._key) as client,
                    client.stream("GET", self._path, headers=headers) as response,
                ):
                    self.connections += 1
                    async for frame in self.frames.read(response):
                        self._news.set()
                        if self._done(frame):
                            return
                self.broken.append("ended")
            except httpx.TransportError as error:
                self.broken.append(type(error).__name__)
                if isinstance(error, httpx.ConnectError):
                    self._up.clear()


def ends(frame: StreamedEvent) -> bool:
    """Return whether *frame* is the end of a run."""
    return frame.event in {"run.completed", "run.failed", "run.cancelled"}
