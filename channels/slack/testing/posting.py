"""`chat.*` without streaming: posts, updates, deletions and what only one person sees."""

from channels.slack.testing import payloads
from channels.slack.testing.asked import Arguments, MethodContext, MethodFailed
from channels.slack.testing.content import blocks_of, metadata_of
from channels.slack.testing.world import Channel, Json, SlackMessage
from channels.slack.web_api import limits


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
    if len(arguments.text("text")) > limits.TEXT.value:
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


def delete(context: MethodContext, arguments: Arguments) -> Json:
    """`chat.delete`."""
    channel = context.channel(arguments.need("channel"))
    message = owned(context, channel, arguments.need("ts"), "cant_delete_message")
    before = payloads.as_json(message, context.app_id)
    channel.remove(message)
    context.notify(channel, payloads.gone(context.workspace, channel, message, before, channel.stamp(context.now)))
    return {"channel": channel.id, "ts": message.ts}


def permalink(context: MethodContext, arguments: Arguments) -> Json:
    """`chat.getPermalink`."""
    channel = context.channel(arguments.need("channel"))
    if (ts := arguments.need("message_ts")) not in channel.messages:
        raise MethodFailed("message_not_found")
    link = f"{context.base_url}archives/{channel.id}/p{ts.replace('.', '')}"
    return {"channel": channel.id, "permalink": link}


def react(context: MethodContext, arguments: Arguments) -> Json:
    """`reactions.add`."""
    channel = context.channel(arguments.need("channel"))
    message = channel.messages.get(arguments.need("timestamp"))
    if message is None:
        raise MethodFailed("message_not_found")
    who = message.reactions.setdefault(arguments.need("name"), [])
    if context.workspace.bot.id in who:
        raise MethodFailed("already_reacted")
    who.append(context.workspace.bot.id)
    return {}


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
    """Make a message of the app out of text, Markdown or blocks; its `ts` is new."""
    text, markdown, blocks = arguments.text("text"), arguments.text("markdown_text"), blocks_of(arguments)
    if markdown and (text or blocks is not None):
        raise MethodFailed("markdown_text_conflict")
    if len(markdown) > limits.MARKDOWN_TEXT.value:
        raise MethodFailed("msg_too_long")
    if not text and not markdown and not blocks:
        raise MethodFailed("no_text")
    if markdown:
        text, blocks = markdown, [{"type": "markdown", "text": markdown}]
    if arguments.text("username") or arguments.text("icon_emoji") or arguments.text("icon_url"):
        context.need_scope("chat:write.customize")
    bot = context.workspace.bot
    return SlackMessage(
        channel.stamp(context.now),
        bot.id,
        text[: limits.TEXT_HARD.value],
        team=context.workspace.id,
        bot_id=context.workspace.bot_id,
        blocks=blocks or [],
        username=arguments.text("username") or None,
    )
