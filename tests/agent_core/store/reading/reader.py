"""A reader as the contract describes a client: it keeps facts, and the text of messages as it is shown."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from agent_core.core import Core
from agent_core.events import Event, Fact, Live, MessageCompleted, ReasoningDelta, StepStarted, TextDelta
from agent_core.messages import Reasoning, Text
from tests.agent_core.scenes import SAFETY, log_of
from tests.polling import until

Place = tuple[str, int]
"""A message and the index of one of its parts."""


@dataclass
class Reading:
    """What one reader has seen: facts by seq, and of each open message the text that a client would show.

    *final* is each message as it was completed; *whole* tells, for those whose text was shown before, whether just that
    had been shown, and *true* whether that or a beginning of it.
    """

    facts: list[Fact] = field(default_factory=list)
    shown: dict[Place, str] = field(default_factory=dict)
    joins: list[TextDelta | ReasoningDelta] = field(default_factory=list)
    final: dict[str, list[str]] = field(default_factory=dict)
    whole: dict[str, bool] = field(default_factory=dict)
    true: dict[str, bool] = field(default_factory=dict)
    tries: dict[str, tuple[int, int]] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)
    late: list[Live] = field(default_factory=list)
    tail: list[Event] = field(default_factory=list)

    def see(self, batch: Sequence[Event]) -> None:
        for event in batch:
            self.tail.append(event)
            if isinstance(event, Fact):
                self._fact(event)
            elif isinstance(event.body, (TextDelta, ReasoningDelta)):
                self._delta(event, event.body)

    @property
    def seqs(self) -> list[int]:
        return [fact.seq for fact in self.facts]

    @property
    def deltas(self) -> list[TextDelta | ReasoningDelta]:
        """Return every piece of text, as it came."""
        bodies = [event.body for event in self.tail if isinstance(event, Live)]
        return [body for body in bodies if isinstance(body, (TextDelta, ReasoningDelta))]

    def text(self, message: str) -> str:
        """Return what is shown of *message*, its parts joined."""
        return "".join(text for (name, _), text in sorted(self.shown.items()) if name == message)

    def _fact(self, fact: Fact) -> None:
        self.facts.append(fact)
        body = fact.body
        if isinstance(body, MessageCompleted):
            self._complete(body)
        elif isinstance(body, StepStarted):
            self.asked[body.message] = body.attempt

    def _delta(self, event: Live, body: TextDelta | ReasoningDelta) -> None:
        """Keep `shown[:offset] + text`; a newer try clears what an older one had shown."""
        if body.message in self.final:
            self.late.append(event)
        attempt = (body.epoch, body.attempt)
        if attempt > self.tries.get(body.message, (0, 0)):
            self.tries[body.message] = attempt
            self.shown = {place: text for place, text in self.shown.items() if place[0] != body.message}
        place = (body.message, body.part)
        before = self.shown.get(place, "")
        assert body.offset <= len(before), f"a hole before {body} after {before!r}"
        if body.offset == 0:
            self.joins.append(body)
        self.shown[place] = before[: body.offset] + body.text

    def _complete(self, body: MessageCompleted) -> None:
        texts = [part.text for part in body.parts if isinstance(part, (Text, Reasoning))]
        shown = [text for (name, _), text in sorted(self.shown.items()) if name == body.message]
        attempt = self.tries.get(body.message, (0, 0))[1]
        stale = self.asked.get(body.message, attempt) != attempt  # the last try said nothing
        if shown and not stale and body.stop not in ("refused", "error"):  # these take back what was shown
            self.whole[body.message] = [text for text in shown if text.strip()] == texts
            self.true[body.message] = "".join(texts).startswith("".join(shown).rstrip())
        self.final[body.message] = texts


async def read(events: AsyncIterator[list[Event]], *, slowly: int = 0) -> Reading:
    """Read to the end; between batches give control away *slowly* times."""
    reading = Reading()
    async with asyncio.timeout(SAFETY):
        async for batch in events:
            reading.see(batch)
            for _ in range(slowly):
                await asyncio.sleep(0)
    return reading


async def joined(core: Core, session: str, *, after: int = 0) -> tuple[Reading, asyncio.Task[None]]:
    """Return a reader that has read all there is, and the task that reads on."""
    reading, begun = Reading(), asyncio.Event()

    async def go() -> None:
        async for batch in core.follow(session, after=after):
            reading.see(batch)
            begun.set()

    task = asyncio.create_task(go())
    async with asyncio.timeout(SAFETY):
        await begun.wait()
    newest = (await log_of(core, session))[-1].seq
    await until(lambda: newest <= after or bool(reading.facts and reading.facts[-1].seq >= newest))
    for _ in range(10):  # a few rounds more: the open messages come after the facts
        await asyncio.sleep(0)
    return reading, task


async def ended(reading: Reading) -> None:
    """Return once the run is over as far as the reader has seen."""
    await until(lambda: bool(reading.facts) and reading.facts[-1].type in ("run.completed", "run.cancelled"))


def sound(reading: Reading, after: int = 0) -> None:
    """Check what a reader sees of an answer that takes its time: facts in order, and all text before the end of it."""
    in_order(reading, after)
    assert all(reading.whole.values()), reading.shown


def in_order(reading: Reading, after: int = 0) -> None:
    """Check what every reader is promised: each fact once and in order, and text that is what was said.

    Of an answer that is over at once a reader at another process may be shown the first words, and then the whole.
    """
    assert reading.seqs == list(range(after + 1, after + 1 + len(reading.seqs)))
    assert not reading.late, "nothing is shown of a message that is complete"
    assert all(reading.true.values()), reading.shown
