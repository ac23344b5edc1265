"""One server for each test of this folder."""

from collections.abc import AsyncIterator

import pytest

from tests.agent_core.tools.http.calling import Calling, calling


@pytest.fixture
async def api() -> AsyncIterator[Calling]:
    """A server on loopback, and tools that may ask it."""
    async with calling() as found:
        yield found
