"""The check of files: asked in clamd's protocol over a real socket, and no file is kept without its word."""

import asyncio
import struct

import pytest

from agent_core.errors import InvalidInput, Unavailable
from agent_core.uploads.reader import ClamdCheck, FileReader, ReadFile


async def _clamd(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer as clamd does, which finds what says EICAR."""
    assert await reader.readuntil(b"\0") == b"zINSTREAM\0"
    data = b""
    while size := struct.unpack("!I", await reader.readexactly(4))[0]:
        data += await reader.readexactly(size)
    said = b"Win.Test.EICAR_HDB-1 FOUND" if b"EICAR" in data else b"OK"
    writer.write((b"INSTREAM size limit exceeded. ERROR" if b"LARGE" in data else b"stream: " + said) + b"\0")
    await writer.drain()
    writer.close()


async def read(check: ClamdCheck, data: bytes) -> ReadFile:
    reader = FileReader()
    reader.check = check
    return await reader.read(data, name="a.txt", mime="text/plain", owner="a")


async def test_what_clamd_finds_is_refused():
    """A clean file is kept, one with a virus is refused by name, and without an answer none is taken."""
    server = await asyncio.start_server(_clamd, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    check = ClamdCheck(f"{host}:{port}")
    assert (await read(check, b"clean" * 50_000)).data == b"clean" * 50_000
    with pytest.raises(InvalidInput, match="EICAR_HDB-1"):
        await read(check, b"EICAR")
    with pytest.raises(Unavailable, match="larger"):
        await read(check, b"LARGE")
    server.close()
    await server.wait_closed()
    with pytest.raises(Unavailable, match="cannot be reached"):
        await read(check, b"clean")
