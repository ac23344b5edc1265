"""What the tests of Slack share."""

from collections.abc import Iterator
from typing import Any

import pytest

from channels.slack.testing import blocks, content
from tests.channels.slack.typed import forms, untyped, written


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--whole", action="store_true", help="run every case of the matrices of faults and kills")


@pytest.fixture(scope="session")
def whole(request: pytest.FixtureRequest) -> bool:
    """Whether every case of a matrix is run, and not only one of each kind."""
    return bool(request.config.getoption("--whole", default=False))


@pytest.fixture(autouse=True)
def typed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All blocks that a stand-in takes in a test have the types that Slack publishes."""
    taken: dict[str, Any] = {}
    check = blocks.check

    def noted(given: Any, **more: Any) -> Any:
        found = check(given, **more)
        if not found:
            taken.update((written(form), form) for block in given for form in forms(block))
        return found

    monkeypatch.setattr(blocks, "check", noted)
    monkeypatch.setattr(content, "check", noted)
    yield
    assert not (said := untyped(list(taken.values()))), said
