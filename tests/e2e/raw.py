"""Requests byte by byte: what no well-mannered client would send."""

import asyncio
import socket

import httpx

from tests.e2e.server import PATIENCE, Server


async def exchange(server: Server, request: bytes) -> httpx.Response:
    """Send *request* as it is, and return the answer; the server must close the connection after it."""
    async with asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        try:
            writer.write(request)
            await writer.drain()
            head, _, content = (await reader.read()).partition(b"\r\n\r\n")
        finally:
            writer.close()
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = [(name, value) for name, _, value in (line.partition(": ") for line in lines)]
    return httpx.Response(int(status.split()[1]), headers=headers, content=content)


def get(path: str, *headers: bytes, host: bytes = b"localhost") -> bytes:
    """Return a request for *path* that asks to close the connection."""
    lines = [b"GET %b HTTP/1.1" % path.encode("latin-1"), b"Host: %b" % host, b"Connection: close", *headers]
    return b"\r\n".join([*lines, b"", b""])


def deaf_reader(server: Server, path: str, key: str) -> socket.socket:
    """Ask for a stream, with as little room for it as the system gives, and never read a byte of it."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", server.port))
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n".encode())
    return connection


def post(path: str, body: bytes, *headers: bytes, key: str | None = None, length: int | None = None) -> bytes:
    """Return a request with a JSON *body*, of which as much as *length* is announced, on a connection that stays."""
    lines = [b"POST %b HTTP/1.1" % path.encode("latin-1"), b"Host: localhost", b"Content-Type: application/json"]
    lines += [b"Content-Length: %d" % (len(body) if length is None else length), *headers]
    lines += [] if key is None else [b"Authorization: Bearer " + key.encode()]
    return b"\r\n".join([*lines, b"", body])


async def first_answer(server: Server, request: bytes) -> httpx.Response:
    """Send *request* as it is, and return the first answer, which may come before all is sent."""
    async with asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        try:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            status, *lines = head[:-4].decode("latin-1").split("\r\n")
            headers = httpx.Headers([(name, value) for name, _, value in (line.partition(": ") for line in lines)])
            content = await reader.readexactly(int(headers["content-length"]))
        finally:
            writer.transport.abort()
    return httpx.Response(int(status.split()[1]), headers=headers, content=content)


async def held(server: Server, begin: bytes, many: int) -> list[asyncio.StreamWriter]:
    """Open so many connections that have sent *begin* and send no more; the caller aborts them."""
    writers = []
    for _ in range(many):
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(begin)
        writers.append(writer)
    return writers
