"""A model provider that plays a script, and remembers what it was asked."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count

import msgspec

from agent_core.clock import Clock, SystemClock
from agent_core.controls import ABLE, Abilities
from agent_core.providers.base import (
    CallFailed,
    Encode,
    Finished,
    ModelDelta,
    ModelReasoningDelta,
    ModelTextDelta,
    Refusal,
    Request,
    Started,
    ToolArgsDelta,
    ToolEnd,
    ToolStart,
    neutral,
)
from agent_core.testing.level import Level
from agent_core.testing.script import Answer, Bug, Cut, Flat, Pause, Say, ScriptedCall, Sleep, Spoken, Think, Together

Script = Sequence[Answer] | Callable[[Request], Answer]


class ScriptExhausted(LookupError):
    """The script has no answer left for this model call."""


class ScriptedProvider:
    """Play *script*: a list of answers, one per model call, or a function from the request to its answer.

    A list goes on with each model call, repeated ones included; where a crash or a retry may repeat a call, use
    a function of the request, such as `by_step` makes. With *record* off nothing is remembered (benches).
    What the API of its models is not *able* to see to is passed on as notes.

    *requests* are the requests so far and *prefixes* their bytes (`prefix_of`) at that moment; *open* counts
    the streams that run now.
    """

    def __init__(
        self,
        script: Script,
        *,
        name: str = "scripted",
        clock: Clock | None = None,
        record: bool = True,
        able: Abilities = ABLE,
    ) -> None:
        self.name = name
        self.requests: list[Request] = []
        self.prefixes: list[bytes] = []
        self.open = 0
        self._script = script
        self._clock: Clock = clock or SystemClock()
        self._record, self._able = record, able
        self._asked = Level()

    @property
    def calls(self) -> int:
        """Return how many model calls there were."""
        return self._asked.value

    async def asked(self, n: int = 1) -> None:
        """Return once there were *n* model calls or more."""
        await self._asked.reached(n)

    def accepts(self, model: str) -> bool:  # noqa: ARG002 - the port has it
        """Play for any model."""
        return True

    def able(self, model: str) -> Abilities:  # noqa: ARG002 - the port has it
        """Return which controls the models see to by themselves."""
        return self._able

    def encoder(self, model: str) -> Encode:  # noqa: ARG002 - the port has it
        """Return how a message becomes neutral JSON."""
        return neutral

    async def stream(self, request: Request) -> AsyncGenerator[Sequence[ModelDelta], None]:
        """Play the next answer; a batch per delta, and control to the event loop after each."""
        answer = self._answer(request)
        self.open += 1
        try:
            for move in _moves(answer, _Take(request.model, f"answer_{self.calls}"), self._clock):
                if isinstance(move, tuple):
                    yield move
                else:
                    await move
        finally:
            self.open -= 1

    def _answer(self, request: Request) -> Answer:
        n = self.calls
        if self._record:
            self.requests.append(replace(request, messages=tuple(request.messages)))
            self.prefixes.append(prefix_of(request))
        self._asked.set(n + 1)
        if callable(self._script):
            return self._script(request)
        if n >= len(self._script):
            raise ScriptExhausted(
                f"Model call {n + 1} has no answer, the script of `{self.name}` ends at {len(self._script)}: "
                "add one, or use a function of the request."
            )
        return self._script[n]


def _moves(answer: Answer, take: "_Take", clock: Clock) -> Iterator[tuple[ModelDelta, ...] | Awaitable[object]]:
    """Give what *answer* does, in order: a batch to pass on, or something to await."""
    for item in answer:
        match item:
            case Pause():
                yield item.event.wait()
            case Sleep():
                yield clock.sleep(item.seconds)
            case Cut():
                return
            case Bug():
                raise item.error
            case Flat():
                yield take.start()
                yield from _flow(item, clock)
            case _:
                yield from _spread(take.batches(item))
        if take.over:
            return
    yield from _spread(take.ending())


def _spread(batches: Sequence[tuple[ModelDelta, ...]]) -> Iterator[tuple[ModelDelta, ...] | Awaitable[object]]:
    """Give the event loop a round after each batch, as a network read does."""
    for batch in batches:
        yield batch
        yield asyncio.sleep(0)


def _flow(item: Flat, clock: Clock) -> Iterator[tuple[ModelDelta, ...] | Awaitable[object]]:
    """Pass on ready batches, against a fixed timetable so that a late one makes none of the next late."""
    if not item.rate:
        yield from _spread(item.batches)
        return
    begin, interval = clock.now(), 1000 / item.rate
    for n, batch in enumerate(item.batches):
        yield clock.sleep(max(0.0, begin + n * interval - clock.now()) / 1000)
        yield batch


class _Take:
    """One playing of one answer: numbers its parts and knows how it should end."""

    def __init__(self, model: str, answer_id: str) -> None:
        self.over = False
        self._started: Started | None = Started(answer_id, model)
        self._id = answer_id
        self._slots = count()
        self._last: tuple[type[Say | Think], int] | None = None
        self._called = self._refused = False

    def start(self) -> tuple[ModelDelta, ...]:
        """Return `Started` the first time, then nothing."""
        started, self._started = self._started, None
        return (started,) if started else ()

    def batches(self, item: Spoken | Together) -> list[tuple[ModelDelta, ...]]:
        """Return what *item* says, a batch per delta; a failure before the first token comes unannounced."""
        spoken = item.items if isinstance(item, Together) else (item,)
        deltas = [delta for each in spoken for delta in self._deltas(each)]
        if not isinstance(deltas[0] if deltas else None, CallFailed):
            deltas = [*self.start(), *deltas]
        return [tuple(deltas)] if isinstance(item, Together) else [(delta,) for delta in deltas]

    def ending(self) -> list[tuple[ModelDelta, ...]]:
        return self.batches(Finished("refused" if self._refused else "tools" if self._called else "done"))

    def _deltas(self, item: Spoken) -> list[ModelDelta]:
        match item:
            case Say():
                slot = self._slot(Say)
                return [ModelTextDelta(slot, piece) for piece in item.pieces]
            case Think():
                slot = self._slot(Think)
                return [ModelReasoningDelta(slot, piece) for piece in item.pieces]
            case ScriptedCall():
                return self._call(item)
            case Refusal():
                self._refused = True
                return [item]
            case Finished() | CallFailed():
                self.over = True
                return [item]
            case _:
                return [item]

    def _slot(self, kind: type[Say | Think]) -> int:
        """Text after text is the same part: only something else between them parts them."""
        if self._last is None or self._last[0] is not kind:
            self._last = (kind, next(self._slots))
        return self._last[1]

    def _call(self, item: ScriptedCall) -> list[ModelDelta]:
        self._called, self._last = True, None
        slot = next(self._slots)
        raw = "".join(item.pieces)
        deltas: list[ModelDelta] = [ToolStart(slot, f"{self._id}_{slot}", item.name)]
        deltas += [ToolArgsDelta(slot, piece) for piece in item.pieces if piece]
        return [*deltas, ToolEnd(slot, raw, item.arguments)]


def by_step(*answers: Answer) -> Callable[[Request], Answer]:
    """Return a script that picks the answer by what the request holds, so that a repeated call gets the same.

    The first of *answers* is for a request with no assistant message after its last user message, the second
    for one with one, and so on; beyond the last one `ScriptExhausted` is raised.
    """

    def pick(request: Request) -> Answer:
        n = step_of(request)
        if n >= len(answers):
            raise ScriptExhausted(f"Step {n + 1} has no answer, the script ends at {len(answers)}: add one.")
        return answers[n]

    return pick


def step_of(request: Request) -> int:
    """Count the assistant messages after the last user message: 0 in the first step of a run."""
    step = 0
    for entry in request.messages:
        if entry.message.role == "user":
            step = 0
        elif entry.message.role == "assistant":
            step += 1
    return step


def prefix_of(request: Request) -> bytes:
    """Return what a prompt cache sees of *request*: tools, system and messages, a JSON line each.

    Of two requests one extends the other exactly when its bytes start with the other's.
    """
    lines = [msgspec.json.encode(request.snapshot.tools), msgspec.json.encode(request.snapshot.shared)]
    return b"".join(line + b"\n" for line in (*lines, *(entry.wire for entry in request.messages)))
