"""The check of files by ClamAV's daemon, over its own protocol: `INSTREAM`."""

import asyncio
import struct
from collections.abc import Awaitable, Callable

from agent_core.errors import Unavailable
from agent_core.messages import visible

_CHUNK = 65_536
_SECONDS = 30.0
_MAX_NAME = 100
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class ClamdCheck:
    """Asks a clamd at *address*: `host:port`, or the path of its socket."""

    def __init__(self, address: str, *, seconds: float = _SECONDS) -> None:
        self._connect, self._seconds = _connector(address), seconds

    async def refusal(self, data: bytes) -> str | None:
        """Return the name of what clamd found in *data*; raises `Unavailable` when it does not say."""
        try:
            async with asyncio.timeout(self._seconds):
                answer = await self._ask(data)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            raise Unavailable("The check of files cannot be reached now; send the file again in a moment.") from None
        verdict = answer.decode("utf-8", "replace").partition("stream:")[2].strip("\0\n ")
        if verdict == "OK":
            return None
        if verdict.endswith(" FOUND"):
            return visible(verdict.removesuffix(" FOUND"))[:_MAX_NAME]
        raise Unavailable("The check of files gave no answer about this file; is it larger than clamd takes?")

    async def _ask(self, data: bytes) -> bytes:
        reader, writer = await self._connect()
        try:
            writer.write(b"zINSTREAM\0")
            for at in range(0, len(data), _CHUNK):
                chunk = data[at : at + _CHUNK]
                writer.write(struct.pack("!I", len(chunk)) + chunk)
                await writer.drain()
            writer.write(struct.pack("!I", 0))
            await writer.drain()
            return await reader.readuntil(b"\0")
        finally:
            writer.close()


def _connector(address: str) -> Callable[[], Awaitable[Connection]]:
    if address.startswith("/"):
        return lambda: asyncio.open_unix_connection(address)
    host, _, port = address.rpartition(":")
    return lambda: asyncio.open_connection(host.strip("[]"), int(port))
