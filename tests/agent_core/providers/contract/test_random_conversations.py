"""Random conversations: whatever a model says and people do, no later request breaks a rule of its wire."""

import asyncio
import random
from itertools import count
from typing import Any

import pytest

from agent_core.agent.entries import ASKED
from agent_core.agents import Controls, Limits
from agent_core.channels import Inbound, Overlap
from agent_core.events import RunFailed, StepFailed
from agent_core.messages import Text
from agent_core.testing import call, fail, finish, raw_call, refuse, say, think
from agent_core.testing.models import ModelCall, native, redacted
from tests.agent_core.laws import check_log
from tests.agent_core.providers.contract.telling import TOOLS, marks_of
from tests.agent_core.providers.contract.wires import MESSAGES, Wire
from tests.agent_core.scenes import Hurried
from tests.agent_core.stage import ANN, PATIENCE

pytestmark = pytest.mark.whole

RUNS = 12
SEEDS = [*range(2), *(pytest.param(seed, marks=pytest.mark.whole) for seed in range(2, 6))]
OVERLAPS: tuple[Overlap, ...] = ("queue", "steer", "interrupt")
SEARCH = {"type": "server_tool_use", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "content": []}


class RandomModel:
    """A model that answers at random and people who act at random; the same for the same *seed*."""

    def __init__(self, wire: Wire, seed: int) -> None:
        self.wire, self.random = wire, random.Random(f"{wire.name} {seed}")  # noqa: S311 - no secret
        self.limit = self.random.choice([6, 12, 30, None])
        self.searches = count(1)

    def answer(self, asked: ModelCall) -> list[Any]:
        dice = self.random
        if dice.random() < 0.1:
            return [fail(dice.choice(["overloaded", "rate_limited", "error"]), retry_after=0)]
        return [*self._found(asked), *self._answer(asked)]

    def _found(self, asked: ModelCall) -> list[Any]:
        """Return the results of the searches with which the answer paused that this one continues."""
        last: dict[str, Any] = asked.body["messages"][-1] if self.pauses else {"role": "user"}
        if last["role"] == "user":
            return []
        searches = [each["id"] for each in last["content"] if each["type"] == SEARCH["type"]]
        return [native({**FOUND, "tool_use_id": search}) for search in searches]

    def _answer(self, asked: ModelCall) -> list[Any]:
        dice = self.random
        said = [self._item() for _ in range(dice.randint(0, 5))]
        calls = [self._call() for _ in range(dice.choice([0, 0, 1, 1, 2, 3] if asked.step < 8 else [0]))]
        pause = [native({**SEARCH, "id": f"s_{next(self.searches)}"}), finish("continue")] if self.pauses else None
        ends = [[finish("length")], [finish("refused")], *([pause] if pause else [])]
        last = dice.choice(ends) if dice.random() < (0.3 if pause else 0.15) else []
        if last is pause:  # a vendor that pauses asks for no tool of ours
            return [*said, *last]
        return [*said, *calls, *([self._item()] if dice.random() < 0.2 else []), *last]

    @property
    def pauses(self) -> bool:
        """Return whether answers pause: Anthropic's do, and no truncation may come between."""
        return self.wire is MESSAGES and self.limit is None

    def _item(self) -> Any:
        n = self.random.randint(0, 99)
        texts = [f"Text {n}.", "", " ", "\n\n", "ü🙂\u2028", "x" * n]
        return self.random.choice(
            [think(f"Thought {n}."), think(""), redacted(), say(*self.random.sample(texts, 3)), say(f"Say {n}.", cut=3)]
            + ([refuse("No.")] if n < 3 else [])
        )

    def _call(self) -> Any:
        n = self.random.randint(0, 999)
        return self.random.choice(
            [
                call("look", what=f"{n} ü"),
                call("look", what=f"{n}"),
                raw_call("list_all", self.random.choice(["", "null", "{}", " { } "])),
                raw_call("look", f'{{"what": "{n}'),
                raw_call("look", f"[{n}]"),
                call("unknown", n=n),
                call("odd.name ü", n=n),
            ]
        )

    def inbound(self, n: int) -> Inbound:
        dice = self.random
        model = dice.choice([None, None, None, self.wire.full_other])
        instructions = dice.choice([None, None, None, None, "Be wordy."])
        texts = dice.sample([f"Message {n}", " ", "More"], dice.randint(1, 2))
        overlap = dice.choice(OVERLAPS)
        parts = tuple(Text(text) for text in ["Hello", *texts])
        return Inbound(
            parts=parts,
            actor=ANN,
            overlap=overlap,
            instructions=instructions,
            controls=Controls(model=model, max_steps=10),
        )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", SEEDS)
async def test_no_conversation_leads_to_a_request_that_is_refused(seed, scene, wire):
    """Over runs, stops, steering, cuts, other models and bad calls, the vendor's rules and its check hold."""
    model = RandomModel(wire, seed)
    stage = await scene(wire, model.answer, tools=TOOLS, clock=Hurried(), limits=Limits(model.limit))
    runs: list[str] = []
    for n in range(RUNS):
        runs.append((await stage.core.receive(stage.session, model.inbound(n))).run)
        if model.random.random() < 0.2:
            await stage.core.cancel(runs[-1], by=ANN)
        if model.random.random() < 0.7:
            await stage.core.settled(runs[-1], timeout=PATIENCE)
        else:
            await asyncio.sleep(0)
    for run in runs:
        await stage.done(run)
    facts = await stage.log()
    failures = [failed for failed in await stage.said(StepFailed) if failed.code in ("invalid", "stale_reasoning")]
    assert failures == []
    assert {failed.code for failed in await stage.said(RunFailed)} <= {"provider_error", "doom_loop"}
    check_log(facts)
    steps = [asked for asked in stage.line.models.asked if ASKED.encode() not in asked.raw]
    assert wire is not MESSAGES or {len(marks_of(asked)) for asked in steps} <= {2, 3}
