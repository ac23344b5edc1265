"""What an MCP server returned, as parts that the model reads and people see."""

import base64
import binascii
import json
from collections.abc import Sequence

import mcp_types as wire

from agent_core.domain.mcp import McpServer
from agent_core.domain.messages import File, Part, Text
from agent_core.tools.base import CallContext, Done, Outcome, ToolError

MOST_BYTES = 5_000_000
"""Bytes of one image or recording."""
MOST_FILES = 10
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
    if not reader.spoken and (structured := _structured(result)) is not None:
        reader.texts.append(structured)
    texts = [text for text in (*reader.texts, *(f"[{note}]" for note in notes)) if text]
    if result.is_error:
        return ToolError("\n\n".join(texts) or f"The MCP server `{server.name}` says only that `{tool}` failed.")
    return Done((*(Text(text) for text in texts), *reader.files))


class _ResultReader:
    """Reads the blocks of a result into texts and files."""

    def __init__(self, tool: str, context: CallContext) -> None:
        self._tool, self._context = tool, context
        self.texts: list[str] = []
        self.files: list[Part] = []
        self.spoken = False

    async def read(self, block: wire.ContentBlock) -> None:
        match block:
            case wire.TextContent(text=text):
                self.texts.append(text)
                self.spoken = self.spoken or bool(text)
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
            self.spoken = True
        else:
            await self._file(resource.blob, resource.mime_type or "", f" of {resource.uri}")

    async def _file(self, data: str, mime: str, source: str) -> None:
        """Keep a file, and say in the text what there is, or why it was not kept."""
        what = f"a file{source} ({mime or 'of no type'})"
        if len(data) > MOST_BYTES * 4 // 3 + 4:
            self.texts.append(f"[Left out: {what}, larger than {MOST_BYTES // 1_000_000} MB.]")
            return
        try:
            content = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            self.texts.append(f"[Left out: {what}, not in base64.]")
            return
        found = sniffed(content)
        if found is None:
            self.texts.append(f"[Left out: {what}, {len(content)} bytes that are no image, recording or PDF.]")
        elif self._context.keep_file is None or len(self.files) >= MOST_FILES:
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


def _structured(result: wire.CallToolResult) -> str | None:
    if result.structured_content is None and "structured_content" not in result.model_fields_set:
        return None
    return json.dumps(result.structured_content, ensure_ascii=False)
