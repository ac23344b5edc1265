"""The plugin of the gate: which tests are in it, of which kind each is, and what CPU time each kind and test took."""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

KINDS = {"pure": 80, "sqlite": 190, "postgres": 67, "processes": 88, "browser": 36}
"""The kinds of tests, each with the CPU seconds that it may take in all; a mark of the name says so of one test."""
FIXTURES = {
    "browser": {"browser"},
    "processes": {"shell", "plain_shell", "serving", "start_server", "start_shared"},
    "postgres": {"postgres"},
    "sqlite": {"template"},
}
"""The fixtures that tell a test's kind, the dearest kind first."""
DEAREST = 20
MAX_LINES = 2
FLAKY = Path(__file__).with_name("flaky.md")
_TICKS = os.sysconf("SC_CLK_TCK")
_START = pytest.StashKey[float]()


def kind_of(item: pytest.Item) -> str:
    """Return the dearest kind of thing that a test needs, by its marks, its fixtures and its database."""
    backend = getattr(item, "callspec", None) and item.callspec.params.get("backend")
    names = {*getattr(item, "fixturenames", ()), *([backend] if backend else ())}
    marks = {mark.name for mark in item.iter_markers()}
    for kind, fixtures in FIXTURES.items():
        if kind in marks or names & fixtures or backend == kind:
            return kind
    return "sqlite" if "backend" in names else "pure"


def choose(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not of this tier.

    `--quick` has pure tests alone; only `--whole` has what is marked so, has two lines in flaky.md, or is left out of a
    sample.
    """
    kept = items
    if not config.getoption("--whole"):
        lines = Counter(re.findall(r"^- \S+ `(.+)`$", FLAKY.read_text("utf-8"), re.MULTILINE))
        kept = sample(item for item in items if not item.get_closest_marker("whole") and lines[item.nodeid] < MAX_LINES)
    if config.getoption("--quick"):
        kept = [item for item in kept if kind_of(item) == "pure"]
    chosen = set(kept)
    if left_out := [item for item in items if item not in chosen]:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def sample(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Keep of each test that is marked `sampled(n)` only n of its cases, evenly spread."""
    given = list(items)
    cases: defaultdict[tuple[Path, str], list[pytest.Item]] = defaultdict(list)
    for item in given:
        if item.get_closest_marker("sampled"):
            cases[item.path, getattr(item, "originalname", item.name)].append(item)
    left_out: set[pytest.Item] = set()
    for each in cases.values():
        (number,) = next(each[0].iter_markers("sampled")).args
        left_out |= set(each) - {each[at * len(each) // number] for at in range(min(number, len(each)))}
    return [item for item in given if item not in left_out]


def spread(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """Return *items* with the files that start processes first for one of *workers*, those on Postgres for another.

    They wait as much as they compute: beside them others run, and none is left when all others are done. What the tests
    of a kind share, a process that forks and a browser, is started once. The workers of xdist start with an
    equal part of the list each, and take from each other's ends.
    """
    files: defaultdict[Path, list[pytest.Item]] = defaultdict(list)
    for item in items:
        files[item.path].append(item)
    processes: list[pytest.Item] = []
    postgres: list[pytest.Item] = []
    for each in files.values():
        kinds = {kind_of(item) for item in each}
        if kinds & {"processes", "browser"} or each[0].get_closest_marker("processes"):
            processes += each
        elif "postgres" in kinds:
            postgres += each
    slow = [processes, postgres]
    first = {*processes, *postgres}
    rest = [item for item in items if item not in first]
    found: list[pytest.Item] = []
    for worker in range(workers):
        end = len(found) + (len(items) - len(found)) // (workers - worker)
        found += (item for each in slow[worker::workers] for item in each)
        more = max(0, end - len(found))
        found += rest[:more]
        del rest[:more]
    return [*found, *rest]


class Costs:
    """Notes the CPU seconds of each test: those of the process that runs it and of all that it started."""

    def __init__(self) -> None:
        self._found: list[tuple[str, str, float]] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        item.stash[_START] = cpu_seconds()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.when == "teardown":
            spent = max(0.0, cpu_seconds() - item.stash[_START])
            report.user_properties = [*report.user_properties, ("kind", kind_of(item)), ("cpu", round(spent, 3))]
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        noted: dict[str, Any] = dict(report.user_properties)
        if report.when == "teardown" and "cpu" in noted:
            self._found.append((noted["kind"], report.nodeid, noted["cpu"]))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._found:
            terminalreporter.section("CPU seconds")
            for line in summary(self._found):
                terminalreporter.write_line(line)


def summary(found: Iterable[tuple[str, str, float]]) -> list[str]:
    """Return what each kind cost, and the dearest tests."""
    sums: defaultdict[str, list[float]] = defaultdict(list)
    for kind, _, spent in found:
        sums[kind].append(spent)
    lines = [
        f"{kind:10} {sum(sums[kind]):7.1f} of {budget:3} in {len(sums[kind]):5} tests"
        for kind, budget in KINDS.items()
        if kind in sums
    ]
    dearest = sorted(found, key=lambda each: -each[2])[:DEAREST]
    return [*lines, *(f"{spent:10.2f}  {name}" for _, name, spent in dearest)]


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of all that it started, also of those that still run."""
    times = os.times()
    total = times.user + times.system + times.children_user + times.children_system
    waiting = _children(os.getpid())
    while waiting:
        pid = waiting.pop()
        with suppress(OSError, ValueError, IndexError):
            fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
            total += sum(map(int, fields[11:15])) / _TICKS
            waiting += _children(pid)
    return total


def _children(pid: int) -> list[int]:
    """Return the children of a process; none where the system does not tell."""
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                found += map(int, (task / "children").read_text("utf-8").split())
    return found
