"""When Slack accepts a call: the rate budget, the pacer that keeps to it, and the workspaces that share it."""

import asyncio
import math
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar
from weakref import WeakValueDictionary

import structlog

from agent_core.clock import Clock
from agent_core.errors import NotFound
from channels.slack import limits
from channels.slack.api import Identity, Limited, NoStreaming, SlackApi, SlackFailure, Unauthorised

P = ParamSpec("P")
T = TypeVar("T")
POST, UPDATE = "chat.postMessage", "chat.update"


class _Window:
    """The times of the calls of one *span*, and the pause that a 429 asked for; all in milliseconds."""

    __slots__ = ("since", "span", "times", "until")

    def __init__(self) -> None:
        self.times: deque[int] = deque()
        self.span = self.since = self.until = 0

    def pause(self, now: int) -> int:
        """Return how long Slack still accepts nothing; a clock that was set back ends the pause."""
        return max(0, self.until - now) if self.since <= now else 0

    def forget(self, now: int) -> None:
        """Drop the calls that are too old, and those from before a clock was set back."""
        while self.times and not now - self.span < self.times[0] <= now:
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
        rate: Callable[[str], int] = limits.rate,
    ) -> None:
        self.share = share
        self._leeway, self._gap_leeway, self._rate = leeway, gap_leeway, rate
        # The least recently used first: each count drops idle windows there.
        self._windows: OrderedDict[tuple[str, ...], _Window] = OrderedDict()

    def __len__(self) -> int:
        """Return how many windows are kept."""
        return len(self._windows)

    def take(self, method: str, team: str, channel: str | None, now: int) -> float:
        """Count a call and return 0.0 when it is allowed, else the seconds until it would be."""
        wait = self.wait(method, team, channel, now)
        if not wait:
            for key, _, span in self._rules(method, team, channel):
                window = self._touch(key)
                window.span = span
                window.times.append(now)
            self._sweep(now)
        return wait

    def wait(self, method: str, team: str, channel: str | None, now: int) -> float:
        """Return the seconds until `take` would allow the call."""
        return max(self._wait(*rule, now) for rule in self._rules(method, team, channel)) / 1000

    def left(self, method: str, team: str, now: int) -> int:
        """Return how many calls of *method* are allowed now, channels left aside."""
        calls, window = self.calls(method), self._windows.get((method, team))
        if window is None:
            return calls
        window.forget(now)
        return 0 if window.pause(now) else max(0, calls - len(window.times))

    def calls(self, method: str) -> int:
        """Return how many calls of *method* fit into a window."""
        return _fit(self._rate(method) * self.share, 0.0)[0]

    def blocked(self, method: str, team: str, now: int, until: int) -> None:
        """Allow no *method* in *team* before *until*, as the Retry-After of a 429 asks."""
        window = self._touch((method, team))
        window.since, window.until = now, max(until, window.pause(now) + now)
        self._sweep(now)

    def _rules(self, method: str, team: str, channel: str | None) -> Iterator[tuple[tuple[str, ...], int, int]]:
        """Yield the windows that a call falls into: key, calls, span."""
        calls, span = _fit(self._rate(method) * self.share, limits.RATE_WINDOW)
        yield (method, team), calls, _milli(span + self._leeway)
        if method == POST and channel is not None:
            calls, span = _fit(limits.POSTS_PER_CHANNEL * self.share, 1.0)
            yield (method, team, channel), calls, _milli(span + self._gap_leeway)

    def _wait(self, key: tuple[str, ...], calls: int, span: int, now: int) -> int:
        window = self._windows.get(key)
        if window is None:
            return 0
        window.span = span
        window.forget(now)
        # Once this call is too old, there is room.
        freed = window.times[-calls] + span - now if len(window.times) >= calls else 0
        return max(window.pause(now), freed)

    def _touch(self, key: tuple[str, ...]) -> _Window:
        window = self._windows.setdefault(key, _Window())
        self._windows.move_to_end(key)
        return window

    def _sweep(self, now: int) -> None:
        while self._windows:
            window = next(iter(self._windows.values()))
            window.forget(now)
            if window.times or window.pause(now):
                return
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
# Edits slow down with what is spent, up to twice as much as the rate asks for: so they do not come in waves a minute
# apart. Updates show whole answers too, so edits stop when EDITS of them are spent. One is asked to retry after
# MAX_WAIT at most.
SLOWER = 2.0
EDITS = 0.3
MAX_WAIT = 1.0


class Pacer:
    """Admit calls to Slack: first come, first served for each method in a workspace, for posts in a channel.

    *share* is the part of every rate that this process may use (`use` changes it); *rate* gives the calls per window
    of a method. All waiting is by *clock*. *uploads* is held by who makes and sends the bytes of a file: each has them
    in memory, and a connection.
    """

    def __init__(self, clock: Clock, *, share: float = 1.0, rate: Callable[[str], int] = limits.rate) -> None:
        self._clock = clock
        self._budget = CallBudget(share=share, leeway=LEEWAY, gap_leeway=GAP_LEEWAY, rate=rate)
        self._lines: WeakValueDictionary[tuple[str, str, str | None], asyncio.Lock] = WeakValueDictionary()
        self._edited: dict[tuple[str, str], int] = {}
        self.uploads = asyncio.Semaphore(UPLOADS)

    async def admit(self, method: str, team: str, channel: str | None) -> None:
        """Return when *method* may be called now; the call is counted, so make it. Cancelled, it counts nothing."""
        async with self._lines.setdefault((method, team, channel if method == POST else None), asyncio.Lock()):
            while wait := self._budget.take(method, team, channel, self._clock.now()):
                await self._clock.sleep(wait)

    def offer(self, method: str, team: str, channel: str | None) -> float:
        """Return 0.0 when an edit by *method* may go now, the call counted, else the seconds until it may be.

        Edits do not queue: at the head of a queue there would be more to show, or the end, which goes first.
        """
        now, calls = self._clock.now(), self._budget.calls(method)
        spent = (calls - self._budget.left(method, team, now)) / calls
        if method == UPDATE and spent > EDITS:
            return MAX_WAIT
        gap = SLOWER * spent * (limits.RATE_WINDOW + LEEWAY) / calls
        since = (now - self._edited.get((method, team), 0)) / 1000
        wait = gap - since if 0 <= since < gap else self._budget.take(method, team, channel, now)
        if not wait:
            self._edited[method, team] = now
        return min(wait, MAX_WAIT)

    def penalty(self, method: str, team: str, retry_after: float) -> None:
        """Admit no *method* in *team* for *retry_after* seconds: Slack answered 429."""
        now = self._clock.now()
        self._budget.blocked(method, team, now, now + math.ceil(retry_after * 1000))

    def nearly_spent(self, method: str, team: str) -> bool:
        """Return whether at most a tenth of the budget of *method* is left."""
        left = self._budget.left(method, team, self._clock.now())
        return left <= self._budget.calls(method) * NEARLY_SPENT

    def use(self, share: float) -> None:
        """Use *share* of every rate from now on: processes came or went."""
        self._budget.share = share


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

    async def call(
        self, method: str, channel: str | None, ask: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Make the call *ask* of *method* when its rate allows it; raises a `SlackFailure`."""
        await self.pacer.admit(method, self.team, channel)
        try:
            return await ask(*args, **kwargs)
        except Limited as error:
            self.pacer.penalty(method, self.team, error.retry_after)
            raise

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
