"""A Slack stand-in: a local server that speaks the parts of Slack that Parley uses, as strictly as Slack does."""

from channels.slack.testing.deliveries import EVENTS, App, Armed, InjectedFault, Notification
from channels.slack.testing.page import StandInPage
from channels.slack.testing.server import ApiCall, SlackStandIn
from channels.slack.testing.shown import Button, SessionShown, VisibleMessage
from channels.slack.testing.team import Content, Dispatched, NotPossible, Team
from channels.slack.testing.world import SCOPES, Channel, SimulatedWorkspace, User

__all__ = [
    "EVENTS",
    "SCOPES",
    "ApiCall",
    "App",
    "Armed",
    "Button",
    "Channel",
    "Content",
    "Dispatched",
    "InjectedFault",
    "NotPossible",
    "Notification",
    "SessionShown",
    "SimulatedWorkspace",
    "SlackStandIn",
    "StandInPage",
    "Team",
    "User",
    "VisibleMessage",
]
