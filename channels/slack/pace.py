"""The rate budget: when Slack accepts a call of a method from a workspace; one pure model for pacer and stand-in."""

import asyncio
import math
from bisect import insort
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import count
from types import MappingProxyType

import structlog

from agent_core.clock import Clock
from agent_core.errors import NotFound
from channels.slack import limits
from channels.slack.api import Identity, NoStreaming, SlackApi, SlackFailure, Unauthorised

POST = "chat.postMessage"


def documented(method: str) -> int:
    """Return how many calls of *method* Slack accepts per window from one workspace."""
    return limits.rate(method).value


class _Window:
    """The times of the calls of one span, and the pause that a 429 asked for; all in milliseconds."""

    __slots__ = ("_since", "_span", "_until", "times")

    def __init__(self) -> None:
        self.times: deque[int] = deque()
        self._span = 0
        self._since = self._until = 0

    def block(self, now: int, until: int) -> None:
        self._since, self._until = now, max(until, self.pause(now) + now)

    def pause(self, now: int) -> int:
        """Return how long Slack still accepts nothing; a clock that was set back ends the pause."""
        return max(0, self._until - now) if self._since <= now else 0

    def live(self, now: int, span: int) -> tuple[int, int]:
        """Return the range of the calls that count; times after *now* are from before a clock was set back."""
        first, last = 0, len(self.times)
        while first < last and self.times[first] + span <= now:
            first += 1
        while first < last and self.times[last - 1] > now:
            last -= 1
        return first, last

    def add(self, now: int, span: int) -> None:
        """Count a call, and drop those that are too old."""
        self._span = span
        self._forget(now)
        self.times.append(now)

    def is_idle(self, now: int) -> bool:
        self._forget(now)
        return not self.times and not self.pause(now)

    def _forget(self, now: int) -> None:
        first, last = self.live(now, self._span)
        for _ in range(len(self.times) - last):
            self.times.pop()
        for _ in range(first):
            self.times.popleft()


class CallBudget:
    """Count calls per method and workspace in a rolling window, and posts per second and channel.

    Times are milliseconds of a `Clock`, answers are seconds. *share* is the part of every rate that this process may
    use, and may be changed. Spans are longer by *leeway* seconds, that between two posts by *gap_leeway*: for callers
    that cannot know when a call arrives. *rate* gives the calls per window of a method.
    """

    def __init__(
        self,
        *,
        share: float = 1.0,
        leeway: float = 0.0,
        gap_leeway: float = 0.0,
        rate: Callable[[str], int] = documented,
    ) -> None:
        self.share = share
        self._leeway, self._gap_leeway, self._rate = leeway, gap_leeway, rate
        # The least recently used first: each count drops idle windows there.
        self._windows: OrderedDict[tuple[str, ...], _Window] = OrderedDict()

    def __len__(self) -> int:
        """Return how many windows are kept."""
        return len(self._windows)

    def take(self, method: str, team: str, channel: str | None, now: int, *, keep: float = 0.0) -> float:
        """Count a call and return 0.0 when it is allowed, else the seconds until it would be.

        Of the calls per window the part *keep* is left to others.
        """
        wait = self.wait(method, team, channel, now, keep=keep)
        if not wait:
            for key, _, span in self._rules(method, team, channel):
                self._touch(key).add(now, span)
            self._sweep(now)
        return wait

    def wait(self, method: str, team: str, channel: str | None, now: int, *, keep: float = 0.0) -> float:
        """Return the seconds until `take` would allow the call."""
        waits = (self._wait(key, calls, span, now, keep) for key, calls, span in self._rules(method, team, channel))
        return max(waits) / 1000

    def left(self, method: str, team: str, now: int) -> int:
        """Return how many calls of *method* are allowed now, channels left aside."""
        calls, window = self.calls(method), self._windows.get((method, team))
        if window is None:
            return calls
        _, _, span = next(self._rules(method, team, None))
        first, last = window.live(now, span)
        return 0 if window.pause(now) else max(0, calls - (last - first))

    def calls(self, method: str) -> int:
        """Return how many calls of *method* fit into a window."""
        return _fit(self._rate(method) * self.share, 0.0)[0]

    def blocked(self, method: str, team: str, now: int, until: int) -> None:
        """Allow no *method* in *team* before *until*, as the Retry-After of a 429 asks."""
        self._touch((method, team)).block(now, until)
        self._sweep(now)

    def give_back(self, method: str, team: str, channel: str | None, at: int) -> None:
        """Forget the call counted at *at*: it was not made."""
        for key, _, _ in self._rules(method, team, channel):
            if (window := self._windows.get(key)) is not None:
                with suppress(ValueError):
                    window.times.remove(at)

    def _rules(self, method: str, team: str, channel: str | None) -> Iterator[tuple[tuple[str, ...], int, int]]:
        """Yield the windows that a call falls into: key, calls, span."""
        calls, span = _fit(self._rate(method) * self.share, limits.RATE_WINDOW.value)
        yield (method, team), calls, _milli(span + self._leeway)
        if method == POST and channel is not None:
            calls, span = _fit(limits.POSTS_PER_CHANNEL.value * self.share, 1.0)
            yield (method, team, channel), calls, _milli(span + self._gap_leeway)

    def _wait(self, key: tuple[str, ...], calls: int, span: int, now: int, keep: float) -> int:
        window = self._windows.get(key)
        if window is None:
            return 0
        first, last = window.live(now, span)
        freed = last - max(1, calls - round(calls * keep))  # once this call is too old, there is room
        return max(window.pause(now), window.times[freed] + span - now if freed >= first else 0)

    def _touch(self, key: tuple[str, ...]) -> _Window:
        window = self._windows.setdefault(key, _Window())
        self._windows.move_to_end(key)
        return window

    def _sweep(self, now: int) -> None:
        while self._windows and next(iter(self._windows.values())).is_idle(now):
            self._windows.popitem(last=False)


def _fit(calls: float, span: float) -> tuple[int, float]:
    """Return whole calls and their span: less than one call per span is one call per longer span."""
    if calls >= 1:
        return int(calls + 1e-9), span
    return 1, span / calls


def _milli(seconds: float) -> int:
    return math.ceil(seconds * 1000 - 1e-6)


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


NO_UPLOADS = 600
"""Seconds after which files are tried again that Slack did not take: storage is cleared, and scopes are given."""
_log = structlog.get_logger("parley.slack")


@dataclass(slots=True)
class Workspace:
    """A workspace as this process knows it: *user* and *bot* are the app's ids, *missing* what it was warned of."""

    team: str
    user: str
    bot: str
    api: SlackApi
    pacer: Pacer
    streams: bool = True
    without_streams: set[str] = field(default_factory=set[str])
    missing: set[str] = field(default_factory=set[str])
    no_uploads_until: int = 0

    def can_stream(self, channel: str) -> bool:
        """Return whether to begin a stream in *channel*: Slack takes them there, and the budget is not nearly spent."""
        refused = not self.streams or channel in self.without_streams
        return not refused and not self.pacer.nearly_spent("chat.startStream", self.team)

    def note_no_stream(self, channel: str, error: SlackFailure) -> None:
        """Record that Slack refused a stream in *channel*."""
        if isinstance(error, NoStreaming):
            if error.everywhere:
                self.streams = False
            else:
                self.without_streams.add(channel)
        _log.info("slack.no_stream", team=self.team, reason=error.reason)

    def can_upload(self, now: int) -> bool:
        """Return whether files are taken here, as far as is known *now* (milliseconds)."""
        return now >= self.no_uploads_until

    def note_no_uploads(self, error: SlackFailure, now: int) -> None:
        """Record that Slack takes no files here, for `NO_UPLOADS` seconds; the reason is logged once per process."""
        self.no_uploads_until = now + NO_UPLOADS * 1000
        if isinstance(error, Unauthorised):
            self.log_missing(error)
        elif error.reason not in self.missing:
            self.missing.add(error.reason)
            _log.warning("slack.no_uploads", team=self.team, reason=error.reason)

    def log_missing(self, error: Unauthorised) -> None:
        """Log the permission that is missing, once per process."""
        if str(error) not in self.missing:
            self.missing.add(str(error))
            _log.error("slack.unauthorised", team=self.team, remedy=str(error))


@dataclass(frozen=True, slots=True)
class Installation:
    """The app in one workspace: *me* is its bot there, *space* is what this process has of the workspace."""

    me: Identity
    space: Workspace


class Workspaces:
    """The workspaces of some bot tokens, which share one budget of calls."""

    def __init__(self, apis: Sequence[SlackApi], pacer: Pacer) -> None:
        self._unknown, self._pacer = list(apis), pacer
        self._installations: dict[str, Installation] = {}
        self._asking = asyncio.Lock()

    async def find(self, team: str) -> Installation:
        """Return the installation in workspace *team*; raises `NotFound`, or a `SlackFailure` while that is unsure."""
        if team not in self._installations and self._unknown:
            await self.identify()
        if (installation := self._installations.get(team)) is None:
            raise NotFound("installation in the workspace", team)
        return installation

    async def space(self, team: str) -> Workspace:
        """Return what this process has of workspace *team*; raises what `find` raises."""
        return (await self.find(team)).space

    async def only(self) -> str | None:
        """Return the workspace if there is just one; raises a `SlackFailure` while that is unsure."""
        await self.identify()
        return next(iter(self._installations)) if len(self._installations) == 1 else None

    async def identify(self) -> None:
        """Ask every token that was not asked yet whose it is; raises a `SlackFailure`."""
        async with self._asking:
            while self._unknown:
                api = self._unknown[-1]
                me = await api.auth()
                self._installations[me.team] = Installation(me, Workspace(me.team, me.user, me.bot, api, self._pacer))
                self._unknown.pop()
