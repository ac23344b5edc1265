"""A table of cases as one test fails with each case that fails, and only with those."""

import os

import pytest

from tests.cases import for_each


def test_each_failure_is_named(monkeypatch: pytest.MonkeyPatch):
    """All cases run, each in the environment as it was, and the failure holds what was given and what was wrong."""
    ran = list[int]()

    @for_each("number, name", [(1, "one"), (2, "two"), (3, "three")])
    def over(monkeypatch: pytest.MonkeyPatch, number: int, name: str) -> None:
        ran.append(number)
        assert "PARLEY_CASE" not in os.environ
        monkeypatch.setenv("PARLEY_CASE", name)
        if number == 2:
            with pytest.raises(ValueError, match="never"):
                str(number)
        assert number < 3

    with pytest.raises(AssertionError) as failed:
        over(monkeypatch=monkeypatch)
    said = str(failed.value)
    assert ran == [1, 2, 3]
    assert said.startswith("2 of the cases")
    assert [name in said for name in ("'one'", "'two'", "'three'", "DID NOT RAISE")] == [False, True, True, True]
