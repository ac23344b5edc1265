"""The channels of this process: where people talk to agents."""

from app.settings import Settings
from channels.slack.spec import SLACK
from channels.spec import ChannelSpec
from channels.terminal import TERMINAL
from channels.web.routes import WEB

CHANNELS: tuple[ChannelSpec[Settings], ...] = (SLACK, WEB, TERMINAL)
