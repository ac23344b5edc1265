"""What other processes change is looked for whatever the database says once."""

from types import SimpleNamespace
from typing import Any, cast

from structlog.testing import capture_logs

from agent_core.runtime.revisions import EVERY, Revisions
from agent_core.testing import FakeClock


async def test_an_error_of_the_database_does_not_end_the_looking():
    """What is no loss of the connection is logged with its trace, once, and the next look is a second later."""
    clock, loaded, faults = FakeClock(), list[int](), list[Exception]()
    revision = 0

    async def peek(_work: object) -> dict[str, int]:
        if faults:
            raise faults.pop()
        return {"tools": revision}

    async def load() -> None:
        loaded.append(revision)

    revisions = Revisions(cast("Any", SimpleNamespace(peek=peek, clock=clock, bus=object())))
    revisions.follow("tools", load)
    await revisions.start()
    try:
        faults += [OSError("disk full"), OSError("disk full")]
        revision = 1
        with capture_logs() as logs:
            for _ in range(3):
                await clock.slept()
                clock.advance(EVERY)
            await clock.slept()
    finally:
        await revisions.stop()
    assert loaded == [0, 1]
    assert [line["event"] for line in logs if "disk full" in line["exception"]] == ["tools.not_read"]
