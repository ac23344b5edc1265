"""What Slack writes: messages as they are read, events as they are sent, and the payloads of a click."""

from channels.slack.testing.world import (
    Channel,
    Json,
    SimulatedWorkspace,
    SlackMessage,
    SlackSession,
    Stream,
    TaskCard,
    User,
    View,
)


def as_json(message: SlackMessage, app_id: str = "", *, metadata: bool = True) -> Json:
    """Return *message* as `conversations.replies` and events show it."""
    fields: Json = {"type": "message", "user": message.user, "ts": message.ts, "team": message.team}
    stream = message.stream
    fields["text"] = stream.markdown if stream else message.text
    if blocks := streamed(stream) if stream else message.blocks:
        fields["blocks"] = blocks
    if message.bot_id:
        fields |= {"bot_id": message.bot_id, "app_id": app_id}
    else:
        fields["client_msg_id"] = f"{message.ts}-{message.user}"
    for name in ("thread_ts", "subtype", "edited", "username", "attachments", "files"):
        if value := getattr(message, name):
            fields[name] = value
    if message.metadata and metadata:
        fields["metadata"] = message.metadata
    if message.reactions:
        fields["reactions"] = [{"name": n, "users": who, "count": len(who)} for n, who in message.reactions.items()]
    return fields


def streamed(stream: Stream) -> list[Json]:
    """Return the blocks that a stream is kept as."""
    blocks: list[Json] = []
    tasks = [_card(task) for task in stream.tasks]
    if stream.plan and tasks:
        blocks.append({"type": "plan", "title": stream.title or "Plan", "tasks": tasks})
    for part in stream.parts:
        match part:
            case str():
                blocks.append({"type": "markdown", "text": part})
            case TaskCard() if not stream.plan:
                blocks.append(_card(part))
            case list():
                blocks += part
            case _:
                continue
    return blocks


def message(workspace: SimulatedWorkspace, channel: Channel, message: SlackMessage, app_id: str = "") -> Json:
    """Return the event of a new message."""
    event = as_json(message, app_id)
    root = channel.messages.get(message.thread_ts or "")
    if root is not None:
        event["parent_user_id"] = root.user
    author = workspace.users.get(message.user)
    if author is not None and author.stranger:
        event |= {"user_team": author.team, "source_team": author.team}
    return _of(channel, event, message.ts)


def changed(workspace: SimulatedWorkspace, channel: Channel, message: SlackMessage, before: Json, ts: str) -> Json:
    """Return the event of an edit, an unfurl or an update; only a person's edit has a new `edited.ts`."""
    now = as_json(message, before.get("app_id", "")) | {"source_team": workspace.id}
    event: Json = {"type": "message", "subtype": "message_changed", "hidden": True, "ts": ts}
    return _of(channel, event | {"message": now, "previous_message": before}, ts)


def gone(workspace: SimulatedWorkspace, channel: Channel, message: SlackMessage, before: Json, ts: str) -> Json:
    """Return the event of a deletion; of a thread's root with answers it is a change into a tombstone."""
    if message.subtype == "tombstone":
        return changed(workspace, channel, message, before, ts)
    event: Json = {"type": "message", "subtype": "message_deleted", "hidden": True, "ts": ts, "deleted_ts": message.ts}
    return _of(channel, event | {"previous_message": before}, ts)


def mention(event: Json) -> Json:
    """Return the `app_mention` that goes with the event of a message."""
    names = ("user", "bot_id", "app_id", "ts", "client_msg_id", "text", "thread_ts", "channel", "event_ts", "team")
    names += ("user_team", "blocks", "attachments", "files")
    return {"type": "app_mention", **{name: event[name] for name in names if name in event}}


def stopped(channel: Channel, user: str, root: str, streams: list[str], ts: str) -> Json:
    """Return the event of a press on Stop."""
    return {
        "type": "agent_session_stopped",
        "channel": channel.id,
        "user": user,
        "thread_ts": root,
        "streaming_message_ts": streams,
        "event_ts": ts,
    }


def renamed(
    workspace: SimulatedWorkspace, channel: Channel, user: str, root: str, session: SlackSession, old: str
) -> Json:
    """Return the event of a new title."""
    event: Json = {"type": "agent_session_title_changed", "channel": channel.id, "user": user}
    event |= {"team_id": workspace.id, "thread_ts": root, "title": session.title}
    return event | ({"previous_title": old} if old else {})


def envelope(
    workspace: SimulatedWorkspace, channel: Channel | None, event: Json, app_id: str, ids: tuple[str, int]
) -> Json:
    """Wrap *event* as the Events API does; *ids* are its id and its time in seconds."""
    event_id, seconds = ids
    bot: Json = {"enterprise_id": workspace.enterprise, "team_id": workspace.id, "user_id": workspace.bot.id}
    return {
        "token": "deprecated",
        "team_id": workspace.id,
        "context_team_id": workspace.id,
        "context_enterprise_id": workspace.enterprise,
        "api_app_id": app_id,
        "event": event,
        "type": "event_callback",
        "event_id": event_id,
        "event_time": seconds,
        "event_context": f"4-{event_id}",
        "is_ext_shared_channel": channel is not None and channel.shared,
        "authorizations": [bot | {"is_bot": True, "is_enterprise_install": False}],
    }


def person(user: User) -> Json:
    """Return the person of an interaction."""
    return {"id": user.id, "username": user.name, "name": user.name, "team_id": user.team}


def interaction(workspace: SimulatedWorkspace, user: User, app_id: str, more: Json) -> Json:
    """Return what all payloads of a click have, and *more*."""
    enterprise = {"id": workspace.enterprise, "name": workspace.name} if workspace.enterprise else None
    return {
        "team": {"id": workspace.id, "domain": workspace.name.lower()},
        "user": person(user),
        "api_app_id": app_id,
        "token": "deprecated",
        "enterprise": enterprise,
        "is_enterprise_install": False,
    } | more


def where(channel: Channel, message: SlackMessage, app_id: str) -> Json:
    """Return the part of a click that says on which message it was."""
    container: Json = {"type": "message", "message_ts": message.ts, "channel_id": channel.id}
    container |= {"is_ephemeral": message.to is not None}
    if message.thread_ts:
        container["thread_ts"] = message.thread_ts
    return {
        "container": container,
        "channel": {"id": channel.id, "name": channel.name},
        "message": as_json(message, app_id),
        "state": {"values": {}},
    }


def view(workspace: SimulatedWorkspace, opened: View, app_id: str) -> Json:
    """Return a view as it is answered and sent."""
    view = opened.view
    return {
        **view,
        "id": opened.id,
        "team_id": workspace.id,
        "app_id": app_id,
        "bot_id": workspace.bot_id,
        "hash": opened.hash,
        "root_view_id": opened.root,
        "previous_view_id": opened.previous,
        "private_metadata": view.get("private_metadata", ""),
        "callback_id": view.get("callback_id", ""),
        "state": view.get("state", {"values": {}}),
    }


def _card(task: TaskCard) -> Json:
    card: Json = {"type": "task_card", "task_id": task.id, "title": task.title, "status": task.status}
    for name in ("details", "output"):
        if text := getattr(task, name):
            section: Json = {"type": "rich_text_section", "elements": [{"type": "text", "text": text}]}
            card[name] = {"type": "rich_text", "elements": [section]}
    return card | ({"sources": task.sources} if task.sources else {})


def _of(channel: Channel, event: Json, ts: str) -> Json:
    return event | {"channel": channel.id, "channel_type": channel.kind, "event_ts": ts}
