"""Which methods of the Web API there are, and the scopes that each asks for."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from channels.slack.testing import posting, reading, sessions, streaming, views
from channels.slack.testing.asked import Method


@dataclass(frozen=True, slots=True)
class Entry:
    """A method with the scopes of which it needs one; none where any token is good."""

    run: Method
    scopes: tuple[str, ...] = ()


_READ = ("channels:read", "groups:read", "im:read", "mpim:read")
_HISTORY = ("channels:history", "groups:history", "im:history", "mpim:history")
_STATUS = ("chat:write", "assistant:write")

METHODS: Mapping[str, Entry] = MappingProxyType(
    {
        "auth.test": Entry(reading.auth_test),
        "chat.postMessage": Entry(posting.post, ("chat:write",)),
        "chat.postEphemeral": Entry(posting.post_ephemeral, ("chat:write",)),
        "chat.update": Entry(posting.update, ("chat:write",)),
        "chat.delete": Entry(posting.delete, ("chat:write",)),
        "chat.getPermalink": Entry(posting.permalink),
        "chat.startStream": Entry(streaming.start, ("chat:write",)),
        "chat.appendStream": Entry(streaming.append, ("chat:write",)),
        "chat.stopStream": Entry(streaming.stop, ("chat:write",)),
        "agents.sessions.setStatus": Entry(sessions.set_status, ("chat:write",)),
        "agents.sessions.rename": Entry(sessions.rename, ("chat:write",)),
        "assistant.threads.setStatus": Entry(sessions.bridge_status, _STATUS),
        "assistant.threads.setTitle": Entry(sessions.bridge_title, ("assistant:write",)),
        "assistant.threads.setSuggestedPrompts": Entry(sessions.set_prompts, ("assistant:write",)),
        "conversations.replies": Entry(reading.replies, _HISTORY),
        "conversations.history": Entry(reading.history, _HISTORY),
        "conversations.info": Entry(reading.info, _READ),
        "conversations.members": Entry(reading.members, _READ),
        "conversations.open": Entry(reading.open_im, ("im:write",)),
        "users.info": Entry(reading.user, ("users:read",)),
        "usergroups.users.list": Entry(reading.group_users, ("usergroups:read",)),
        "reactions.add": Entry(posting.react, ("reactions:write",)),
        "views.open": Entry(views.open_modal),
        "views.push": Entry(views.push_modal),
        "views.update": Entry(views.update_view),
        "views.publish": Entry(views.publish_home),
        "blocks.validate": Entry(reading.validate),
    }
)
