"""The order in which tests start: nothing is lost, and what waits comes first on each worker."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.agent_core.engine.many.conftest import CASES
from tests.both import BOTH, ONE
from tests.cases import for_each
from tests.order import FIRST, ROOT, spread

SLOW = [path for each in FIRST for path in (sorted((ROOT / each).rglob("test_*.py")) or [ROOT / each])]


def item(path: Path, number: int) -> Any:
    return SimpleNamespace(path=path, number=number)


def test_what_comes_first_exists():
    """Each name in the list is a file or a folder of tests."""
    assert [each for each in FIRST if not (ROOT / each).exists()] == []


@for_each("workers", [1, 2, 3, 4])
def test_no_test_is_lost_and_each_worker_starts_with_what_waits(workers: int):
    """The list has each test once; the part of each worker begins with whole files that wait, and no other has any."""
    slow = [item(path, number) for path in SLOW for number in range(3)]
    quick = [item(ROOT / f"test_quick_{number}.py", number) for number in range(1_000)]
    found: list[Any] = spread([*quick[:500], *slow, *quick[500:]], workers)
    assert len(found) == len(slow) + len(quick)
    assert {id(each) for each in found} == {id(each) for each in (*slow, *quick)}
    assert [each for each in found if each in quick] == quick
    begun = 0
    for worker in range(workers):
        end = begun + (len(found) - begun) // (workers - worker)
        part, begun = found[begun:end], end
        waits = [each in slow for each in part]
        assert waits == sorted(waits, reverse=True)
        assert sum(waits) % 3 == 0
        assert any(waits)
        assert [each.number for each in part if each in slow] == [0, 1, 2] * (sum(waits) // 3)


def test_a_few_tests_are_all_run():
    """Where there are more workers than tests, or only tests that wait, none is lost either."""
    slow = [item(SLOW[0], number) for number in range(2)]
    assert spread(slow, 4) == slow
    assert spread([], 4) == []


@for_each("entry", [*BOTH, *ONE])
def test_what_runs_on_both_databases_is_there(entry: str):
    """Each file, folder or test that is listed to run on both databases, or on one though its folder is, exists."""
    file, _, test = entry.partition("::")
    path = Path(__file__).parent / file
    assert path.exists()
    assert not test or f"def {test}(" in path.read_text("utf-8")


def test_what_runs_again_by_the_engine_of_many_is_there():
    """Each test of which that engine has a run of its own is in one of the modules that it runs again."""
    again = (ROOT / "agent_core/engine/many").glob("test_*.py")
    modules = [
        line.split()[1] for each in again for line in each.read_text("utf-8").splitlines() if " import *" in line
    ]
    texts = [(ROOT.parent / f"{module.replace('.', '/')}.py").read_text("utf-8") for module in modules]
    assert len(modules) == 9
    assert [each for each in sorted(CASES) if not any(f"def {each}(" in text for text in texts)] == []
