"""What the doctor finds of Slack: whether it takes the bot token, and what the app may not do with it."""

from collections.abc import Iterator
from contextlib import suppress

import httpx

from agent_core import ConfigError, Definition
from app.agents import SUFFIXES, read_agent
from app.doctor.findings import Finding
from app.settings import Settings
from channels.slack.settings import IN_SLACK, is_in_slack

TIMEOUT = 10.0
"""Seconds for Slack to answer."""
_REMEDY = "put the manifest of `parley slack manifest` into the app's settings, and install the app again"


def slack(settings: Settings, *, offline: bool) -> Iterator[Finding]:
    """Look for an agent that is in Slack, and ask Slack who the bot token is of and which scopes it has.

    Without a token there is nothing to find.
    """
    if settings.slack_bot_token is None:
        return
    if not any(map(is_in_slack, _agents(settings))):
        text = f"no agent of `{settings.agents}` is in Slack: who calls the bot reads that no agent answers"
        yield Finding("warn", "slack", text, f"put `{IN_SLACK}` into an agent's file, or set it over HTTP")
    if offline:
        yield Finding("ok", "slack", "SLACK_BOT_TOKEN is set; not asked")
        return
    headers = {"Authorization": f"Bearer {settings.slack_bot_token.get_secret_value()}"}
    try:
        answer = httpx.post(f"{settings.slack_api_url}/auth.test", headers=headers, timeout=TIMEOUT)
        reply = answer.json()
        well = bool(reply["ok"])
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError) as error:
        text = f"{settings.slack_api_url} gives no answer of Slack's ({type(error).__name__})"
        yield Finding("fail", "slack", text, "check the network, the proxy and SLACK_API_URL")
        return
    if not well:
        text = f"Slack does not accept SLACK_BOT_TOKEN ({str(reply.get('error'))[:100]})"
        yield Finding("fail", "slack", text, "install the app again, and set the token that it gives")
        return
    yield _scopes(str(reply.get("team") or reply.get("team_id")), answer.headers.get("x-oauth-scopes"))


def _agents(settings: Settings) -> Iterator[Definition]:
    """Give the agents of PARLEY_AGENTS; what is wrong with the others is a finding of its own."""
    for path in sorted(settings.agents.iterdir()) if settings.agents.is_dir() else []:
        if path.suffix in SUFFIXES:
            with suppress(ConfigError):
                yield read_agent(path)


def _scopes(team: str, granted: str | None) -> Finding:
    from channels.slack.manifest import OPTIONAL, SCOPES  # noqa: PLC0415 - it brings the SDK, only for those who use Slack

    place = f"the app is in the workspace {team}"
    if granted is None:
        return Finding("warn", "slack", f"{place}; Slack does not say what it may do there")
    held = {scope.strip() for scope in granted.split(",")}
    missing = [scope for scope in SCOPES if scope not in held]
    if needed := [scope for scope in missing if scope not in OPTIONAL]:
        return Finding("warn", "slack", f"{place} without {', '.join(needed)}", _REMEDY)
    if missing:
        without = "; ".join(dict.fromkeys(OPTIONAL[scope] for scope in missing))
        text = f"{place} without {', '.join(missing)}: {without}"
        return Finding("warn", "slack", text, f"{_REMEDY}, or leave it if that is not needed")
    return Finding("ok", "slack", f"{place}, with all its scopes")
