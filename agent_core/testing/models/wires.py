"""Answers of a score as the wires of the vendors: Messages, Responses, Chat Completions."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal

from agent_core.messages import UNKNOWN_USAGE
from agent_core.providers.base import CallFailed, FinishReason, Refusal
from agent_core.testing.models import rules as rules_responses
from agent_core.testing.models.asked import Answer, Head, Item, ModelCall, NativeWire, Redacted
from agent_core.testing.models.caching import canonical, tokens
from agent_core.testing.models.failing import Server, call_id, error_of, signature, stream_code
from agent_core.testing.models.score import MARK, NOW, Part, Score, Spoken, Take, Voice, compose, encode
from agent_core.testing.scripted import Say, ScriptedCall, Think

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
        read, short = _or(usage.cache_read, bill.read), _or(usage.cache_write_short, bill.write_short)
        total = _or(usage.input, bill.plain) + read + short
        output = _or(usage.output, self._output)
        thought = _or(usage.reasoning, self._thought)
        written = {"cache_write_tokens": short} if self._quirks.counts else {}
        return {
            "prompt_tokens": total,
            "completion_tokens": output,
            "total_tokens": total + output,
            "prompt_tokens_details": {"cached_tokens": read, **written, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": thought, "audio_tokens": 0},
        }


_OWN = MARK.decode()
_PING = b'event: ping\ndata: {"type": "ping"}\n\n'
_DELTA = (
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":"%s","%s":%s}}\n\n'
)
_STOP = b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n'
_MESSAGES_REASONS: dict[FinishReason, str] = {
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
        self._reason = _MESSAGES_REASONS[reason]
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


_INCOMPLETE: dict[FinishReason, str] = {"length": "max_output_tokens", "refused": "content_filter"}
_FAILED = ("error", "rate_limited", "invalid")
"""Kinds that end a stream as `response.failed`; the others come as a bare `error` event."""


class ResponsesVoice:
    """One answer as a response; *obfuscate* pads each delta, as the vendor does unless asked not to.

    Without *summaries* nothing of the thinking is shown: the vendor summarizes it only when asked. When it *searches*
    for tools by a search of the client's, a call of `search_tools` is an item of its own kind.
    """

    def __init__(self, *, obfuscate: bool = True, summaries: bool = True, searches: bool = False) -> None:
        self.usage = UNKNOWN_USAGE
        self._obfuscate, self._summaries, self._searches = obfuscate, summaries, searches
        self._numbers = count()
        self._items: list[Callable[[Take], Json]] = []
        self._text: list[str] | None = None  # of the open message
        self._seals = self._output = self._thought = 0
        self._refused = False
        self._incomplete: str | None = None

    def start(self) -> list[Part]:
        return [self._whole("response.created"), self._whole("response.in_progress")]

    def say(self, item: Spoken) -> Iterator[list[Part]]:
        match item:
            case Say():
                yield from self._say(item)
            case Think():
                self._thought += tokens("".join(item.pieces))
                yield from self._think(item if self._summaries else Think(()))
            case ScriptedCall(name="search_tools") if self._searches:
                yield self._search(item)
            case ScriptedCall():
                yield from self._call(item)
            case Refusal():
                yield from self._refuse(item)
            case NativeWire():
                yield [*self._close(), *self._item(item.item)]
            case Redacted():
                yield from self._think(Think(()))

    def finish(self, reason: FinishReason) -> list[Part]:
        self._incomplete = None if reason == "refused" and self._refused else _INCOMPLETE.get(reason)
        closing = self._close("incomplete" if self._incomplete else "completed")
        return [*closing, self._whole("response.incomplete" if self._incomplete else "response.completed")]

    def fail(self, failed: CallFailed) -> list[Part]:
        number = next(self._numbers)

        def error(take: Take) -> bytes:
            fault = error_of("responses", failed, take.head.model, "")[1]["error"]
            code = stream_code(failed)
            if failed.kind in _FAILED:
                response = self._response(take, "failed") | {"error": {"code": code, "message": fault["message"]}}
                return _event_of("response.failed", {"response": response, "sequence_number": number})
            body = {"code": code, "message": fault["message"], "param": fault["param"], "sequence_number": number}
            return _event_of("error", body)

        return [error]

    def body(self, take: Take) -> bytes:
        status = "incomplete" if self._incomplete else "completed"
        return take.fill(encode(self._response(take, status)))

    def _say(self, item: Say) -> Iterator[list[Part]]:
        opening: list[Part] = []
        index = len(self._items)
        if self._text is None:
            self._text = []
            part: Json = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
            opening = self._open_message(part)
        else:
            index -= 1
        place = {"item_id": f"msg_{_OWN}{index:02}", "output_index": index, "content_index": 0}
        delta = self._delta("response.output_text.delta", place, b',"logprobs":[]')
        for piece in item.pieces:
            self._text.append(piece)
            yield [*opening, delta(piece)]
            opening = []
        if opening:
            yield opening

    def _open_message(self, part: Json) -> list[Part]:
        index = len(self._items)
        message = _message_item(index, "in_progress")
        opening: list[Part] = [self._added(index, message)]
        place = {"item_id": message["id"], "output_index": index, "content_index": 0}
        opening.append(self._event("response.content_part.added", {**place, "part": part}))
        self._items.append(lambda _: message)  # until it is closed
        return opening

    def _close(self, status: str = "completed") -> list[Part]:
        """End the open message; other items end by themselves."""
        if self._text is None:
            return []
        text, self._text = "".join(self._text), None
        self._output += tokens(text)
        part: Json = {"type": "output_text", "annotations": [], "logprobs": [], "text": text}
        done: Json = {"text": text, "logprobs": []}
        return self._close_message("response.output_text.done", done, part, status)

    def _close_message(self, event: str, done: Json, part: Json, status: str) -> list[Part]:
        index = len(self._items) - 1
        message = _message_item(index, status, part)
        self._items[index] = lambda _: message
        place = {"item_id": message["id"], "output_index": index, "content_index": 0}
        return [
            self._event(event, {**place, **done}),
            self._event("response.content_part.done", {**place, "part": part}),
            self._done(index, message),
        ]

    def _refuse(self, item: Refusal) -> Iterator[list[Part]]:
        self._refused = True
        closing = self._close()
        opening = [*closing, *self._open_message({"type": "refusal", "refusal": ""})]
        index = len(self._items) - 1
        place = {"item_id": f"msg_{_OWN}{index:02}", "output_index": index, "content_index": 0}
        self._output += tokens(item.text)
        yield [*opening, self._delta("response.refusal.delta", place)(item.text)]
        part = {"type": "refusal", "refusal": item.text}
        yield self._close_message("response.refusal.done", {"refusal": item.text}, part, "completed")

    def _think(self, item: Think) -> Iterator[list[Part]]:
        opening = self._close()
        index, n, text = len(self._items), self._seals, "".join(item.pieces)
        self._seals += 1
        id_ = f"rs_{_OWN}{index:02}"
        part, place = {"type": "summary_text", "text": text}, {"item_id": id_, "output_index": index}

        def reasoning(take: Take) -> Json:
            summary = [part] if text else []
            return {"id": id_, "type": "reasoning", "summary": summary, "encrypted_content": take.seal(n, (), text)}

        self._items.append(reasoning)
        # What is added first is not final: only the item that is done can be sent back.
        early: Json = {"id": id_, "type": "reasoning", "summary": [], "encrypted_content": "gAAAAAearly"}
        opening.append(self._added(index, early))
        place |= {"summary_index": 0}
        if text:
            opening.append(
                self._event("response.reasoning_summary_part.added", {**place, "part": {**part, "text": ""}})
            )
        delta = self._delta("response.reasoning_summary_text.delta", place)
        for piece in filter(None, item.pieces):
            yield [*opening, delta(piece)]
            opening = []
        if text:
            opening.append(self._event("response.reasoning_summary_text.done", {**place, "text": text}))
            opening.append(self._event("response.reasoning_summary_part.done", {**place, "part": part}))
        self._output += tokens(text)
        yield [*opening, self._hole("response.output_item.done", index, reasoning)]

    def _call(self, item: ScriptedCall) -> Iterator[list[Part]]:
        opening = self._close()
        index, raw = len(self._items), "".join(item.pieces)
        call = {
            "id": f"fc_{_OWN}{index:02}",
            "type": "function_call",
            "status": "in_progress",
            "arguments": "",
            "call_id": f"call_{_OWN}{index:02}",
            "name": item.name,
        }
        opening.append(self._added(index, call))
        place = {"item_id": call["id"], "output_index": index}
        delta = self._delta("response.function_call_arguments.delta", place)
        for piece in filter(None, item.pieces):
            yield [*opening, delta(piece)]
            opening = []
        whole = {**call, "status": "completed", "arguments": raw}
        self._output += tokens(raw + item.name)
        self._items.append(lambda _: whole)
        done = self._event("response.function_call_arguments.done", {**place, "arguments": raw, "name": item.name})
        yield [*opening, done, self._done(index, whole)]

    def _search(self, item: ScriptedCall) -> list[Part]:
        """Say a search for tools; its arguments are JSON, and come with the end of the item."""
        closing, index = self._close(), len(self._items)
        begun: Json = {
            "id": f"tsc_{_OWN}{index:02}",
            "type": "tool_search_call",
            "status": "in_progress",
            "arguments": {},
            "call_id": f"call_{_OWN}{index:02}",
            "execution": "client",
        }
        whole = {**begun, "status": "completed", "arguments": item.arguments or {}}
        added = self._added(index, begun)
        self._output += tokens(encode(whole))
        self._items.append(lambda _: whole)
        return [*closing, added, self._done(index, whole)]

    def _item(self, item: Json) -> list[Part]:
        """Say an item that comes complete."""
        index = len(self._items)
        self._items.append(lambda _: item)
        self._output += tokens(encode(item))
        return [self._added(index, item), self._done(index, item)]

    def _added(self, index: int, item: Json) -> bytes:
        return self._event("response.output_item.added", {"output_index": index, "item": item})

    def _done(self, index: int, item: Json) -> bytes:
        return self._event("response.output_item.done", {"output_index": index, "item": item})

    def _hole(self, event: str, index: int, item: Callable[[Take], Json]) -> Part:
        number = next(self._numbers)
        return lambda take: _event_of(event, {"output_index": index, "item": item(take), "sequence_number": number})

    def _whole(self, event: str) -> Part:
        """Return the event that carries the response as it is then."""
        number, status = next(self._numbers), event.removeprefix("response.").replace("created", "in_progress")

        def whole(take: Take) -> bytes:
            return _event_of(event, {"response": self._response(take, status), "sequence_number": number})

        return whole

    def _delta(self, event: str, place: Json, more: bytes = b"") -> Callable[[str], bytes]:
        """Return how a delta of one place becomes an event, without a JSON encoder for each."""
        head = encode({"type": event, **place})[:-1]
        frame = b"event: %b\ndata: %b%b" % (event.encode(), head.replace(b"%", b"%%"), more)
        frame += b',"delta":%b,"sequence_number":%d%b}\n\n'

        def delta(text: str) -> bytes:
            return frame % (encode(text), next(self._numbers), self._padding(text))

        return delta

    def _padding(self, text: str) -> bytes:
        return b',"obfuscation":"%b"' % (b"x" * (16 - len(text) % 16)) if self._obfuscate else b""

    def _event(self, event: str, data: Json) -> bytes:
        return _event_of(event, {**data, "sequence_number": next(self._numbers)})

    def _response(self, take: Take, status: str) -> Json:
        over = status in ("completed", "incomplete")
        return {
            "id": f"resp_{_OWN}",
            "object": "response",
            "created_at": take.seconds,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": {"reason": self._incomplete} if status == "incomplete" else None,
            "instructions": take.head.instructions,
            "max_output_tokens": None,
            "model": take.head.model,
            "output": [item(take) for item in self._items] if over else [],
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "reasoning": {"effort": None, "summary": None},
            "store": False,
            "temperature": 1.0,
            "text": {"format": {"type": "text"}, "verbosity": "medium"},
            "tool_choice": "auto",
            "tools": take.head.tools,
            "top_p": 1.0,
            "truncation": "disabled",
            "usage": self._usage(take) if over else None,
            "user": None,
            "metadata": {},
        }

    def _usage(self, take: Take) -> Json:
        usage, bill = self.usage, take.bill
        read, short = _or(usage.cache_read, bill.read), _or(usage.cache_write_short, bill.write_short)
        long = _or(usage.cache_write_long, bill.write_long)
        total = _or(usage.input, bill.plain) + read + short + long
        output = _or(usage.output, self._output)
        return {
            "input_tokens": total,
            "input_tokens_details": {
                "cached_tokens": read,
                "cache_write_tokens": short + long,
                "cache_write_tokens_details": {"ttl_30m_tokens": short, "ttl_12h_tokens": long},
            },
            "output_tokens": output,
            "output_tokens_details": {"reasoning_tokens": _or(usage.reasoning, self._thought)},
            "total_tokens": total + output,
        }


def _message_item(index: int, status: str, *parts: Json) -> Json:
    return {
        "id": f"msg_{_OWN}{index:02}",
        "type": "message",
        "status": status,
        "content": list(parts),
        "role": "assistant",
    }


def _event_of(event: str, data: Json) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (event.encode(), encode({"type": event, **data}))


KEPT = 256
"""Scores that are kept; a script that makes new answers all the time must not fill the memory."""


class Renderings:
    """Keeps the scores of the answers that came last."""

    def __init__(self, quirks: Quirks, split: int) -> None:
        self._quirks, self._split = quirks, split
        # By the identity of the answer, which is kept with it so that no other can have the same one.
        self._kept: OrderedDict[Hashable, tuple[Answer, tuple[Item, ...], Score]] = OrderedDict()

    def score(self, call: ModelCall, head: Head, answer: Answer) -> Score:
        """Return *answer* as it is played to *call*."""
        options = head.stream_options or {}
        obfuscate = options.get("include_obfuscation") is not False
        include = options.get("include_usage") is True
        omit = (head.thinking or {}).get("display") == "omitted"
        summaries = bool((head.reasoning or {}).get("summary"))
        model = head.model if call.wire == "chat" else None
        searches = call.wire == "responses" and rules_responses.searches(call.body)
        key = (id(answer), call.wire, model, obfuscate, include, omit, summaries, searches)
        items = tuple(answer)
        if (rendering := self._kept.get(key)) and rendering[1] == items:
            self._kept.move_to_end(key)
            return rendering[2]
        voice: Voice
        if call.wire == "messages":
            voice = MessagesVoice(omit=omit)
        elif call.wire == "responses":
            voice = ResponsesVoice(obfuscate=obfuscate, summaries=summaries, searches=searches)
        else:
            voice = ChatVoice(head.model, self._quirks, include_usage=include, obfuscate=obfuscate)
        score = compose(items, voice, split=self._split)
        self._kept[key] = (answer, items, score)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return score
