"""OpenAI's Chat Completions, and the ways in which compatible servers differ from it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from agent_core.messages import UNKNOWN_USAGE
from agent_core.providers.base import CallFailed, FinishReason, Refusal
from agent_core.testing.models.failing import error_of
from agent_core.testing.models.items import NativeWire
from agent_core.testing.models.prefix import tokens
from agent_core.testing.models.score import MARK, NOW, Part, Spoken, Take, encode
from agent_core.testing.models.servers import Server, call_id, signature
from agent_core.testing.script import Say, ScriptedCall, Think

Json = dict[str, Any]
_ID = "@@id-of-call-{:02}@"
"""A placeholder for the id of a call, which is made for each answer."""
_DONE = b"data: [DONE]\n\n"
_REASONS: dict[FinishReason, str] = {
    "done": "stop",
    "tools": "tool_calls",
    "length": "length",
    "continue": "stop",
    "refused": "content_filter",
}


@dataclass(frozen=True, slots=True)
class Quirks:
    """How a compatible server differs: all off is OpenAI itself.

    *index* of calls: their own, `zero` for all, or `none`. *repeat*: id and name in each delta of a call.
    *empty_ids*: later deltas have the id "". *lump*: arguments in one piece. *stop*: the finish reason is `stop` though
    there are calls. *usage*: when it was asked for, in `each` chunk, or `never`. *done*: the stream ends with `[DONE]`.
    *server*: whose ids and additions it has, and whose rules. *counts*: whether it counts what it wrote to a cache.
    """

    index: Literal["own", "zero", "none"] = "own"
    repeat: bool = False
    empty_ids: bool = False
    lump: bool = False
    stop: bool = False
    reasoning: Literal["reasoning_content", "reasoning"] = "reasoning_content"
    usage: Literal["asked", "each", "never"] = "asked"
    done: bool = True
    server: Server = "openai"
    counts: bool = True


class ChatVoice:
    """One answer as chunks of *model*; *include_usage* adds the last chunk, *obfuscate* pads each."""

    def __init__(self, model: str, quirks: Quirks, *, include_usage: bool = False, obfuscate: bool = True) -> None:
        self.usage = UNKNOWN_USAGE
        self._model, self._quirks, self._obfuscate = model, quirks, obfuscate
        self._include = include_usage and quirks.usage != "never"
        self._head = b'data: {"id":"chatcmpl-%b","object":"chat.completion.chunk","created":%b,"model":%b,' % (
            MARK,
            NOW,
            encode(model),
        )
        self._head += b'"service_tier":"default","system_fingerprint":null,'
        self._said: dict[str, str] = {}
        self._calls: list[Json] = []
        self._output = self._thought = 0
        self._reason: str | None = None

    def start(self) -> list[Part]:
        if self._quirks.server == "deepseek":  # it thinks always, perhaps nothing
            return [self._chunk({"role": "assistant", "content": None, "reasoning_content": ""})]
        return [self._chunk({"role": "assistant", "content": "", "refusal": None})]

    def say(self, item: Spoken) -> Iterator[list[Part]]:
        match item:
            case Say():
                yield from self._text("content", item.pieces)
            case Think() if self._quirks.server in ("gemini", "mistral"):
                return  # shown by the one in other ways, by the other not at all
            case Think():
                self._thought += tokens("".join(item.pieces))
                yield from self._text(self._quirks.reasoning, item.pieces)
            case ScriptedCall():
                yield from self._call(item)
            case Refusal():
                yield from self._text("refusal", (item.text,))
            case NativeWire():
                yield [b"data: %b\n\n" % encode(item.item)]
            case _:
                return

    def finish(self, reason: FinishReason) -> list[Part]:
        if reason == "refused" and "refusal" in self._said:
            reason = "done"
        stop = self._calls and self._quirks.stop
        self._reason = "stop" if stop else _REASONS[reason]
        return [
            self._chunk({}, self._reason),
            *([self._last] if self._include else []),
            *([_DONE] if self._quirks.done else []),
        ]

    def fail(self, failed: CallFailed) -> list[Part]:
        return [lambda take: b"data: %b\n\n" % encode(error_of("chat", failed, take.head.model, "")[1])]

    def body(self, take: Take) -> bytes:
        message: Json = {"role": "assistant", "content": None, "refusal": None, **self._said}
        if self._calls:
            message["tool_calls"] = self._calls
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self._reason}
        head = self._head.removeprefix(b"data: ").replace(b"chat.completion.chunk", b"chat.completion")
        return self._named(take, b'%b"choices":[%b],"usage":%b}' % (head, encode(choice), encode(self._usage(take))))

    def _named(self, take: Take, data: bytes) -> bytes:
        """Return *data* with the ids of this answer and of its calls."""
        filled = take.fill(data)
        for n in range(len(self._calls)):
            filled = filled.replace(_ID.format(n).encode(), call_id(self._quirks.server, take.own.decode(), n).encode())
        return filled

    def _text(self, key: str, pieces: tuple[str, ...]) -> Iterator[list[Part]]:
        self._output += tokens("".join(pieces))
        self._said[key] = self._said.get(key, "") + "".join(pieces)
        for piece in pieces:
            yield [self._chunk({key: piece})]

    def _call(self, item: ScriptedCall) -> Iterator[list[Part]]:
        quirks, n, raw = self._quirks, len(self._calls), "".join(item.pieces)
        self._output += tokens(raw + item.name)
        call: Json = {"id": _ID.format(n), "type": "function", "function": {"name": item.name, "arguments": raw}}
        if quirks.server == "gemini" and n == 0:
            call["extra_content"] = {"google": {"thought_signature": signature(self._model, item.name, raw)}}
        self._calls.append(call)
        index = {} if quirks.index == "none" else {"index": n if quirks.index == "own" else 0}
        named = {**index, **{key: value for key, value in call.items() if key != "function"}}
        pieces = ("",) if quirks.lump else tuple(piece for piece in item.pieces if piece)
        first = raw if quirks.lump else ""
        yield [self._call_chunk({**named, "function": {"name": item.name, "arguments": first}})]
        if quirks.lump:
            return
        for piece in pieces:
            function: Json = {"name": item.name, "arguments": piece} if quirks.repeat else {"arguments": piece}
            later: Json = named if quirks.repeat else {**index, "id": ""} if quirks.empty_ids else index
            yield [self._call_chunk({**later, "function": function})]

    def _call_chunk(self, call: Json) -> Part:
        """Return a delta of a call; its id is made for each answer."""
        part = self._chunk({"tool_calls": [call]})
        return lambda take: self._named(take, part if isinstance(part, bytes) else part(take))

    def _chunk(self, delta: Json, reason: str | None = None) -> Part:
        encoded = encode(delta)
        choice = b'"choices":[{"index":0,"delta":%b,"logprobs":null,"finish_reason":%b}]' % (encoded, encode(reason))
        padding = b',"obfuscation":"%b"' % (b"x" * (16 - len(encoded) % 16)) if self._obfuscate else b""
        if not self._include:
            return b"%b%b%b}\n\n" % (self._head, choice, padding)
        if self._quirks.usage == "asked":
            return b'%b%b,"usage":null%b}\n\n' % (self._head, choice, padding)
        return lambda take: b'%b%b,"usage":%b%b}\n\n' % (self._head, choice, encode(self._usage(take)), padding)

    def _last(self, take: Take) -> bytes:
        return b'%b"choices":[],"usage":%b}\n\n' % (self._head, encode(self._usage(take)))

    def _usage(self, take: Take) -> Json:
        usage, bill = self.usage, take.bill
        read = bill.read if usage.cache_read is None else usage.cache_read
        short = bill.write_short if usage.cache_write_short is None else usage.cache_write_short
        total = (bill.plain if usage.input is None else usage.input) + read + short
        output = self._output if usage.output is None else usage.output
        thought = self._thought if usage.reasoning is None else usage.reasoning
        written = {"cache_write_tokens": short} if self._quirks.counts else {}
        return {
            "prompt_tokens": total,
            "completion_tokens": output,
            "total_tokens": total + output,
            "prompt_tokens_details": {"cached_tokens": read, **written, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": thought, "audio_tokens": 0},
        }
