"""Frames: what one reader of a stream gets, held frame by frame against the published schema and the contract."""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import httpx
from jsonschema_rs import Draft202012Validator

from tests.e2e.server import KEY, ROOT, SECRET

TERMINAL = {"run.completed", "run.failed", "run.cancelled"}
HIDDEN = {"context.added", "controls.changed", "hook.ruled", "snapshot.frozen"}
OPERATORS = {"controls", "usage", "cost"}
LIVE = {"text.delta", "reasoning.delta", "tool.progress", "heartbeat"}


class StreamedEvent(NamedTuple):
    """One event as it travels; *seq* is None for live ones."""

    seq: int | None
    event: str
    data: dict[str, Any]


class ClientMessage:
    """A message as a client shows it: `shown[:offset] + text` per part, until its end replaces all."""

    def __init__(self) -> None:
        self.tried = (0, 0)
        self.parts: dict[int, str] = {}
        self.done = False
        self.partial = False

    def write(self, delta: dict[str, Any]) -> None:
        assert not self.done, f"a delta after the message's end: {delta}"
        tried = (delta["epoch"], delta["attempt"])
        assert tried >= self.tried, f"a delta of an older try: {delta}"
        if tried > self.tried:
            self.tried, self.parts = tried, {}
        before = self.parts.get(delta["part"], "")
        assert delta["offset"] <= len(before), f"a hole before {delta}"
        self.parts[delta["part"]] = before[: delta["offset"]] + delta["text"]

    def complete(self, body: dict[str, Any]) -> None:
        assert not self.done, f"completed twice: {body}"
        self.done, self.partial = True, body.get("partial", False)
        self.parts = {n: part["text"] for n, part in enumerate(body["parts"]) if part["type"] == "text"}

    @property
    def text(self) -> str:
        return "".join(text for _, text in sorted(self.parts.items()))


class Frames:
    """All frames of one reader over all its connections, in order.

    Each is valid against docs/events.schema.json and, where *show* says what a visitor may see, against section 3 of
    the contract; each fact comes once and in order, without *gaps* unless they are normal; no live text leaves a hole,
    and nothing of a run follows its end.
    """

    def __init__(self, *, show: str | None = None, gaps: bool = False) -> None:
        self.all: list[StreamedEvent] = []
        self.seq = 0
        self.messages: dict[str, ClientMessage] = {}
        self._show, self._gaps = show, gaps or show is not None
        self._ended: set[str] = set()
        self._source: tuple[httpx.Response, AsyncIterator[str]] | None = None

    def __iter__(self) -> Iterator[StreamedEvent]:
        return iter(self.all)

    def of(self, *types: str) -> list[StreamedEvent]:
        """Return the frames of these *types*."""
        return [frame for frame in self.all if frame.event in types]

    @property
    def answers(self) -> list[ClientMessage]:
        """The assistant's messages that have text, in order of appearance."""
        return [message for message in self.messages.values() if message.text]

    def add(self, block: str) -> StreamedEvent:
        """Take the next frame, as it came over the wire."""
        assert not any(secret in block for secret in (KEY, SECRET)), "a secret in a frame"
        frame = parse(block)
        fault = next(validator(frame.event).iter_errors(wire(frame)), None)
        assert fault is None, f"{frame} is not what the schema says: {fault and fault.message}"
        if self._show is not None:
            check_visible(frame, self._show)
        assert frame.data["run"] not in self._ended, f"after the end of its run: {frame}"
        if frame.seq is None:
            assert frame.event in LIVE, f"a fact without an id: {frame}"
        else:
            assert frame.event not in LIVE, f"a live event with an id: {frame}"
            assert frame.seq > self.seq, f"not beyond {self.seq}: {frame}"
            assert self._gaps or frame.seq == self.seq + 1, f"a gap after {self.seq}: {frame}"
            self.seq = frame.seq
        self._fold(frame)
        self.all.append(frame)
        return frame

    async def read(self, response: httpx.Response) -> AsyncIterator[StreamedEvent]:
        """Take the frames of *response* as they come, to its end."""
        async for block in self._blocks_of(response):
            yield self.add(block)

    async def until(self, response: httpx.Response, wanted: Callable[[StreamedEvent], bool]) -> StreamedEvent:
        """Return the next frame that is *wanted*, and leave the rest for later; fails when the stream ends before."""
        async for block in self._blocks_of(response):
            if wanted(frame := self.add(block)):
                return frame
        raise AssertionError(f"the stream ended before that; its last frame is {self.all[-1:]}")

    def _blocks_of(self, response: httpx.Response) -> AsyncIterator[str]:
        if self._source is None or self._source[0] is not response:
            self._source = (response, blocks(response))
        return self._source[1]

    def _fold(self, frame: StreamedEvent) -> None:
        data = frame.data
        match frame.event:
            case "text.delta":
                self.messages.setdefault(data["message"], ClientMessage()).write(data)
            case "message.completed" if data["role"] == "assistant":
                self.messages.setdefault(data["message"], ClientMessage()).complete(data)
            case kind if kind in TERMINAL:
                self._ended.add(data["run"])


async def blocks(response: httpx.Response) -> AsyncIterator[str]:
    """Give the blocks of a stream; a comment, which says that it has long been silent, fails the test."""
    assert response.status_code == 200, await response.aread()
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    rest = b""
    async for chunk in response.aiter_bytes():  # cut as bytes: text may hold characters that Python calls line ends
        *whole, rest = (rest + chunk).split(b"\n\n")
        for block in whole:
            assert not block.startswith(b":"), "nothing was said for a while: what was waited for does not come"
            yield block.decode()


def parse(block: str) -> StreamedEvent:
    """Return the frame that *block* spells: `id` in facts only, then `event`, then one line of `data`."""
    lines = block.split("\n")
    seq = int(lines.pop(0).removeprefix("id: ")) if lines[0].startswith("id: ") else None
    event, data = lines
    assert event.startswith("event: "), block
    assert data.startswith("data: "), block
    return StreamedEvent(seq, event.removeprefix("event: "), json.loads(data.removeprefix("data: ")))


def wire(frame: StreamedEvent) -> dict[str, Any]:
    """Return *frame* as the schema describes it."""
    return {**({} if frame.seq is None else {"id": frame.seq}), "event": frame.event, "data": frame.data}


@cache
def validator(event: str) -> Draft202012Validator:
    """Return the validator of the one branch of the schema that is about *event*: all branches would take long."""
    schema = json.loads((ROOT / "docs/events.schema.json").read_text("utf-8"))
    branches = [each for each in schema.pop("oneOf") if each["properties"]["event"]["const"] == event]
    assert len(branches) == 1, f"the schema does not know `{event}`"
    return Draft202012Validator({**schema, "allOf": branches})


def check_visible(frame: StreamedEvent, show: str) -> None:
    """Hold a visitor's *frame* against what the contract says that visitors see."""
    assert frame.event not in HIDDEN, f"a visitor saw {frame}"
    if frame.event.startswith("approval."):  # an approver sees the arguments: other tests check that
        assert not {"hook", "deliver_to"} & set(frame.data), f"a visitor saw {frame}"
        return
    if frame.data.get("on") == "client":  # the page itself executes it
        return
    check_fields(frame.data, show)
    if frame.event.startswith("tool."):
        assert show != "none", f"a visitor saw {frame}"
        assert show == "full" or not {"parts", "ref", "text"} & set(frame.data), f"a visitor saw a result: {frame}"


def check_fields(value: Any, show: str) -> None:
    """Hold any JSON that a visitor was given against the contract: names of fields, and parts of messages."""
    match value:
        case dict():
            hidden = OPERATORS if show == "full" else OPERATORS | {"arguments"}
            assert not hidden & set(value), f"a visitor saw {hidden & set(value)} in {value}"
            kind = value.get("type")
            assert show != "none" or kind not in {"tool_call", "tool_result"}, f"a visitor saw {value}"
            assert show == "full" or kind != "tool_result" or "parts" not in value, f"a visitor saw {value}"
            for each in value.values():
                check_fields(each, show)
        case list():
            for each in value:
                check_fields(each, show)
        case _:
            return
