"""Which methods of the Web API there are, and the scopes that each asks for."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from channels.slack.testing import posting, reading, sessions, streaming, uploads, views
from channels.slack.testing.asked import Method


@dataclass(frozen=True, slots=True)
class ScopedMethod:
    """A method with the scopes of which it needs one; none where any token is good."""

    run: Method
    scopes: tuple[str, ...] = ()


_READ = ("channels:read", "groups:read", "im:read", "mpim:read")
_HISTORY = ("channels:history", "groups:history", "im:history", "mpim:history")
_STATUS = ("chat:write", "assistant:write")

METHODS: Mapping[str, ScopedMethod] = MappingProxyType(
    {
        "auth.test": ScopedMethod(reading.auth_test),
        "chat.postMessage": ScopedMethod(posting.post, ("chat:write",)),
        "chat.postEphemeral": ScopedMethod(posting.post_ephemeral, ("chat:write",)),
        "chat.update": ScopedMethod(posting.update, ("chat:write",)),
        "chat.delete": ScopedMethod(posting.delete, ("chat:write",)),
        "chat.getPermalink": ScopedMethod(posting.permalink),
        "chat.startStream": ScopedMethod(streaming.start, ("chat:write",)),
        "chat.appendStream": ScopedMethod(streaming.append, ("chat:write",)),
        "chat.stopStream": ScopedMethod(streaming.stop, ("chat:write",)),
        "agents.sessions.setStatus": ScopedMethod(sessions.set_status, ("chat:write",)),
        "agents.sessions.rename": ScopedMethod(sessions.rename, ("chat:write",)),
        "assistant.threads.setStatus": ScopedMethod(sessions.bridge_status, _STATUS),
        "assistant.threads.setTitle": ScopedMethod(sessions.bridge_title, ("assistant:write",)),
        "assistant.threads.setSuggestedPrompts": ScopedMethod(sessions.set_prompts, ("assistant:write",)),
        "files.getUploadURLExternal": ScopedMethod(uploads.get_url, ("files:write",)),
        "files.completeUploadExternal": ScopedMethod(uploads.complete, ("files:write",)),
        "files.info": ScopedMethod(uploads.info, ("files:read",)),
        "files.delete": ScopedMethod(uploads.delete, ("files:write",)),
        "conversations.replies": ScopedMethod(reading.replies, _HISTORY),
        "conversations.history": ScopedMethod(reading.history, _HISTORY),
        "conversations.info": ScopedMethod(reading.info, _READ),
        "conversations.members": ScopedMethod(reading.members, _READ),
        "conversations.open": ScopedMethod(reading.open_im, ("im:write",)),
        "users.info": ScopedMethod(reading.user, ("users:read",)),
        "usergroups.users.list": ScopedMethod(reading.group_users, ("usergroups:read",)),
        "reactions.add": ScopedMethod(posting.react, ("reactions:write",)),
        "views.open": ScopedMethod(views.open_modal),
        "views.push": ScopedMethod(views.push_modal),
        "views.update": ScopedMethod(views.update_view),
        "views.publish": ScopedMethod(views.publish_home),
        "blocks.validate": ScopedMethod(reading.validate),
    }
)
