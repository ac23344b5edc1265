"""Tables of cases of a pure function as one test: collecting and reporting hundreds costs more than to run them."""

import traceback
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import wraps
from inspect import Signature, signature
from typing import Any

import pytest


def for_each(names: str, cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run the decorated test once, over all *cases*, as `parametrize` would give them; it fails with each that fails.

    What a case changes by `monkeypatch` is undone before the next.
    """
    words = [each.strip() for each in names.split(",")]
    table = list(cases)
    assert table, "There is no case."

    def over(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def all_of_them(**fixtures: Any) -> None:
            failed: list[str] = []
            for case in table:
                given = dict(zip(words, case if len(words) > 1 else (case,), strict=True))
                patch: pytest.MonkeyPatch | None = fixtures.get("monkeypatch")
                with patch.context() if patch else nullcontext() as inner:
                    try:
                        test(**fixtures | ({"monkeypatch": inner} if patch else {}) | given)
                    except (Exception, pytest.fail.Exception):  # noqa: BLE001 - the assertion below has each
                        failed.append(f"{given}\n{traceback.format_exc(limit=-1)}")
            assert not failed, f"{len(failed)} of the cases:\n\n" + "\n".join(failed)

        kept = [each for name, each in signature(test).parameters.items() if name not in words]
        vars(all_of_them)["__signature__"] = Signature(kept)
        return all_of_them

    return over
