"""What `parley slack simulate` runs: the stand-in as a server of its own, with its page, until Ctrl-C."""

import asyncio
from functools import partial

from agent_core.testing.clock import serve
from channels.slack.testing.app import App
from channels.slack.testing.page import StandInPage
from channels.slack.testing.server import SlackStandIn
from channels.slack.testing.world import SimulatedWorkspace

_SETTINGS = """\
Slack stand-in at {url} (open it in a browser); Ctrl-C ends it.

  SLACK_API_URL={url}api/
  SLACK_BOT_TOKEN={bot_token}
  SLACK_SIGNING_SECRET={secret}
"""
_SOCKET = "  SLACK_APP_TOKEN={app_token}\n\nEvents go through Socket Mode.\n"
_HTTP = "\nEvents go to {app_url}{path}.\n"


def simulate(*, port: int, app_url: str, signing_secret: str | None, socket_mode: bool) -> None:
    """Serve a Slack stand-in on *port* of 127.0.0.1 (0: a free one) for the app at *app_url* until Ctrl-C.

    Without a *signing_secret* it has the default one. Exits with 1 when the port is taken.
    """
    app = App(signing_secret=signing_secret or App().signing_secret, url=app_url, socket_mode=socket_mode)
    workspaces = [SimulatedWorkspace.example(), SimulatedWorkspace.example("T0002", "Globex")]
    stand_in = SlackStandIn(app=app, workspaces=workspaces)
    listening = stand_in.serving(port, StandInPage(stand_in).routes())
    asyncio.run(serve("parley slack simulate", listening, partial(_settings, stand_in)))


def _settings(stand_in: SlackStandIn, url: str) -> str:
    app = stand_in.app
    text = _SETTINGS + (_SOCKET if app.socket_mode else _HTTP)
    return text.format(
        url=url,
        bot_token=stand_in.team().bot_token,
        secret=app.signing_secret,
        app_token=app.app_token,
        app_url=app.url,
        path=app.paths[0],
    )
