"""Frames: how the window shows what the core itself says to the model, in a form that no other text can have. Pure.

A session has a marker: random, kept with the session and the same as long as it lasts, so that prompt caches stay warm.
It stands in the opening and in the closing of each frame, and nowhere else: in all other text it is cut. What people
write that only looks like a frame gets a backslash before it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import lru_cache

import msgspec

from agent_core.context.lookalikes import BLANK, ReadPlaces, as_read, is_plain
from agent_core.context.quoted import CLOSING, UNNAMED, legible
from agent_core.domain.messages import Actor, File, Message, Part, Text, ToolCall, ToolResult, text_of
from agent_core.ids import new_id

STOPPED_NOTE = "[The answer above was stopped before its end.]"
CORRECTION = "[Correction of an earlier message]"
LENGTH = 10
"""Characters of a marker: 60 random bits."""
MAX_READY = 1_000_000
"""Characters of texts whose form in the window is known before it is asked for: ten of the longest messages."""
_NAMES = (
    "note",
    "thread",
    "clock",
    "memory",
    "knowledge",
    "tools",
    "correction",
    "stopped",
    "speaker",
    "summary",
    "untrusted",
    "output",
)
_PHRASES = ("end of what others", "the answer above was", "correction of an earlier")
# Patterns are for a text as it is read (`lookalikes`). All repetitions are bounded: strangers write what is searched.
_GAP = rf"[\s{BLANK}]"


def _spelled(words: Iterable[str]) -> str:
    """Return a pattern of *words* as people and models read them."""
    within = f"{BLANK}{{0,8}}"
    return "|".join(within.join(_GAP + "{1,8}" if sign == " " else _letter(sign) for sign in word) for word in words)


def _letter(sign: str) -> str:
    return {"o": "[o0]", "l": "[l1]"}.get(sign, sign)


_FIRST = "".join(sorted({each[0] for each in (*_NAMES, *_PHRASES)}))
# Of brackets alone there may be 100,000: the character after most of them rules them out.
_BEGIN = rf"(?=[\s{BLANK}/{_FIRST}]){_GAP}{{0,8}}"
_NAMED = rf"(?:/{_GAP}{{0,8}})?(?:{_spelled(_NAMES)})"
_ANYTHING = r"(?:[^\w\[\]][^\[\]]{0,63})?\]"
_TOKEN = rf"{_GAP}{{1,8}}(?:[\w\-\u2026]{BLANK}?){{3,{LENGTH + 6}}}{_GAP}{{0,8}}\]"
# A literal comes first, which is looked for fast; the rest is looked at only, for a frame may begin within another.
_OF_PEOPLE = re.compile(rf"\[(?={_BEGIN}(?:{_NAMED}{_ANYTHING}|{_spelled(_PHRASES)}))", re.IGNORECASE)
_OF_TOOLS = re.compile(rf"\[(?={_BEGIN}{_NAMED}{_TOKEN})", re.IGNORECASE)


def new_marker() -> str:
    """Return the marker of a new session."""
    return new_id("frame").removeprefix("frame_")[:LENGTH]


@dataclass(frozen=True, slots=True)
class Frames:
    """The frames of a session by its *marker*; a session from before there were markers has none, and old frames."""

    marker: str = ""
    _ready: dict[tuple[str, bool], tuple[str, int]] = field(
        default_factory=dict[tuple[str, bool], tuple[str, int]], compare=False, repr=False
    )

    def ready(self, texts: Iterable[str], *, of_tools: bool = False) -> None:
        """Find what stands for *texts* before `of_people` or `of_tools` asks for it; it may be called in a thread.

        Only so many are kept, each until it was asked for as often as it is among *texts*.
        """
        looks = _OF_TOOLS if of_tools else _OF_PEOPLE
        for text, times in Counter(texts).items():
            self._ready[text, of_tools] = self._escaped(text, looks), times
        keys = list(self._ready)
        excess = sum(len(text) for text, _ in keys) - MAX_READY
        for key in keys:
            if excess <= 0:
                break
            self._ready.pop(key, None)
            excess -= len(key[0])

    def forget(self, texts: Iterable[str], *, of_tools: bool = False) -> None:
        """Forget what `ready` found for *texts*: they are not going to stand in the window."""
        for text in texts:
            self._ready.pop((text, of_tools), None)

    def context(self, source: str, text: str) -> str:
        """Return *text* that the core adds, from *source*; what people said in it may not end the frame."""
        if not self.marker:
            return f"[{source}] {text}"
        lines = (line if source == "thread" and line == CLOSING else self._of_people(line) for line in text.split("\n"))
        return self._framed(source, "\n".join(lines))

    def speaker(self, actor: Actor) -> str:
        """Return what stands before a message of *actor* where several people write."""
        name = legible(actor.name) or legible(actor.id) or UNNAMED
        return self._framed("speaker", self._of_people(name)) if self.marker else f"[speaker] {name}"

    @property
    def correction(self) -> str:
        """What stands before a message that corrects another."""
        return self._framed("correction", CORRECTION[1:-1]) if self.marker else CORRECTION

    @property
    def stopped(self) -> str:
        """What stands after an answer that was stopped."""
        return self._framed("stopped", STOPPED_NOTE[1:-1]) if self.marker else STOPPED_NOTE

    def of_people(self, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        """Return a person's *parts*, in which nothing can be taken for a frame."""
        if not self.marker:
            return parts
        return tuple(
            _changed(part, self._of_people(part.text)) if isinstance(part, Text) else self._labelled(part, _OF_PEOPLE)
            for part in parts
        )

    def of_tools(self, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        """Return a tool's *parts* without frames; `[note]` alone stays, as files and code may hold it."""
        if not self.marker:
            return parts
        return tuple(
            _changed(part, self._of_tools(part.text)) if isinstance(part, Text) else self._labelled(part, _OF_TOOLS)
            for part in parts
        )

    def of_file(self, data: bytes) -> bytes:
        """Return the *data* of a text file without frames, escaped as what tools return."""
        if not self.marker:
            return data
        text = data.decode(errors="replace")
        escaped = self._escaped(text, _OF_TOOLS)
        return data if escaped == text else escaped.encode()

    def untrusted(self, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        """Return a tool's *parts* with each text in a frame that says that strangers may have written it."""
        if not self.marker:
            return parts
        framed = self.of_tools(parts)
        return tuple(
            _changed(part, self._framed("untrusted", part.text)) if isinstance(part, Text) else part for part in framed
        )

    def output(self, used: ToolCall, result: ToolResult) -> tuple[Part, ...]:
        """Return what a person's message says whose content is the *result* of a tool that it had *used*."""
        parts = self.of_tools((Text(use_of(used)), *result.parts))
        parts = (Text(f"{text_of(parts[:1])} ({result.outcome})"), *parts[1:])
        text = "\n".join(part.text for part in parts if isinstance(part, Text))
        name = "untrusted" if result.untrusted else "output"
        framed = self._framed(name, text) if self.marker else f"[{name}] {text}"
        return (Text(framed), *(part for part in parts if not isinstance(part, Text)))

    def with_outputs(self, message: Message, outputs: Mapping[str, ToolResult | None]) -> Message:
        """Return *message* with the framed results of the tools that it had used; *outputs*: the results by call.

        Any message but one of a person whose content is what a tool returned is returned as it is.
        """
        used = {part.call: part for part in message.parts if isinstance(part, ToolCall)}
        if message.role != "user" or not used:
            return message
        own = {part.call: part for part in message.parts if isinstance(part, ToolResult)}
        results = {call: own.get(call) or outputs.get(call) for call in used}
        texts = (self.output(used[call], result) for call, result in results.items() if result is not None)
        others = (part for part in message.parts if not isinstance(part, ToolCall | ToolResult))
        return Message("user", (*others, *(part for parts in texts for part in parts)))

    def _framed(self, name: str, text: str) -> str:
        gap = "\n" if "\n" in text else " "
        return f"[{name} {self.marker}] {text}{gap}[/{name} {self.marker}]"

    def _of_people(self, text: str) -> str:
        escaped = self._take_ready(text, of_tools=False)
        return self._escaped(text, _OF_PEOPLE) if escaped is None else escaped

    def _of_tools(self, text: str) -> str:
        escaped = self._take_ready(text, of_tools=True)
        return self._escaped(text, _OF_TOOLS) if escaped is None else escaped

    def _labelled(self, part: Part, looks: re.Pattern[str]) -> Part:
        """Return a file's *part* with a name and a type that hold no frame, any other as it is."""
        if not isinstance(part, File):
            return part
        name, mime = self._escaped(part.name, looks), self._escaped(part.mime, looks)
        return part if (name, mime) == (part.name, part.mime) else msgspec.structs.replace(part, name=name, mime=mime)

    def _take_ready(self, text: str, *, of_tools: bool) -> str | None:
        if not self._ready or (entry := self._ready.pop((text, of_tools), None)) is None:
            return None
        escaped, times = entry
        if times > 1:
            self._ready[text, of_tools] = escaped, times - 1
        return escaped

    def _escaped(self, text: str, looks: re.Pattern[str]) -> str:
        if self.marker in text:
            text = text.replace(self.marker, f"{self.marker[:3]}…")
        if is_plain(text, self.marker):
            return text
        read = as_read(text)
        opens = {match.start() for match in looks.finditer(read)}
        marks = {match.start(): match.end() for match in _spelling_of(self.marker).finditer(read)}
        return _rewritten(text, opens, marks, self.marker[:3]) if opens or marks else text


def use_of(used: ToolCall) -> str:
    """Return how the use of a tool reads to the model, but for its outcome."""
    return f"{used.name} {msgspec.json.encode(used.arguments).decode()}"


@lru_cache(maxsize=1_024)
def _spelling_of(marker: str) -> re.Pattern[str]:
    """Return a pattern of *marker* in a text as it is read: what is unseen in it, or its case, hides it from no one."""
    return re.compile(f"{BLANK}{{0,8}}".join(re.escape(sign) for sign in as_read(marker)))


def _rewritten(text: str, opens: AbstractSet[int], marks: Mapping[int, int], begin: str) -> str:
    """Return *text* with a backslash before each of *opens*, and each of *marks* cut to its *begin*.

    Both are places in the text as it is read.
    """
    where = ReadPlaces(text)
    pieces: list[str] = []
    done = 0
    for at in sorted(opens | marks.keys()):
        start = where.of(at)
        if start < done:
            continue
        pieces.append(text[done:start])
        done = start
        if at in opens:
            pieces.append("\\")
        else:
            pieces.append(f"{begin}…")
            done = where.of(marks[at] - 1) + 1
    return "".join((*pieces, text[done:]))


def _changed(part: Text, text: str) -> Text:
    return part if text == part.text else msgspec.structs.replace(part, text=text)
