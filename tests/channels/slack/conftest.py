"""What the tests of Slack share."""

import pytest

from tests.channels.slack.showing import showing
from tests.channels.slack.typed import typed_blocks

__all__ = ["showing", "typed_blocks"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--whole", action="store_true", help="run every case of the matrices of faults and kills")


@pytest.fixture(scope="session")
def whole(request: pytest.FixtureRequest) -> bool:
    """Whether every case of a matrix is run, and not only one of each kind."""
    return bool(request.config.getoption("--whole", default=False))
