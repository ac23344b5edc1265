"""What a message may hold, and the methods that post and read messages."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from channels.slack import limits
from channels.slack.testing import deliveries as payloads
from channels.slack.testing.blocks import ShapeProblem, check
from channels.slack.testing.world import (
    Arguments,
    Channel,
    Json,
    MethodContext,
    MethodFailed,
    SimulatedWorkspace,
    SlackMessage,
    Stream,
    TaskCard,
)

_STATUSES = {"pending", "in_progress", "complete", "error"}
_MAX_METADATA = 16_384  # bytes; Slack names no figure, only the error


def blocks_of(arguments: Arguments, *, limit: int = limits.BLOCKS_PER_MESSAGE) -> list[Json] | None:
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
    if sum(len(each["text"]) for each in chunks if each["type"] == "markdown_text") > limits.STREAM_CALL_TEXT:
        raise MethodFailed("msg_too_long")
    return chunks


def append_chunks(chunks: list[Json], stream: Stream) -> list[str]:
    """Append *chunks* to *stream*; return the warnings."""
    warnings: list[str] = []
    fresh = "".join(each["text"] for each in chunks if each["type"] == "markdown_text")
    if len(stream.markdown) + len(fresh) > limits.MARKDOWN:
        raise MethodFailed("msg_too_long")  # no page says how long a finished stream may be: the least is assumed
    _check_tables(chunks, stream)
    for chunk in chunks:
        match chunk["type"]:
            case "markdown_text":
                stream.write(chunk["text"])
            case "blocks":
                blocks = cast("list[Json]", chunk["blocks"])
                if len(blocks) > limits.STREAM_CALL_BLOCKS:
                    warnings.append("surplus_blocks_dropped")
                stream.parts.append(blocks[: limits.STREAM_CALL_BLOCKS])
            case _:
                _update_task(chunk, stream)
    return warnings


def _check_tables(chunks: list[Json], stream: Stream) -> None:
    """Raise `invalid_blocks` for more tables than one message of all that is streamed may hold."""
    block_lists = [cast("list[Json]", chunk["blocks"]) for chunk in chunks if chunk["type"] == "blocks"]
    held = [block for part in stream.parts if isinstance(part, list) for block in part]
    held += [block for blocks in block_lists for block in blocks]
    if sum(block.get("type") == "table" for block in held) > limits.TABLES_PER_MESSAGE:
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


def _check_chunk(n: int, chunk: Json) -> None:
    match chunk.get("type"):
        case "markdown_text":
            _strings(n, chunk, required=("text",))
        case "task_update":
            _strings(n, chunk, ("id", "title", "status"), ("details", "output"), limits.TASK_TEXT)
            if chunk["status"] not in _STATUSES:
                raise _bad_chunk(n, "status", f"must be one of {', '.join(sorted(_STATUSES))}")
        case "blocks":
            if not isinstance(blocks := chunk.get("blocks"), list):
                raise _bad_chunk(n, "blocks", "must be a list")
            check_blocks(cast("list[Json]", blocks)[: limits.STREAM_CALL_BLOCKS], f"/chunks/{n}/blocks")
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


def _bad_chunk(n: int, name: str, message: str) -> MethodFailed:
    return MethodFailed("invalid_chunks", f"[ERROR] {message} [json-pointer:/chunks/{n}/{name}]")


def post(context: MethodContext, arguments: Arguments) -> Json:
    """`chat.postMessage`."""
    channel = context.channel(arguments.need("channel"), write=True)
    message = _composed(context, arguments, channel)
    message.thread_ts = thread_of(channel, arguments.text("thread_ts"))
    message.metadata = metadata_of(arguments)
    channel.messages[message.ts] = message
    session = channel.sessions.get(message.root)
    if session is not None:
        session.loading = ""  # the app's next message clears it
    context.notify(channel, payloads.message(context.workspace, channel, message))
    return {"channel": channel.id, "ts": message.ts, "message": payloads.as_json(message, context.app_id)}


def post_ephemeral(context: MethodContext, arguments: Arguments) -> Json:
    """`chat.postEphemeral`."""
    channel = context.channel(arguments.need("channel"), write=True)
    if (user := arguments.need("user")) not in channel.members:
        raise MethodFailed("user_not_in_channel")
    message = _composed(context, arguments, channel)
    message.thread_ts, message.to = arguments.text("thread_ts") or None, user
    channel.ephemeral.append(message)
    return {"message_ts": message.ts}


def update(context: MethodContext, arguments: Arguments) -> Json:
    """`chat.update`; what is not given goes away with the old content, metadata stays."""
    channel = context.channel(arguments.need("channel"))
    message = owned(context, channel, arguments.need("ts"), "cant_update_message")
    if message.stream is not None and not message.stream.settled(context.now):
        raise MethodFailed("streaming_state_conflict")
    if len(arguments.text("text")) > limits.TEXT:
        raise MethodFailed("msg_too_long")
    composed = _composed(context, arguments, channel)
    before = payloads.as_json(message, context.app_id)
    message.text, message.blocks, message.stream = composed.text, composed.blocks, None
    message.metadata = metadata_of(arguments) or message.metadata
    if not message.blocks:
        message.edited = {"user": message.user, "ts": composed.ts}
    context.notify(channel, payloads.changed(context.workspace, channel, message, before, composed.ts))
    body = payloads.as_json(message, context.app_id)
    return {"channel": channel.id, "ts": message.ts, "text": message.text, "message": body}


def permalink(context: MethodContext, arguments: Arguments) -> Json:
    """`chat.getPermalink`."""
    channel = context.channel(arguments.need("channel"))
    if (ts := arguments.need("message_ts")) not in channel.messages:
        raise MethodFailed("message_not_found")
    link = f"{context.base_url}archives/{channel.id}/p{ts.replace('.', '')}"
    return {"channel": channel.id, "permalink": link}


def owned(context: MethodContext, channel: Channel, ts: str, code: str) -> SlackMessage:
    """Return the app's own message at *ts*; raises `message_not_found`, or *code* for another author's."""
    message = channel.messages.get(ts)
    if message is None or message.subtype == "tombstone":
        raise MethodFailed("message_not_found")
    if message.user != context.workspace.bot.id:
        raise MethodFailed(code)
    return message


def thread_of(channel: Channel, thread_ts: str, code: str = "cannot_reply_to_message") -> str | None:
    """Return the root of a thread, which must be one; raises *code*."""
    if not thread_ts:
        return None
    root = channel.messages.get(thread_ts)
    if root is None and not channel.replies(thread_ts):
        raise MethodFailed(code)
    if root is not None and root.thread_ts not in (None, root.ts):
        raise MethodFailed(code)
    return thread_ts


def _composed(context: MethodContext, arguments: Arguments, channel: Channel) -> SlackMessage:
    """Make a message of the app out of text or blocks; its `ts` is new."""
    text, blocks = arguments.text("text"), blocks_of(arguments)
    if not text and not blocks:
        raise MethodFailed("no_text")
    bot = context.workspace.bot
    return SlackMessage(
        channel.stamp(context.now),
        bot.id,
        text[: limits.TEXT_HARD],
        team=context.workspace.id,
        bot_id=context.workspace.bot_id,
        blocks=blocks or [],
    )


_PAGE = 1000
_KINDS = {"channel": "channels", "group": "groups", "im": "im", "mpim": "mpim"}


def auth_test(context: MethodContext, _: Arguments) -> Json:
    """`auth.test`."""
    workspace = context.workspace
    body: Json = {"url": context.base_url, "team": workspace.name, "user": workspace.bot.name, "team_id": workspace.id}
    body |= {"user_id": workspace.bot.id, "bot_id": workspace.bot_id, "is_enterprise_install": False}
    return body | ({"enterprise_id": workspace.enterprise} if workspace.enterprise else {})


def replies(context: MethodContext, arguments: Arguments) -> Json:
    """`conversations.replies`: the root, then the answers; metadata only where it is asked for."""
    channel = _readable(context, arguments)
    ts = arguments.need("ts")
    if (message := channel.messages.get(ts)) is None and not channel.replies(ts):
        raise MethodFailed("thread_not_found")
    root = message.root if message else ts
    within = [each for each in channel.thread(root) if each.ts == root or _within(arguments, each.ts)]
    body = _page(context, arguments, within)
    for each in body["messages"]:
        if each["ts"] == root and (answers := channel.replies(root)):
            each |= {"thread_ts": root, "reply_count": len(answers), "latest_reply": answers[-1].ts}
    return body


def history(context: MethodContext, arguments: Arguments) -> Json:
    """`conversations.history`: the newest first, no answers of threads."""
    channel = _readable(context, arguments)
    within = [m for m in channel.messages.values() if m.root == m.ts and _within(arguments, m.ts)]
    return _page(context, arguments, within[::-1])


def info(context: MethodContext, arguments: Arguments) -> Json:
    """`conversations.info`."""
    channel = context.channel(arguments.need("channel"))
    context.need_scope(f"{_KINDS[channel.kind]}:read")
    return {"channel": channel_json(context.workspace, channel)}


def open_im(context: MethodContext, arguments: Arguments) -> Json:
    """`conversations.open`, with one person."""
    users = arguments.texts("users")
    if len(users) != 1 or users[0] not in context.workspace.users:
        raise MethodFailed("user_not_found")
    context.need_scope("im:write")
    channel = context.workspace.im(users[0])
    return {"channel": {"id": channel.id}}


def user(context: MethodContext, arguments: Arguments) -> Json:
    """`users.info`."""
    user = context.workspace.users.get(arguments.need("user"))
    if user is None:
        raise MethodFailed("user_not_found")
    return {"user": user.as_json(email="users:read.email" in context.workspace.scopes)}


def group_users(context: MethodContext, arguments: Arguments) -> Json:
    """`usergroups.users.list`."""
    group = context.workspace.groups.get(arguments.need("usergroup"))
    if group is None:
        raise MethodFailed("no_such_subteam")
    return {"users": list(group)}


def channel_json(workspace: SimulatedWorkspace, channel: Channel) -> Json:
    """Return the conversation object."""
    person = next((each for each in channel.members if each != workspace.bot.id), None)
    return {
        "id": channel.id,
        "name": channel.name,
        "is_channel": channel.kind == "channel",
        "is_group": channel.kind == "group",
        "is_im": channel.kind == "im",
        "is_mpim": channel.kind == "mpim",
        "is_private": channel.kind != "channel",
        "is_archived": channel.archived,
        "is_shared": channel.shared,
        "is_ext_shared": channel.shared,
        "is_member": workspace.bot.id in channel.members,
        "num_members": len(channel.members),
        **({"user": person} if channel.kind == "im" else {}),
    }


def _readable(context: MethodContext, arguments: Arguments) -> Channel:
    """Return a channel whose messages the app may read: one that it is in."""
    channel = context.channel(arguments.need("channel"))
    context.need_scope(f"{_KINDS[channel.kind]}:history")
    if context.workspace.bot.id not in channel.members:
        raise MethodFailed("not_in_channel")
    return channel


def _within(arguments: Arguments, ts: str) -> bool:
    return float(ts) > float(arguments.text("oldest") or 0)


def _page(context: MethodContext, arguments: Arguments, messages: Sequence[SlackMessage]) -> Json:
    limit, start = max(1, min(arguments.number("limit", _PAGE), _PAGE)), arguments.number("cursor", 0)
    end, everything = start + limit, arguments.get("include_all_metadata") in (True, 1, "1", "true", "True")
    items = [payloads.as_json(each, context.app_id, metadata=everything) for each in messages[start:end]]
    more = end < len(messages)
    cursor = {"response_metadata": {"next_cursor": str(end)}} if more else {}
    return {"messages": items, "has_more": more, **cursor}
