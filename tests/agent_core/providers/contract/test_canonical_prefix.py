"""The bytes of a request do not depend on how the author of a tool ordered its schema."""

from typing import Any

import pytest

from agent_core.testing import say
from tests.agent_core.providers.contract.wires import LIST, Wire
from tests.agent_core.shuffled import DECLARED, shuffled

pytestmark = pytest.mark.sampled(3)


async def raw(dial: Any, wire: Wire, *tools: Any) -> bytes:
    """Return the body that a fresh provider sends for a question with *tools*."""
    line = await dial(wire, [(say("Yes."),)])
    await line.deltas(tools=tools)
    (asked,) = line.models.asked
    return asked.raw


async def test_equal_tools_are_equal_bytes_on_every_wire(dial: Any, wire: Wire):
    """Other orders of keys and of tools, and 1.0 for 1, give the same body, byte for byte; another schema does not."""
    first = await raw(dial, wire, DECLARED.spec, LIST)
    assert await raw(dial, wire, LIST, shuffled(DECLARED).spec) == first
    assert await raw(dial, wire, DECLARED.spec) != first
    assert b'"maximum":9,"minimum":1' in first
