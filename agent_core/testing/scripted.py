"""The little language of scripted answers: what a model says, calls, waits for, and how it fails.

An answer is a sequence of items, one answer per model call::

    [think("They want a sum."), call("calculate", expression="12 * 7")]
    [say("12 * 7 ", "is 84.")]

=====================================  ==================================================================
`say("a", "b")`, `say("ab", cut=2)`    text, one delta per string, or one string cut in equal pieces
`think(…)`                             reasoning, the same way
`call("tool", a=1)`                    a tool call; several make several calls in one step
`raw_call("tool", '{"a": ')`           a tool call with just these arguments, JSON or not
`refuse("No.")`                        a refusal
`usage(input=3, output=5)`             a usage report; what is not given is unknown
`together(item, item)`                 what these say arrives as one batch, like one network read
`flat(1000, rate=50)`                  many prebuilt text deltas at little cost, for benches
`pause(event)`, `sleep(2)`             wait for an `asyncio.Event`, or on the clock
`finish("length")`                     the end, with this reason; otherwise it is the fitting one
`fail("overloaded", retryable=True)`   the call fails, before or after the first token
`cut()`                                the stream ends without a word
`bug(ValueError("…"))`                 the provider itself breaks and raises
=====================================  ==================================================================

Nothing after `finish`, `fail`, `cut` or `bug` is played. Every item is a frozen value: an answer may be used
any number of times.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise
from typing import Any, cast

import msgspec

from agent_core.clock import Clock, SystemClock
from agent_core.controls import ABLE, Abilities
from agent_core.messages import Usage
from agent_core.providers.base import (
    CallFailed,
    Encode,
    FailureKind,
    Finished,
    FinishReason,
    ModelDelta,
    ModelReasoningDelta,
    ModelTextDelta,
    Refusal,
    Request,
    Started,
    ToolArgsDelta,
    ToolEnd,
    ToolStart,
    UsageReport,
    neutral,
)
from agent_core.testing.clock import Level

FLAT_SLOT = -1


@dataclass(frozen=True, slots=True)
class Say:
    """Text, one delta per piece."""

    pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Think:
    """Reasoning, one delta per piece."""

    pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """A tool call; *pieces* joined are its raw arguments, *arguments* is None when they are no JSON object."""

    name: str
    pieces: tuple[str, ...]
    arguments: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Together:
    """What *items* say, as one batch."""

    items: "tuple[Spoken, ...]"


@dataclass(frozen=True, slots=True)
class Pause:
    """A wait for *event*."""

    event: asyncio.Event


@dataclass(frozen=True, slots=True)
class Sleep:
    """A wait of *seconds* on the provider's clock."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Flat:
    """Ready batches, passed on as they are; *rate* batches per second, 0 is flat out."""

    batches: tuple[tuple[ModelDelta, ...], ...]
    rate: float


@dataclass(frozen=True, slots=True)
class Cut:
    """The silent end of a stream."""


@dataclass(frozen=True, slots=True)
class Bug:
    """An error raised by the provider."""

    error: Exception


Spoken = Say | Think | ScriptedCall | Refusal | UsageReport | Finished | CallFailed
Item = Spoken | Together | Pause | Sleep | Flat | Cut | Bug
Answer = Sequence[Item]


def say(*text: str, cut: int = 1) -> Say:
    """Say *text*, one delta per string, each cut in *cut* pieces of about equal length."""
    return Say(_cut(text, cut))


def think(*text: str, cut: int = 1) -> Think:
    """Think *text*, one delta per string, each cut in *cut* pieces of about equal length."""
    return Think(_cut(text, cut))


def call(name: str, /, **arguments: Any) -> ScriptedCall:
    """Call the tool *name* with *arguments*."""
    return raw_call(name, json.dumps(arguments, ensure_ascii=False))


def raw_call(name: str, raw: str, *, cut: int = 1) -> ScriptedCall:
    """Call the tool *name* with *raw* as its arguments, in *cut* pieces.

    As real providers do, an empty *raw* and `null` count as no arguments.
    """
    return ScriptedCall(name, _cut((raw,), cut), _parse(raw))


def refuse(text: str = "I cannot help with that.") -> Refusal:
    """Refuse; unless the answer says otherwise it then ends as `refused`."""
    return Refusal(text)


def usage(
    *,
    input: int | None = None,
    output: int | None = None,
    reasoning: int | None = None,
    cache_read: int | None = None,
    cache_write_short: int | None = None,
    cache_write_long: int | None = None,
) -> UsageReport:
    """Report tokens; what is not given is unknown."""
    return UsageReport(Usage(input, output, reasoning, cache_read, cache_write_short, cache_write_long))


def together(*items: Spoken) -> Together:
    """Send what *items* say as one batch, like one network read."""
    return Together(items)


def pause(event: asyncio.Event) -> Pause:
    """Wait until *event* is set."""
    return Pause(event)


def sleep(seconds: float) -> Sleep:
    """Wait *seconds* on the provider's clock."""
    return Sleep(seconds)


def finish(reason: FinishReason = "done") -> Finished:
    """End in order with *reason*."""
    return Finished(reason)


def fail(
    kind: FailureKind = "overloaded",
    *,
    retryable: bool = True,
    retry_after: float | None = None,
    message: str = "The scripted model is overloaded.",
) -> CallFailed:
    """Fail the model call; *retry_after* is seconds."""
    return CallFailed(kind, message, retryable, retry_after)


def cut() -> Cut:
    """End the stream without a word, as a broken connection does."""
    return Cut()


def bug(error: Exception | None = None) -> Bug:
    """Raise *error*: the provider itself is broken."""
    return Bug(error or RuntimeError("The scripted provider raised this error on request."))


def flat(deltas: int, *, text: str = "word ", per_batch: int = 1, rate: float = 0) -> Flat:
    """Stream *deltas* times *text*, *per_batch* deltas in each batch, at *rate* deltas per second (0: flat out).

    Everything is built here, once, so that playing it costs next to nothing: keep the answer and use it again.
    """
    delta = ModelTextDelta(FLAT_SLOT, text)
    full, rest = divmod(deltas, per_batch)
    batches = [(delta,) * per_batch] * full + ([(delta,) * rest] if rest else [])
    return Flat(tuple(batches), rate / per_batch)


def _cut(texts: tuple[str, ...], pieces: int) -> tuple[str, ...]:
    if pieces == 1:
        return texts
    parts: list[str] = []
    for text in texts:
        borders = [len(text) * n // pieces for n in range(pieces + 1)]
        parts += [text[start:end] for start, end in pairwise(borders) if end > start]
    return tuple(parts)


def _parse(raw: str) -> dict[str, Any] | None:
    if raw.strip() in {"", "null"}:
        return {}
    try:
        parsed = json.loads(raw)
    except ValueError:
        return None
    return cast("dict[str, Any]", parsed) if isinstance(parsed, dict) else None


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
