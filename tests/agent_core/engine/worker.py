"""A worker in a process of its own: `python -m tests.agent_core.engine.worker URL OPTIONS`.

OPTIONS is JSON: *answer* is what its model says, or null for one that begins and never ends; *ends* is whether it
ends itself when it stood still; *max_runs*, *with_dbos* as the engine has them. The model of one that is *fatal*
calls a tool which ends the process.
"""

import asyncio
import json
import os
import signal
import sys
from functools import partial
from typing import Any

from agent_core.core import Core
from agent_core.engine.dbos import DbosEngine, end_process
from agent_core.store.postgres import PostgresDatabase
from agent_core.store.postgres_bus import PostgresBus
from agent_core.testing import ScriptedProvider, call, pause, say
from agent_core.tools.functions import tool
from tests.agent_core.engine.fleet import NOTIFIED, PACE, soon
from tests.postgres import MORTAL


@tool
def fatal() -> None:
    """End the process."""
    os._exit(7)


async def main(url: str, options: dict[str, Any]) -> None:
    answer = options.get("answer")
    script = [say("Half"), pause(asyncio.Event())] if answer is None else [say(answer)]
    if options.get("fatal"):
        script = [call("fatal")]
    database = PostgresDatabase(url, **MORTAL)
    core = Core(
        database,
        providers={"scripted": ScriptedProvider(lambda _: script)},
        tools={"fatal": fatal},
        default_model="scripted",
        engine=partial(
            DbosEngine,
            database=database,
            url=url,
            kind="worker",
            pace=NOTIFIED if options.get("with_dbos") else PACE,
            end=end_process if options.get("ends", True) else print,
        ),
        bus=PostgresBus(url, database),
    )
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await core.start()
    engine = core._engine
    assert isinstance(engine, DbosEngine)
    if options.get("with_dbos"):
        await soon(core, lambda: engine.doorbell.is_ready)
    print("ready", engine.worker, flush=True)
    await stopped.wait()
    await core.stop(0.2)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
