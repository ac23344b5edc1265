"""The text of a setting as its value, and what to say of one that cannot be used."""

import json
from typing import Any, cast
from urllib.parse import urlsplit

from pydantic import ValidationError

from agent_core import ConfigError

MIN_SECRET = 32
MIN_API_KEY = 24
MAX_CONTEXT = 4_000
"""Bytes of a `tool_context`: as many as a visitor's token takes."""
SQLITE = "sqlite:///"
POSTGRES = ("postgres://", "postgresql://")
REMEDIES = {
    "PORT": "give a number from 0 to 65535",
    "PARLEY_DEMO": "give on or off",
    "PARLEY_DEMO_TOOL_CONTEXT": 'give a JSON object such as {"customer": "C-1"}',
    "PARLEY_DEMO_PASSWORD": "give 8 characters or more",
    "PARLEY_TRUSTED_PROXIES": "give addresses or networks such as 10.0.0.7 or 10.0.0.0/8, with commas between them, "
    "and not every address",
    "PARLEY_HOSTS": "give names such as parley.example.com or *.example.com, without a scheme, port or path, with "
    "commas between them",
    "PARLEY_MAX_CONNECTIONS": "give how many connections a process takes at once, 8 or more",
    "PARLEY_MAX_CONNECTIONS_PER_ADDRESS": "give how many of them may come from one address, 1 or more",
    "PARLEY_DEMO_RATE": "give deltas per second; 0 means flat out",
    "PARLEY_SECRET_KEY": f"give any text of {MIN_SECRET} characters or more",
    "PARLEY_MAX_RUNS": "give how many runs a process may drive at once, 1 or more",
    "PARLEY_MAX_BACKLOG": "give how many runs may be queued, 1 or more",
    "PARLEY_POOL": "give a number of connections from 2 to 1000",
    "PARLEY_GRACE": "give seconds from 0 to 3600",
    "PARLEY_LOG": "give text or json",
    "PARLEY_URL": "give the address of a server, such as https://parley.example.com",
    "PARLEY_API_KEY": "give a text without spaces",
    "PARLEY_ORIGINS": "give whole origins such as https://example.com, each with http:// or https://, "
    "without a path and without a * in it, with commas between them (one * alone allows every site)",
    "PARLEY_FRAME_ANCESTORS": "give the whole origins of the sites that embed the chat as an iframe, such as "
    "https://example.com, each by its name and without a path, with commas between them",
    "ANTHROPIC_API_KEY": "give the key as the provider shows it",
    "OPENAI_API_KEY": "give the key as the provider shows it",
    "ANTHROPIC_BASE_URL": "give an address such as https://api.anthropic.com, without a name or password in it",
    "OPENAI_BASE_URL": "give an address such as http://localhost:11434/v1, without a name or password in it",
    "SLACK_BOT_TOKEN": "give the token as Slack shows it, xoxb-…",
    "SLACK_SIGNING_SECRET": "give the secret as Slack shows it",
    "SLACK_APP_TOKEN": "give the token as Slack shows it, xapp-…",
    "SLACK_API_URL": "give an address such as http://127.0.0.1:4020/api/",
    "PARLEY_PUBLIC_URL": "give the address that others reach this server by, such as https://parley.example.com",
    "PARLEY_INCLUDE_RENDER": "give on or off",
    "PARLEY_PROMPT_CACHING": "give on or off",
    "PARLEY_TOOL_LIMIT": "give a number of tools, from 0 to 1000",
    "PARLEY_IDLE_REFREEZE": "give seconds, from 0 to 2592000",
    "PARLEY_CLOCK": "give the IANA name of a time zone, such as Europe/Berlin, or off",
    "CHART_BACKEND": "give local (charts are drawn on this machine) or quickchart (they are sent to QUICKCHART_URL)",
    "QUICKCHART_URL": "give the address of a QuickChart server, such as https://quickchart.io, without a name or "
    "password in it",
}


def web_address(text: str) -> str:
    """Return *text* without a closing slash; raise ValueError when it is no http address, or holds a secret."""
    parts = urlsplit(text.strip())
    # A port that is none raises as it is read.
    plain = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    if not plain or parts.username is not None or parts.query or parts.fragment or not text.isprintable():
        raise ValueError("not an http address")
    return text.strip().rstrip("/")


def json_object(text: str) -> dict[str, Any]:
    """Return the JSON object in *text*; raise ValueError, without what was given, when it is none."""
    try:
        value: object = json.loads(text)
    except ValueError:
        raise ValueError("not JSON") from None
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - what pydantic reports
    if len(text.encode()) > MAX_CONTEXT:
        raise ValueError(f"more than {MAX_CONTEXT:,} bytes")
    return cast("dict[str, Any]", value)


def check_database(url: str) -> None:
    """Raise ConfigError when *url* is no address of a database; the error never holds it: a password may be in it."""
    if url.startswith(POSTGRES):
        _check_postgres(url)
    elif url.startswith("postgresql+"):
        raise ConfigError(
            "DATABASE_URL: Parley chooses the driver itself; write postgresql://user:password@host:5432/name, without "
            "the + and what follows it."
        )
    elif not url.startswith(SQLITE) or not url.removeprefix(SQLITE) or "?" in url:
        raise ConfigError(
            "DATABASE_URL: this is no address of a database; use postgres://user:password@host/name or sqlite:///path, "
            "or leave it unset."
        )


def _check_postgres(url: str) -> None:
    try:
        parts = urlsplit(url)
        # An unescaped one of these ends the password early, and each driver parses the rest in its own way.
        apart = parts.netloc.count("@") <= 1 and "@" not in parts.path
        whole = apart and url.isprintable() and not parts.fragment and parts.port != 0
    except ValueError:
        whole = False
    if not whole:
        raise ConfigError(
            "DATABASE_URL: this Postgres address cannot be read; write postgres://user:password@host:5432/name, with "
            "%23 for #, %2F for /, %3A for : and %40 for @ in the password."
        )


def fault(error: ValidationError) -> str:
    """Say which setting is wrong and what to do, never what was given: it may be a secret."""
    details = error.errors(include_url=False, include_input=False)[0]
    name = str(details["loc"][0]) if details["loc"] else "a setting"
    fault = details["msg"].removeprefix("Value error, ").lower()
    return f"{name} cannot be used ({fault}); {REMEDIES.get(name, 'correct it')}, or leave it unset."
