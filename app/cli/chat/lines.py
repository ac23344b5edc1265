"""The lines of standard input where no one edits them: of a pipe, or of a terminal without abilities."""

import asyncio
import codecs
import os
import threading
from contextlib import suppress


class Lines:
    """The lines of standard input, and those that `put` adds; they end with the input.

    A thread reads them: as a daemon it holds up no exit, and the raw descriptor has no lock that it could die with.
    """

    def __init__(self, descriptor: int = 0) -> None:
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._descriptor = descriptor
        threading.Thread(target=self._read, name="parley-lines", daemon=True).start()

    def put(self, line: str | None) -> None:
        """Add a line; None is the end."""
        self._lines.put_nowait(line)

    def __aiter__(self) -> "Lines":
        return self

    async def __anext__(self) -> str:
        line = await self._lines.get()
        if line is None:
            self.put(None)
            raise StopAsyncIteration
        return line

    def _read(self) -> None:
        decoder, rest = codecs.getincrementaldecoder("utf-8")("replace"), ""
        # A loop that has ended takes no more lines, and needs none.
        with suppress(RuntimeError):
            while chunk := os.read(self._descriptor, 65536):
                *lines, rest = (rest + decoder.decode(chunk)).split("\n")
                for line in lines:
                    self._loop.call_soon_threadsafe(self.put, line)
            if rest:
                self._loop.call_soon_threadsafe(self.put, rest)
            self._loop.call_soon_threadsafe(self.put, None)
