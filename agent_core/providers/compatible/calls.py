"""The calls of a Chat Completions stream, kept apart even when a server omits, repeats or mixes up fields.

Servers leave the index out, say 0 for every call, repeat names and ids in each delta, or send none; see
ollama/ollama#7881 and #9632, vllm-project/vllm#14951 and #36849.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from agent_core.providers.base import ModelDelta, ToolArgsDelta, ToolEnd, ToolStart
from agent_core.providers.compatible.ids import call_id
from agent_core.providers.openai.items import arguments, raw_of

_PLACEHOLDER = "{}"
"""What some servers send with the name, before the arguments."""
_NONE = msgspec.Raw(b"null")
_SHORT = 4096
"""Characters of arguments that may be read at each delta to see whether they are whole."""


class Function(msgspec.Struct):
    """What a delta says of the function; *arguments* is text, of some servers an object."""

    name: str | None = None
    arguments: Any = None


class CallDelta(msgspec.Struct):
    """More of a call; *extra_content* is what Gemini's endpoint wants back with it."""

    index: Any = None
    id: Any = None
    function: Function | None = None
    extra_content: msgspec.Raw = _NONE


class FoldedCall(NamedTuple):
    """A whole call; *extra* is the JSON that came with it."""

    slot: int
    id: str
    name: str
    raw: str
    extra: str


@dataclass(slots=True)
class _PartialCall:
    """A call as it grows; *index* and *id* are the server's own, *call_id* is the id in our deltas.

    *extra* is the JSON that the server added. *size* and *depth* are the characters of its arguments and their open
    braces, those within texts too.
    """

    slot: int
    index: int | None
    id: str
    call_id: str
    name: str = ""
    extra: str = ""
    started: bool = False
    pieces: list[str] = field(default_factory=list[str])
    size: int = 0
    depth: int = 0

    @property
    def raw(self) -> str:
        return "".join(self.pieces)

    @property
    def whole(self) -> bool:
        """Return whether the arguments are complete; long ones are parsed only when their braces balance."""
        if not self.pieces or not self.pieces[-1].rstrip().endswith("}"):
            return False
        return (self.depth == 0 or self.size < _SHORT) and arguments(self.raw) is not None

    def add(self, more: str) -> None:
        self.pieces.append(more)
        self.size += len(more)
        self.depth += more.count("{") - more.count("}")

    def begins_again(self, more: str) -> bool:
        """Return whether *more* begins new arguments after complete ones; cheap checks come before parsing."""
        return more.lstrip().startswith("{") and self.whole


class CallFold:
    """Collects the calls of one answer; their slots begin at *first*, and *answer* is the answer's own id."""

    def __init__(self, first: int) -> None:
        self.answer = ""
        self._first = first
        self._calls: list[_PartialCall] = []

    def __bool__(self) -> bool:
        return bool(self._calls)

    def take(self, delta: CallDelta) -> Iterator[ModelDelta]:
        """Fold one delta in."""
        function = delta.function or Function()
        index = delta.index if isinstance(delta.index, int) else None
        id_ = str(delta.id) if delta.id else ""
        name, more = function.name or "", raw_of(function.arguments)
        call = self._place(index, id_)
        if call is None or _is_another(call, id_, name, more):
            if not (id_ or name or more.strip()):
                return
            # Servers that start a second call with its arguments alone send the name once.
            call = self._new(index, id_, name or (call.name if call else ""))
        call.id, call.name = call.id or id_, call.name or name
        if delta.extra_content != _NONE:
            call.extra = bytes(delta.extra_content).decode()
        yield from _grow(call, more)

    def end(self) -> Iterator[ModelDelta]:
        """Close all calls, in their order."""
        for call in self._calls:
            if not call.started:
                yield from _start(call)
            yield ToolEnd(call.slot, call.raw, arguments(call.raw))

    def whole(self) -> list[FoldedCall]:
        """Return the calls as they ended."""
        return [FoldedCall(call.slot, call.call_id, call.name, call.raw, call.extra) for call in self._calls]

    def _place(self, index: int | None, id_: str) -> _PartialCall | None:
        """Return the call that a delta with *index* and *id_* would continue."""
        newest = self._calls[::-1]
        if index is not None:
            entry = next((call for call in newest if call.index == index), None)
            return entry or next((call for call in newest[:1] if call.index is None and not id_), None)
        return next((call for call in newest if id_ and call.id == id_), None) or next(iter(newest), None)

    def _new(self, index: int | None, id_: str, name: str) -> _PartialCall:
        slot = self._first + len(self._calls)
        taken = any(call.call_id == id_ for call in self._calls)
        made_up = call_id(f"{self.answer}/{slot}")
        call = _PartialCall(slot, index, id_, id_ if id_ and not taken else made_up, name)
        self._calls.append(call)
        return call


def _is_another(call: _PartialCall, id_: str, name: str, more: str) -> bool:
    """Return whether a delta begins a new call rather than continuing *call*."""
    if name and call.name and name != call.name:
        return True
    if id_ and call.id and id_ != call.id:
        # Some servers make a new id for each delta; a new call has a name, or follows complete arguments.
        return bool(name) or call.whole
    if not call.begins_again(more) or (id_ and more == call.raw):
        return False
    return bool(id_ or name) or call.raw.strip() != _PLACEHOLDER


def _grow(call: _PartialCall, more: str) -> Iterator[ModelDelta]:
    """Add *more* arguments, unless they repeat complete ones; those after a placeholder replace it."""
    if not call.started and call.name:
        yield from _start(call)
    if not more or (call.begins_again(more) and more == call.raw):
        return
    if call.pieces == [_PLACEHOLDER] and more.startswith('{"'):
        call.pieces.clear()
    call.add(more)
    if call.started:
        yield ToolArgsDelta(call.slot, more)


def _start(call: _PartialCall) -> Iterator[ModelDelta]:
    """Announce *call*, with what came before its name."""
    call.started = True
    yield ToolStart(call.slot, call.call_id, call.name)
    if call.pieces:
        yield ToolArgsDelta(call.slot, call.raw)
