"""A Slack stand-in: a local server that speaks the parts of Slack that Parley uses, as strictly as Slack does."""

from channels.slack.testing.app import EVENTS, App
from channels.slack.testing.deliveries import Delivery
from channels.slack.testing.faults import Armed, Fault
from channels.slack.testing.page import Page
from channels.slack.testing.server import Call, SlackStandIn
from channels.slack.testing.shown import Button, SessionShown, Shown
from channels.slack.testing.team import Dispatched, NotPossible, Team
from channels.slack.testing.world import SCOPES, Channel, User, Workspace

__all__ = [
    "EVENTS",
    "SCOPES",
    "App",
    "Armed",
    "Button",
    "Call",
    "Channel",
    "Delivery",
    "Dispatched",
    "Fault",
    "NotPossible",
    "Page",
    "SessionShown",
    "Shown",
    "SlackStandIn",
    "Team",
    "User",
    "Workspace",
]
