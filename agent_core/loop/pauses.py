"""Pauses before a model is asked again. Pure."""

import zlib

from agent_core import events as e
from agent_core.loop.state import RunState


def pause_before(state: RunState, failure: e.StepFailed) -> float:
    """Return the seconds before the next attempt: what the provider asks for, or a backoff, spread by run.

    A provider that asks for no pause at all gets none, once.
    """
    growing = backoff(state.run, state.step.failures, longer=failure.code == "overloaded")
    if failure.retry_after is None:
        return growing
    return failure.retry_after if state.step.failures <= 1 else max(failure.retry_after, growing)


def backoff(run: str, failures: int, *, longer: bool = False) -> float:
    """Return the seconds before the next attempt after *failures*: about 0.5, 1, 2; four times that if *longer*.

    They are up to a quarter shorter, by the run's id, so that runs which failed together do not retry together.
    """
    spread = zlib.crc32(f"{run}.{failures}".encode()) / 2**32
    return 0.5 * 2.0 ** (failures - 1) * (4 if longer else 1) * (1 - 0.25 * spread)
