"""The doctor without the drawing of a chart, which starts a process: `test_charts.py` has that."""

import pytest

from app.doctor import checks


@pytest.fixture(autouse=True)
def no_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "charts", lambda _settings, *, offline: ())
