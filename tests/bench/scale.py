"""How much is measured, and what each figure must and should be."""

from collections.abc import Mapping
from dataclasses import dataclass

from tests.bench.billed import FEW, Conversations
from tests.bench.exchange import Exchange
from tests.bench.table import Goal

# The goals hold where a figure is measured as they were set: so many streams of the first wire.
FLAT_STREAMS, PACED_STREAMS, SHARE_STREAMS = 20, 100, 300
FLAT = Goal(must=6, aim=2)
PACED = Goal(must=4, aim=1.8)
SHARE = Goal(must=95, aim=99, of="value", at="least")
FIRST_TEXT = Goal(must=3, aim=1.5)
FIRST_TEXT_BUSY = Goal(must=5, aim=3)
BURST = Goal(must=500, aim=250, of="value")
TRANSIT = Goal(must=10, aim=3)
STORED = Goal(must=8, aim=4)
KEPT = Goal(must=3_000, aim=1_500, of="value")
DELAY = Goal(must=100, aim=30, of="value")
START = Goal(must=5, aim=2)
IDLE = Goal(must=2.5, aim=1.5)
PER_STREAM = Goal(must=3, aim=2)


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much is measured: *rounds* of each figure (*slow_rounds* of slow ones) and how large each is.

    What has no goal is measured in *slow_rounds* too. *flat* has the exchanges that each of so many streams has in a
    round, *paced* the rounds of so many streams.
    *burst* is the number of runs that start at once, each in a new session.
    *held* has numbers of streams that are open together while memory is measured; the goal is that of the last.
    *pictures* is the number of charts that are drawn, *stuck* the seconds after which one without an end is killed.
    *talks* are the conversations that are billed; *shown* messages are those of the one that a browser shows.
    *stored* has numbers of stored messages; the last two are also measured with all in the window, and read again.
    """

    rounds: int
    slow_rounds: int
    exchange: Exchange
    flat: Mapping[int, int]
    long: Exchange
    pace: Exchange
    paced: Mapping[int, int]
    window: float
    probing: float
    asks: int
    burst: int
    stored: tuple[int, ...]
    exchanges: int
    held: tuple[int, ...]
    pictures: int
    stuck: float
    talks: Conversations
    shown: int


FULL = Scale(
    rounds=5,
    slow_rounds=3,
    exchange=Exchange(deltas=200, tool=True, delay=0.05),
    flat={1: 10, 20: 5, 100: 1, 300: 1},
    long=Exchange(deltas=2_000, delay=0.05),
    pace=Exchange(deltas=200, rate=50, tool=True, stamped=True),
    paced={1: 1, 20: 1, 100: 3, 300: 2},
    window=4.0,
    probing=2.0,
    asks=40,
    burst=100,
    stored=(10, 100, 500, 10_000),
    exchanges=200,
    held=(20, 100, 300),
    pictures=50,
    stuck=5.0,
    talks=Conversations(),
    shown=10_000,
)
QUICK = Scale(
    rounds=1,
    slow_rounds=1,
    exchange=Exchange(deltas=50, tool=True, delay=0.05),
    flat={5: 1},
    long=Exchange(deltas=200, delay=0.05),
    pace=Exchange(deltas=25, rate=50, tool=True, stamped=True),
    paced={10: 1},
    window=0.5,
    probing=0.3,
    asks=3,
    burst=10,
    stored=(10, 100),
    exchanges=10,
    held=(20,),
    pictures=8,
    stuck=0.5,
    talks=FEW,
    shown=300,
)
