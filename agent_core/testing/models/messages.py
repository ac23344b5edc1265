"""Anthropic's Messages: the events of a stream, and the whole message."""

from collections.abc import Callable, Iterator
from typing import Any

from agent_core.messages import UNKNOWN_USAGE
from agent_core.providers.base import CallFailed, FinishReason, Refusal
from agent_core.testing.models.asked import Head
from agent_core.testing.models.failing import error_of
from agent_core.testing.models.items import NativeWire
from agent_core.testing.models.prefix import canonical, tokens
from agent_core.testing.models.score import MARK, Part, Spoken, Take, encode
from agent_core.testing.script import Say, ScriptedCall, Think

_OWN = MARK.decode()
_PING = b'event: ping\ndata: {"type": "ping"}\n\n'
_DELTA = (
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":"%s","%s":%s}}\n\n'
)
_STOP = b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n'
_REASONS: dict[FinishReason, str] = {
    "done": "end_turn",
    "tools": "tool_use",
    "length": "max_tokens",
    "continue": "pause_turn",
    "refused": "refusal",
}


class MessagesVoice:
    """One answer in Anthropic's words; *omit* leaves the text of thinking out, as `display: omitted` asks."""

    def __init__(self, *, omit: bool = False) -> None:
        self.usage = UNKNOWN_USAGE
        self._omit = omit
        self._blocks: list[Callable[[Take], dict[str, Any]]] = []
        self._own: list[bytes] = []  # what precedes a thinking block of this answer
        self._text: list[str] | None = None  # of the open text block
        self._seals = self._output = self._thought = 0
        self._reason, self._refusal = "", ""

    def start(self) -> list[Part]:
        return [self._message_start, _PING]

    def say(self, item: Spoken) -> Iterator[list[Part]]:
        match item:
            case Say():
                yield from self._say(item)
            case Think():
                yield from self._think(item)
            case ScriptedCall():
                yield from self._call(item)
            case Refusal():
                self._refusal = item.text
            case NativeWire():
                yield self._whole(item.item)
            case _:
                yield [*self._close(), self._redacted()]

    def finish(self, reason: FinishReason) -> list[Part]:
        closing = self._close()
        self._reason = _REASONS[reason]
        return [*closing, self._message_delta, _event({"type": "message_stop"})]

    def fail(self, failed: CallFailed) -> list[Part]:
        def error(take: Take) -> bytes:
            return _event(error_of("messages", failed, take.head.model, request_of(take))[1])

        return [error]

    def body(self, take: Take) -> bytes:
        content = [block(take) for block in self._blocks]
        counted = self._usage(take)
        return take.fill(encode(_message(take.head, content, counted) | self._ending()))

    def _say(self, item: Say) -> Iterator[list[Part]]:
        opening: list[Part] = []
        if self._text is None:
            opening = [*self._close(), self._open({"type": "text", "text": ""})]
            self._text = []
        index = len(self._blocks)
        for piece in item.pieces:
            self._text.append(piece)
            yield [*opening, _delta(index, b"text_delta", b"text", piece)]
            opening = []
        if opening:
            yield opening

    def _think(self, item: Think) -> Iterator[list[Part]]:
        opening: list[Part] = [*self._close(), self._open({"type": "thinking", "thinking": "", "signature": ""})]
        index, text = len(self._blocks), "" if self._omit else "".join(item.pieces)
        for piece in () if self._omit else item.pieces:
            yield [*opening, _delta(index, b"thinking_delta", b"thinking", piece)]
            opening = []
        seal = self._seal(text)

        def signature(take: Take) -> bytes:
            return _delta(index, b"signature_delta", b"signature", seal(take))

        self._count("".join(item.pieces), thought=True)
        self._blocks.append(lambda take: {"type": "thinking", "thinking": text, "signature": seal(take)})
        yield [*opening, signature, _STOP % index]

    def _call(self, item: ScriptedCall) -> Iterator[list[Part]]:
        opening = self._close()
        index = len(self._blocks)
        block = {"type": "tool_use", "id": f"toolu_{_OWN}{index:02}", "name": item.name}
        opening += [self._open({**block, "input": {}}), _delta(index, b"input_json_delta", b"partial_json", "")]
        for piece in filter(None, item.pieces):
            yield [*opening, _delta(index, b"input_json_delta", b"partial_json", piece)]
            opening = []
        self._count("".join(item.pieces) + item.name)
        self._keep({**block, "input": item.arguments or {}})
        yield [*opening, _STOP % index]

    def _whole(self, block: dict[str, Any]) -> list[Part]:
        """Say a block that comes complete."""
        parts = [*self._close(), self._open(block), _STOP % len(self._blocks)]
        self._count(encode(block))
        self._keep(block)
        return parts

    def _redacted(self) -> Part:
        index, seal = len(self._blocks), self._seal("")

        def block(take: Take) -> dict[str, Any]:
            return {"type": "redacted_thinking", "data": seal(take)}

        def whole(take: Take) -> bytes:
            return _start(index, block(take)) + _STOP % index

        self._blocks.append(block)
        return whole

    def _open(self, block: dict[str, Any]) -> bytes:
        return _start(len(self._blocks), block)

    def _close(self) -> list[Part]:
        """End the open text block; other blocks end by themselves."""
        if self._text is None:
            return []
        text, self._text = "".join(self._text), None
        self._count(text)
        self._keep({"type": "text", "text": text})
        return [_STOP % (len(self._blocks) - 1)]

    def _keep(self, block: dict[str, Any]) -> None:
        self._blocks.append(lambda _: block)
        # Blank text is refused when it comes back: thinking that follows it must not come back either.
        self._own.append(canonical("assistant", block) or b"")

    def _seal(self, text: str) -> Callable[[Take], str]:
        n, before = self._seals, tuple(self._own)
        self._seals += 1
        return lambda take: take.seal(n, before, text)

    def _count(self, text: str | bytes, *, thought: bool = False) -> None:
        self._output += tokens(text)
        self._thought += tokens(text) if thought else 0

    def _message_start(self, take: Take) -> bytes:
        message = _message(take.head, [], self._usage(take) | {"output_tokens": 1, "output_tokens_details": None})
        return _event({"type": "message_start", "message": message})

    def _message_delta(self, take: Take) -> bytes:
        counted = self._usage(take)
        del counted["cache_creation"], counted["service_tier"]
        return _event({"type": "message_delta", "delta": self._ending(), "usage": counted})

    def _ending(self) -> dict[str, Any]:
        details = {"type": "refusal", "category": "general_harms", "explanation": self._refusal or None}
        refused = self._reason == "refusal"
        return {
            "stop_reason": self._reason or None,
            "stop_sequence": None,
            "stop_details": details if refused else None,
        }

    def _usage(self, take: Take) -> dict[str, Any]:
        usage, bill = self.usage, take.bill
        short, long = _or(usage.cache_write_short, bill.write_short), _or(usage.cache_write_long, bill.write_long)
        return {
            "input_tokens": _or(usage.input, bill.plain),
            "cache_creation_input_tokens": short + long,
            "cache_read_input_tokens": _or(usage.cache_read, bill.read),
            "cache_creation": {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": long},
            "output_tokens": _or(usage.output, self._output),
            "output_tokens_details": {"thinking_tokens": _or(usage.reasoning, self._thought)},
            "service_tier": "standard",
        }


def request_of(take: Take) -> str:
    """Return the id under which Anthropic names a request."""
    return f"req_{take.own.decode()}"


def _message(head: Head, content: list[dict[str, Any]], usage: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": f"msg_{_OWN}",
        "type": "message",
        "role": "assistant",
        "model": head.model,
        "content": content,
        "stop_reason": None,
        "stop_sequence": None,
        "stop_details": None,
        "usage": usage,
    }


def _start(index: int, block: dict[str, Any]) -> bytes:
    return _event({"type": "content_block_start", "index": index, "content_block": block})


def _delta(index: int, type_: bytes, key: bytes, text: str) -> bytes:
    return _DELTA % (index, type_, key, encode(text))


def _event(data: dict[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (data["type"].encode(), encode(data))


def _or(reported: int | None, counted: int) -> int:
    return counted if reported is None else reported
