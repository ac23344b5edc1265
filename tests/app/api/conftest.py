"""Shops: the API in front of an agent that asks people before it pays."""

from collections.abc import AsyncIterator

import pytest

from channels.web.identity import TokenSigner
from tests.app.api.shop import Open, shops
from tests.app.conftest import OneApp
from tests.conftest import MakeCore


@pytest.fixture
async def shop(make_core: MakeCore, one_app: OneApp, tokens: TokenSigner) -> AsyncIterator[Open]:
    """Open shops whose agent asks people before it pays."""
    async with shops(make_core, one_app, tokens) as build:
        yield build
