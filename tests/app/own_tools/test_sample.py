"""The README's sample tool: it shows only the asker's own orders."""

import re
from pathlib import Path

import pytest

from agent_core.messages import Actor, text_of
from agent_core.testing import FakeClock
from agent_core.tools.base import CallContext, Done, ToolError
from agent_core.tools.toolset import Scope
from app.own_tools import OwnTools
from tests.postgres import ROOT

BLOCK = re.compile(r"```python\n(from parley import .*?)```", re.DOTALL)


@pytest.mark.parametrize(
    ("context", "shown"), [({"customer": "c-7"}, "A-1001 is shipped."), ({"customer": "c-9"}, None), ({}, None)]
)
async def test_the_sample_shows_only_the_orders_of_who_asks(tmp_path: Path, context: dict[str, str], shown: str | None):
    """The customer of an order reads it; another, or someone of whom nothing is known, reads that there is none."""
    blocks = BLOCK.findall((ROOT / "README.md").read_text("utf-8"))
    (sample,) = (block for block in blocks if "def lookup_order" in block)
    (tmp_path / "orders.py").write_text(sample, "utf-8")
    own = OwnTools(tmp_path, reserved=())
    own.load()
    own.check()
    asked = CallContext(
        call="c",
        session="s",
        run="r",
        actor=Actor("v-1", "visitor"),
        channel="web",
        clock=FakeClock(),
        progress=lambda _: None,
        tool_context=context,
    )
    outcome = await (await own.tools(Scope()))["lookup_order"].call({"order": "A-1001"}, asked)
    if shown is None:
        assert outcome == ToolError("There is no order A-1001 of yours.")
    else:
        assert isinstance(outcome, Done)
        assert text_of(outcome.parts) == shown
