"""What people do and see in a workspace of the stand-in."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, cast

from agent_core.clock import Clock
from channels.slack import limits
from channels.slack.testing import deliveries as payloads
from channels.slack.testing.content import check_blocks
from channels.slack.testing.deliveries import Courier, Notification
from channels.slack.testing.shown import Button, SessionShown, VisibleMessage, buttons, session_shown, shown
from channels.slack.testing.world import Channel, Json, MethodFailed, SimulatedWorkspace, SlackMessage, User, View


class NotPossible(Exception):
    """What a person is to do is not possible in Slack as it is."""


def filled(view: Json, values: Mapping[str, Any]) -> Json:
    """Return the `state.values` of *view*; raises `NotPossible` where Slack does not let a person send it off."""
    fields = dict(_fields(view))
    if unknown := sorted(name for name in values if name not in fields):
        raise NotPossible(f"The modal has no field {', '.join(unknown)}.")
    return {name: _state(block, values.get(name)) for name, block in fields.items()}


def _fields(view: Json) -> Iterator[tuple[str, Json]]:
    for n, block in enumerate(view.get("blocks", [])):
        if block.get("type") == "input":
            yield str(block.get("block_id") or f"b{n}"), block


def _state(block: Json, value: Any) -> Json:
    if isinstance(value, Mapping):
        return dict(cast("Json", value))
    element: Json = block["element"]
    match element["type"]:
        case "static_select" | "radio_buttons":
            state = _chosen(element, value)
        case "multi_static_select" | "checkboxes":
            state = _several(element, value)
        case "datepicker":
            state = {"selected_date": value or element.get("initial_date")}
        case "datetimepicker":
            state = {"selected_date_time": value or element.get("initial_date_time")}
        case _:
            state = _written(element, value)
    if not block.get("optional") and not any(state.values()):
        raise NotPossible(f"The field {block['label']['text']} has to be filled in.")
    return {element.get("action_id", ""): {"type": element["type"], **state}}


def _chosen(element: Json, value: str | None) -> Json:
    if value is None:
        return {"selected_option": element.get("initial_option")}
    groups = [element, *element.get("option_groups", [])]
    options = [each for group in groups for each in group.get("options", []) if each["value"] == value]
    if value and not options:
        raise NotPossible(f"There is nothing to choose with the value {value}.")
    return {"selected_option": options[0] if options else None}


def _several(element: Json, values: str | None) -> Json:
    """Return the options of *values*, which have commas between them."""
    if values is None:
        return {"selected_options": element.get("initial_options", [])}
    wanted = [each for each in values.split(",") if each]
    chosen = [each for each in element["options"] if each["value"] in wanted]
    if len(chosen) != len(wanted):
        raise NotPossible(f"There is nothing to choose with one of the values {values}.")
    if len(chosen) > element.get("max_selected_items", len(chosen)):
        raise NotPossible(f"At most {element['max_selected_items']} may be chosen.")
    return {"selected_options": chosen}


def _written(element: Json, typed: str | None) -> Json:
    value = element.get("initial_value") if typed is None else typed
    limit = element.get("max_length") or limits.INPUT_TEXT
    if value is not None and len(value) > limit:
        raise NotPossible(f"A field holds at most {limit} characters.")
    return {"value": value or None}


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
        if self._clock.now() - entry.made > limits.TRIGGER_AGE * 1000:
            raise MethodFailed("expired_trigger_id")
        entry.used = True
        return entry.user

    def response_url(self, workspace: SimulatedWorkspace, channel: Channel, user: str) -> str:
        """Return an address for answers to a click."""
        name = self.unique("R")
        self._hooks[name] = _Hook(workspace, channel, user, self._clock.now())
        return f"{self.base_url}actions/{workspace.id}/{name}"

    def use(self, name: str, body: Json) -> None:
        """Take an answer to a response URL; raises `used_url` or `expired_url`."""
        hook = self._hooks.get(name)
        if hook is None or self._clock.now() - hook.made > limits.RESPONSE_URL_AGE * 1000:
            raise MethodFailed("expired_url")
        if hook.uses >= limits.RESPONSE_URL_USES:
            raise MethodFailed("used_url")
        hook.uses += 1
        self.respond(hook.workspace, hook.channel, hook.user, body)

    def respond(self, workspace: SimulatedWorkspace, channel: Channel, user: str, body: Json) -> None:
        """Show an answer to *user* alone."""
        check_blocks(body.get("blocks", []))
        message = SlackMessage(channel.stamp(self._clock.now()), workspace.bot.id, str(body.get("text", "")))
        message.team, message.bot_id, message.blocks = workspace.id, workspace.bot_id, body.get("blocks", [])
        message.thread_ts = body.get("thread_ts")
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
            case _:
                workspace.views.pop(view.id, None)


_MARKUP = re.compile(r"<(?:[@#!][^<>\s]+|(?:https?|mailto):[^<>\s]+)>")


@dataclass(frozen=True, slots=True)
class Content:
    """What a message carries besides its text, in Slack's form; `Team.forward` makes an attachment."""

    blocks: Sequence[Json] = ()
    attachments: Sequence[Json] = ()
    files: Sequence[Json] = ()


@dataclass(frozen=True, slots=True)
class Dispatched:
    """What became of something that a person did: its `ts` where it has one, and the deliveries to the app."""

    ts: str
    deliveries: tuple[Notification, ...] = ()

    @property
    def acked(self) -> bool:
        """Whether the app has acknowledged everything."""
        return all(each.acked for each in self.deliveries)

    @property
    def failures(self) -> tuple[str, ...]:
        """Return why deliveries failed so far."""
        return tuple(reason for each in self.deliveries for reason in each.failures)

    async def finished(self) -> "Dispatched":
        """Return once nothing of it is tried any more."""
        for each in self.deliveries:
            await each.finished()
        return self


class Team:
    """One workspace. Actions return when the app has acknowledged, or when what Slack tries at once has failed."""

    def __init__(
        self,
        workspace: SimulatedWorkspace,
        courier: Courier,
        tickets: Tickets,
        clock: Clock,
        changed: Callable[[], None],
    ) -> None:
        self.workspace = workspace
        self._courier, self._tickets, self._clock, self._changed = courier, tickets, clock, changed

    @property
    def id(self) -> str:
        return self.workspace.id

    @property
    def bot_token(self) -> str:
        return self.workspace.bot_token

    @property
    def bot(self) -> str:
        """Return the user id of the app."""
        return self.workspace.bot.id

    # ---- what people do --------------------------------------------------------------------------

    async def says(
        self,
        user: str,
        channel: str,
        text: str,
        thread_ts: str | None = None,
        *,
        entities: list[Json] | None = None,
        content: Content | None = None,
    ) -> Dispatched:
        """Write *text*; a mention of the app reaches it twice, as Slack does. *entities* are what the person looks at.

        Mentions and links are written as Slack keeps them, `<@UPARLEY>`; other angle brackets are escaped. *content*
        is what the message carries besides.
        """
        place, author = self._place(user, channel)
        now = self._clock.now()
        message = SlackMessage(place.stamp(now), author.id, escaped(text), thread_ts, author.team)
        if author.bot:
            message.bot_id = f"B{author.id[1:]}"
        if content is not None:
            message.blocks, message.attachments = list(content.blocks), list(content.attachments)
            message.files, message.subtype = list(content.files), "file_share" if content.files else None
        place.messages[message.ts] = message
        event = payloads.message(self.workspace, place, message)
        if place.kind == "im" and entities is not None:
            event["app_context"] = {"entities": entities}
        deliveries = self._courier.event(self.workspace, place, event)
        if f"<@{self.bot}>" in message.text and self.bot in place.members and place.kind != "im":
            deliveries = self._courier.event(self.workspace, place, payloads.mention(event)) + deliveries
        return await self._dispatched(message.ts, deliveries)

    async def mentions(
        self, user: str, channel: str, text: str, thread_ts: str | None = None, *, content: Content | None = None
    ) -> Dispatched:
        """Write *text* to the app by name."""
        return await self.says(user, channel, f"<@{self.bot}> {text}", thread_ts, content=content)

    def forward(self, channel: str, ts: str) -> Json:
        """Return the attachment by which Slack forwards a message, or shows one to which another links."""
        place, message = self._message(channel, ts)
        author = self.workspace.users[message.user]
        body = payloads.as_json(message, self._courier.app.id)
        inner = {"team": self.id, "channel": place.id, "ts": ts, "message": {"blocks": body.get("blocks", [])}}
        about: Json = {"is_msg_unfurl": True, "ts": ts, "author_id": author.id, "author_name": author.real_name}
        about |= {"channel_id": place.id, "channel_team": self.id, "text": message.text, "message_blocks": [inner]}
        about |= {name: body[name] for name in ("files", "attachments") if name in body}
        return about | {"fallback": f"{author.name}: {message.text}", "footer": f"Posted in #{place.name}"}

    async def edits(self, user: str, channel: str, ts: str, text: str) -> Dispatched:
        """Change one's own message."""
        place, message = self._own(user, channel, ts)
        stamp = place.stamp(self._clock.now())
        before = payloads.as_json(message, self._courier.app.id)
        message.text, message.edited = escaped(text), {"user": user, "ts": stamp}
        return await self._notify(place, payloads.changed(self.workspace, place, message, before, stamp), ts)

    async def unfurls(
        self, channel: str, ts: str, url: str = "https://example.com/", *, attachment: Json | None = None
    ) -> Dispatched:
        """Let Slack add the preview of a link, or *attachment*: a change without an edit."""
        place, message = self._message(channel, ts)
        before = payloads.as_json(message, self._courier.app.id)
        message.attachments = [attachment or {"from_url": url, "title": url, "fallback": url}]
        event = payloads.changed(self.workspace, place, message, before, place.stamp(self._clock.now()))
        return await self._notify(place, event, ts)

    async def deletes(self, user: str, channel: str, ts: str) -> Dispatched:
        """Delete one's own message."""
        place, message = self._own(user, channel, ts)
        before = payloads.as_json(message, self._courier.app.id)
        place.remove(message)
        event = payloads.gone(self.workspace, place, message, before, place.stamp(self._clock.now()))
        return await self._notify(place, event, ts)

    async def presses(
        self, user: str, channel: str, ts: str, action_id: str, value: str | None = None, *, sure: bool = True
    ) -> Dispatched:
        """Press a button of a message, the one with *value* where several share an action id.

        A user who is not *sure* goes back when the button asks once more.
        """
        place, message = self._message(channel, ts)
        button = self._button(message, action_id, value)
        if button.confirm and not sure:
            return Dispatched(ts)
        now = place.stamp(self._clock.now())
        action: Json = {"type": button.type, "action_id": button.action_id, "block_id": button.block_id}
        action |= {"value": button.value, "action_ts": now, "text": {"type": "plain_text", "text": button.text}}
        fields = payloads.where(place, message, self._courier.app.id)
        return await self._interact("block_actions", user, fields | {"actions": [action]}, place, message)

    async def stops(self, user: str, channel: str, thread_ts: str) -> Dispatched:
        """Press Stop: Slack stops the streams of the thread and notifies the app."""
        if not self._courier.subscribed("agent_session_stopped"):
            raise NotPossible("There is no Stop: the app has not subscribed to agent_session_stopped.")
        place, now = self._channel(channel), self._clock.now()
        stopped: list[str] = []
        for message in place.thread(thread_ts):
            if message.stream is not None and not message.stream.settled(now):
                message.stream.ended = "stopped_by_user"
                stopped.append(message.ts)
        event = payloads.stopped(place, user, thread_ts, stopped, place.stamp(now))
        return await self._notify(place, event, thread_ts)

    async def renames(self, user: str, channel: str, thread_ts: str, title: str) -> Dispatched:
        """Give an agent's session another title."""
        place = self._channel(channel)
        session = place.sessions.get(thread_ts)
        if session is None:
            raise NotPossible(f"There is no session in {channel} at {thread_ts}.")
        old, session.title = session.title, title
        event = payloads.renamed(self.workspace, place, user, thread_ts, session, old)
        return await self._notify(place, event | {"event_ts": place.stamp(self._clock.now())}, thread_ts)

    async def opens_home(self, user: str, tab: str = "messages") -> Dispatched:
        """Open the app's Home or Messages tab."""
        place = self.workspace.im(user)
        stamp = place.stamp(self._clock.now())
        event: Json = {"type": "app_home_opened", "user": user, "channel": place.id, "tab": tab, "event_ts": stamp}
        return await self._notify(place, event, stamp)

    async def looks_at(self, user: str, *entities: Json) -> Dispatched:
        """Look at something else while the app is open beside it."""
        place = self.workspace.im(user)
        stamp = place.stamp(self._clock.now())
        event: Json = {"type": "app_context_changed", "channel": place.id, "user": user, "event_ts": stamp}
        return await self._notify(place, event | {"context": {"entities": list(entities)}}, stamp)

    async def command(self, user: str, channel: str, command: str, text: str = "") -> Dispatched:
        """Use a slash command; what the app answers with is shown to *user* alone."""
        place, author = self._place(user, channel)
        stamp = place.stamp(self._clock.now())
        payload: Json = {"token": "deprecated", "team_id": self.id, "team_domain": self.workspace.name.lower()}
        payload |= {"channel_id": place.id, "channel_name": place.name, "user_id": user, "user_name": author.name}
        payload |= {"command": command, "text": text, "api_app_id": self._courier.app.id}
        payload |= {"is_enterprise_install": "false", "enterprise_id": self.workspace.enterprise}
        payload |= {"response_url": self._tickets.response_url(self.workspace, place, user)}
        payload["trigger_id"] = self._tickets.trigger(user)
        delivery = self._courier.interaction(payload, self.id, "slash_commands")
        dispatched = await self._dispatched(stamp, [delivery])
        if delivery.answer.get("text") or delivery.answer.get("blocks"):
            self._tickets.respond(self.workspace, place, user, delivery.answer)
        return dispatched

    async def shortcut(self, user: str, callback_id: str, channel: str, ts: str) -> Dispatched:
        """Use a shortcut on a message."""
        place, message = self._message(channel, ts)
        more: Json = {"callback_id": callback_id, "message_ts": ts, "channel": {"id": place.id, "name": place.name}}
        more["message"] = payloads.as_json(message, self._courier.app.id)
        return await self._interact("message_action", user, more, place, message)

    async def submits(self, user: str, view_id: str, values: Json | None = None) -> Dispatched:
        """Send a modal off with what was written into its fields, by block; the app's `response_action` is carried out.

        A field is given as text, or as Slack would have it; one that is left out has what was there at first.
        """
        view = self._view(user, view_id)
        view.view.pop("errors", None)
        view.view["state"] = {"values": filled(view.view, values or {})}
        shown_view = payloads.view(self.workspace, view, self._courier.app.id)
        dispatched = await self._interact("view_submission", user, {"view": shown_view, "response_urls": []})
        self._tickets.after_submission(self.workspace, view, dispatched.deliveries[0])
        self._changed()
        return dispatched

    async def closes(self, user: str, view_id: str) -> Dispatched:
        """Close a modal."""
        del self.workspace.views[self._view(user, view_id).id]
        self._changed()
        return Dispatched("")

    # ---- what people see -------------------------------------------------------------------------

    def thread(self, channel: str, ts: str, *, user: str | None = None) -> tuple[VisibleMessage, ...]:
        """Return the thread *ts* in its order, with what only *user* sees."""
        place, now = self._channel(channel), self._clock.now()
        place.settle(now)
        own = [each for each in place.ephemeral if each.to == user and each.root == ts]
        return tuple(shown(each, now) for each in sorted([*place.thread(ts), *own], key=lambda each: each.ts))

    def answers(self, channel: str, ts: str) -> tuple[VisibleMessage, ...]:
        """Return what the app has said in the thread *ts*."""
        return tuple(each for each in self.thread(channel, ts) if each.user == self.bot)

    def top(self, channel: str, *, user: str | None = None) -> tuple[VisibleMessage, ...]:
        """Return the messages of a channel that are no answers in a thread."""
        place, now = self._channel(channel), self._clock.now()
        place.settle(now)
        roots = [each for each in place.messages.values() if each.root == each.ts]
        own = [each for each in place.ephemeral if each.to == user and each.thread_ts is None]
        return tuple(shown(each, now) for each in sorted([*roots, *own], key=lambda each: each.ts))

    def session(self, channel: str, ts: str) -> SessionShown | None:
        """Return status and title of the session in the thread *ts*."""
        place, now = self._channel(channel), self._clock.now()
        place.settle(now)
        session = place.sessions.get(ts)
        stop = self._courier.subscribed("agent_session_stopped")
        return None if session is None else session_shown(session, now, stop_button=stop)

    def prompts(self, user: str) -> Json | None:
        """Return the suggested prompts above *user*'s Messages tab."""
        return self.workspace.im(user).prompts

    # ---- inside ----------------------------------------------------------------------------------

    async def _notify(self, place: Channel, event: Json, ts: str) -> Dispatched:
        return await self._dispatched(ts, self._courier.event(self.workspace, place, event))

    async def _interact(
        self, kind: str, user: str, more: Json, place: Channel | None = None, message: SlackMessage | None = None
    ) -> Dispatched:
        person = self.workspace.users[user]
        payload = payloads.interaction(self.workspace, person, self._courier.app.id, {"type": kind, **more})
        payload["trigger_id"] = self._tickets.trigger(user)
        if place is not None:
            payload["response_url"] = self._tickets.response_url(self.workspace, place, user)
        ts = message.ts if message else ""
        return await self._dispatched(ts, [self._courier.interaction(payload, self.id)])

    async def _dispatched(self, ts: str, deliveries: list[Notification]) -> Dispatched:
        self._changed()
        for each in deliveries:
            await each.tried()
        self._changed()
        return Dispatched(ts, tuple(deliveries))

    def _channel(self, channel: str) -> Channel:
        if channel in self.workspace.users:
            return self.workspace.im(channel)
        return self.workspace.channels[channel]

    def _place(self, user: str, channel: str) -> tuple[Channel, User]:
        place = self._channel(channel)
        if user not in place.members:
            raise NotPossible(f"{user} is not in {channel}.")
        return place, self.workspace.users[user]

    def _message(self, channel: str, ts: str) -> tuple[Channel, SlackMessage]:
        place = self._channel(channel)
        message = place.messages.get(ts) or next((each for each in place.ephemeral if each.ts == ts), None)
        if message is None:
            raise NotPossible(f"There is no message {ts} in {channel}.")
        return place, message

    def _own(self, user: str, channel: str, ts: str) -> tuple[Channel, SlackMessage]:
        place, message = self._message(channel, ts)
        if message.user != user:
            raise NotPossible(f"The message {ts} in {channel} is not {user}'s.")
        return place, message

    def _button(self, message: SlackMessage, action_id: str, value: str | None) -> Button:
        blocks = shown(message, self._clock.now()).blocks
        for each in buttons(list(blocks)):
            if each.action_id == action_id and value in (None, each.value):
                return each
        raise NotPossible(f"The message {message.ts} has no button {action_id} {value or ''}")

    def _view(self, user: str, view_id: str) -> View:
        view = self.workspace.views.get(view_id)
        if view is None or view.user != user:
            raise NotPossible(f"{user} has no modal {view_id} open.")
        return view


def escaped(text: str) -> str:
    """Escape `&`, `<` and `>` as Slack does, but for mentions and links in Slack's own form."""
    pieces: list[str] = []
    end = 0
    for match in _MARKUP.finditer(text):
        pieces += [_entities(text[end : match.start()]), match.group()]
        end = match.end()
    return "".join([*pieces, _entities(text[end:])])


def _entities(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
