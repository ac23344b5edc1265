"""Frames: how the window shows what the core itself says to the model, in a form that no other text can have. Pure.

A session has a marker: random, kept with the session and the same as long as it lasts, so that prompt caches stay warm.
It stands in the opening and in the closing of each frame, and nowhere else: in all other text it is cut. What people
write that only looks like a frame gets a backslash before it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from agent_core.context.quoted import CLOSING, UNNAMED, legible
from agent_core.domain.messages import Actor, Part, Text, ToolCall, ToolResult
from agent_core.ids import new_id

STOPPED_NOTE = "[The answer above was stopped before its end.]"
CORRECTION = "[Correction of an earlier message]"
LENGTH = 10
"""Characters of a marker: 60 random bits."""
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
_ALIKE = {
    "a": "\u0430\u03b1",
    "c": "\u0441\u03f2",
    "d": "\u0501",
    "e": "\u0435\u03b5",
    "h": "\u04bb",
    "i": "\u0456\u03b9",
    "k": "\u043a\u03ba",
    "l": "\u04cf1",
    "m": "\u043c",
    "n": "\u0578",
    "o": "\u043e\u03bf\u05850",
    "p": "\u0440\u03c1",
    "r": "\u0433",
    "s": "\u0455",
    "t": "\u0442\u03c4",
    "w": "\u051d\u03c9",
    "y": "\u0443",
}
_SEEN_AS_NOTHING = "\u00ad\u0300-\u036f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
# All repetitions are bounded: this reads what strangers write.
_UNSEEN = f"[{_SEEN_AS_NOTHING}]{{0,8}}"
_GAP = rf"[\s{_SEEN_AS_NOTHING}]"


def _as_read(words: Iterable[str]) -> str:
    """Return a pattern of *words* as people and models read them, whatever letters they are spelled with."""
    return "|".join(_UNSEEN.join(_GAP + "{1,8}" if sign == " " else _letter(sign) for sign in word) for word in words)


def _letter(sign: str) -> str:
    return f"[{sign}{chr(ord(sign) + 0xFEE0)}{_ALIKE.get(sign, '')}]"


_OPENS, _CLOSES = (
    r"[\[\uff3b\u3010\u3014\u3016\u3018\u301a\u27e6\u2772]",
    r"[\]\uff3d\u3011\u3015\u3017\u3019\u301b\u27e7\u2773]",
)
_MARKED = rf"{_OPENS}{_GAP}{{0,8}}(?:[/\uff0f]{_GAP}{{0,8}})?(?:{_as_read(_NAMES)})"
_TOKEN = rf"{_GAP}{{1,8}}[\w\-\u2026]{{3,{LENGTH + 6}}}"
_END = rf"{_GAP}{{0,8}}{_CLOSES}"
_PHRASE = rf"{_OPENS}{_GAP}{{0,8}}(?:{_as_read(_PHRASES)})"
_OF_PEOPLE = re.compile(rf"(?={_MARKED}(?:{_TOKEN})?{_END}|{_PHRASE})", re.IGNORECASE)
_OF_TOOLS = re.compile(rf"(?={_MARKED}{_TOKEN}{_END})", re.IGNORECASE)


def new_marker() -> str:
    """Return the marker of a new session."""
    return new_id("frame").removeprefix("frame_")[:LENGTH]


@dataclass(frozen=True, slots=True)
class Frames:
    """The frames of a session by its *marker*; a session from before there were markers has none, and old frames."""

    marker: str = ""

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
        return tuple(_changed(part, self._of_people(part.text)) if isinstance(part, Text) else part for part in parts)

    def of_tools(self, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        """Return a tool's *parts* without frames; `[note]` alone stays, as files and code may hold it."""
        if not self.marker:
            return parts
        return tuple(
            _changed(part, self._escaped(part.text, _OF_TOOLS)) if isinstance(part, Text) else part for part in parts
        )

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
        head = Text(f"{used.name} {msgspec.json.encode(used.arguments).decode()} ({result.outcome})")
        parts = self.of_tools((head, *result.parts))
        text = "\n".join(part.text for part in parts if isinstance(part, Text))
        name = "untrusted" if result.untrusted else "output"
        said = self._framed(name, text) if self.marker else f"[{name}] {text}"
        return (Text(said), *(part for part in parts if not isinstance(part, Text)))

    def _framed(self, name: str, text: str) -> str:
        gap = "\n" if "\n" in text else " "
        return f"[{name} {self.marker}] {text}{gap}[/{name} {self.marker}]"

    def _of_people(self, text: str) -> str:
        return self._escaped(text, _OF_PEOPLE)

    def _escaped(self, text: str, looks: re.Pattern[str]) -> str:
        if self.marker in text:
            text = text.replace(self.marker, f"{self.marker[:3]}…")
        if text.isascii() and "[" not in text:
            return text
        return looks.sub(r"\\", text)


def _changed(part: Text, text: str) -> Text:
    return part if text == part.text else msgspec.structs.replace(part, text=text)
