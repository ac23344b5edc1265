"""What an app gets with a click and may use for a short time: trigger ids, response URLs, the answer to a modal."""

from dataclasses import dataclass
from itertools import count

from agent_core import Clock
from channels.slack.testing.asked import MethodFailed
from channels.slack.testing.content import check_blocks
from channels.slack.testing.deliveries import Notification
from channels.slack.testing.world import Channel, Json, SimulatedWorkspace, SlackMessage, View
from channels.slack.web_api import limits


@dataclass(slots=True)
class _Trigger:
    user: str
    made: int
    used: bool = False


@dataclass(slots=True)
class _Hook:
    """A response URL: where its answers go and how often it was used."""

    workspace: SimulatedWorkspace
    channel: Channel
    user: str
    message: SlackMessage | None
    made: int
    uses: int = 0


class Tickets:
    """Hand out trigger ids and response URLs, and take them back."""

    def __init__(self, clock: Clock) -> None:
        self.base_url = ""
        self._clock = clock
        self._number = count(1)
        self._triggers: dict[str, _Trigger] = {}
        self._hooks: dict[str, _Hook] = {}

    def unique(self, prefix: str) -> str:
        """Return an id that nothing else has."""
        return f"{prefix}{next(self._number):08d}"

    def trigger(self, user: str) -> str:
        """Return a trigger id."""
        name = f"{self._clock.now()}.{self.unique('')}"
        self._triggers[name] = _Trigger(user, self._clock.now())
        return name

    def redeem(self, trigger: str) -> str:
        """Take a trigger id and return whose click it came from; raises what Slack says of a bad one."""
        entry = self._triggers.get(trigger)
        if entry is None:
            raise MethodFailed("invalid_trigger_id")
        if entry.used:
            raise MethodFailed("exchanged_trigger_id")
        if self._clock.now() - entry.made > limits.TRIGGER_AGE.value * 1000:
            raise MethodFailed("expired_trigger_id")
        entry.used = True
        return entry.user

    def response_url(
        self, workspace: SimulatedWorkspace, channel: Channel, user: str, message: SlackMessage | None = None
    ) -> str:
        """Return an address for answers to a click."""
        name = self.unique("R")
        self._hooks[name] = _Hook(workspace, channel, user, message, self._clock.now())
        return f"{self.base_url}actions/{workspace.id}/{name}"

    def use(self, name: str, body: Json) -> None:
        """Take an answer to a response URL; raises `used_url` or `expired_url`."""
        hook = self._hooks.get(name)
        if hook is None or self._clock.now() - hook.made > limits.RESPONSE_URL_AGE.value * 1000:
            raise MethodFailed("expired_url")
        if hook.uses >= limits.RESPONSE_URL_USES.value:
            raise MethodFailed("used_url")
        hook.uses += 1
        if hook.message is not None and (body.get("replace_original") or body.get("delete_original")):
            _replace(hook.channel, hook.message, body)
        else:
            self.respond(hook.workspace, hook.channel, hook.user, body)

    def respond(self, workspace: SimulatedWorkspace, channel: Channel, user: str, body: Json) -> None:
        """Show an answer to *user* alone, or to all if it says so."""
        check_blocks(body.get("blocks", []))
        message = SlackMessage(channel.stamp(self._clock.now()), workspace.bot.id, str(body.get("text", "")))
        message.team, message.bot_id, message.blocks = workspace.id, workspace.bot_id, body.get("blocks", [])
        message.thread_ts = body.get("thread_ts")
        if body.get("response_type") == "in_channel":
            channel.messages[message.ts] = message
        else:
            message.to = user
            channel.ephemeral.append(message)

    def after_submission(self, workspace: SimulatedWorkspace, view: View, delivery: Notification) -> None:
        """Do what the app answered to a modal that was sent off: nothing else than closing it is the default."""
        if not delivery.acked:
            return
        answer = delivery.answer
        match answer.get("response_action"):
            case "errors":
                view.view["errors"] = answer.get("errors", {})
            case "update":
                view.view, view.hash = answer["view"], self.unique("h")
            case "push":
                pushed = View(self.unique("V"), self.unique("h"), answer["view"], view.user, view.root, view.id)
                workspace.views[pushed.id] = pushed
            case "clear":
                for each in [each for each in workspace.views.values() if each.root == view.root]:
                    del workspace.views[each.id]
            case _:
                workspace.views.pop(view.id, None)


def _replace(channel: Channel, message: SlackMessage, body: Json) -> None:
    """Change or delete the message that was clicked."""
    if body.get("delete_original"):
        if message.to is None:
            channel.remove(message)
        else:
            channel.ephemeral.remove(message)
        return
    check_blocks(body.get("blocks", []))
    message.text, message.blocks, message.stream = str(body.get("text", "")), body.get("blocks", []), None
