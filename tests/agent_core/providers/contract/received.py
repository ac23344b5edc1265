"""The content of a received answer, in terms that are the same on every wire."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from agent_core.messages import Usage
from agent_core.providers import base as p

Part = tuple[str, Any] | tuple[str, Any, Any]


@dataclass(frozen=True)
class Received:
    """*parts* are `("text", …)`, `("thinking", …)` and `("call", name, arguments)`, in the order in which they began.

    *end* is the reason of a finish, or the kind of a failure; *raw* the arguments of the calls as they came.
    """

    parts: tuple[Part, ...]
    end: str
    refused: bool
    usage: Usage | None
    native: tuple[str, ...]
    raw: tuple[str, ...]
    ids: tuple[str, ...]
    failure: p.CallFailed | None


def received(deltas: Sequence[p.ModelDelta]) -> Received:
    """Fold *deltas*; raises `AssertionError` when they are no well-formed stream."""
    check(deltas)
    end = deltas[-1]
    calls = {d.slot: d for d in deltas if isinstance(d, p.ToolEnd)}
    starts = {d.slot: d for d in deltas if isinstance(d, p.ToolStart)}
    usage = [d.usage for d in deltas if isinstance(d, p.UsageReport)]
    return Received(
        parts=_parts(deltas, starts, calls),
        end=end.reason if isinstance(end, p.Finished) else end.kind if isinstance(end, p.CallFailed) else "none",
        refused=any(isinstance(d, p.Refusal) for d in deltas),
        usage=usage[-1] if usage else None,
        native=tuple(_native(d, deltas) for d in deltas if isinstance(d, p.NativeItem) and d.pieces),
        raw=tuple(d.raw for d in calls.values()),
        ids=tuple(d.call_id for d in starts.values()),
        failure=end if isinstance(end, p.CallFailed) else None,
    )


def check(deltas: Sequence[p.ModelDelta]) -> None:
    """Raise `AssertionError` when *deltas* break the rules of the neutral stream."""
    assert deltas, "an empty stream"
    ends = [place for place, d in enumerate(deltas) if isinstance(d, p.Finished | p.CallFailed)]
    assert ends == [len(deltas) - 1], f"ends at {ends} of {len(deltas)}"
    starts = [place for place, d in enumerate(deltas) if isinstance(d, p.Started)]
    assert starts == [0] or (isinstance(deltas[0], p.CallFailed) and len(deltas) == 1), f"starts at {starts}"
    open_, closed = set[int](), set[int]()
    for d in deltas:
        match d:
            case p.ToolStart(slot):
                assert slot not in open_ | closed, f"slot {slot} starts twice"
                open_.add(slot)
            case p.ToolArgsDelta(slot):
                assert slot in open_, f"arguments of slot {slot} outside its call"
            case p.ToolEnd(slot):
                assert slot in open_, f"slot {slot} ends but is not open"
                open_.remove(slot)
                closed.add(slot)
            case p.NativeItem(pieces, call):
                texts = {piece: text_of(deltas, piece) for piece in pieces if isinstance(piece, int)}
                assert [text for text in texts.values() if not text.strip()] == [], (
                    f"a native item names a blank part: {d}"
                )
                assert call is None or call in open_ | closed
                assert not pieces or isinstance(msgspec.json.decode(_native(d, deltas)), dict)
            case _:
                continue


def text_of(deltas: Sequence[p.ModelDelta], slot: int) -> str:
    return "".join(d.text for d in deltas if isinstance(d, p.ModelTextDelta | p.ModelReasoningDelta) and d.slot == slot)


def joined(deltas: Sequence[p.ModelDelta]) -> list[p.ModelDelta]:
    """Return *deltas* with what a slot says joined where it began: what must not depend on the network's reads."""
    found: list[p.ModelDelta] = []
    places: dict[tuple[type, int], int] = {}
    for d in deltas:
        if not isinstance(d, p.ModelTextDelta | p.ModelReasoningDelta | p.ToolArgsDelta):
            found.append(d)
        elif (type(d), d.slot) in places:
            place = places[type(d), d.slot]
            known = found[place]
            assert isinstance(known, p.ModelTextDelta | p.ModelReasoningDelta | p.ToolArgsDelta)
            found[place] = type(d)(d.slot, known.text + d.text)
        else:
            places[type(d), d.slot] = len(found)
            found.append(d)
    return found


def _parts(
    deltas: Sequence[p.ModelDelta], starts: dict[int, p.ToolStart], calls: dict[int, p.ToolEnd]
) -> tuple[Part, ...]:
    order = dict.fromkeys(
        (type(d), d.slot) for d in deltas if isinstance(d, p.ModelTextDelta | p.ModelReasoningDelta | p.ToolStart)
    )
    parts: list[Part] = []
    for kind, slot in order:
        if kind is p.ToolStart:
            if slot in calls:
                parts.append(("call", starts[slot].name, calls[slot].arguments))
        elif (text := text_of(deltas, slot)).strip():
            parts.append(("text" if kind is p.ModelTextDelta else "thinking", text))
    return tuple(parts)


def _native(item: p.NativeItem, deltas: Sequence[p.ModelDelta]) -> str:
    return "".join(
        piece if isinstance(piece, str) else msgspec.json.encode(_stretch(deltas, piece)).decode()
        for piece in item.pieces
    )


def _stretch(deltas: Sequence[p.ModelDelta], piece: int | tuple[int, int, int]) -> str:
    slot, start, end = piece if isinstance(piece, tuple) else (piece, 0, None)
    return text_of(deltas, slot)[start:end]
