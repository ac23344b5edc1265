"""`chat.startStream`, `chat.appendStream` and `chat.stopStream`: a streamed message's life and real errors."""

from channels.slack.testing import payloads
from channels.slack.testing.asked import Arguments, Desk, Refused
from channels.slack.testing.content import blocks_of, chunks_of, metadata_of, pour
from channels.slack.testing.posting import owned, thread_of
from channels.slack.testing.sessions import session_at, status_of
from channels.slack.testing.world import Channel, Json, Message, Stream

_MODES = {"", "timeline", "plan"}


def start(desk: Desk, given: Arguments) -> Json:
    """`chat.startStream`: opens the session and sets it to `processing`."""
    channel = desk.channel(given.need("channel"), write=True)
    root = thread_of(channel, given.text("thread_ts"), "invalid_thread_ts")
    if root is None:
        raise Refused("invalid_thread_ts")
    _check_recipient(desk, given, channel)
    if (mode := given.text("task_display_mode")) not in _MODES:
        raise Refused("invalid_arguments", "[ERROR] must be timeline or plan [json-pointer:/task_display_mode]")
    if given.text("username") or given.text("icon_emoji") or given.text("icon_url"):
        desk.need_scope("chat:write.customize")
    stream = Stream(desk.now, plan=mode == "plan")
    warnings = pour(chunks_of(given), stream)
    message = Message(channel.stamp(desk.now), desk.workspace.bot.id, "", root, desk.workspace.id, stream=stream)
    message.bot_id, message.username = desk.workspace.bot_id, given.text("username") or None
    channel.messages[message.ts] = message
    session_at(channel, root).become("processing", desk.now)
    desk.notify(channel, payloads.message(desk.workspace, channel, message))
    return _answer(channel, message, warnings)


def append(desk: Desk, given: Arguments) -> Json:
    """`chat.appendStream`."""
    channel, message, stream = _open(desk, given)
    chunks = chunks_of(given)
    if not chunks:
        raise Refused("no_text")
    return _answer(channel, message, pour(chunks, stream))


def stop(desk: Desk, given: Arguments) -> Json:
    """`chat.stopStream`: the only call of a stream that takes metadata; its blocks are below all else."""
    channel, message, stream = _open(desk, given)
    status = status_of(given, "session_status", "active")
    chunks, blocks, metadata = chunks_of(given), blocks_of(given), metadata_of(given)
    before = payloads.as_json(message, desk.app_id)
    warnings = pour(chunks, stream)
    if blocks:
        stream.parts.append(blocks)
    stream.ended, message.metadata = "finished", metadata
    session_at(channel, message.root).become(status, desk.now)
    desk.notify(channel, payloads.changed(desk.workspace, channel, message, before, channel.stamp(desk.now)))
    shown = payloads.as_json(message, desk.app_id)
    return {**_answer(channel, message, warnings), "message": shown}


def _open(desk: Desk, given: Arguments) -> tuple[Channel, Message, Stream]:
    """Return the stream of the call while it runs."""
    channel = desk.channel(given.need("channel"), write=True)
    message = owned(desk, channel, given.need("ts"), "message_not_owned_by_app")
    stream = message.stream
    if stream is not None and stream.ended == "stopped_by_user":
        raise Refused("stopped_by_user")
    if stream is None or stream.settled(desk.now):
        raise Refused("message_not_in_streaming_state")
    return channel, message, stream


def _check_recipient(desk: Desk, given: Arguments, channel: Channel) -> None:
    user, team = given.text("recipient_user_id"), given.text("recipient_team_id")
    if channel.kind != "im" and not user:
        raise Refused("missing_recipient_user_id")
    if channel.kind != "im" and not team:
        raise Refused("missing_recipient_team_id")
    if user and user not in desk.workspace.users:
        raise Refused("user_not_found")


def _answer(channel: Channel, message: Message, warnings: list[str]) -> Json:
    said: Json = {"channel": channel.id, "ts": message.ts}
    if warnings:
        said |= {"warning": ",".join(warnings), "response_metadata": {"warnings": warnings}}
    return said
