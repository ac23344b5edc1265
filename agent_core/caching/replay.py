"""The model calls of a session from its log: when, of which model, with which prompt, billed as what. Pure."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from agent_core.caching.fitting import MAX_LEFT, fitted, prefixes_of
from agent_core.caching.positions import tokens
from agent_core.caching.sent import PromptPiece
from agent_core.context.entries import WindowEntry
from agent_core.context.window import Window
from agent_core.domain import events as e
from agent_core.domain.agents import Snapshot
from agent_core.domain.events import Fact
from agent_core.domain.messages import Usage
from agent_core.providers.base import neutral

CallKind = Literal["step", "summary", "child"]
"""A step of the session; a summary of older messages; a step of a child run, whose prompt is not the session's."""
_CACHE_CONTROLS = ("effort", "tool_choice", "output_schema")
"""Controls that are part of the key under which the vendors' caches keep the messages."""


class LoggedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A model call that was answered; *time* is when it was asked, in ms.

    Its *pieces* have as many tokens as were counted; they are empty where these, or the prompt, are not known. *cost*
    is what was recorded that it cost, USD as a decimal, None where nothing was.
    """

    run: str | None
    n: int
    attempt: int
    kind: CallKind
    time: int
    model: str
    usage: Usage
    cost: str | None = None
    pieces: tuple[PromptPiece, ...] = ()


def logged_calls(facts: Iterable[Fact], snapshots: Mapping[str, Snapshot], marker: str) -> list[LoggedCall]:
    """Return the calls in *facts*, all of a session; *marker* is that of its frames."""
    return _Replay(snapshots, marker).calls(facts)


def prompt_tokens(usage: Usage) -> int | None:
    """Return the tokens of a whole prompt, None where the uncached ones were not counted."""
    cached = (usage.cache_read, usage.cache_write_short, usage.cache_write_long)
    return None if usage.input is None else usage.input + sum(count or 0 for count in cached)


class _Requested(msgspec.Struct, frozen=True):
    body: e.StepStarted
    time: int
    model: str
    pieces: tuple[PromptPiece, ...]


class _Replay:
    """Folds a session's log; the window is that of the core, so a prompt has the messages that it really had."""

    def __init__(self, snapshots: Mapping[str, Snapshot], marker: str) -> None:
        self._snapshots, self._window = snapshots, Window(neutral, marker=marker)
        self._snapshot: Snapshot | None = None
        self._requests: dict[str | None, _Requested] = {}
        self._controls: dict[str | None, dict[str, Any]] = {}
        self._heads: dict[str, tuple[PromptPiece, ...]] = {}
        self._entries: dict[WindowEntry, PromptPiece] = {}
        self._counted: dict[tuple[str, int], int] = {}

    def calls(self, facts: Iterable[Fact]) -> list[LoggedCall]:
        calls: list[LoggedCall] = []
        for fact in facts:
            if (call := self._call(fact)) is not None:
                calls.append(call)
            self._window.apply([fact])
            if isinstance(fact.body, e.StepStarted):
                self._start(fact, fact.body)
        return sorted(calls, key=lambda call: call.time)

    def _start(self, fact: Fact, body: e.StepStarted) -> None:
        if body.controls is not None:
            self._controls[fact.run] = body.controls
        controls = self._controls.get(fact.run, {})
        snapshot = self._snapshots.get(body.snapshot)
        model = str(controls.get("model") or (snapshot.model if snapshot else ""))
        pieces: tuple[PromptPiece, ...] = ()
        if fact.parent_run is None:
            self._snapshot = snapshot
            pieces = self._prompt(snapshot, controls, self._window.entries) if snapshot else ()
        self._requests[fact.run] = _Requested(body, fact.time, model, pieces)

    def _call(self, fact: Fact) -> LoggedCall | None:
        """Return the call whose end *fact* is, None if it is none, or nothing was answered."""
        match fact.body:
            case e.StepCompleted(usage=Usage() as usage, cost=cost) | e.StepFailed(usage=Usage() as usage, cost=cost):
                return self._step(fact, usage, cost)
            case (
                e.ContextCompacted(usage=Usage() as usage, model=str(model), cost=cost)
                | e.CompactionFailed(usage=Usage() as usage, model=str(model), cost=cost)
            ):
                return self._summary(fact, usage, model, cost, getattr(fact.body, "from_seq", None))
            case _:
                return None

    def _step(self, fact: Fact, usage: Usage, cost: str | None) -> LoggedCall | None:
        request = self._requests.pop(fact.run, None)
        if request is None:
            return None
        return LoggedCall(
            run=fact.run,
            n=request.body.n,
            attempt=request.body.attempt,
            kind="child" if fact.parent_run is not None else "step",
            time=request.time,
            model=request.model,
            usage=usage,
            cost=cost,
            pieces=self._sized(request.model, request.pieces, usage, fact.seq),
        )

    def _summary(self, fact: Fact, usage: Usage, model: str, cost: str | None, from_seq: int | None) -> LoggedCall:
        """Return the call that wrote a summary: the prompt that it was about, and what asked for it.

        That is what came before *from_seq*. Where the conversation's own model read it from the cache it was sent the
        whole window; of a summary that failed it is not known. The controls are those of the last step, at idle too.
        """
        last, entries = self._window.history.last, self._window.entries
        is_whole = from_seq is None or bool(last and last.model == model and usage.cache_read)
        sent = entries if is_whole else [entry for entry in entries if entry.seq < (from_seq or 0)]
        before = self._prompt(self._snapshot, last.controls if last else {}, sent) if self._snapshot else ()
        pieces = (*before, PromptPiece(b"summary %d" % fact.seq, "messages", 1)) if before else ()
        return LoggedCall(
            run=fact.run,
            n=0,
            attempt=1,
            kind="summary",
            time=fact.time,
            model=model,
            usage=usage,
            cost=cost,
            pieces=self._sized(model, pieces, usage, fact.seq),
        )

    def _prompt(
        self, snapshot: Snapshot, controls: Mapping[str, Any], entries: Sequence[WindowEntry]
    ) -> tuple[PromptPiece, ...]:
        head = self._heads.get(snapshot.hash)
        if head is None:
            head = self._heads[snapshot.hash] = _head(snapshot)
        settings = {name: value for name in _CACHE_CONTROLS if (value := controls.get(name)) not in (None, "auto")}
        ahead = PromptPiece(msgspec.json.encode(settings, order="sorted"), "messages", 0)
        return (*head, ahead, *(self._piece(entry) for entry in entries))

    def _piece(self, entry: WindowEntry) -> PromptPiece:
        piece = self._entries.get(entry)
        if piece is None:
            piece = self._entries[entry] = _piece("messages", entry.wire)
        return piece

    def _sized(self, model: str, pieces: tuple[PromptPiece, ...], usage: Usage, seq: int) -> tuple[PromptPiece, ...]:
        """Return *pieces* with the tokens that were counted, and one more for those at the end that no cache keeps."""
        total = prompt_tokens(usage)
        if not pieces or total is None:
            return ()
        left = min(MAX_LEFT, usage.input or 0)
        prefixes = prefixes_of(pieces)
        counted = {n: self._counted[model, each] for n, each in enumerate(prefixes) if (model, each) in self._counted}
        sized = fitted(pieces, total - left, counted)
        self._counted[model, prefixes[-1]] = total - left
        return (*sized, PromptPiece(b"end %d" % seq, "messages", left))


def _head(snapshot: Snapshot) -> tuple[PromptPiece, ...]:
    tools = [
        _piece("tools", msgspec.json.encode([tool.name, tool.description, tool.parameters], order="sorted"))
        for tool in snapshot.tools
    ]
    texts = [_piece("system", text.encode()) for text in (snapshot.shared, snapshot.own) if text.strip()]
    return (*tools, *texts)


def _piece(tier: Literal["tools", "system", "messages"], data: bytes) -> PromptPiece:
    return PromptPiece(hashlib.sha256(data).digest(), tier, tokens(data))
