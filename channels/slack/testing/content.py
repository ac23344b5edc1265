"""What a message may hold: Slack's checks of texts, blocks, chunks and metadata."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, cast

from channels.slack.testing.asked import Arguments, MethodFailed
from channels.slack.testing.block_shapes import ShapeProblem
from channels.slack.testing.blocks import check
from channels.slack.testing.world import Json, Stream, TaskCard
from channels.slack.web_api import limits

_STATUSES = {"pending", "in_progress", "complete", "error"}
_MAX_METADATA = 16_384  # bytes; Slack names no figure, only the error


def blocks_of(arguments: Arguments, *, limit: int = limits.BLOCKS_PER_MESSAGE.value) -> list[Json] | None:
    """Return the checked blocks of a message."""
    blocks = arguments.listed("blocks", "invalid_blocks_format")
    if blocks is not None:
        if len(blocks) > limit:
            raise MethodFailed("msg_blocks_too_many")
        check_blocks(blocks)
    return blocks


def blocks_in(arguments: Arguments) -> Iterator[tuple[str, list[Json]]]:
    """Give the lists of blocks of a call, in chunks too, each with the pointer to it."""
    yield "/blocks", arguments.listed("blocks", "invalid_blocks_format") or []
    for n, chunk in enumerate(arguments.listed("chunks", "invalid_chunks") or []):
        if chunk.get("type") == "blocks" and isinstance(chunk.get("blocks"), list):
            yield f"/chunks/{n}/blocks", cast("list[Json]", chunk["blocks"])


def check_blocks(blocks: list[Json], prefix: str = "/blocks") -> None:
    """Raise `invalid_blocks` with every reason that Slack has; pointers begin with *prefix*."""
    raise_problems("invalid_blocks", check(blocks), prefix)


def raise_problems(code: str, problems: Iterable[ShapeProblem], prefix: str = "") -> None:
    """Raise *code* if there are *problems*."""
    entries = [each._asdict() | {"pointer": f"{prefix}{each.pointer}"} for each in problems]
    if entries:
        messages = [f"[ERROR] {each['message']} [json-pointer:{each['pointer']}]" for each in entries]
        raise MethodFailed(code, *messages, errors=entries)


def metadata_of(arguments: Arguments) -> Json | None:
    """Return the checked metadata of a message."""
    metadata = arguments.mapping("metadata", "invalid_metadata_format")
    if metadata is None:
        return None
    if not isinstance(metadata.get("event_type"), str) or not isinstance(metadata.get("event_payload"), dict):
        raise MethodFailed("invalid_metadata_format")
    if len(json.dumps(metadata).encode()) > _MAX_METADATA:
        raise MethodFailed("metadata_too_large")
    return metadata


def chunks_of(arguments: Arguments) -> list[Json]:
    """Return the text and the chunks of a streaming call, all as chunks and checked."""
    text = arguments.text("markdown_text")
    chunks = arguments.listed("chunks", "invalid_chunks") or []
    if text:
        chunks = [{"type": "markdown_text", "text": text}, *chunks]
    for n, chunk in enumerate(chunks):
        _check_chunk(n, chunk)
    if sum(len(each["text"]) for each in chunks if each["type"] == "markdown_text") > limits.STREAM_CALL_TEXT.value:
        raise MethodFailed("msg_too_long")
    return chunks


def append_chunks(chunks: list[Json], stream: Stream) -> list[str]:
    """Append *chunks* to *stream*; return the warnings."""
    warnings: list[str] = []
    fresh = "".join(each["text"] for each in chunks if each["type"] == "markdown_text")
    if len(stream.markdown) + len(fresh) > limits.MARKDOWN.value:
        raise MethodFailed("msg_too_long")  # no page says how long a finished stream may be: the least is assumed
    _check_tables(chunks, stream)
    for chunk in chunks:
        match chunk["type"]:
            case "markdown_text":
                stream.write(chunk["text"])
            case "plan_update":
                stream.title = chunk["title"]
            case "blocks":
                blocks = cast("list[Json]", chunk["blocks"])
                if len(blocks) > limits.STREAM_CALL_BLOCKS.value:
                    warnings.append("surplus_blocks_dropped")
                stream.parts.append(blocks[: limits.STREAM_CALL_BLOCKS.value])
            case _:
                _update_task(chunk, stream)
    return warnings


def _check_tables(chunks: list[Json], stream: Stream) -> None:
    """Raise `invalid_blocks` for more tables than one message of all that is streamed may hold."""
    block_lists = [cast("list[Json]", chunk["blocks"]) for chunk in chunks if chunk["type"] == "blocks"]
    held = [block for part in stream.parts if isinstance(part, list) for block in part]
    held += [block for blocks in block_lists for block in blocks]
    if sum(block.get("type") == "table" for block in held) > limits.TABLES_PER_MESSAGE.value:
        raise_problems("invalid_blocks", [ShapeProblem("/blocks", "only_one_table_allowed", "only one table block")])


def _update_task(chunk: Json, stream: Stream) -> None:
    """Change the card with the chunk's id or add one; details and output are appended to what is there."""
    task = next((each for each in stream.tasks if each.id == chunk["id"]), None)
    if task is None:
        task = TaskCard(chunk["id"], chunk["title"], chunk["status"])
        stream.parts.append(task)
    task.title, task.status = chunk["title"], chunk["status"]
    task.details += chunk.get("details") or ""
    task.output += chunk.get("output") or ""
    task.sources += chunk.get("sources") or []


def _check_chunk(n: int, chunk: Json) -> None:
    match chunk.get("type"):
        case "markdown_text":
            _strings(n, chunk, required=("text",))
        case "plan_update":
            _strings(n, chunk, required=("title",), longest=limits.TASK_TEXT.value)
        case "task_update":
            _strings(n, chunk, ("id", "title", "status"), ("details", "output"), limits.TASK_TEXT.value)
            if chunk["status"] not in _STATUSES:
                raise _bad_chunk(n, "status", f"must be one of {', '.join(sorted(_STATUSES))}")
            sources: Any = chunk.get("sources") or []
            if not isinstance(sources, list) or not all(_is_source(each) for each in cast("list[Any]", sources)):
                raise _bad_chunk(n, "sources", "must be a list of url sources")
        case "blocks":
            if not isinstance(blocks := chunk.get("blocks"), list):
                raise _bad_chunk(n, "blocks", "must be a list")
            check_blocks(cast("list[Json]", blocks)[: limits.STREAM_CALL_BLOCKS.value], f"/chunks/{n}/blocks")
        case _:
            raise _bad_chunk(n, "type", "unsupported chunk type")


def _strings(n: int, chunk: Json, required: tuple[str, ...], more: tuple[str, ...] = (), longest: int = 0) -> None:
    for name in (*required, *more):
        value = chunk.get(name)
        if value is None and name in more:
            continue
        if not isinstance(value, str) or (not value and name in required and name != "text"):
            raise _bad_chunk(n, name, "must be a string")
        if longest and len(value) > longest:
            raise _bad_chunk(n, name, f"must be at most {longest} characters")


def _is_source(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and cast("Json", value).get("type") == "url"
        and all(isinstance(cast("Json", value).get(name), str) for name in ("url", "text"))
    )


def _bad_chunk(n: int, name: str, message: str) -> MethodFailed:
    return MethodFailed("invalid_chunks", f"[ERROR] {message} [json-pointer:/chunks/{n}/{name}]")
