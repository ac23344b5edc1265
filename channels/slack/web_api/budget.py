"""The rate budget: when Slack accepts a call of a method from a workspace; one pure model for pacer and stand-in."""

import math
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import suppress

from channels.slack.web_api import limits

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
