"""Entries: the messages of a window, each with its request JSON, its tokens and where the window may be cut."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from agent_core.context.estimates import picture_tokens, tokens_of
from agent_core.context.frames import Frames
from agent_core.context.pruning import prunable
from agent_core.messages import File, Message, Part, ToolResult, is_text, is_whole

Encode = Callable[[Message, Mapping[str, bytes]], bytes]


class WindowEntry:
    """One message of the window; its request JSON is made once, when first asked for.

    The bytes of its *files* must be set with `load` before that. *paused* is an answer that the next one continues,
    *summary* stands for what was before the window.
    """

    __slots__ = ("_encode", "_files", "_prunable", "_tokens", "_wire", "border", "message", "paused", "seq", "summary")

    def __init__(
        self,
        seq: int,
        message: Message,
        encode: Encode,
        *,
        border: bool = False,
        paused: bool = False,
        summary: bool = False,
    ) -> None:
        self.seq, self.message, self.border, self.paused, self.summary = seq, message, border, paused, summary
        self._encode = encode
        self._files: Mapping[str, bytes] = {}
        self._wire: bytes | None = None
        self._tokens: int | None = None
        self._prunable: bool | None = None

    @property
    def wire(self) -> bytes:
        if self._wire is None:
            self._wire = self._encode(self.message, self._files)
            self._files = {}
        return self._wire

    @property
    def files(self) -> Sequence[str]:
        """Return the blobs that the request JSON still needs."""
        return () if self._wire is not None else files_of(self.message.parts)

    async def load(self, read_file: Callable[[str], Awaitable[bytes | None]], frames: Frames) -> None:
        """Read the files of the message that its request JSON still needs; missing ones are left out.

        Texts have no marker of the session's *frames*: the same bytes each time, so that the cache stays warm.
        """
        if not (wanted := self.files):
            return
        texts = texts_of(self.message.parts)
        read = {blob: await read_file(blob) for blob in wanted}
        files = {blob: data for blob, data in read.items() if data is not None}
        self._files = {blob: frames.of_file(data) if blob in texts else data for blob, data in files.items()}

    @property
    def tokens(self) -> int:
        """Return an estimate of the message's tokens, whether its request JSON is made or not."""
        if self._tokens is None:
            self._tokens = tokens_of(self.message)
        return self._tokens

    @property
    def prunable(self) -> bool:
        """Return whether the message has a result for which a placeholder would save something."""
        if self._prunable is None:
            self._prunable = prunable(self.message)
        return self._prunable

    def encoded_by(self, encode: Encode) -> "WindowEntry":
        """Return the entry as *encode* makes its request JSON: itself, if that is how it is made."""
        return self if encode == self._encode else self.changed(self.message, encode=encode)

    def changed(self, message: Message, *, encode: Encode | None = None) -> "WindowEntry":
        """Return the entry with another *message*, or encoded for another API."""
        return WindowEntry(
            self.seq,
            message,
            encode or self._encode,
            border=self.border,
            paused=self.paused and message == self.message,
            summary=self.summary,
        )


def texts_of(parts: Sequence[Part]) -> set[str]:
    """Return those blob ids of `files_of` that models are shown as text."""
    blobs = set[str]()
    for part in parts:
        if isinstance(part, File):
            blobs |= {part.text} if part.text is not None else {part.file} if is_text(part) else set()
        elif isinstance(part, ToolResult):
            blobs |= texts_of(part.parts)
    return blobs


def media_of(parts: Sequence[Part]) -> Sequence[str]:
    """Return the files in *parts* that models are shown as pictures or pages, in the results of tools too."""
    files: list[str] = []
    for part in parts:
        if isinstance(part, ToolResult):
            files += media_of(part.parts)
        elif isinstance(part, File) and picture_tokens(part):
            files.append(part.file)
    return files


def files_of(parts: Sequence[Part]) -> Sequence[str]:
    """Return the blob ids of what models are shown of the files in *parts*, in the results of tools too."""
    blobs: list[str] = []
    for part in parts:
        if isinstance(part, File):
            if part.text is None or is_whole(part):
                blobs.append(part.file)
            if part.text is not None:
                blobs.append(part.text)
        elif isinstance(part, ToolResult):
            blobs += files_of(part.parts)
    return blobs
