"""`files.*`: uploads in three steps, which are processed for a while before a message may show them."""

from collections.abc import Iterator
from typing import Any, cast

from channels.slack.testing import payloads
from channels.slack.testing.asked import Arguments, MethodContext, MethodFailed
from channels.slack.testing.block_shapes import ShapeProblem
from channels.slack.testing.posting import thread_of
from channels.slack.testing.world import Channel, Json, SimulatedWorkspace, SlackFile, SlackMessage
from channels.slack.web_api import limits

_IMAGES = ("image/png", "image/jpeg", "image/gif")


def get_url(context: MethodContext, arguments: Arguments) -> Json:
    """`files.getUploadURLExternal`: a file's id, and where its bytes go."""
    name, length = arguments.need("filename"), arguments.number("length", 0)
    if length <= 0:
        raise MethodFailed("invalid_arguments", "[ERROR] must be at least 1 [json-pointer:/length]")
    if len(alt := arguments.text("alt_txt")) > limits.FILE_ALT.value:
        raise MethodFailed("invalid_arguments", "[ERROR] is too long [json-pointer:/alt_txt]")
    file = SlackFile(context.unique("F"), name, length, alt=alt)
    context.workspace.files[file.id] = file
    return {"upload_url": f"{context.base_url}upload/v1/{context.workspace.id}/{file.id}", "file_id": file.id}


def put_bytes(workspace: SimulatedWorkspace, id: str, content: bytes) -> str:
    """Keep the bytes that were sent to an upload URL; raises `MethodFailed` unless they are as many as announced."""
    file = workspace.files.get(id)
    if file is None or file.is_complete:
        raise MethodFailed("file_not_found")
    if len(content) != file.length:
        raise MethodFailed("invalid_arguments")
    file.content = content
    return f"OK - {len(content)}"


def complete(context: MethodContext, arguments: Arguments) -> Json:
    """`files.completeUploadExternal`: once per upload; the message in a channel comes when the file is processed."""
    requested = arguments.listed("files", "invalid_arguments") or []
    files = [context.workspace.files.get(str(each.get("id"))) for each in requested]
    complete_files = [file for file in files if file is not None and file.content and not file.is_complete]
    if not requested or len(complete_files) < len(requested):
        raise MethodFailed("file_not_found")
    channel = context.channel(arguments.need("channel_id"), write=True) if arguments.text("channel_id") else None
    if channel is None and arguments.text("thread_ts"):
        raise MethodFailed("invalid_arguments", "[ERROR] needs a channel_id [json-pointer:/thread_ts]")
    root = thread_of(channel, arguments.text("thread_ts"), "thread_not_found") if channel is not None else None
    for file, entry in zip(complete_files, requested, strict=True):
        file.title, file.ready_at = str(entry.get("title") or file.name), context.now + context.workspace.processing
    if channel is not None:
        _share(context, channel, root, complete_files, arguments.text("initial_comment"))
    return {"files": [{"id": file.id, "title": file.title} for file in complete_files]}


def _share(context: MethodContext, channel: Channel, root: str | None, files: list[SlackFile], words: str) -> None:
    ready = max(context.now, *(file.ready_at or 0 for file in files))
    bot = context.workspace.bot
    message = SlackMessage("", bot.id, words, root, context.workspace.id, context.workspace.bot_id)
    message.subtype, message.files = "file_share", [file.as_json() for file in files]
    channel.arrive(ready, message, files)
    channel.settle(context.now)
    if message.ts:
        context.notify(channel, payloads.message(context.workspace, channel, message))


def info(context: MethodContext, arguments: Arguments) -> Json:
    """`files.info`: of a complete file, with where it was shared."""
    file = _file_of(context, arguments)
    for channel in context.workspace.channels.values():
        channel.settle(context.now)
    shares: dict[str, dict[str, list[Json]]] = {}
    for id, places in file.shares.items():
        kind = "public" if context.workspace.channels[id].kind == "channel" else "private"
        shares.setdefault(kind, {})[id] = places
    return {"file": file.as_json() | {"shares": shares}}


def delete(context: MethodContext, arguments: Arguments) -> Json:
    """`files.delete`: it is gone from every message."""
    file = _file_of(context, arguments)
    del context.workspace.files[file.id]
    for id, places in file.shares.items():
        channel = context.workspace.channels[id]
        for place in places:
            if message := channel.messages.get(place["ts"]):
                channel.remove(message)
    return {}


def file_problems(workspace: SimulatedWorkspace, blocks: list[Json], now: int) -> Iterator[ShapeProblem]:
    """Give what is wrong with the files that image *blocks* name: each must be a processed picture."""
    for n, block in enumerate(blocks):
        for at, id in _named(block, f"/{n}"):
            file = workspace.files.get(id)
            if file is None or file.ready_at is None or now < file.ready_at:
                yield ShapeProblem(at, "invalid_slack_file", "invalid slack file")
            elif file.mimetype not in _IMAGES:
                yield ShapeProblem(at, "invalid_slack_file", "the file is no picture")


def _named(part: Any, at: str) -> Iterator[tuple[str, str]]:
    """Give the files that a part of a block names, each with where it does."""
    if isinstance(part, list):
        for n, each in enumerate(cast("list[Any]", part)):
            yield from _named(each, f"{at}/{n}")
    elif isinstance(part, dict):
        for name, value in cast("Json", part).items():
            if name == "slack_file" and isinstance(value, dict) and "id" in value:
                yield f"{at}/slack_file", str(cast("Json", value)["id"])
            elif name == "slack_file":
                continue
            else:
                yield from _named(value, f"{at}/{name}")


def _file_of(context: MethodContext, arguments: Arguments) -> SlackFile:
    file = context.workspace.files.get(arguments.need("file"))
    if file is None or not file.is_complete:
        raise MethodFailed("file_not_found")
    return file
