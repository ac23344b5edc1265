"""The pacer: who may call Slack next, so that a crowd of answers in one workspace never hears "too many requests"."""

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
from channels.slack.web_api.budget import Budget, documented

# A call reaches Slack some time after it was admitted, and not always the same time. Within a minute connections are
# opened and networks stall; two posts in a row take the same way.
LEEWAY = 1.0
GAP_LEEWAY = 0.1
NEARLY_SPENT = 0.1
# Edits of several threads slow down with what is spent, twice as much as their parts of the rate ask for: so some is
# left to whoever comes next, and they do not come in waves a minute apart. A thread counts among those who edit for
# EDITS seconds after it asked; nobody is told to come again later than after PATIENCE.
SLOWER = 2.0
EDITS = 5.0
PATIENCE = 1.0


class Lane(IntEnum):
    """What goes first when not all can go."""

    LIFECYCLE = 0
    """Statuses that tell of an end or a wait, and stops."""
    FIRST = 1
    """The first sign of life of an answer."""
    FINAL = 2
    """The whole answer."""
    EDIT = 3
    """Appends and edits: the next one makes up for one that came late."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The part of a method's budget that lanes behind *lane* leave alone."""

    share: float
    lane: Lane


KEPT: Mapping[str, Kept] = MappingProxyType(
    {
        "agents.sessions.setStatus": Kept(0.2, Lane.LIFECYCLE),
        "chat.stopStream": Kept(0.1, Lane.LIFECYCLE),
        "chat.update": Kept(0.2, Lane.FINAL),
    }
)


@dataclass(order=True, slots=True)
class _Ticket:
    """Somebody who waits; *round* counts how many of the same thread go before."""

    round: int
    order: int
    thread: str = field(compare=False)
    channel: str | None = field(compare=False)
    granted: asyncio.Future[int] = field(compare=False)


@dataclass(slots=True, eq=False)
class _Line:
    """Those who wait for one method in one workspace, and the timer that looks again."""

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
    """Threads that edit by one method in one workspace: when each asked last, and was let last (milliseconds)."""

    asked: dict[str, int] = field(default_factory=dict[str, int])
    let: dict[str, int] = field(default_factory=dict[str, int])

    def count(self, thread: str, now: int) -> int:
        """Note that *thread* asks, forget who does so no more, and return how many do."""
        self.asked[thread] = now
        for gone in [each for each, at in self.asked.items() if not 0 <= now - at < EDITS * 1000]:
            del self.asked[gone]
            self.let.pop(gone, None)
        return len(self.asked)

    def since(self, thread: str, now: int) -> float:
        """Return the seconds since *thread* was let, or first asked."""
        return (now - self.let.setdefault(thread, now)) / 1000


class Pacer:
    """Hand out permissions to call Slack: by lane, within a lane by rounds over the threads.

    *share* is the part of every rate that this process may use (`use` sets it anew); *kept* says what is kept back for
    the first lanes; *rate* gives the calls per window of a method. All waiting is by *clock*.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        share: float = 1.0,
        kept: Mapping[str, Kept] = KEPT,
        rate: Callable[[str], int] = documented,
    ) -> None:
        self._clock, self._kept = clock, kept
        self._budget = Budget(share=share, leeway=LEEWAY, gap_leeway=GAP_LEEWAY, rate=rate)
        self._lines: dict[tuple[str, str], _Line] = {}
        self._editors: dict[tuple[str, str], _Editors] = {}
        self._order = count()

    async def admit(self, method: str, team: str, channel: str | None, lane: Lane, *, thread: str = "") -> None:
        """Return when *method* may be called now; the call is counted, so make it. Cancelled, it counts nothing."""
        now = self._clock.now()
        self._serve_due(method, team, now)
        # Those who wait cannot go now; so whoever can is in nobody's way.
        wait = self._budget.take(method, team, channel, now, keep=self._keep(method, lane))
        if not wait:
            return
        line = self._lines.setdefault((method, team), _Line(method, team))
        ticket = self._join(line, channel, lane, thread)
        if line.timer is None or now + wait * 1000 < line.due:
            self._look_again(line, wait)
        try:
            await ticket.granted
        except asyncio.CancelledError:
            self._leave(line, ticket, lane)
            raise

    def offer(self, method: str, team: str, channel: str | None, *, thread: str) -> float:
        """Return 0.0 when *thread* may edit now, the call counted, else the seconds until it is worth asking again.

        Nobody waits in a line to edit: at its head there would be more to show, or the end, which goes before. All
        who edit have the same part, which they use up the more slowly the less is left; who is alone may go ahead.
        Where `KEPT` keeps some of *method* for whole answers, it is as much as there are threads that will want it.
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
            editors.let[thread] = now
        return min(wait, PATIENCE)

    def penalty(self, method: str, team: str, retry_after: float) -> None:
        """Let nobody call *method* in *team* for *retry_after* seconds: Slack answered 429."""
        now = self._clock.now()
        self._budget.blocked(method, team, now, now + math.ceil(retry_after * 1000))

    def nearly_spent(self, method: str, team: str) -> bool:
        """Tell whether at most a tenth of the budget of *method* is left behind those who wait for it."""
        line = self._lines.get((method, team))
        spare = self._budget.left(method, team, self._clock.now()) - (len(line) if line else 0)
        return spare <= self._budget.calls(method) * NEARLY_SPENT

    def use(self, share: float) -> None:
        """Use *share* of every rate from now on: processes came or went."""
        self._budget.share = share
        for line in list(self._lines.values()):
            self._serve(line)

    def _serve_due(self, method: str, team: str, now: int) -> None:
        """Let nobody slip in between a free place and the timer that would give it away."""
        line = self._lines.get((method, team))
        if line is not None and line.due <= now:
            self._serve(line)

    def _keep(self, method: str, lane: Lane) -> float:
        kept = self._kept.get(method)
        return kept.share if kept is not None and lane > kept.lane else 0.0

    def _join(self, line: _Line, channel: str | None, lane: Lane, thread: str) -> _Ticket:
        tickets = line.lanes[lane]
        ahead = max((ticket.round + 1 for ticket in tickets if ticket.thread == thread), default=0)
        granted = asyncio.get_running_loop().create_future()
        ticket = _Ticket(max(line.rounds[lane], ahead), next(self._order), thread, channel, granted)
        insort(tickets, ticket)
        return ticket

    def _leave(self, line: _Line, ticket: _Ticket, lane: Lane) -> None:
        """Forget a waiter who was cancelled; what was given to him in the same moment goes to the next."""
        if ticket in line.lanes[lane]:
            line.lanes[lane].remove(ticket)
        elif not ticket.granted.cancelled():
            self._budget.give_back(line.method, line.team, ticket.channel, ticket.granted.result())
        self._serve(self._lines.get((line.method, line.team), line))

    def _serve(self, line: _Line) -> None:
        """Grant what may go now, in order, and look again when more may go."""
        now = self._clock.now()
        wait = min(self._serve_lane(line, lane, now) for lane in Lane)
        if line.timer is not None:
            line.timer.cancel()
            line.timer = None
        if len(line):
            self._look_again(line, wait)
        elif self._lines.get((line.method, line.team)) is line:
            del self._lines[line.method, line.team]

    def _serve_lane(self, line: _Line, lane: Lane, now: int) -> float:
        """Return the seconds until the next one of *lane* may go."""
        keep, soonest, waiting = self._keep(line.method, lane), math.inf, list[_Ticket]()
        for ticket in line.lanes[lane]:
            if ticket.granted.done():  # cancelled, and about to leave
                continue
            wait = self._budget.take(line.method, line.team, ticket.channel, now, keep=keep)
            if wait:
                waiting.append(ticket)
                soonest = min(soonest, wait)
            else:
                ticket.granted.set_result(now)
                line.rounds[lane] = ticket.round
        line.lanes[lane] = waiting
        return soonest

    def _look_again(self, line: _Line, wait: float) -> None:
        if line.timer is not None:
            line.timer.cancel()
        line.due = self._clock.now() + math.ceil(wait * 1000)
        line.timer = asyncio.create_task(self._later(line, wait))

    async def _later(self, line: _Line, wait: float) -> None:
        await self._clock.sleep(wait)
        line.timer = None
        self._serve(line)
