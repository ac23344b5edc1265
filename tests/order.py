"""In which order tests start: those that wait first, so that none of them is left when all others are done."""

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

FIRST = (
    "guide",
    "e2e/test_processes.py",
    "e2e/test_edges.py",
    "e2e/test_slack.py",
    "e2e/test_load.py",
    "channels/web/test_widget_bundle.py",
    "agent_core/engine/test_outage.py",
    "agent_core/engine/test_processes.py",
    "e2e/test_browser.py",
    "agent_core/test_crash.py",
    "e2e/test_slack_cards.py",
    "agent_core/test_laws_random.py",
    "agent_core/engine/test_versions.py",
    "e2e/test_operator_page.py",
    "agent_core/store/postgres/test_bus_outages.py",
    "e2e/test_delivered.py",
    "test_bench.py",
)
"""Files and folders whose tests take long by themselves, mostly because they wait; the longest come first.

Of the last two each reads all our files, and should do so once.
"""
ROOT = Path(__file__).parent
_FIRST = tuple(ROOT / each for each in FIRST)


def spread(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """Return *items* with those of `FIRST` before the rest, at the start of what each of *workers* is given.

    The workers of xdist start with an equal part of the list each, and take from each other's ends. A file of `FIRST`
    stays whole, so that what its tests share is built once.
    """
    files: defaultdict[Path, list[pytest.Item]] = defaultdict(list)
    rest: list[pytest.Item] = []
    for item in items:
        (files[item.path] if _rank(item.path) < len(FIRST) else rest).append(item)
    first = sorted(files, key=lambda path: (_rank(path), path))
    found: list[pytest.Item] = []
    begun = 0
    for worker in range(workers):
        end = len(found) + (len(items) - len(found)) // (workers - worker)
        found += (item for path in first[worker::workers] for item in files[path])
        more = max(0, end - len(found))
        found += rest[begun : begun + more]
        begun += more
    return [*found, *rest[begun:]]


@cache
def _rank(path: Path) -> int:
    """Return the place of a test file in `FIRST`; of one that is not there, the number after the last."""
    return next((rank for rank, each in enumerate(_FIRST) if path.is_relative_to(each)), len(FIRST))
