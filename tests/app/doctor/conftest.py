"""The doctor without the drawing of a chart, which starts a process: `test_charts.py` has that."""

import pytest

from app import doctor


@pytest.fixture(autouse=True)
def no_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "charts", lambda _settings, *, offline: ())
