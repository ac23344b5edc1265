"""The Slack channel as it is registered; what serves it is imported once it is served."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from agent_core.channels import Responder
from agent_core.core import Core
from channels.slack.settings import NAME, SETTINGS
from channels.spec import ChannelPreview, ChannelSpec, Records, ShownRender

if TYPE_CHECKING:
    from fastapi import APIRouter

    from channels.slack.serving import SlackProcess

ADDRESS = re.compile(r"slack:(?P<enterprise>[^:]+):(?P<team>[^:]+):(?P<channel>[^:]+):(?P<root>[^:]+)")
PREVIEW_FILE = "F0PREVIEW"
"""Is in a preview for the id that Slack gives to an uploaded file."""
_PERSON = ("U", "W")
_NO_SOCKET = (
    "SLACK_APP_TOKEN: `parley slack` receives by Socket Mode, which needs the app's token, xapp-…; set it, "
    "or let Slack send requests to `parley serve` (docs/slack.md)."
)


def responder(id: str) -> Responder:
    """Return whether `slack:<id>` is a user or a user group."""
    return "person" if id.startswith(_PERSON) else "group"


@asynccontextmanager
async def serve(
    core: Core, records: Records, settings: "SlackProcess", /, *, socket: bool
) -> AsyncGenerator["APIRouter | None"]:
    """Serve Slack, if there is a bot token, and give the routes for its requests."""
    if settings.slack_bot_token is None:
        yield None
        return
    from channels.slack.serving import running_slack  # noqa: PLC0415 - megabytes, imported only to serve Slack

    async with running_slack(core, records, settings, socket=socket) as routes:
        yield routes


def receives(settings: "SlackProcess", url: str | None) -> str | None:
    """Return how a server at *url* receives from Slack."""
    if settings.slack_bot_token is None:
        return None
    if settings.slack_app_token is not None and settings.postgres is None:
        return "by Socket Mode"
    return f"{url}/slack/events" if settings.slack_signing_secret else "`parley slack` receives by Socket Mode"


def no_socket(settings: "SlackProcess") -> str | None:
    """Return what Socket Mode lacks."""
    return _NO_SOCKET if settings.slack_app_token is None else None


def preview(render: ShownRender) -> ChannelPreview:
    """Return the form of *render* that Slack is sent first."""
    from channels.slack.charts import choose, ladder_of  # noqa: PLC0415 - needed for previews alone

    ladder = ladder_of(render)
    if ladder is None:
        return ChannelPreview((), render.plain)
    ((chosen),) = choose([ladder], {})
    form = chosen.form
    name: str | None = getattr(form.upload, "name", None)
    return ChannelPreview(form.with_file(PREVIEW_FILE), form.text or render.plain, name)


SLACK: "ChannelSpec[SlackProcess]" = ChannelSpec(
    name=NAME,
    address=ADDRESS,
    settings=SETTINGS,
    responder=responder,
    delivers_approvals=True,
    serve=serve,
    receives=receives,
    no_socket=no_socket,
    preview=preview,
)
