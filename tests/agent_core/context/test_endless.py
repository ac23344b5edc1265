"""A conversation without an end: ten thousand messages, and a window that its first thousand made as long."""

import random

import pytest

from agent_core import events as e
from agent_core.agent.snapshot import freeze
from agent_core.agent.state import when_due
from agent_core.agent.window import Window
from agent_core.agents import Agent, Compaction, Definition
from agent_core.clock import SystemClock
from agent_core.events import ContextCompacted, FactBody
from agent_core.messages import Text, Usage
from agent_core.providers.base import neutral
from agent_core.runtime.compacting import Compactor, PromptCache, limit_of
from tests.agent_core.history import called, ended, history, received, said, wish

pytestmark = pytest.mark.whole

MODEL = "anthropic:claude-haiku-4-5"
MESSAGES = 10_000
CHARACTERS_PER_TOKEN = 2.9
"""What the made-up model counts; the estimates have another ratio."""


class Simulated:
    """A conversation as the log has it, and as the model counts it."""

    def __init__(self) -> None:
        self.random = random.Random(7)  # noqa: S311 - sizes of made-up messages
        self.snapshot = freeze(model=MODEL, instructions="Be brief. " * 200, tools=())
        self.agent = Agent(
            id="agt_1",
            version=1,
            definition=Definition(name="a", instructions="", compaction=Compaction()),
            snapshot=self.snapshot,
            tools={},
        )
        self.window = Window(neutral, prefix=self.snapshot.hash, marker="abcdefghij")
        self.compactor = Compactor(_no_provider, SystemClock(), _no_file, PromptCache())
        self.seq, self.begins = 1, 1
        self.kinds: list[str] = []
        self.prompts: list[int] = []
        self.facts: list[int] = []

    def write(self, *bodies: FactBody) -> None:
        self.window.apply(history(*bodies, first=self.seq))
        self.seq += len(bodies)

    def text(self, most: int) -> str:
        return "word " * self.random.randint(10, most)

    def exchange(self, n: int) -> None:
        """Have a message, a call with a result, and an answer."""
        self.write(received(self.text(200), f"in_{n}"), e.RunQueued(), e.RunStarted(epoch=1))
        self.ask(2 * n, takes=(self.seq - 3,), whole=True)
        self.write(*called(2 * n, wish(f"c{n}"))[:1], self.counted(2 * n))
        self.write(*called(2 * n, wish(f"c{n}"))[2:], ended(f"c{n}", self.text(3_000)))
        self.ask(2 * n + 1)
        self.write(said(2 * n + 1, Text(self.text(400))), self.counted(2 * n + 1))

    def ask(self, n: int, *, takes: tuple[int, ...] = (), whole: bool = False) -> None:
        """Begin a step, after the compactions that are due."""
        taken = self.window.pending(takes)
        for _ in range(3):
            fill = self.compactor.filling(self.window, self.agent, MODEL, taken=taken)
            move = when_due(fill, len(self.window.entries), self.agent.definition.compaction, whole=whole)
            if move is None:
                break
            place = len(self.window.entries) - move.keep
            place = place if move.kind == "prune" else self.window.start_of(move.keep, whole=move.whole)
            made = self.window.compacted(move.kind, self.window.seq_at(place))
            summary = "A summary. " * 600 if move.kind == "summary" else None
            self.write(
                ContextCompacted(
                    kind=made.kind, from_seq=made.from_seq, tokens_before=1, tokens_after=1, summary=summary
                )
            )
            self.kinds.append(made.kind)
            self.begins = self.begins if made.kind == "prune" else made.from_seq
        self.write(
            e.StepStarted(
                n=n,
                attempt=1,
                message=f"msg_{n}",
                takes=takes,
                snapshot=self.snapshot.hash,
                controls={"model": MODEL},
            )
        )
        self.prompts.append(self.count())
        self.facts.append(self.seq - self.begins)

    def count(self) -> int:
        """Return the tokens of the prompt, as the model counts them."""
        size = len(self.snapshot.shared) + sum(len(entry.wire) for entry in self.window.entries)
        return round(size / CHARACTERS_PER_TOKEN)

    def counted(self, n: int) -> FactBody:
        usage = Usage(self.prompts[-1], 10, None, 0, 0, 0)
        return e.StepCompleted(n=n, usage=usage, cost=None)


def _no_provider(model: str):
    raise AssertionError(f"{model} is not asked here")


async def _no_file(_name: str) -> bytes | None:
    return None


def test_ten_thousand_messages_fit_and_cost_what_a_thousand_do():
    """No prompt is beyond the model's limit, and what is read to build the window does not grow with the log."""
    talk = Simulated()
    limit = limit_of(talk.agent, MODEL)
    assert limit is not None
    for n in range(MESSAGES // 4):  # four each: a question, a call, its result, an answer
        talk.exchange(n)
    assert max(talk.prompts) <= limit
    assert set(talk.kinds) == {"summary"}
    early, late = max(talk.facts[:1_000]), max(talk.facts)
    assert late <= 2 * early, "facts that a process reads which takes up the conversation"
    assert talk.seq > 40 * late, "of all that the log has"
