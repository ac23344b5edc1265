"""`python -m tests.chaos.process serve|web|worker LEDGER`: the product as a process, with the tools of the talks."""

import asyncio
import gc
import json
import os
import re
import signal
import sys
import threading
from collections import Counter
from pathlib import Path

from app import logs
from app.main import serve, work
from app.settings import load_settings
from tests.chaos.tools import ExecutionFile, tools


def main(kind: str, ledger: Path) -> None:
    """Run a process of *kind* with the settings of its environment until a signal comes."""
    logs.configure()
    settings, known = load_settings(), tools(ExecutionFile(ledger))
    signal.signal(signal.SIGUSR1, lambda *_: census(ledger.parent / f"census-{os.getpid()}.json"))
    match kind:
        case "worker":
            work(settings, tools=known)
        case "web":
            serve(settings, tools=known, web_only=True)
        case _:
            serve(settings, tools=known)


def census(path: Path) -> None:
    """Write how many tasks and threads there are of each name: those of all event loops, whichever thread has them.

    The threads of a pool, whose names end with `_` and a number, count as one: it grows as far as it may.
    """
    # The collector does not show what was there when the start was over, and asyncio only this thread's.
    elsewhere = {each for each in gc.get_objects() if issubclass(type(each), asyncio.Task)}
    tasks = [task.get_coro() for task in elsewhere | asyncio.all_tasks() if not task.done()]
    found = Counter(f"task {getattr(each, '__qualname__', each)}" for each in tasks)
    threads = Counter(re.sub(r"\d+", "#", f"thread {each.name}") for each in threading.enumerate())
    found |= Counter({name: 1 if name.endswith("_#") else times for name, times in threads.items()})
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(found), "utf-8")
    fresh.replace(path)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
