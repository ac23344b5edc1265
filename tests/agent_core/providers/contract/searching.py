"""Sessions of an agent whose tools are found by a search of ours (`router: native`)."""

from typing import Any

import pytest

from agent_core.testing import call
from tests.agent_core.laws import check_log
from tests.agent_core.providers.contract.wires import MESSAGES, RESPONSES
from tests.agent_core.routing import SHOP

NATIVE = pytest.mark.parametrize("wire", [MESSAGES, RESPONSES], ids=lambda wire: wire.name)
FIND = call("search_tools", query="create an order")


async def set_shop(scene: Any, wire: Any, *script: Any, **options: Any) -> Any:
    """Open a session of an agent with sixty tools that a search finds."""
    answers = [each if isinstance(each, tuple) else (each,) for each in script]
    return await scene(wire, answers, **{"tools": SHOP, "router": "native", **options})


async def played(stage: Any, **controls: Any) -> str:
    run = await stage.play(**controls)
    check_log(await stage.log())
    assert run.status == "completed", run.error
    return run.text


def tools_of(asked: Any) -> list[Any]:
    return asked.body["tools"]
