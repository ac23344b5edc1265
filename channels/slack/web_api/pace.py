"""The pacer: which call to Slack is next, so that many answers at once in one workspace stay below its rate limits."""

import asyncio
import math
from bisect import insort
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import count
from types import MappingProxyType

from agent_core import Clock
from channels.slack.web_api import limits
from channels.slack.web_api.budget import CallBudget, documented

# A call reaches Slack some time after it was admitted, and not always the same time. Within a minute connections are
# opened and networks stall; two posts in a row take the same way.
LEEWAY = 1.0
GAP_LEEWAY = 0.1
NEARLY_SPENT = 0.1
UPLOADS = 4
"""Files that a process makes and sends at once."""
# Edits of several threads slow down with what is spent, twice as much as their parts of the rate ask for: so some is
# left for newcomers, and edits do not come in waves a minute apart. A thread counts as editing for EDITS seconds after
# it asked; it is asked to retry after MAX_WAIT at most.
SLOWER = 2.0
EDITS = 5.0
MAX_WAIT = 1.0


class Lane(IntEnum):
    """Priorities."""

    LIFECYCLE = 0
    """Final and waiting statuses, and stops."""
    FIRST = 1
    """The first sign of life of an answer."""
    FINAL = 2
    """The whole answer."""
    EDIT = 3
    """Appends and edits: the next one makes up for a late one."""


@dataclass(frozen=True, slots=True)
class Reserve:
    """The part of a method's budget that only *lane* and those before it may use."""

    share: float
    lane: Lane


RESERVES: Mapping[str, Reserve] = MappingProxyType(
    {
        "agents.sessions.setStatus": Reserve(0.2, Lane.LIFECYCLE),
        "chat.stopStream": Reserve(0.1, Lane.LIFECYCLE),
        "chat.update": Reserve(0.2, Lane.FINAL),
    }
)


@dataclass(order=True, slots=True)
class _Ticket:
    """A waiting caller; *round* counts how many of the same thread go before."""

    round: int
    order: int
    thread: str = field(compare=False)
    channel: str | None = field(compare=False)
    granted: asyncio.Future[int] = field(compare=False)


@dataclass(slots=True, eq=False)
class _Queue:
    """The callers that wait for one method in one workspace, and the timer of the next check."""

    method: str
    team: str
    lanes: dict[Lane, list[_Ticket]] = field(default_factory=lambda: {lane: [] for lane in Lane})
    rounds: dict[Lane, int] = field(default_factory=lambda: dict.fromkeys(Lane, 0))
    due: int = 0
    timer: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return sum(len(tickets) for tickets in self.lanes.values())


@dataclass(slots=True)
class _Editors:
    """Threads that edit by one method in one workspace: when each asked last, and was admitted last (milliseconds)."""

    requested: dict[str, int] = field(default_factory=dict[str, int])
    admitted: dict[str, int] = field(default_factory=dict[str, int])

    def count(self, thread: str, now: int) -> int:
        """Record that *thread* asks, forget those that stopped asking, and return how many do."""
        self.requested[thread] = now
        for gone in [each for each, at in self.requested.items() if not 0 <= now - at < EDITS * 1000]:
            del self.requested[gone]
            self.admitted.pop(gone, None)
        return len(self.requested)

    def since(self, thread: str, now: int) -> float:
        """Return the seconds since *thread* was admitted, or first asked."""
        return (now - self.admitted.setdefault(thread, now)) / 1000


class Pacer:
    """Admit calls to Slack: by lane, within a lane by rounds over the threads.

    *share* is the part of every rate that this process may use (`use` changes it); *reserves* are for the first
    lanes; *rate* gives the calls per window of a method. All waiting is by *clock*. *uploads* is held by who makes
    and sends the bytes of a file: each has them in memory, and a connection.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        share: float = 1.0,
        reserves: Mapping[str, Reserve] = RESERVES,
        rate: Callable[[str], int] = documented,
    ) -> None:
        self._clock, self._reserves = clock, reserves
        self._budget = CallBudget(share=share, leeway=LEEWAY, gap_leeway=GAP_LEEWAY, rate=rate)
        self._queues: dict[tuple[str, str], _Queue] = {}
        self._editors: dict[tuple[str, str], _Editors] = {}
        self._order = count()
        self.uploads = asyncio.Semaphore(UPLOADS)

    async def admit(self, method: str, team: str, channel: str | None, lane: Lane, *, thread: str = "") -> None:
        """Return when *method* may be called now; the call is counted, so make it. Cancelled, it counts nothing."""
        now = self._clock.now()
        self._serve_due(method, team, now)
        # Waiting callers cannot go now, so admitting this one delays none of them.
        wait = self._budget.take(method, team, channel, now, keep=self._keep(method, lane))
        if not wait:
            return
        queue = self._queues.setdefault((method, team), _Queue(method, team))
        ticket = self._join(queue, channel, lane, thread)
        if queue.timer is None or now + wait * 1000 < queue.due:
            self._set_timer(queue, wait)
        try:
            await ticket.granted
        except asyncio.CancelledError:
            self._leave(queue, ticket, lane)
            raise

    def offer(self, method: str, team: str, channel: str | None, *, thread: str) -> float:
        """Return 0.0 when *thread* may edit now, the call counted, else the seconds until it is worth asking again.

        Edits do not queue: at the head of a queue there would be more to show, or the end, which goes first. All
        editing threads have equal parts, which shrink with the budget; a single thread is not slowed down.
        Where a part of *method* is reserved for whole answers, it is as large as there are editing threads.
        """
        now = self._clock.now()
        self._serve_due(method, team, now)
        editors = self._editors.setdefault((method, team), _Editors())
        many, calls = editors.count(thread, now), self._budget.calls(method)
        keep = self._keep(method, Lane.EDIT)
        keep = min(1.0, max(keep, many / calls)) if keep else 0.0
        room = max(1.0, calls * (1 - keep))
        spent = (calls - self._budget.left(method, team, now)) / room
        gap = SLOWER * spent * (many > 1) * many / room * (limits.RATE_WINDOW.value + LEEWAY)
        wait = gap - editors.since(thread, now)
        if wait <= 0:
            wait = self._budget.take(method, team, channel, now, keep=keep)
        if not wait:
            editors.admitted[thread] = now
        return min(wait, MAX_WAIT)

    def penalty(self, method: str, team: str, retry_after: float) -> None:
        """Admit no *method* in *team* for *retry_after* seconds: Slack answered 429."""
        now = self._clock.now()
        self._budget.blocked(method, team, now, now + math.ceil(retry_after * 1000))

    def nearly_spent(self, method: str, team: str) -> bool:
        """Return whether at most a tenth of the budget of *method* is left after the waiting callers."""
        queue = self._queues.get((method, team))
        spare = self._budget.left(method, team, self._clock.now()) - (len(queue) if queue else 0)
        return spare <= self._budget.calls(method) * NEARLY_SPENT

    def use(self, share: float) -> None:
        """Use *share* of every rate from now on: processes came or went."""
        self._budget.share = share
        for queue in list(self._queues.values()):
            self._serve(queue)

    def _serve_due(self, method: str, team: str, now: int) -> None:
        """Admit waiting callers whose timer is due before a newcomer."""
        queue = self._queues.get((method, team))
        if queue is not None and queue.due <= now:
            self._serve(queue)

    def _keep(self, method: str, lane: Lane) -> float:
        reserve = self._reserves.get(method)
        return reserve.share if reserve is not None and lane > reserve.lane else 0.0

    def _join(self, queue: _Queue, channel: str | None, lane: Lane, thread: str) -> _Ticket:
        tickets = queue.lanes[lane]
        ahead = max((ticket.round + 1 for ticket in tickets if ticket.thread == thread), default=0)
        granted = asyncio.get_running_loop().create_future()
        ticket = _Ticket(max(queue.rounds[lane], ahead), next(self._order), thread, channel, granted)
        insort(tickets, ticket)
        return ticket

    def _leave(self, queue: _Queue, ticket: _Ticket, lane: Lane) -> None:
        """Forget a cancelled caller; a permission granted at the same moment goes to the next one."""
        if ticket in queue.lanes[lane]:
            queue.lanes[lane].remove(ticket)
        elif not ticket.granted.cancelled():
            self._budget.give_back(queue.method, queue.team, ticket.channel, ticket.granted.result())
        self._serve(self._queues.get((queue.method, queue.team), queue))

    def _serve(self, queue: _Queue) -> None:
        """Grant what may go now, in order, and set the timer for the rest."""
        now = self._clock.now()
        wait = min(self._serve_lane(queue, lane, now) for lane in Lane)
        if queue.timer is not None:
            queue.timer.cancel()
            queue.timer = None
        if len(queue):
            self._set_timer(queue, wait)
        elif self._queues.get((queue.method, queue.team)) is queue:
            del self._queues[queue.method, queue.team]

    def _serve_lane(self, queue: _Queue, lane: Lane, now: int) -> float:
        """Return the seconds until the next one of *lane* may go."""
        keep, soonest, waiting = self._keep(queue.method, lane), math.inf, list[_Ticket]()
        for ticket in queue.lanes[lane]:
            if ticket.granted.done():  # cancelled, and about to leave
                continue
            wait = self._budget.take(queue.method, queue.team, ticket.channel, now, keep=keep)
            if wait:
                waiting.append(ticket)
                soonest = min(soonest, wait)
            else:
                ticket.granted.set_result(now)
                queue.rounds[lane] = ticket.round
        queue.lanes[lane] = waiting
        return soonest

    def _set_timer(self, queue: _Queue, wait: float) -> None:
        if queue.timer is not None:
            queue.timer.cancel()
        queue.due = self._clock.now() + math.ceil(wait * 1000)
        queue.timer = asyncio.create_task(self._later(queue, wait))

    async def _later(self, queue: _Queue, wait: float) -> None:
        await self._clock.sleep(wait)
        queue.timer = None
        self._serve(queue)
