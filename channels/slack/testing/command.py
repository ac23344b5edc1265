"""The command `parley slack simulate`: the stand-in as a server of its own, with its page, until Ctrl-C."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence

from channels.slack.testing.app import App
from channels.slack.testing.page import Page
from channels.slack.testing.server import SlackStandIn
from channels.slack.testing.world import Workspace

PORT = 4020
APP_URL = "http://127.0.0.1:8000"
_LARGEST_PORT = 65_535
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
    given = _parser().parse_args(arguments)
    app = App(signing_secret=given.signing_secret, url=given.app_url, socket_mode=given.socket_mode)
    workspaces = [Workspace.example(), Workspace.example("T0002", "Globex")]
    asyncio.run(_serve(SlackStandIn(app=app, workspaces=workspaces), given.port))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="parley slack simulate", description=main.__doc__)
    parser.add_argument("--port", type=_port, default=PORT, help=f"0 takes a free one (default {PORT})")
    parser.add_argument("--app-url", default=APP_URL, metavar="URL", help=f"where the app listens (default {APP_URL})")
    parser.add_argument("--signing-secret", default=App().signing_secret, metavar="SECRET", help="signs what is sent")
    parser.add_argument("--socket-mode", action="store_true", help="send through WebSockets, not to --app-url")
    return parser


async def _serve(stand_in: SlackStandIn, port: int) -> None:
    over = asyncio.Event()
    for stop in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(stop, over.set)
    try:
        async with stand_in.serving(port, Page(stand_in).routes()) as url:
            app = stand_in.app
            said = _SETTINGS + (_SOCKET if app.socket_mode else _HTTP)
            sys.stdout.write(
                said.format(
                    url=url,
                    bot_token=stand_in.team().bot_token,
                    secret=app.signing_secret,
                    app_token=app.app_token,
                    app_url=app.url,
                    path=app.paths[0],
                )
            )
            sys.stdout.flush()
            await over.wait()
    except OSError as error:
        sys.stderr.write(f"parley slack simulate: {error.strerror or error}; take another --port.\n")
        raise SystemExit(1) from None


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= _LARGEST_PORT:
        raise argparse.ArgumentTypeError(f"a port is a number from 0 to {_LARGEST_PORT}, not {text}")
    return port
