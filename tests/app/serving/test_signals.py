"""Ctrl-C and SIGTERM, as a process takes them."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE

import pytest

from app.serving.server import Signals
from tests.app.processes import ROOT
from tests.cases import for_each
from tests.polling import PATIENCE

STUBBORN = """
import asyncio
from app.serving.server import Signals

async def main():
    with Signals().taken() as signals:
        signals.ask(lambda: print("asked", flush=True))
        print("up", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@for_each("number", [signal.SIGINT, signal.SIGTERM])
async def test_the_first_signal_asks(number):
    """The first signal calls the function that stops the process, and nothing else."""
    asked = asyncio.Event()
    with Signals().taken() as signals:
        signals.ask(asked.set)
        os.kill(os.getpid(), number)
        await asyncio.wait_for(asked.wait(), PATIENCE)


async def test_a_signal_during_the_start_ends_it():
    """A signal before there is such a function cancels the start."""

    async def start() -> None:
        with Signals().taken():
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asyncio.create_task(start()), PATIENCE)


async def test_the_second_signal_ends_the_process_at_once():
    """A second signal ends the process, which says where its work continues."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", STUBBORN), stdout=PIPE, stderr=PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert process.stdout
    async with asyncio.timeout(PATIENCE):
        assert await process.stdout.readline() == b"up\n"
        process.send_signal(signal.SIGTERM)
        assert await process.stdout.readline() == b"asked\n"
        process.send_signal(signal.SIGTERM)
        _, said = await process.communicate()
    assert process.returncode == 128 + signal.SIGTERM
    assert b"continues in another process" in said
