"""Periodic work, and waiting for an event or a timeout."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import structlog

from agent_core import Clock, ParleyError, trace_of

_log = structlog.get_logger("parley.slack")


class PeriodicTask:
    """Calls *look* every so many *seconds*, and at once when *news* is set, from `start` to `stop`.

    A failed look does not end the sweep; a database that is unavailable is logged once.
    """

    def __init__(
        self,
        name: str,
        look: Callable[[], Awaitable[None]],
        clock: Clock,
        seconds: float,
        *,
        news: asyncio.Event | None = None,
    ) -> None:
        self._name, self._look, self._clock, self._seconds = name, look, clock, seconds
        self.news = news or asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look from now on."""
        self._task = asyncio.create_task(self._forever(), name=f"parley-slack-{self._name}")

    async def stop(self, working: Iterable[asyncio.Task[None]] = ()) -> None:
        """Stop looking, and cancel the tasks *working* on what was found."""
        tasks = [*working, *([self._task] if self._task else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _forever(self) -> None:
        away = False
        while True:
            self.news.clear()
            try:
                await self._look()
                away = False
            except ParleyError as error:  # the database or Slack is unavailable
                if not away:
                    _log.warning("slack.sweep_failed", sweep=self._name, error=str(error))
                away = True
            except Exception as error:  # noqa: BLE001 - the boundary of a task: without sweeps a killed process loses answers
                _log.error("slack.failed", sweep=self._name, exception=trace_of(error))
            await set_or_timeout(self.news, self._clock, self._seconds)


async def set_or_timeout(event: asyncio.Event, clock: Clock, seconds: float) -> None:
    """Return when *event* is set, or after *seconds*."""
    timeout = asyncio.create_task(clock.sleep(seconds))
    is_set = asyncio.create_task(event.wait())
    try:
        await asyncio.wait((timeout, is_set), return_when=asyncio.FIRST_COMPLETED)
    finally:
        timeout.cancel()
        is_set.cancel()
