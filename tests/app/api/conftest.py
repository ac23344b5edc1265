"""What the API answers, it answers on both databases."""

from collections.abc import AsyncIterator

import pytest

from app.settings import Settings
from channels.web.identity import Tokens
from tests.app.api.shop import Open, shops
from tests.both import on_both
from tests.conftest import MakeCore


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    on_both(metafunc)


@pytest.fixture
async def shop(make_core: MakeCore, settings: Settings, tokens: Tokens) -> AsyncIterator[Open]:
    """Open shops whose agent asks people before it pays."""
    async with shops(make_core, settings, tokens) as build:
        yield build
