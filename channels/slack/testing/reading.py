"""What an app reads and looks up: threads, channels, people, groups, itself; and the strict check of blocks."""

from collections.abc import Sequence

from channels.slack.testing import payloads
from channels.slack.testing.asked import Arguments, MethodContext, MethodFailed
from channels.slack.testing.blocks import check, check_view
from channels.slack.testing.content import raise_problems
from channels.slack.testing.world import Channel, Json, SimulatedWorkspace, SlackMessage

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


def members(context: MethodContext, arguments: Arguments) -> Json:
    """`conversations.members`."""
    channel = context.channel(arguments.need("channel"))
    context.need_scope(f"{_KINDS[channel.kind]}:read")
    return {"members": sorted(channel.members), "response_metadata": {"next_cursor": ""}}


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


def validate(_: MethodContext, arguments: Arguments) -> Json:
    """`blocks.validate`: exactly one of blocks, message and view."""
    names = [name for name in ("blocks", "message", "view") if name in arguments]
    if len(names) != 1:
        raise MethodFailed("invalid_arguments", "[ERROR] exactly one of blocks, message, view")
    code = f"invalid_{names[0]}"
    if names[0] == "view":
        raise_problems(code, check_view(arguments.mapping("view", code)))
    elif names[0] == "blocks":
        raise_problems(code, check(arguments.listed("blocks", code)), "/blocks")
    else:
        message = arguments.mapping("message", code) or {}
        raise_problems(code, check(message.get("blocks", [])), "/blocks")
    return {}


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
    oldest, latest, both = arguments.text("oldest"), arguments.text("latest"), arguments.flag("inclusive")
    after = not oldest or float(ts) > float(oldest) or (both and float(ts) == float(oldest))
    before = not latest or float(ts) < float(latest) or (both and float(ts) == float(latest))
    return after and before


def _page(context: MethodContext, arguments: Arguments, messages: Sequence[SlackMessage]) -> Json:
    limit, start = max(1, min(arguments.number("limit", _PAGE), _PAGE)), arguments.number("cursor", 0)
    end, everything = start + limit, arguments.flag("include_all_metadata")
    items = [payloads.as_json(each, context.app_id, metadata=everything) for each in messages[start:end]]
    more = end < len(messages)
    cursor = {"response_metadata": {"next_cursor": str(end)}} if more else {}
    return {"messages": items, "has_more": more, **cursor}
