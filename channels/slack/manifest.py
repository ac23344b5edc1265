"""The app as Slack is to know it: what it may do, which events it receives, and where it is reached."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from channels.slack.intake import ASK_MESSAGE
from channels.slack.settings import PROMPTS

NAME = "Parley"
COMMAND = "/parley"
SCOPES = (
    "app_mentions:read",
    "assistant:write",
    "channels:history",
    "channels:read",
    "chat:write",
    "commands",
    "files:read",
    "files:write",
    "groups:history",
    "groups:read",
    "im:history",
    "im:write",
    "mpim:history",
    "mpim:read",
    "usergroups:read",
    "users:read",
    "users:read.email",
)
OPTIONAL: Mapping[str, str] = MappingProxyType(
    {
        "files:read": "whether a file was shared is not asked after a crash",
        "files:write": "charts that Slack cannot draw are shown as tables, and long tables without their file",
        "users:read.email": "tools are not given the asker's `email`",
    }
)
"""Scopes that the person who installs the app may leave out, with what is missing then."""
EVENTS = (
    "agent_session_stopped",
    "agent_session_title_changed",
    "app_home_opened",
    "app_mention",
    "message.channels",
    "message.groups",
    "message.im",
    "message.mpim",
)
_ABOUT = "Answers where your team already talks, and shows what it does meanwhile"
_AT_LENGTH = (
    "Parley is an agent that your team runs itself. Mention it in a channel, write it a direct message, use its "
    "command or its message shortcut: it answers in the thread, says what it is doing, can be stopped at any time, "
    "and continues where it was when its machine is replaced. Answers are written by a language model and may be wrong."
)


def manifest(url: str | None) -> dict[str, Any]:
    """Return the manifest of an app that is reached at *url*, or by Socket Mode without one."""
    return {
        "display_information": {"name": NAME, "description": _ABOUT, "long_description": _AT_LENGTH},
        "features": {
            "agent_view": {"agent_description": _ABOUT, "suggested_prompts": [dict(each) for each in PROMPTS]},
            "app_home": {
                "home_tab_enabled": False,
                "messages_tab_enabled": True,
                "messages_tab_read_only_enabled": False,
            },
            "bot_user": {"display_name": NAME, "always_online": True},
            "shortcuts": [
                {
                    "name": "Ask about this",
                    "type": "message",
                    "callback_id": ASK_MESSAGE,
                    "description": "Have an agent look at a message and answer in its thread",
                }
            ],
            "slash_commands": [
                {
                    "command": COMMAND,
                    "description": "Ask for all to see, and be answered in a thread",
                    "usage_hint": "[question]",
                    "should_escape": True,
                    **({"url": f"{url}/slack/commands"} if url else {}),
                }
            ],
        },
        "oauth_config": {"scopes": {"bot": list(SCOPES), "bot_optional": list(OPTIONAL)}},
        "settings": _settings(url),
    }


def _settings(url: str | None) -> dict[str, Any]:
    def at(path: str) -> dict[str, str]:
        return {"request_url": f"{url}{path}"} if url else {}

    return {
        "event_subscriptions": {"bot_events": list(EVENTS), **at("/slack/events")},
        "interactivity": {"is_enabled": True, **at("/slack/interactivity")},
        "org_deploy_enabled": False,
        "socket_mode_enabled": url is None,
        # A token that lives for twelve hours cannot be a setting.
        "token_rotation_enabled": False,
    }
