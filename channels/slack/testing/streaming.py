"""`chat.startStream`, `chat.appendStream` and `chat.stopStream`: a streamed message's life and real errors."""

from channels.slack.testing import payloads
from channels.slack.testing.asked import Arguments, MethodContext, MethodFailed
from channels.slack.testing.content import append_chunks, blocks_of, chunks_of, metadata_of
from channels.slack.testing.posting import owned, thread_of
from channels.slack.testing.sessions import session_at, status_of
from channels.slack.testing.world import Channel, Json, SlackMessage, Stream

_MODES = {"", "timeline", "plan"}


def start(context: MethodContext, given: Arguments) -> Json:
    """`chat.startStream`: opens the session and sets it to `processing`."""
    _refuse_metadata(given)
    channel = context.channel(given.need("channel"), write=True)
    root = thread_of(channel, given.text("thread_ts"), "invalid_thread_ts")
    if root is None:
        raise MethodFailed("invalid_thread_ts")
    _check_recipient(context, given, channel)
    if (mode := given.text("task_display_mode")) not in _MODES:
        raise MethodFailed("invalid_arguments", "[ERROR] must be timeline or plan [json-pointer:/task_display_mode]")
    if given.text("username") or given.text("icon_emoji") or given.text("icon_url"):
        context.need_scope("chat:write.customize")
    stream = Stream(context.now, plan=mode == "plan")
    warnings = append_chunks(chunks_of(given), stream)
    message = SlackMessage(
        channel.stamp(context.now), context.workspace.bot.id, "", root, context.workspace.id, stream=stream
    )
    message.bot_id, message.username = context.workspace.bot_id, given.text("username") or None
    channel.messages[message.ts] = message
    session_at(channel, root).become("processing", context.now)
    context.notify(channel, payloads.message(context.workspace, channel, message))
    return _answer(channel, message, warnings)


def append(context: MethodContext, given: Arguments) -> Json:
    """`chat.appendStream`."""
    _refuse_metadata(given)
    channel, message, stream = _open(context, given)
    chunks = chunks_of(given)
    if not chunks:
        raise MethodFailed("no_text")
    return _answer(channel, message, append_chunks(chunks, stream))


def stop(context: MethodContext, given: Arguments) -> Json:
    """`chat.stopStream`: the only call of a stream that takes metadata; its blocks are below all else."""
    channel, message, stream = _open(context, given)
    status = status_of(given, "session_status", "active")
    chunks, blocks, metadata = chunks_of(given), blocks_of(given), metadata_of(given)
    before = payloads.as_json(message, context.app_id)
    warnings = append_chunks([*chunks, *([{"type": "blocks", "blocks": blocks}] if blocks else [])], stream)
    stream.ended, message.metadata = "finished", metadata
    session_at(channel, message.root).become(status, context.now)
    context.notify(channel, payloads.changed(context.workspace, channel, message, before, channel.stamp(context.now)))
    shown = payloads.as_json(message, context.app_id)
    return {**_answer(channel, message, warnings), "message": shown}


def _open(context: MethodContext, given: Arguments) -> tuple[Channel, SlackMessage, Stream]:
    """Return the stream of the call while it runs."""
    channel = context.channel(given.need("channel"), write=True)
    message = owned(context, channel, given.need("ts"), "message_not_owned_by_app")
    stream = message.stream
    if stream is not None and stream.ended == "stopped_by_user":
        raise MethodFailed("stopped_by_user")
    if stream is None or stream.settled(context.now):
        raise MethodFailed("message_not_in_streaming_state")
    return channel, message, stream


def _refuse_metadata(given: Arguments) -> None:
    if given.get("metadata") is not None:
        raise MethodFailed("invalid_arguments", "[ERROR] only chat.stopStream takes it [json-pointer:/metadata]")


def _check_recipient(context: MethodContext, given: Arguments, channel: Channel) -> None:
    user, team = given.text("recipient_user_id"), given.text("recipient_team_id")
    if channel.kind != "im" and not user:
        raise MethodFailed("missing_recipient_user_id")
    if channel.kind != "im" and not team:
        raise MethodFailed("missing_recipient_team_id")
    if user and user not in context.workspace.users:
        raise MethodFailed("user_not_found")


def _answer(channel: Channel, message: SlackMessage, warnings: list[str]) -> Json:
    said: Json = {"channel": channel.id, "ts": message.ts}
    if warnings:
        said |= {"warning": ",".join(warnings), "response_metadata": {"warnings": warnings}}
    return said
