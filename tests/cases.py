"""Tables of cases as one test: collecting, starting and reporting hundreds costs more than most of them take."""

import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from inspect import Signature, iscoroutinefunction, signature
from typing import Any, NamedTuple

import pytest

Test = Callable[..., Any]


class Case(NamedTuple):
    """One row of a table: its name, if it has one, and what the test is given."""

    name: str | None
    values: Mapping[str, Any]


def for_each(names: str, cases: Iterable[Any]) -> Callable[[Test], Test]:
    """Run the decorated test once, over all *cases*, as `parametrize` would give them; it fails with each that fails.

    The cases share the test's fixtures, so none may change what another sees. What one changes by `monkeypatch` is
    undone before the next.
    """
    words = [each.strip() for each in names.split(",")]
    table = [_case(words, each) for each in cases]
    assert table, "There is no case."

    def over(test: Test) -> Test:
        @wraps(test)
        def all_of_them(**fixtures: Any) -> None:
            failures: list[str] = []
            for case in table:
                with _patched(fixtures) as own:
                    try:
                        test(**own, **case.values)
                    except (Exception, pytest.fail.Exception):  # noqa: BLE001 - the assertion below has each
                        failures.append(_described(case))
            _check(failures)

        @wraps(test)
        async def all_of_them_in_turn(**fixtures: Any) -> None:
            failures: list[str] = []
            for case in table:
                with _patched(fixtures) as own:
                    try:
                        await test(**own, **case.values)
                    except (Exception, pytest.fail.Exception):  # noqa: BLE001 - the assertion below has each
                        failures.append(_described(case))
            _check(failures)

        whole = all_of_them_in_turn if iscoroutinefunction(test) else all_of_them
        kept = [each for name, each in signature(test).parameters.items() if name not in words]
        vars(whole)["__signature__"] = Signature(kept)
        return whole

    return over


def _case(names: list[str], case: Any) -> Case:
    """Return a row of the table from what `parametrize` takes: a value, a tuple of them, or `pytest.param`."""
    named = isinstance(case, type(pytest.param()))
    values = case.values if named else case if len(names) > 1 else (case,)
    return Case(str(case.id) if named else None, dict(zip(names, values, strict=True)))


@contextmanager
def _patched(fixtures: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Give a case the fixtures of the test, with a `monkeypatch` of its own."""
    patch: pytest.MonkeyPatch | None = fixtures.get("monkeypatch")
    if patch is None:
        yield dict(fixtures)
        return
    with patch.context() as own:
        yield {**fixtures, "monkeypatch": own}


def _described(case: Case) -> str:
    return f"{case.name or ''} {case.values}\n{traceback.format_exc(limit=-1)}".lstrip()


def _check(failures: list[str]) -> None:
    assert not failures, f"{len(failures)} of the cases:\n\n" + "\n".join(failures)
