"""What a server wrote, as it wants it back: its thinking, its ids, and what it added to its calls.

DeepSeek refuses an answer of a tool loop without its `reasoning_content`, OpenRouter passes `reasoning_details` on to
models that sign them, and Gemini's endpoint wants the `thought_signature` of each step's first call.
"""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import msgspec

from agent_core.providers.base import NativeItem
from agent_core.providers.compatible.calls import FoldedCall
from agent_core.providers.openai.items import arguments
from agent_core.providers.wording import plain_name

NAME_LENGTH = 64
"""The longest name of a tool that servers take."""
_GROWING = ("text", "summary")
Json = dict[str, Any]


class _Detail:
    """One of `reasoning_details` as it grows: what grows are texts, the newest value of any other field counts."""

    def __init__(self, first: Json) -> None:
        self._fields: Json = {}
        self._texts: dict[str, list[str]] = {}
        self.add(first)

    def add(self, more: Json) -> None:
        for key, value in more.items():
            if key in _GROWING and isinstance(value, str):
                self._texts.setdefault(key, []).append(value)
            elif value is not None or key not in self._fields:
                self._fields[key] = value

    def is_continued_by(self, more: Json) -> bool:
        """Return whether *more* is the next piece; data that is encrypted comes whole, and a signature ends a text."""
        same = all(self._fields.get(key) == more.get(key, self._fields.get(key)) for key in ("type", "index", "id"))
        return same and "data" not in more and not (self._fields.get("signature") and more.get("text"))

    def pieces(self, text: str, slot: int | None) -> tuple[str | int, ...]:
        """Return the detail as JSON; *slot* is where *text* is kept already."""
        texts = {key: "".join(value) for key, value in self._texts.items()}
        if slot is None or texts.get("text") != text:
            return (_json(self._fields | texts),)
        del texts["text"]
        others = _json(self._fields | texts)
        return (f'{others[:-1]}{"," if self._fields or texts else ""}"text":', slot, "}")


class Thinking:
    """The thinking of one answer under the names that its server uses; *slot* is that of its text as shown."""

    def __init__(self, slot: int) -> None:
        self._slot = slot
        self._field = ""
        self._texts: list[str] = []
        self._details: list[_Detail] = []

    def say(self, field: str, text: str) -> None:
        """Add *text* that came as *field*; the first name of an answer is the one that counts."""
        self._field = self._field or field
        self._texts.append(text)

    def detail(self, parts: object) -> None:
        """Add the `reasoning_details` of one delta: a piece of a text has type and place of what it continues."""
        for part in cast("list[Any]", parts) if isinstance(parts, list) else ():
            if not isinstance(part, dict):
                continue
            more = cast("Json", part)
            if self._details and self._details[-1].is_continued_by(more):
                self._details[-1].add(more)
            else:
                self._details.append(_Detail(more))

    def member(self) -> tuple[str | int, ...]:
        """Return what goes back, as a member of the message: an empty thought too, if the server sent one."""
        text = "".join(self._texts)
        slot = self._slot if text.strip() else None
        if self._details:
            listed = [each.pieces(text, slot) for each in self._details]
            inner = [piece for n, each in enumerate(listed) for piece in ((",", *each) if n else each)]
            return (',"reasoning_details":[', *inner, "]")
        if not self._field:
            return ()
        return (f',"{self._field}":', _json(text) if slot is None else slot)


def native_item(text: int | None, thinking: Thinking, calls: Sequence[FoldedCall]) -> Iterator[NativeItem]:
    """Yield what is kept of an answer besides its parts; *text* is its slot, None for one that is blank.

    It is the whole message where the server added something, only the ids of its calls where it did not, and nothing
    for plain text.
    """
    thought = thinking.member()
    first = calls[0].slot if calls else None
    if not thought and not any(call.extra for call in calls):
        if calls:
            yield NativeItem((), first)
        return
    pieces: list[str | int] = ['{"role":"assistant","content":', "null" if text is None else text, *thought]
    if calls:
        pieces.append(f',"tool_calls":[{",".join(map(_call, calls))}]')
    yield NativeItem((*pieces, "}"), first)


def _call(call: FoldedCall) -> str:
    """Return *call* as it goes back; arguments that are no JSON object would break the server's own template."""
    raw = call.raw if call.raw.lstrip().startswith("{") and arguments(call.raw) is not None else "{}"
    function = {"name": plain_name(call.name, NAME_LENGTH), "arguments": raw}
    extra = f',"extra_content":{call.extra}' if call.extra else ""
    return f'{{"id":{_json(call.id)},"type":"function","function":{_json(function)}{extra}}}'


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
