"""OpenAI's Responses: the events of a stream, and the whole response."""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from agent_core.messages import UNKNOWN_USAGE
from agent_core.providers.base import CallFailed, FinishReason, Refusal
from agent_core.testing.models.failing import error_of, stream_code
from agent_core.testing.models.items import NativeWire, Redacted
from agent_core.testing.models.prefix import tokens
from agent_core.testing.models.score import MARK, Part, Spoken, Take, encode
from agent_core.testing.script import Say, ScriptedCall, Think

_OWN = MARK.decode()
_INCOMPLETE: dict[FinishReason, str] = {"length": "max_output_tokens", "refused": "content_filter"}
_FAILED = ("error", "rate_limited", "invalid")
"""Kinds that end a stream as `response.failed`; the others come as a bare `error` event."""

Json = dict[str, Any]


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
                return _event("response.failed", {"response": response, "sequence_number": number})
            body = {"code": code, "message": fault["message"], "param": fault["param"], "sequence_number": number}
            return _event("error", body)

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
        message = _message(index, "in_progress")
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
        message = _message(index, status, part)
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
        return lambda take: _event(event, {"output_index": index, "item": item(take), "sequence_number": number})

    def _whole(self, event: str) -> Part:
        """Return the event that carries the response as it is then."""
        number, status = next(self._numbers), event.removeprefix("response.").replace("created", "in_progress")

        def whole(take: Take) -> bytes:
            return _event(event, {"response": self._response(take, status), "sequence_number": number})

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
        return _event(event, {**data, "sequence_number": next(self._numbers)})

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
        read = bill.read if usage.cache_read is None else usage.cache_read
        short = bill.write_short if usage.cache_write_short is None else usage.cache_write_short
        long = bill.write_long if usage.cache_write_long is None else usage.cache_write_long
        total = (bill.plain if usage.input is None else usage.input) + read + short + long
        output = self._output if usage.output is None else usage.output
        return {
            "input_tokens": total,
            "input_tokens_details": {
                "cached_tokens": read,
                "cache_write_tokens": short + long,
                "cache_write_tokens_details": {"ttl_30m_tokens": short, "ttl_12h_tokens": long},
            },
            "output_tokens": output,
            "output_tokens_details": {
                "reasoning_tokens": self._thought if usage.reasoning is None else usage.reasoning
            },
            "total_tokens": total + output,
        }


def _message(index: int, status: str, *parts: Json) -> Json:
    return {
        "id": f"msg_{_OWN}{index:02}",
        "type": "message",
        "status": status,
        "content": list(parts),
        "role": "assistant",
    }


def _event(event: str, data: Json) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (event.encode(), encode({"type": event, **data}))
