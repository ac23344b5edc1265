"""`python -m tests.chaos.process serve|web|worker LEDGER`: the product as a process, with the tools of the talks."""

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path

from app import logs
from app.main import serve, work
from app.settings import load_settings
from tests.chaos.tools import Ledger, tools


def main(kind: str, ledger: Path) -> None:
    """Run a process of *kind* with the settings of its environment until a signal comes."""
    logs.configure()
    settings, known = load_settings(), tools(Ledger(ledger))
    signal.signal(signal.SIGUSR1, lambda *_: census(ledger.parent / f"tasks-{os.getpid()}.json"))
    match kind:
        case "worker":
            work(settings, tools=known)
        case "web":
            serve(settings, tools=known, web_only=True)
        case _:
            serve(settings, tools=known)


def census(path: Path) -> None:
    """Write how many tasks there are of each name; the event loop is this thread's."""
    found = Counter(str(getattr(task.get_coro(), "__qualname__", task.get_coro())) for task in asyncio.all_tasks())
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(found), "utf-8")
    fresh.replace(path)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
