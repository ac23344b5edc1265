"""Every model of the table is asked only for what its vendor takes, whatever is wished for."""

from dataclasses import replace
from typing import get_args

import pytest

from agent_core.controls import Effort
from agent_core.providers import base
from agent_core.providers.base import CallFailed, named
from agent_core.testing import say
from tests.agent_core.providers.contract.wires import RESPONSES, collect

pytestmark = pytest.mark.sampled(3)

NAMES = [name for name in base.table().models if name.startswith("openai:")]


async def test_no_wish_is_refused_by_a_model_of_the_table(dial):
    """Each of OpenAI's models answers to each wish for effort, none among them, with a temperature beside it."""
    line = await dial(RESPONSES, lambda _: [say("Yes.")])
    refused: list[tuple[str, str | None, str]] = []
    for name in NAMES:
        wire = replace(RESPONSES, model=named(name))
        for wish in (None, *get_args(Effort)):
            request = wire.request(line.provider, effort=wish, temperature=0.5)
            *_, end = await collect(line.provider.stream(request))
            if isinstance(end, CallFailed):
                refused.append((name, wish, end.message))
    assert refused == []
