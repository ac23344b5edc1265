"""The app under test as Slack knows it: its secrets, its URLs and what it has subscribed to."""

from dataclasses import dataclass

_MESSAGES = {"message.im", "message.channels", "message.groups", "message.mpim"}
_AGENT = {"app_home_opened", "app_context_changed", "agent_session_stopped", "agent_session_title_changed"}
EVENTS = frozenset({"app_mention", "app_uninstalled", "tokens_revoked"} | _MESSAGES | _AGENT)
"""What an agent subscribes to."""


@dataclass(frozen=True, slots=True)
class App:
    """One app, installed in every workspace of the stand-in.

    *url* is where it listens, without a path (None: nowhere yet); *paths* are those of events, interactivity and
    commands. In *socket_mode* all goes through WebSockets and nothing to *url*.
    """

    id: str = "APARLEY"
    signing_secret: str = "stand-in-signing-secret"  # noqa: S105
    app_token: str = "xapp-stand-in"  # noqa: S105
    url: str | None = None
    paths: tuple[str, str, str] = ("/slack/events", "/slack/interactivity", "/slack/commands")
    socket_mode: bool = False
    subscribed: frozenset[str] = EVENTS
