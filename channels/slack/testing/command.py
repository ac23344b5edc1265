"""The command `parley slack simulate`: the stand-in as a server of its own, with its page, until Ctrl-C."""

import argparse
import asyncio
from collections.abc import Sequence
from functools import partial

from agent_core.testing.command import port, serve
from channels.slack.testing.app import App
from channels.slack.testing.page import Page
from channels.slack.testing.server import SlackStandIn
from channels.slack.testing.world import Workspace

PORT = 4020
APP_URL = "http://127.0.0.1:8000"
_SETTINGS = """\
Slack stand-in at {url} (open it in a browser); Ctrl-C ends it.

  SLACK_API_URL={url}api/
  SLACK_BOT_TOKEN={bot_token}
  SLACK_SIGNING_SECRET={secret}
"""
_SOCKET = "  SLACK_APP_TOKEN={app_token}\n\nEvents go through Socket Mode.\n"
_HTTP = "\nEvents go to {app_url}{path}.\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve a Slack stand-in on 127.0.0.1."""
    parser = _parser()
    given = parser.parse_args(arguments)
    app = App(signing_secret=given.signing_secret, url=given.app_url, socket_mode=given.socket_mode)
    workspaces = [Workspace.example(), Workspace.example("T0002", "Globex")]
    stand_in = SlackStandIn(app=app, workspaces=workspaces)
    listening = stand_in.serving(given.port, Page(stand_in).routes())
    asyncio.run(serve(parser.prog, listening, partial(_settings, stand_in)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="parley slack simulate", description=main.__doc__)
    parser.add_argument("--port", type=port, default=PORT, help=f"0 takes a free one (default {PORT})")
    parser.add_argument("--app-url", default=APP_URL, metavar="URL", help=f"where the app listens (default {APP_URL})")
    parser.add_argument("--signing-secret", default=App().signing_secret, metavar="SECRET", help="signs what is sent")
    parser.add_argument("--socket-mode", action="store_true", help="send through WebSockets, not to --app-url")
    return parser


def _settings(stand_in: SlackStandIn, url: str) -> str:
    app = stand_in.app
    said = _SETTINGS + (_SOCKET if app.socket_mode else _HTTP)
    return said.format(
        url=url,
        bot_token=stand_in.team().bot_token,
        secret=app.signing_secret,
        app_token=app.app_token,
        app_url=app.url,
        path=app.paths[0],
    )
