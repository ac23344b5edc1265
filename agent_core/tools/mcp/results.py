"""What an MCP server returned, as parts that the model reads and people see."""

import asyncio
import base64
import binascii
import json
from collections.abc import Sequence
from typing import Any, cast

import mcp_types as wire
import msgspec

from agent_core.messages import File, Part, Text
from agent_core.servers import McpServer
from agent_core.tools.base import CallContext, Done, Outcome, ToolError

MAX_BYTES = 5_000_000
"""Bytes of one image or recording."""
MAX_FILES = 10
_SHORTEST_MAGIC = 12
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png", "png"),
    (b"\xff\xd8\xff", "image/jpeg", "jpg"),
    (b"GIF87a", "image/gif", "gif"),
    (b"GIF89a", "image/gif", "gif"),
    (b"%PDF-", "application/pdf", "pdf"),
    (b"OggS", "audio/ogg", "ogg"),
    (b"ID3", "audio/mpeg", "mp3"),
    (b"\xff\xfb", "audio/mpeg", "mp3"),
)
_RIFF = {b"WEBP": ("image/webp", "webp"), b"WAVE": ("audio/wav", "wav")}


async def outcome_of(
    result: wire.CallToolResult, server: McpServer, tool: str, context: CallContext, notes: Sequence[str]
) -> Outcome:
    """Return *result* as an outcome; *notes* are sentences of ours, which come last."""
    reader = _ResultReader(tool, context)
    for block in result.content:
        await reader.read(block)
    said, data = reader.texts, None
    if "structured_content" in result.model_fields_set:  # in a thread: of a large one it may take a tenth of a second
        said, data = await asyncio.to_thread(_with_structured, reader, result.structured_content)
    texts = [text for text in (*said, *(f"[{note}]" for note in notes)) if text]
    if result.is_error:
        return ToolError("\n\n".join(texts) or f"The MCP server `{server.name}` says only that `{tool}` failed.")
    return Done((*(Text(text) for text in texts), *reader.files), data=data)


def _with_structured(reader: "_ResultReader", found: Any) -> tuple[list[str], str | None]:
    """Return the texts of a result with its structured content *found*, and that as JSON if it is none of them.

    What the texts say already is not there twice. A text stays that says all of it; several, as the SDKs give for a
    list, become the structured content.
    """
    if reader.spoken and not found:
        return reader.texts, None
    structured = json.dumps(found, ensure_ascii=False)
    if not reader.spoken:
        return [*reader.texts, structured], structured
    spoken = [reader.texts[place] for place in reader.spoken]
    value = _unwrapped(found)
    if len(spoken) == 1 and (_is_json_of(spoken[0], found) or _is_json_of(spoken[0], value)):
        return reader.texts, None
    if spoken == [value]:
        return reader.texts, structured
    values = cast("list[Any]", value) if isinstance(value, list) else []
    if len(values) == len(spoken) and all(map(_says, spoken, values)):
        first, *more = reader.spoken
        kept = {place: text for place, text in enumerate(reader.texts) if place not in more}
        return list({**kept, first: structured}.values()), structured
    return [*reader.texts, structured], structured


def _unwrapped(structured: Any) -> Any:
    """Return what a tool gave that the SDKs wrap in an object, as structured content must be one."""
    if not isinstance(structured, dict):
        return structured
    found = cast("dict[str, Any]", structured)
    return found["result"] if found.keys() == {"result"} else found


def _says(text: str, value: Any) -> bool:
    return text == value or _is_json_of(text, value)


def _is_json_of(text: str, value: Any) -> bool:
    try:
        return msgspec.json.decode(text) == value
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False


class _ResultReader:
    """Reads the blocks of a result into texts and files."""

    def __init__(self, tool: str, context: CallContext) -> None:
        self._tool, self._context = tool, context
        self.texts: list[str] = []
        self.files: list[Part] = []
        self.spoken: list[int] = []
        """Where in the texts what the server itself says stands, and not a file's name or a link."""

    async def read(self, block: wire.ContentBlock) -> None:
        match block:
            case wire.TextContent(text=text):
                if text:
                    self.spoken.append(len(self.texts))
                self.texts.append(text)
            case wire.ImageContent() | wire.AudioContent():
                await self._file(block.data, block.mime_type, "")
            case wire.ResourceLink():
                title, about = block.title or block.name, f": {block.description}" if block.description else ""
                self.texts.append(f"[{title}]({block.uri}){about}")
            case wire.EmbeddedResource():
                await self._resource(block.resource)

    async def _resource(self, resource: wire.TextResourceContents | wire.BlobResourceContents) -> None:
        if isinstance(resource, wire.TextResourceContents):
            self.texts.append(f"{resource.uri}\n{resource.text}")
        else:
            await self._file(resource.blob, resource.mime_type or "", f" of {resource.uri}")

    async def _file(self, data: str, mime: str, source: str) -> None:
        """Keep a file, and say in the text what there is, or why it was not kept."""
        what = f"a file{source} ({mime or 'of no type'})"
        if len(data) > MAX_BYTES * 4 // 3 + 4:
            self.texts.append(f"[Left out: {what}, larger than {MAX_BYTES // 1_000_000} MB.]")
            return
        try:
            content = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            self.texts.append(f"[Left out: {what}, not in base64.]")
            return
        found = sniffed(content)
        if found is None:
            self.texts.append(f"[Left out: {what}, {len(content)} bytes that are no image, recording or PDF.]")
        elif self._context.keep_file is None or len(self.files) >= MAX_FILES:
            self.texts.append(f"[Left out: {what}, {len(content)} bytes; it cannot be kept here.]")
        else:
            known, ending = found
            name = f"{self._tool.replace('/', '-')}-{len(self.files) + 1}.{ending}"
            kept: File = await self._context.keep_file(content, known, name)
            self.files.append(kept)
            self.texts.append(f"[File `{name}`{source}: {known}, {len(content)} bytes.]")


def sniffed(content: bytes) -> tuple[str, str] | None:
    """Return type and ending of an image, a recording or a PDF by its first bytes, whatever its sender says."""
    if len(content) < _SHORTEST_MAGIC:
        return None
    if content.startswith(b"RIFF"):
        return _RIFF.get(content[8:12])
    return next(((mime, ending) for magic, mime, ending in _MAGIC if content.startswith(magic)), None)
