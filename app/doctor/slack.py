"""What the doctor finds of Slack: whether it takes the bot token, and what the app may not do with it."""

from collections.abc import Iterator

import httpx

from app.doctor.findings import Finding
from app.settings import Settings

TIMEOUT = 10.0
"""Seconds for Slack to answer."""
_REMEDY = "put the manifest of `parley slack manifest` into the app's settings, and install the app again"


def slack(settings: Settings, *, offline: bool) -> Iterator[Finding]:
    """Ask Slack who the bot token is of and which scopes it has; nothing without a token."""
    if settings.slack_bot_token is None:
        return
    if offline:
        yield Finding("ok", "slack", "SLACK_BOT_TOKEN is set; not asked")
        return
    headers = {"Authorization": f"Bearer {settings.slack_bot_token.get_secret_value()}"}
    try:
        answer = httpx.post(f"{settings.slack_api_url}/auth.test", headers=headers, timeout=TIMEOUT)
        said = answer.json()
        well = bool(said["ok"])
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError) as error:
        text = f"{settings.slack_api_url} gives no answer of Slack's ({type(error).__name__})"
        yield Finding("fail", "slack", text, "check the network, the proxy and SLACK_API_URL")
        return
    if not well:
        text = f"Slack does not accept SLACK_BOT_TOKEN ({str(said.get('error'))[:100]})"
        yield Finding("fail", "slack", text, "install the app again, and set the token that it gives")
        return
    yield _scopes(str(said.get("team") or said.get("team_id")), answer.headers.get("x-oauth-scopes"))


def _scopes(team: str, given: str | None) -> Finding:
    from channels.slack.manifest import OPTIONAL, SCOPES  # noqa: PLC0415 - it brings the SDK, only for those who use Slack

    known = f"the app is in the workspace {team}"
    if given is None:
        return Finding("warn", "slack", f"{known}; Slack does not say what it may do there")
    held = {scope.strip() for scope in given.split(",")}
    missing = [scope for scope in SCOPES if scope not in held]
    if needed := [scope for scope in missing if scope not in OPTIONAL]:
        return Finding("warn", "slack", f"{known} without {', '.join(needed)}", _REMEDY)
    if missing:
        text = f"{known} without {', '.join(missing)}: tools are not given the asker's `email`"
        return Finding("warn", "slack", text, f"{_REMEDY}, or leave it if no tool needs that")
    return Finding("ok", "slack", f"{known}, with all its scopes")
