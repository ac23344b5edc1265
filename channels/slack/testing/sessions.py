"""`agents.sessions.*` and the older `assistant.threads.*`: status, title and suggested prompts of an agent."""

from typing import Any, cast, get_args

from channels.slack.testing.asked import Arguments, MethodContext, MethodFailed
from channels.slack.testing.world import Channel, Json, SessionStatus, SlackSession
from channels.slack.web_api import limits

_NO_STOP = "missing_agent_session_stopped_event_subscription"


def session_at(channel: Channel, root: str) -> SlackSession:
    """Return the session of the thread *root*, opened if need be."""
    return channel.sessions.setdefault(root, SlackSession())


def status_of(arguments: Arguments, name: str, default: str = "") -> SessionStatus:
    """Return a session's status."""
    if (status := arguments.text(name, default)) not in get_args(SessionStatus):
        raise MethodFailed("invalid_arguments", f"[ERROR] must be a status of a session [json-pointer:/{name}]")
    return cast("SessionStatus", status)


def set_status(context: MethodContext, arguments: Arguments) -> Json:
    """`agents.sessions.setStatus`."""
    channel, root = _thread(context, arguments)
    status, title = status_of(arguments, "status"), arguments.text("title")
    if len(title) > limits.SESSION_TITLE.value:
        raise MethodFailed("invalid_arguments", "[ERROR] title is too long [json-pointer:/title]")
    if arguments.text("username") or arguments.text("icon_emoji") or arguments.text("icon_url"):
        context.need_scope("chat:write.customize")
    if root not in channel.sessions and title:
        session_at(channel, root).title = title
    session = session_at(channel, root)
    session.become(status, context.now)
    body: Json = {"status": status, "agent_status": status}
    if status == "processing" and not context.subscribed("agent_session_stopped"):
        body |= {"warning": _NO_STOP, "response_metadata": {"warnings": [_NO_STOP]}}
    return body


def rename(context: MethodContext, arguments: Arguments) -> Json:
    """`agents.sessions.rename`."""
    channel, root = _thread(context, arguments)
    title = arguments.need("title")
    if len(title) > limits.SESSION_TITLE.value:
        raise MethodFailed("invalid_arguments", "[ERROR] title is too long [json-pointer:/title]")
    session_at(channel, root).title = title
    return {}


def bridge_status(context: MethodContext, arguments: Arguments) -> Json:
    """`assistant.threads.setStatus`: a text sets the session to `processing`, none to `active`."""
    channel, root = _thread(context, arguments)
    loading = arguments.texts("loading_messages")
    if len(loading) > limits.LOADING_MESSAGES.value:
        raise MethodFailed("invalid_arguments", "[ERROR] too many loading messages [json-pointer:/loading_messages]")
    session, status = session_at(channel, root), arguments.text("status")
    session.become("processing" if status else "active", context.now)
    session.loading = status
    return {}


def bridge_title(context: MethodContext, arguments: Arguments) -> Json:
    """`assistant.threads.setTitle`: the session's title."""
    channel, root = _thread(context, arguments)
    session_at(channel, root).title = arguments.need("title")[: limits.SESSION_TITLE.value]
    return {}


def set_prompts(context: MethodContext, arguments: Arguments) -> Json:
    """`assistant.threads.setSuggestedPrompts`: without effect where `thread_ts` is given."""
    channel = context.channel(arguments.need("channel_id"))
    prompts = arguments.listed("prompts", "invalid_arguments")
    if not prompts or len(prompts) > limits.PROMPTS.value:
        raise MethodFailed("invalid_arguments", f"[ERROR] from 1 to {limits.PROMPTS.value} [json-pointer:/prompts]")
    for n, prompt in enumerate(prompts):
        texts: list[Any] = [prompt.get("title"), prompt.get("message")]
        if not all(isinstance(each, str) and each for each in texts):
            raise MethodFailed(
                "invalid_arguments", f"[ERROR] title and message are required [json-pointer:/prompts/{n}]"
            )
    if not arguments.text("thread_ts"):
        channel.prompts = {"title": arguments.text("title"), "prompts": prompts}
    return {}


def _thread(context: MethodContext, arguments: Arguments) -> tuple[Channel, str]:
    channel = context.channel(arguments.need("channel_id"))
    root = arguments.text("thread_ts")
    if not root or (root not in channel.messages and not channel.replies(root)):
        raise MethodFailed("invalid_thread_ts")
    return channel, root
