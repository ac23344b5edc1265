"""Lifetimes: which parts of a prompt are worth being kept for an hour instead of five minutes. Pure.

Prices are in those of plain input: a read costs `r`, a write `w` for five minutes and `v` for an hour. A pause between
5 and 60 minutes makes a prefix be written again that an hour would have kept, so each saves `w - r` of it; everything
that is written costs `v - w` more. So an hour pays for a prefix once

    medium pauses x (w - r)  >  (v - w) x (long pauses + 1 + growth)

where a long pause loses the prefix either way, the 1 is writing it once for an hour, and *growth* is what else was
written, in lengths of the prefix: 0 for a part that stays as it is, and up to 1 for a conversation, whose messages were
all added once. At the usual prices (0.1, 1.25, 2) a conversation gets its hour after two medium pauses, or as many as
it had long ones; that agrees with simulated bills, in which an hour for everything pays where 15 to 20 % of the
exchanges come after such a pause.
"""

from typing import Self

import msgspec

from agent_core.context.history import LONG_LIFE, SHORT_LIFE, PromptHistory

_DAY = 86_400_000


class CachePrices(msgspec.Struct, frozen=True):
    """What a model's cache costs, in prices of its plain input; as they are what most of Anthropic's models have."""

    read: float = 0.1
    short: float = 1.25
    long: float = 2.0


USUAL = CachePrices()


def pays(prices: CachePrices, *, medium: int, long: int, growth: int) -> bool:
    """Return whether an hour would have been cheaper with so many *medium* and *long* pauses, see the module."""
    return medium * (prices.short - prices.read) > (prices.long - prices.short) * (long + 1 + growth)


class SharedUse(msgspec.Struct, frozen=True):
    """The uses of a prefix that sessions share, as one process saw them: times in ms.

    *pauses*, each with its end, are those longer than a short life of the cache; after a day they do not count.
    """

    first: int
    last: int
    pauses: tuple[tuple[int, int], ...] = ()

    def at(self, now: int) -> Self:
        """Return the uses with one more, *now*."""
        pauses, pause = self.pauses, now - self.last
        if pause > SHORT_LIFE:
            pauses = (*(entry for entry in pauses if entry[0] > now - _DAY), (now, pause))
        return msgspec.structs.replace(self, last=max(now, self.last), pauses=pauses)

    def is_long(self, prices: CachePrices) -> bool:
        """Return whether the prefix is kept for an hour: until it has been seen for an hour, and then if that pays.

        An entry that lives is read whatever lifetime is asked for, so changing it costs nothing.
        """
        if self.last - self.first < LONG_LIFE:
            return True
        pauses = [pause for end, pause in self.pauses if end > self.last - _DAY]
        long = sum(pause > LONG_LIFE for pause in pauses)
        return pays(prices, medium=len(pauses) - long, long=long, growth=0)


def is_long(prices: CachePrices, history: PromptHistory, *, model: str, now: int) -> bool:
    """Return whether the session's own part, which grows, is kept for an hour.

    That changes only where the next request of *model* has to write the messages again anyway: at the first one, after
    a pause that outlived the cache, and when the prompt was rewritten. What is kept now is seen in what the request
    before it wrote: a short part is written with nearly every one.
    """
    last = history.last
    if last is not None and last.model == model and history.rewritten is None:
        was_short, was_long = bool(last.usage.cache_write_short), bool(last.usage.cache_write_long)
        is_kept_long = was_long and not was_short
        if (was_short or was_long) and now - last.time < (LONG_LIFE if is_kept_long else SHORT_LIFE):
            return is_kept_long
    return pays(prices, medium=history.medium, long=history.long, growth=1)
