"""The tools of the talks: one reads, two write; each execution of a write leaves a line outside the product."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from agent_core.tools.base import CallContext, Tool
from agent_core.tools.functions import tool


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution of a write: begun when the line was written, by the process *pid*."""

    tool: str
    call: str
    pid: int
    time: float


class ExecutionFile:
    """A file of executions that only grows; a line is written whole or not at all, whichever process is killed."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, tool: str, call: str) -> None:
        """Note that a write begins."""
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, f"{tool} {call} {os.getpid()} {time.time():.3f}\n".encode())
        finally:
            os.close(file)

    def read(self) -> list[Execution]:
        """Return all executions so far."""
        if not self._path.exists():
            return []
        lines = (line.split() for line in self._path.read_text("ascii").splitlines())
        return [Execution(tool, call, int(pid), float(at)) for tool, call, pid, at in lines]


def tools(ledger: ExecutionFile) -> tuple[Tool, ...]:
    """Return the tools; their writes are noted in *ledger*."""

    @tool(concurrency_safe=True)
    async def look(key: str, seconds: float, context: CallContext) -> str:
        """Look something up."""
        await context.clock.sleep(seconds)
        return f"saw {key}"

    @tool(effect="write")
    async def note(key: str, seconds: float, context: CallContext) -> str:
        """Write something down; twice would be wrong."""
        ledger.add("note", context.call)
        await context.clock.sleep(seconds)
        return f"noted {key}"

    @tool(effect="write", idempotent=True)
    async def pay(key: str, seconds: float, context: CallContext) -> str:
        """Pay under the call's id: paying again under the same id gives the same receipt."""
        ledger.add("pay", context.call)
        await context.clock.sleep(seconds)
        return f"paid {key}"

    return look, note, pay
