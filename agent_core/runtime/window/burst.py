"""The burst gate: of requests that share a prefix which no cache has yet, one leads and the others wait for it.

What a request writes to a provider's cache can be read once its answer begins: not when the provider has only said that
it took the request. Of N requests with the same cold prefix at once each would write it; with a leader one writes and
the others read, for one time to first token.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import structlog

from agent_core.clock import Clock
from agent_core.providers.base import CallFailed, ModelDelta, Started

MAX_WAIT = 3.0
"""Seconds after which a request goes without the leader."""
_WARM = 1024
"""Prefixes that are remembered as warm; one that is forgotten has a leader again."""
_log = structlog.get_logger("parley.burst")


@dataclass(slots=True)
class _Burst:
    """The requests of a prefix while it is cold: how many were sent, and those that wait. True: lead, False: go."""

    leads: int = 1
    waiting: deque[asyncio.Future[bool]] = field(default_factory=deque[asyncio.Future[bool]])
    waited: int = 0

    def promote(self) -> None:
        """Let the next one that waits lead."""
        while self.waiting:
            woken = self.waiting.popleft()
            if not woken.done():
                self.leads += 1
                woken.set_result(True)
                return

    def release(self) -> None:
        """Let all that wait go: they read what was written."""
        for woken in self.waiting:
            if not woken.done():
                woken.set_result(False)
        self.waiting.clear()


class Lead:
    """A request that was sent while its prefix was cold."""

    def __init__(self, gate: "BurstGate", prefix: str, life: int, sent: int) -> None:
        self._gate, self._prefix, self._life, self._sent = gate, prefix, life, sent
        self.is_begun = False

    def began(self, batch: Sequence[ModelDelta]) -> "Lead | None":
        """Note a *batch* of the answer; return what still waits for one: None once the answer has begun.

        OpenAI reports a start as soon as it took the request, before the first token.
        """
        first = next((delta for delta in batch if not isinstance(delta, Started)), None)
        if first is None or isinstance(first, CallFailed):
            return self
        self.is_begun = True
        self._gate.warmed(self._prefix, self._life, self._sent)
        return None


class BurstGate:
    """The requests of one process. *waits* counts those that waited."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._warm: dict[str, tuple[int, int]] = {}
        self._bursts: dict[str, _Burst] = {}
        self.waits = 0

    @asynccontextmanager
    async def passing(self, prefix: str, life: int, used: int | None = None) -> AsyncGenerator[Lead | None]:
        """Enter when a request with *prefix* may be sent, and leave after its answer.

        The provider keeps the prefix for *life* ms after its last use; *used* is when the log says that it was used.
        Gives the `Lead` that must note the answer's first batch, None when the prefix is warm.
        """
        if used is not None and self._clock.now() < used + life:
            self.warmed(prefix, life, used)
        if not self._use(prefix) and (burst := await self._joined(prefix)):
            lead = Lead(self, prefix, life, self._clock.now())
            try:
                yield lead
            finally:
                if not lead.is_begun:
                    self._gave_up(prefix, burst)
            return
        yield None

    def warmed(self, prefix: str, life: int, sent: int) -> None:
        """Note that the answer to a request of *sent* has begun, so that its *prefix* can be read."""
        self._warm.pop(prefix, None)
        self._warm[prefix] = (sent + life, life)
        if len(self._warm) > _WARM:
            del self._warm[next(iter(self._warm))]
        burst = self._bursts.pop(prefix, None)
        if burst is not None:
            burst.release()
            if burst.waited:
                _log.info("cache.burst", prefix=prefix, waited=burst.waited)

    def _use(self, prefix: str) -> bool:
        """Return whether *prefix* is warm; if so, this use lets it live longer."""
        until, life = self._warm.get(prefix, (0, 0))
        now = self._clock.now()
        if now >= until:
            self._warm.pop(prefix, None)
            return False
        del self._warm[prefix]
        self._warm[prefix] = (now + life, life)
        return True

    async def _joined(self, prefix: str) -> _Burst | None:
        """Wait for the leader of *prefix*, if it has one; return the burst if this request is sent while it is cold."""
        burst = self._bursts.get(prefix)
        if burst is None:
            burst = self._bursts[prefix] = _Burst()
            return burst
        if await self._woken(prefix, burst):
            burst.leads -= 1  # it is counted where it leads
        if self._use(prefix):
            return None
        burst = self._bursts.setdefault(prefix, burst)
        burst.leads += 1
        return burst

    async def _woken(self, prefix: str, burst: _Burst) -> bool:
        """Wait until this request is woken, at most `MAX_WAIT`; return whether it is to lead."""
        woken: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        burst.waiting.append(woken)
        burst.waited += 1
        self.waits += 1
        timer = asyncio.ensure_future(self._clock.sleep(MAX_WAIT))
        try:
            await asyncio.wait((woken, timer), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if woken.done() and woken.result():
                self._gave_up(prefix, burst)
            raise
        finally:
            timer.cancel()
            if not woken.done():
                burst.waiting.remove(woken)
        return woken.done() and woken.result()

    def _gave_up(self, prefix: str, burst: _Burst) -> None:
        """Note that a request which was sent while *prefix* was cold has ended without an answer."""
        burst.leads -= 1
        burst.promote()
        if not burst.leads and self._bursts.get(prefix) is burst:
            del self._bursts[prefix]
