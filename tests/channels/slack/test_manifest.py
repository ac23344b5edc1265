"""The manifest of the Slack app, held against what Slack documents of manifests."""

from channels.slack.manifest import EVENTS, OPTIONAL, SCOPES, manifest
from channels.slack.testing import EVENTS as SUBSCRIBED
from channels.slack.testing import SCOPES as GIVEN
from tests.cases import for_each

URL = "https://parley.example.com"
NEEDS = {"channels": "channels:history", "groups": "groups:history", "im": "im:history", "mpim": "mpim:history"}


@for_each("url", [URL, None])
def test_it_keeps_slacks_limits(url):
    """No text is longer, and no list has more, than a manifest may hold."""
    made = manifest(url)
    shown, features = made["display_information"], made["features"]
    command, shortcut, view = features["slash_commands"][0], features["shortcuts"][0], features["agent_view"]
    lengths = [
        (shown["name"], 35),
        (shown["description"], 140),
        (shown["long_description"], 4000),
        (view["agent_description"], 300),
        (view["suggested_prompts"], 4),
        (features["bot_user"]["display_name"], 80),
        (command["command"], 32),
        (command["description"], 2000),
        (command["usage_hint"], 1000),
        (shortcut["name"], 24),
        (shortcut["callback_id"], 255),
        (shortcut["description"], 150),
        (made["oauth_config"]["scopes"]["bot"], 255),
        (made["settings"]["event_subscriptions"]["bot_events"], 100),
    ]
    assert [(what, most) for what, most in lengths if not 0 < len(what) <= most] == []
    assert len(shown["long_description"]) >= 175
    assert "assistant_view" not in features


def test_every_event_has_its_scope_and_stop_its_button():
    """The app has the scopes for its events, the Stop among them, and the stand-in can send them all."""
    assert {NEEDS[each.partition(".")[2]] for each in EVENTS if "." in each} < set(SCOPES)
    assert {"agent_session_stopped", "app_mention", "app_home_opened"} < set(EVENTS) <= SUBSCRIBED
    assert set(OPTIONAL) < set(SCOPES) <= set(GIVEN.split())
    assert manifest(URL)["oauth_config"]["scopes"]["bot_optional"] == ["files:read", "files:write", "users:read.email"]


def test_requests_go_to_the_public_address():
    """With an address Slack sends to three paths of it; the token never expires, since it is a setting."""
    made = manifest(URL)
    settings = made["settings"]
    assert settings["event_subscriptions"]["request_url"] == f"{URL}/slack/events"
    assert settings["interactivity"]["request_url"] == f"{URL}/slack/interactivity"
    assert made["features"]["slash_commands"][0]["url"] == f"{URL}/slack/commands"
    assert (settings["socket_mode_enabled"], settings["token_rotation_enabled"]) == (False, False)


def test_socket_mode_needs_no_address():
    """Without an address the app uses Socket Mode, and no URL is in the manifest."""
    made = manifest(None)
    assert made["settings"]["socket_mode_enabled"] is True
    assert "http" not in str(made)
