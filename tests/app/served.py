"""An application on a real loopback socket, for responses that stream until the reader disconnects."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from app.serving.connections import Connections
from app.serving.readers import Readers
from app.serving.server import Server, config, listening, url_of

HOST = "127.0.0.1"


@asynccontextmanager
async def served(app: FastAPI, readers: Readers) -> AsyncIterator[str]:
    """Give the address of *app*, whose open streams *readers* knows; it is served until the end of the block."""
    up = asyncio.Event()
    with listening(HOST, 0) as sock:
        connections = Connections()
        server = Server(config(app, connections), readers=readers, connections=connections, started=up.set)
        serving = asyncio.create_task(server.serve(sockets=[sock]))
        try:
            await up.wait()
            yield url_of(HOST, sock)
        finally:
            server.handle_exit(signal.SIGTERM, None)
            await serving
