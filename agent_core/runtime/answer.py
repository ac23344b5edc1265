"""Answer: one attempt of a model call, folded from the provider's stream into deltas to show and facts to append."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from agent_core import events as e
from agent_core.agents import Agent
from agent_core.context.entries import media_of
from agent_core.context.router import unwrapped
from agent_core.controls import is_forced, listed, permitted
from agent_core.events import FactBody
from agent_core.ids import new_id
from agent_core.loop.state import RunState
from agent_core.loop.step import CHOICE_IGNORED, CONTROLS_REFUSED, EMPTY_ANSWER, TOOLS_WITHHELD
from agent_core.loop.strategy import EMPTY_NOTE, Ask
from agent_core.messages import (
    UNKNOWN_USAGE,
    Citation,
    Message,
    Native,
    NativePiece,
    Part,
    Reasoning,
    Text,
    ToolCall,
    Usage,
    clean,
)
from agent_core.providers import base as p
from agent_core.providers.base import MAX_CITATIONS, within
from agent_core.providers.models import cost, find, uncached_cost

WITHHELD = "Tools cannot be used in this step, so this call was not run. Answer now with what you know."

_INSISTED = frozenset({CHOICE_IGNORED, CONTROLS_REFUSED})
"""Failures after which a note asked the model for the required call; that is done once."""
_ASKED_FOR_WORDS = frozenset({TOOLS_WITHHELD, EMPTY_ANSWER})
"""Failures after which a note asked the model for an answer in words; that is done once."""


def out_of_steps(limit: int, results: int) -> str:
    """Return what a person reads when *limit* steps, and *results* of tools, came to no answer in words."""
    if not results:
        return "I could not find an answer in words without the use of tools. Please ask again, or in another way."
    steps = "one step" if limit == 1 else f"{limit} steps"
    there = "1 tool result is" if results == 1 else f"{results} tool results are"
    return (
        f"I reached the limit of {steps} before I could put the answer into words. {there} there already: "
        "ask me to continue, and I will answer from what was found."
    )


@dataclass(slots=True)
class _Block:
    """One part of the message while it streams.

    *index* is its place in the message, None while it is blank; *shown* counts the texts that were shown and
    *length* their code points. *call* is the provider's own id of a call; *citations* are those of a text.
    """

    kind: type[e.TextDelta | e.ReasoningDelta] | None
    index: int | None = None
    texts: list[str] = field(default_factory=list[str])
    sent: int = 0
    length: int = 0
    name: str = ""
    call: str = ""
    arguments: dict[str, object] | None = None
    ended: bool = False
    citations: list[Citation] = field(default_factory=list[Citation])

    @property
    def text(self) -> str:
        return "".join(self.texts)


class Answer:
    """Collect a stream; `take` returns what to show of each batch, `facts` what to append in the end."""

    def __init__(self, move: Ask, epoch: int, listed: str | None = None) -> None:
        """Begin an answer; *listed* is the model's name in the model table, its own when None."""
        self._move = move
        self._model = move.controls.model or ""
        self._listed = listed or self._model
        self._epoch = epoch
        self._blocks: dict[int, _Block] = {}
        self._usage: Usage | None = None
        self._refused = False
        self._native: list[p.NativeItem] = []
        self._begun = False
        self._cited = 0
        self._end: p.Finished | p.CallFailed | None = None

    @property
    def ended(self) -> bool:
        return self._end is not None

    @property
    def refused(self) -> bool:
        return self._refused

    @property
    def refused_item(self) -> bytes:
        """Return the JSON of the part of the request that a failure named, if it did."""
        return self._end.item if isinstance(self._end, p.CallFailed) else b""

    def blame(self, messages: Iterable[Message]) -> None:
        """Take a failure about a file for what it is where the *messages* of the request have none."""
        if isinstance(self._end, p.CallFailed) and self._end.otherwise and not any(media_of(x.parts) for x in messages):
            self._end = self._end.otherwise

    @property
    def displayed(self) -> tuple[Part, ...]:
        """Return what was shown of this attempt; nothing of a refusal."""
        return tuple(_part(block) for block in self._written())

    def take(self, batch: Iterable[p.ModelDelta]) -> list[e.Delta]:
        """Fold one batch in and return its text as one delta per part; a part begins with what is not blank."""
        fresh: dict[int, _Block] = {}
        for delta in batch:
            if isinstance(delta, (p.ModelTextDelta, p.ModelReasoningDelta)):
                self._begun = True
                if delta.text:
                    fresh[delta.slot] = self._grown(delta)
            else:
                self._note(delta)
        return [self._unsent(block) for block in fresh.values() if block.index is not None]

    def facts(self, state: RunState, agent: Agent, *, interrupted: bool) -> Sequence[FactBody]:
        """Return the outcome of this attempt; *interrupted* when the run was cancelled meanwhile."""
        if interrupted and not (isinstance(self._end, p.Finished) and not self._calls()):
            partial = self._message("cancelled", self._written(), partial=True)
            return [partial, self._completed()] if self._begun else [partial]
        if self._refused or (isinstance(self._end, p.Finished) and self._end.reason == "refused"):
            return [self._message("refused", []), self._completed()]
        match self._end:
            case None:
                return [self._failed("network", "The model's answer broke off before its end.", retryable=True)]
            case p.CallFailed(kind, message, retryable, retry_after):
                text = f"{message}{self._room()}" if kind == "context_overflow" else message
                return [self._failed(kind, text, retryable=retryable, retry_after=retry_after)]
            case p.Finished("length" | "continue" as reason):
                return [self._message(reason, self._written()), self._completed()]
            case p.Finished():
                return self._finished(state, agent)

    def _finished(self, state: RunState, agent: Agent) -> Sequence[FactBody]:
        calls, chosen = self._calls(), self._move.controls
        if chosen.tool_choice == "none" and agent.tools and not (self._has_words and not calls):
            return self._wordless(calls, state, agent)
        if not calls:
            if is_forced(self._move.controls.tool_choice) and not _INSISTED.intersection(state.step.remedied):
                return self._insist(agent)
            return [self._message("done", self._written()), self._completed()]
        ids = [new_id("call") for _ in calls]
        return [
            self._message("tools", [block for block in self._placed() if block.kind or block.ended], ids),
            self._completed(),
            *self._requests(calls, ids, agent),
        ]

    def _insist(self, agent: Agent) -> Sequence[FactBody]:
        """Reject an answer where a call is required: the attempt counts as failed and the model is asked once more."""
        names = listed(permitted(self._move.controls, agent.tools))
        return [
            self._failed(
                CHOICE_IGNORED, f"The model answered in words where a call of {names} must come.", retryable=True
            ),
            e.ContextAdded(source="note", text=f"Your answer was not taken: call {names} now, without an answer."),
        ]

    def _wordless(self, calls: list[_Block], state: RunState, agent: Agent) -> Sequence[FactBody]:
        """Return what becomes of an answer with *calls*, or without a word, in a step without tools.

        The model is asked for words once more. If none come in the last step, a sentence stands in their place: a
        person who waited gets an answer, and the results are there for the next one.
        """
        limit = self._move.controls.max_steps or 1
        is_last, was_asked = self._move.n >= limit, not _ASKED_FOR_WORDS.isdisjoint(state.step.remedied)
        if calls and not was_asked:
            return self._refuse(calls, agent)
        if self._has_words or not is_last or (limit == 1 and not calls):
            return [self._message("done", self._written()), self._completed()]
        if not was_asked:
            failed = self._failed(EMPTY_ANSWER, "The model's last answer was empty.", retryable=True)
            return [failed, e.ContextAdded(source="note", text=EMPTY_NOTE)]
        parts = (Text(out_of_steps(limit, state.answer.results)),)
        completed = e.MessageCompleted(message=self._move.message, role="assistant", parts=parts, stop="done")
        return [completed, self._completed()]

    def _refuse(self, calls: list[_Block], agent: Agent) -> Sequence[FactBody]:
        """Refuse calls in a step without tools: the attempt counts as failed and the model is asked once more."""
        ids = [new_id("call") for _ in calls]
        names = ", ".join(f"`{block.name}`" for block in calls)
        denied = [
            e.ToolCompleted(call=call, outcome="denied", parts=(Text(WITHHELD),), truncated=False) for call in ids
        ]
        return [
            *self._requests(calls, ids, agent),
            *denied,
            self._failed(TOOLS_WITHHELD, f"The model called {names} though tools are withheld.", retryable=True),
            e.ContextAdded(source="note", text=f"Your call of {names} was refused. {WITHHELD}"),
        ]

    def _requests(self, calls: list[_Block], ids: list[str], agent: Agent) -> list[FactBody]:
        return [self._request(call, index, ids[index], agent) for index, call in enumerate(calls)]

    def _request(self, block: _Block, index: int, call: str, agent: Agent) -> e.ToolRequested:
        """Return the request of a call; one of `call_tool` is recorded as a call of the tool that it means."""
        meant = unwrapped(block.name, block.arguments) if agent.calls_by_name else None
        name, arguments = meant or (block.name, dict(block.arguments or {}))
        spec = agent.tools.get(name)
        return e.ToolRequested(
            call=call,
            name=clean(name),
            arguments=arguments,
            index=index,
            step=self._move.n,
            raw=block.text if block.arguments is None else None,
            title=spec.title if spec else None,
            title_done=spec.title_done if spec else None,
            via=block.name if meant else None,
        )

    def _note(self, delta: p.ModelDelta) -> None:
        self._begun = self._begun or not isinstance(delta, p.CallFailed)
        match delta:
            case p.ToolStart(slot, call, name):
                self._blocks[slot] = _Block(None, len(self._placed()), name=clean(name), call=call)
            case p.ToolArgsDelta(slot, text):
                self._blocks[slot].texts.append(text)
            case p.ToolEnd(slot, raw, arguments):
                block = self._blocks[slot]
                block.texts, block.ended = [clean(raw)], True
                block.arguments = arguments if _is_encodable(arguments) else None
            case p.NativeItem():
                self._native.append(delta)
            case p.ModelCitation(slot, citation):
                self._cited += 1
                if self._cited <= MAX_CITATIONS and slot in self._blocks:
                    self._blocks[slot].citations.append(citation)
            case p.Refusal():
                self._refused = True
            case p.UsageReport(usage):
                self._usage = usage.believed()
            case p.Finished() | p.CallFailed():
                self._end = self._end or delta
            case p.Started() | p.ModelTextDelta() | p.ModelReasoningDelta():
                return

    def _grown(self, delta: p.ModelTextDelta | p.ModelReasoningDelta) -> _Block:
        block = self._blocks.get(delta.slot)
        if block is None:
            kind = e.TextDelta if isinstance(delta, p.ModelTextDelta) else e.ReasoningDelta
            block = self._blocks[delta.slot] = _Block(kind)
        block.texts.append(clean(delta.text))
        if block.index is None and not delta.text.isspace():
            block.index = len(self._placed())
        return block

    def _unsent(self, block: _Block) -> e.Delta:
        assert block.kind is not None
        assert block.index is not None
        text = "".join(block.texts[block.sent :])
        offset = block.length
        block.sent, block.length = len(block.texts), offset + len(text)
        return block.kind(
            message=self._move.message,
            part=block.index,
            epoch=self._epoch,
            attempt=self._move.attempt,
            offset=offset,
            text=text,
        )

    @property
    def _has_words(self) -> bool:
        return any(block.kind is e.TextDelta for block in self._written())

    def _calls(self) -> list[_Block]:
        return [block for block in self._blocks.values() if block.kind is None and block.ended]

    def _placed(self) -> list[_Block]:
        """Return the blocks in the order of their parts without blank ones, which providers refuse when replayed."""
        placed = [(block.index, block) for block in self._blocks.values() if block.index is not None]
        return [block for _, block in sorted(placed, key=lambda each: each[0])]

    def _written(self) -> list[_Block]:
        return [] if self._refused else [block for block in self._placed() if block.kind is not None]

    def _message(
        self, stop: e.Stop, blocks: list[_Block], ids: Sequence[str] = (), *, partial: bool = False
    ) -> e.MessageCompleted:
        """Return the message of *blocks*, its calls named *ids*."""
        names = iter(ids)
        parts = tuple(_part(block) if block.kind else _call(block, next(names)) for block in blocks)
        keeps = not partial and (parts or stop == "continue")
        return e.MessageCompleted(
            message=self._move.message,
            role="assistant",
            parts=parts,
            stop=stop,
            partial=partial,
            native=self._natively(blocks) if keeps else None,
        )

    def _natively(self, blocks: list[_Block]) -> Native | None:
        """Return the native items of *blocks*, with commas between them; an item of a call goes with that call."""
        places = {id(block): index for index, block in enumerate(blocks)}
        where = {slot: places.get(id(block)) for slot, block in self._blocks.items()}
        pieces: list[NativePiece] = []
        for item in self._native:
            if item.call is not None and where.get(item.call) is None:
                continue
            pieces += ["," if pieces else "", *(_placed(piece, where) for piece in item.pieces)]
        calls = tuple(block.call for block in blocks if block.kind is None)
        return Native(self._model, _joined(pieces), calls) if pieces or (calls and self._native) else None

    def _completed(self) -> e.StepCompleted:
        usage = self._usage or UNKNOWN_USAGE
        price, uncached = cost(self._listed, usage), uncached_cost(self._listed, usage)
        return e.StepCompleted(n=self._move.n, usage=usage, cost=price, uncached_cost=uncached)

    def _room(self) -> str:
        """Return the model's context size as a sentence, which not every vendor's error has; empty if unknown."""
        context = find(self._listed).context
        return f" `{self._model}` takes {context:,} tokens, its answer among them." if context else ""

    def _failed(self, code: str, message: str, *, retryable: bool, retry_after: float | None = None) -> e.StepFailed:
        usage = self._usage or (UNKNOWN_USAGE if self._begun else None)
        return e.StepFailed(
            n=self._move.n,
            attempt=self._move.attempt,
            code=code,
            message=message,
            retryable=retryable,
            retry_after=retry_after,
            partial=bool(self._blocks),
            usage=usage,
            cost=cost(self._listed, usage) if usage else None,
            uncached_cost=uncached_cost(self._listed, usage) if usage else None,
        )


def _is_encodable(arguments: dict[str, Any] | None) -> bool:
    """Return whether *arguments* can be encoded as JSON again: a lone surrogate cannot."""
    try:
        msgspec.json.encode(arguments)
    except (UnicodeEncodeError, OverflowError):
        return False
    return True


def _part(block: _Block) -> Part:
    if block.kind is not e.TextDelta:
        return Reasoning(block.text)
    text = block.text
    return Text(text, tuple(within(each, len(text)) for each in block.citations))


def _call(block: _Block, name: str) -> ToolCall:
    return ToolCall(name, block.name, dict(block.arguments or {}))


def _placed(piece: NativePiece, where: dict[int, int | None]) -> NativePiece:
    """Return *piece* with the number of a part in the place of its slot, see *where*."""
    if isinstance(piece, str):
        return piece
    slot, stretch = (piece[0], piece[1:]) if isinstance(piece, tuple) else (piece, None)
    place = where.get(slot)
    assert place is not None, "A native item names a part that is blank."
    return place if stretch is None else (place, *stretch)


def _joined(pieces: list[NativePiece]) -> tuple[NativePiece, ...]:
    """Return *pieces* with neighbouring texts made one."""
    result: list[NativePiece] = []
    for piece in pieces:
        if isinstance(piece, str) and result and isinstance(result[-1], str):
            result[-1] += piece
        elif piece != "":
            result.append(piece)
    return tuple(result)
