"""A process that drives runs when woken: `python -m tests.agent_core.store.driving URL forever|to_the_end`."""

import asyncio
import sys

from agent_core.testing import ScriptedProvider, flat, pause, say
from tests.agent_core.store.processes import processes


async def main(url: str, how: str) -> None:
    """Drive until standard input ends."""
    rest = (pause(asyncio.Event()),) if how == "forever" else (flat(60, rate=400),)
    async with processes(url) as running:
        await running.driver(ScriptedProvider(lambda _: (say("From ", "elsewhere. "), *rest)))
        print("ready", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
