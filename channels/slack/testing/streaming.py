"""`chat.startStream`, `chat.appendStream` and `chat.stopStream`: a streamed message's life and real errors."""

from channels.slack.testing import payloads
from channels.slack.testing.asked import Arguments, MethodContext, MethodFailed
from channels.slack.testing.content import append_chunks, blocks_of, chunks_of, metadata_of
from channels.slack.testing.posting import owned, thread_of
from channels.slack.testing.sessions import session_at, status_of
from channels.slack.testing.world import Channel, Json, SlackMessage, Stream

_MODES = {"", "timeline", "plan"}


def start(context: MethodContext, arguments: Arguments) -> Json:
    """`chat.startStream`: opens the session and sets it to `processing`."""
    _refuse_metadata(arguments)
    channel = context.channel(arguments.need("channel"), write=True)
    root = thread_of(channel, arguments.text("thread_ts"), "invalid_thread_ts")
    if root is None:
        raise MethodFailed("invalid_thread_ts")
    _check_recipient(context, arguments, channel)
    if (mode := arguments.text("task_display_mode")) not in _MODES:
        raise MethodFailed("invalid_arguments", "[ERROR] must be timeline or plan [json-pointer:/task_display_mode]")
    if arguments.text("username") or arguments.text("icon_emoji") or arguments.text("icon_url"):
        context.need_scope("chat:write.customize")
    stream = Stream(context.now, plan=mode == "plan")
    warnings = append_chunks(chunks_of(arguments), stream)
    message = SlackMessage(
        channel.stamp(context.now), context.workspace.bot.id, "", root, context.workspace.id, stream=stream
    )
    message.bot_id, message.username = context.workspace.bot_id, arguments.text("username") or None
    channel.messages[message.ts] = message
    session_at(channel, root).become("processing", context.now)
    context.notify(channel, payloads.message(context.workspace, channel, message))
    return _answer(channel, message, warnings)


def append(context: MethodContext, arguments: Arguments) -> Json:
    """`chat.appendStream`."""
    _refuse_metadata(arguments)
    channel, message, stream = _open(context, arguments)
    chunks = chunks_of(arguments)
    if not chunks:
        raise MethodFailed("no_text")
    return _answer(channel, message, append_chunks(chunks, stream))


def stop(context: MethodContext, arguments: Arguments) -> Json:
    """`chat.stopStream`: the only call of a stream that takes metadata; its blocks are below all else."""
    channel, message, stream = _open(context, arguments)
    status = status_of(arguments, "session_status", "active")
    chunks, blocks, metadata = chunks_of(arguments), blocks_of(arguments), metadata_of(arguments)
    before = payloads.as_json(message, context.app_id)
    warnings = append_chunks([*chunks, *([{"type": "blocks", "blocks": blocks}] if blocks else [])], stream)
    stream.ended, message.metadata = "finished", metadata
    session_at(channel, message.root).become(status, context.now)
    context.notify(channel, payloads.changed(context.workspace, channel, message, before, channel.stamp(context.now)))
    body = payloads.as_json(message, context.app_id)
    return {**_answer(channel, message, warnings), "message": body}


def _open(context: MethodContext, arguments: Arguments) -> tuple[Channel, SlackMessage, Stream]:
    """Return the stream of the call while it runs."""
    channel = context.channel(arguments.need("channel"), write=True)
    message = owned(context, channel, arguments.need("ts"), "message_not_owned_by_app")
    stream = message.stream
    if stream is not None and stream.ended == "stopped_by_user":
        raise MethodFailed("stopped_by_user")
    if stream is None or stream.settled(context.now):
        raise MethodFailed("message_not_in_streaming_state")
    return channel, message, stream


def _refuse_metadata(arguments: Arguments) -> None:
    if arguments.get("metadata") is not None:
        raise MethodFailed("invalid_arguments", "[ERROR] only chat.stopStream takes it [json-pointer:/metadata]")


def _check_recipient(context: MethodContext, arguments: Arguments, channel: Channel) -> None:
    user, team = arguments.text("recipient_user_id"), arguments.text("recipient_team_id")
    if channel.kind != "im" and not user:
        raise MethodFailed("missing_recipient_user_id")
    if channel.kind != "im" and not team:
        raise MethodFailed("missing_recipient_team_id")
    if user and user not in context.workspace.users:
        raise MethodFailed("user_not_found")


def _answer(channel: Channel, message: SlackMessage, warnings: list[str]) -> Json:
    body: Json = {"channel": channel.id, "ts": message.ts}
    if warnings:
        body |= {"warning": ",".join(warnings), "response_metadata": {"warnings": warnings}}
    return body
