"""The content blocks of an answer of Anthropic's, as they grow and as they are sent back."""

from collections.abc import Iterator
from typing import Any, cast

import msgspec

from agent_core.messages import NativePiece
from agent_core.providers.base import ModelCitation
from agent_core.providers.citing import citation

_PLAIN = {"text": frozenset({"type", "text"}), "tool_use": frozenset({"type", "id", "name", "input"})}
_LIST = msgspec.json.Decoder(list[msgspec.Raw] | None)


class ContentBlock:
    """One content block: its members as JSON text in the order they came, and what grows in it.

    Its text is a stretch of the text in *slot*, from the code point *start* on.
    """

    __slots__ = ("citations", "kind", "members", "slot", "start", "texts")

    def __init__(self, slot: int, members: dict[str, str]) -> None:
        self.slot, self.start, self.members = slot, 0, members
        self.kind = self.word("type")
        self.texts: list[str] = []
        self.citations: list[str] = []

    def word(self, name: str) -> str:
        """Return the member *name* as text; nothing when it is none."""
        value: object = msgspec.json.decode(self.members.get(name, '""'))
        return value if isinstance(value, str) else ""

    @property
    def raw(self) -> str:
        """Return the arguments as they came: in deltas, or whole at the start."""
        return "".join(self.texts) or self.members.get("input", "")

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @property
    def end(self) -> int:
        """Return where its text ends in that of its slot, in code points."""
        return self.start + len(self.text)

    @property
    def cited(self) -> Iterator[ModelCitation]:
        """Return its citations, each for all of its text; those that came with its start come first."""
        try:
            stored = _LIST.decode(self.members.get("citations", "null")) or ()
        except msgspec.DecodeError:
            stored = ()
        citations = (
            citation(each, self.start, self.end) for each in (*stored, *(raw.encode() for raw in self.citations))
        )
        return (ModelCitation(self.slot, each) for each in citations if each is not None)

    @property
    def is_plain(self) -> bool:
        """Return whether the neutral form is complete: plain text or a call, with nothing else in the block.

        Text that continues the block before it is not: the API is sent the blocks that it wrote.
        """
        is_whole = not self.start and not self.citations
        return is_whole and _PLAIN.get(self.kind, frozenset()) >= self.members.keys()

    def native(self, length: int) -> tuple[NativePiece, ...]:
        """Return the block as it must be sent back; nothing when the API would not take it.

        It takes neither blank text nor thinking without its signature. *length* is that of the text in its slot.
        """
        members: dict[str, NativePiece] = {**self.members}
        text = self.text
        match self.kind:
            case "text" if len(text) == length:
                members["text"] = self.slot if text.strip() else ""
            case "text":
                members["text"] = (self.slot, self.start, self.end) if text.strip() else ""
            case "thinking":
                members["thinking"] = self.slot if text.strip() else json_of(text)
                members["signature"] = json_of(self.word("signature")) if self.word("signature") else ""
            case _ if text or self.kind == "tool_use":
                members["input"] = self.raw if arguments(self.raw) else "{}"
            case _:
                pass
        if self.citations:
            members["citations"] = f"[{','.join(self.citations)}]"
        if "" in members.values():
            return ()
        pieces: list[NativePiece] = []
        for name, value in members.items():
            pieces += [f"{',' if pieces else '{'}{json_of(name)}:", value]
        return (*pieces, "}") if pieces else ()


def arguments(raw: str) -> dict[str, Any] | None:
    """Return the arguments in *raw*: empty for no text and `null`; None when it is not a JSON object."""
    try:
        value: object = msgspec.json.decode(raw) if raw.strip() else None
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    if value is None:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def raw_text(raw: msgspec.Raw) -> str:
    """Return *raw* as it came."""
    return bytes(raw).decode()


def json_of(text: str) -> str:
    """Return *text* as a JSON string."""
    return msgspec.json.encode(text).decode()
