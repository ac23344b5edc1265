"""What a payload of Slack's asks of the app; pure."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, cast

from agent_core.channels import Context
from channels.slack.api import Identity, Json
from channels.slack.blocks import FEEDBACK, voted
from channels.slack.forms import ALWAYS, APPROVE, CHOICES, DENY, EDIT, CardAt, card_at
from channels.slack.settings import Thread
from channels.slack.text import clean, unescape

MAX_ENTITIES = 5
"""Things that are named, the most relevant first."""
SEEN = "slack_viewing"
"""The field of a session's metadata that holds what the model was shown last."""
_KINDS: Mapping[str, str] = MappingProxyType(
    {f"slack#/types/{kind}_id": kind for kind in ("channel", "canvas", "list")}
)
_MESSAGE = "slack#/types/message_context"
_ID, _TS = re.compile(r"[A-Z][A-Z0-9]{1,40}"), re.compile(r"\d{1,12}\.\d{1,9}")


def viewed(app_context: Json) -> tuple[str, ...]:
    """Return what *app_context* names: `channel C1`, `message 10.000200 of channel C1`, `canvas F1`, `list F2`.

    It is a hint, and no permission: only ids are read of it.
    """
    entities: Any = app_context.get("entities")
    listed: list[Any] = cast("list[Any]", entities)[:MAX_ENTITIES] if isinstance(entities, list) else []
    return tuple(name for each in listed for name in _named(each))


def _named(entity: Any) -> Iterator[str]:
    match entity:
        case {"type": str(kind), "value": str(id)} if kind in _KINDS and _ID.fullmatch(id):
            yield f"{_KINDS[kind]} {id}"
        case {"type": kind, "value": {"channel_id": str(id), "message_ts": str(ts)}} if kind == _MESSAGE:
            if _ID.fullmatch(id) and _TS.fullmatch(ts):
                yield f"message {ts} of channel {id}"
        case _:
            return


def as_note(viewing: tuple[str, ...], metadata: Mapping[str, Any]) -> tuple[Context, ...]:
    """Return the note by which the model learns of *viewing*, none if the session's *metadata* say that it knows."""
    if not viewing or metadata.get(SEEN) == "; ".join(viewing):
        return ()
    text = f"As its author writes the next message they have open in Slack, by Slack's ids: {'; '.join(viewing)}."
    return (Context(text=text, source="note"),)


ASK_MESSAGE = "ask_message"
# A message that is more than words, or that was sent to the channel too; all others report things, not words.
_NEW_TEXT = frozenset({None, "file_share", "thread_broadcast"})
_SLACK = frozenset({"USLACK", "USLACKBOT"})
_SHARED = "is_ext_shared_channel"
_CONTENT = ("attachments", "blocks", "files")


@dataclass(frozen=True, slots=True)
class MessagePosted:
    """A person wrote *text* (mrkdwn) at *ts*, *mentioned* if to us by name; *content* is what else Slack sends of it.

    *shared* says that other organisations are in the channel. *viewing* are the things that the person looks at.
    """

    thread: Thread
    ts: str
    text: str
    mentioned: bool = False
    content: Json = field(default_factory=dict[str, Any])
    shared: bool = False
    viewing: tuple[str, ...] = ()

    @property
    def message(self) -> Json:
        """What was written, in Slack's form."""
        return {**self.content, "user": self.thread.user, "text": self.text}

    @property
    def addressed(self) -> bool:
        """Whether it is to us without doubt."""
        return self.mentioned or self.thread.is_dm


@dataclass(frozen=True, slots=True)
class Edited:
    """A message was edited at *at*: now it is *posted*."""

    posted: MessagePosted
    at: str


@dataclass(frozen=True, slots=True)
class Unfurled:
    """Slack now shows messages below *posted* to which it links."""

    posted: MessagePosted


@dataclass(frozen=True, slots=True)
class Deleted:
    """The message at *ts* was deleted."""

    thread: Thread
    ts: str


@dataclass(frozen=True, slots=True)
class StopPressed:
    """A person pressed Stop at *at*."""

    thread: Thread
    at: str


@dataclass(frozen=True, slots=True)
class Renamed:
    """A person gave the thread's session another *title* at *at*."""

    thread: Thread
    title: str
    at: str


@dataclass(frozen=True, slots=True)
class Opened:
    """A person opened the app's Messages tab."""

    user: str
    channel: str


@dataclass(frozen=True, slots=True)
class Voted:
    """A person rated the answer of *run* as good or bad."""

    user: str
    run: str
    good: bool


@dataclass(frozen=True, slots=True)
class Commanded:
    """A person asked by a slash command; *trigger* is what no other payload has."""

    channel: str
    user: str
    user_team: str
    command: str
    text: str
    trigger: str


@dataclass(frozen=True, slots=True)
class Pointed:
    """A person asks about the message at *ts*, which *author* wrote."""

    thread: Thread
    ts: str
    message: Json
    trigger: str


@dataclass(frozen=True, slots=True)
class Pressed:
    """A person pressed a button of a *card*: *what* is its `action_id`; *trigger* opens a form for three seconds."""

    user: str
    card: CardAt
    what: str
    trigger: str


@dataclass(frozen=True, slots=True)
class Filled:
    """A person submitted a form of a *card*: *what* is its `callback_id`, *values* are by its blocks."""

    user: str
    card: CardAt
    what: str
    values: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Unknown:
    """A payload that nothing is known to do about; *kind* names its like."""

    kind: str


Asked = (
    MessagePosted
    | Edited
    | Unfurled
    | Deleted
    | StopPressed
    | Renamed
    | Opened
    | Voted
    | Commanded
    | Pointed
    | Pressed
    | Filled
    | Unknown
)
Reading = Callable[[Json, Identity], Asked | None]


def read(payload: Json, me: Identity) -> Asked | None:
    """Return what *payload* asks of the app that is *me*; None when it asks for nothing."""
    table, name, inner = _sorted(payload)
    reading = table.get(name)
    if reading is None:
        return Unknown(f"{payload.get('type', 'payload')} {name}".strip()[:100])
    try:
        return reading(inner, me)
    except (AttributeError, KeyError, TypeError, ValueError):
        return Unknown(f"{name}, of an unknown form")


def team_of(payload: Json) -> str:
    """Return the workspace whose app *payload* is for."""
    authorized: list[Json] = payload.get("authorizations") or []
    named = [place.get("team_id") for place in authorized[:1]]
    match payload.get("type"):
        case "block_actions":  # people of elsewhere press our buttons, too
            named.append(part(payload, "message").get("team"))
        case "view_submission":
            named.append(part(payload, "view").get("app_installed_team_id"))
        case _:
            pass
    named += [part(payload, "team").get("id"), payload.get("team_id"), part(payload, "user").get("team_id")]
    return next((str(team) for team in named if team), "")


def part(payload: Json, name: str) -> Json:
    """Return the object that *payload* has as *name*, an empty one if there is none."""
    value: Any = payload.get(name)
    return cast("Json", value) if isinstance(value, Mapping) else {}


def words(text: str, me: Identity, names: Mapping[str, str]) -> str:
    """Return what the mrkdwn *text* says, without the mention of ourselves that opens it unless that is all."""
    posted = text.strip()
    rest = _mention(me).sub("", posted, count=1).strip() if _mention(me).match(posted) else posted
    return written(rest or posted, names).strip()


def written(text: str, names: Mapping[str, str]) -> str:
    """Return the mrkdwn *text* as it is read."""
    return clean(unescape(text, names))


def is_ours(message: Json, me: Identity) -> bool:
    """Return whether the app itself wrote *message*."""
    return message.get("user") == me.user or (bool(me.bot) and message.get("bot_id") == me.bot)


def _sorted(payload: Json) -> tuple[Mapping[str, Reading], str, Json]:
    """Return the table for payloads like this one, the name to look up in it, and what the reading is given."""
    match payload:
        case {"type": "event_callback", "event": {"type": str(name)} as event}:
            return _EVENTS, name, {**event, _SHARED: payload.get(_SHARED)}
        case {"type": "block_actions", "actions": [{"action_id": str(name)}, *_]}:
            return _ACTIONS, name, payload
        case {"type": "message_action", "callback_id": str(name)}:
            return _SHORTCUTS, name, payload
        case {"type": "view_submission", "view": {"callback_id": str(name)}}:
            return _FORMS, name, payload
        case {"command": str()}:
            return _COMMANDS, "", payload
        case _:
            return {}, "", payload


def _message_posted(event: Json, me: Identity) -> MessagePosted | None:
    if event.get("subtype") not in _NEW_TEXT or _is_by_a_bot(event, me):
        return None
    text = str(event.get("text") or "")
    mentioned = event["type"] == "app_mention" or _mention(me).search(text) is not None
    content = {name: event[name] for name in _CONTENT if event.get(name)}
    shared = event.get(_SHARED) is True
    return MessagePosted(
        _thread(event, me), event["ts"], text, mentioned, content, shared, viewed(part(event, "app_context"))
    )


def _message(event: Json, me: Identity) -> MessagePosted | Edited | Unfurled | Deleted | None:
    before = part(event, "previous_message")
    match event.get("subtype"):
        case "message_deleted":
            return _deleted({**before, "channel": event["channel"], "ts": event["deleted_ts"]}, me)
        case "message_changed":
            now: Json = {**event["message"], "channel": event["channel"], _SHARED: event.get(_SHARED)}
            if now.get("subtype") == "tombstone":  # a root with answers, deleted
                return _deleted({**before, "channel": event["channel"], "ts": now["ts"]}, me)
            at = _edited_at(now)
            if at and at != _edited_at(before):
                posted = _message_posted({"type": "message", **now}, me)
                return Edited(posted, at) if posted else None
            # Previews of links and our own updates are changes without an edit.
            posted = _message_posted({"type": "message", **now}, me) if _shows_more(now, before) else None
            return Unfurled(posted) if posted else None
        case _:
            return _message_posted(event, me)


def _shows_more(now: Json, before: Json) -> bool:
    """Return whether messages are shown below another to which it links, and were not before."""
    fresh, old = (
        [each for each in message.get("attachments") or () if each.get("is_msg_unfurl")] for message in (now, before)
    )
    return len(fresh) > len(old)


def _deleted(message: Json, me: Identity) -> Deleted | None:
    return None if _is_by_a_bot(message, me) else Deleted(_thread(message, me), message["ts"])


def _stopped(event: Json, me: Identity) -> StopPressed:
    return StopPressed(_thread({**event, "ts": event["thread_ts"]}, me), event["event_ts"])


def _renamed(event: Json, me: Identity) -> Renamed:
    return Renamed(_thread({**event, "ts": event["thread_ts"]}, me), event["title"], event["event_ts"])


def _opened(event: Json, _: Identity) -> Opened | None:
    return Opened(event["user"], event["channel"]) if event.get("tab") == "messages" else None


def _nothing(_: Json, __: Identity) -> None:
    """Ask for nothing: the event is known, and there is nothing to do about it."""


def _voted(payload: Json, _: Identity) -> Voted | None:
    vote = voted(str(payload["actions"][0].get("value") or ""))
    return Voted(payload["user"]["id"], *vote) if vote else None


def _commanded(payload: Json, me: Identity) -> Commanded:
    text, trigger = str(payload.get("text") or ""), payload["trigger_id"]
    return Commanded(payload["channel_id"], payload["user_id"], me.team, payload["command"], text, trigger)


def _pointed(payload: Json, me: Identity) -> Pointed:
    message: Json = payload["message"]
    user: Json = payload["user"]
    at = {"channel": payload["channel"]["id"], "ts": message["ts"], "thread_ts": message.get("thread_ts")}
    thread = _thread({**at, "user": user["id"], "user_team": user.get("team_id")}, me)
    return Pointed(thread, message["ts"], message, payload["trigger_id"])


def _pressed(payload: Json, _: Identity) -> Pressed:
    action, at = payload["actions"][0], payload["container"]
    card = CardAt(action["value"], at["channel_id"], at["message_ts"], at.get("thread_ts"))
    return Pressed(payload["user"]["id"], card, action["action_id"], payload["trigger_id"])


def _filled(payload: Json, _: Identity) -> Filled:
    view: Json = payload["view"]
    fields: Mapping[str, Json] = part(part(view, "state"), "values")
    values = {block: _value(element) for block, field in fields.items() for element in field.values()}
    return Filled(payload["user"]["id"], card_at(view["private_metadata"]), view["callback_id"], values)


def _value(element: Json) -> str | None:
    """Return what a person wrote into a field, or chose there: several values with commas, a time in ISO 8601."""
    if "selected_options" in element:
        several: list[Json] = element["selected_options"] or []
        return ",".join(str(each["value"]) for each in several)
    if isinstance(at := element.get("selected_date_time"), int):
        return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")
    if "selected_date" in element:
        return element["selected_date"]
    value = part(element, "selected_option").get("value") if "selected_option" in element else element.get("value")
    return None if value is None else str(value)


def _thread(message: Json, me: Identity) -> Thread:
    """Return the thread of a message; one that is in none is the root of its own."""
    channel: str = message["channel"]
    return Thread(
        team=me.team,
        channel=channel,
        root=message.get("thread_ts") or message["ts"],
        user=message["user"],
        user_team=message.get("user_team") or message.get("team") or me.team,
        enterprise=me.enterprise,
        is_dm=channel.startswith("D"),
    )


def _is_by_a_bot(message: Json, me: Identity) -> bool:
    sender = message.get("bot_id") or message.get("bot_profile") or message.get("subtype") == "bot_message"
    return bool(sender) or is_ours(message, me) or message.get("user") in _SLACK


def _edited_at(message: Json) -> str | None:
    return part(message, "edited").get("ts")


def _mention(me: Identity) -> re.Pattern[str]:
    return re.compile(rf"<@{re.escape(me.user)}(?:\|[^<>]*)?>")


_EVENTS: Mapping[str, Reading] = MappingProxyType(
    {
        "agent_session_stopped": _stopped,
        "agent_session_title_changed": _renamed,
        "app_context_changed": _nothing,
        "app_home_opened": _opened,
        "app_mention": _message_posted,
        "message": _message,
    }
)
_ACTIONS: Mapping[str, Reading] = MappingProxyType(
    {FEEDBACK: _voted, **dict.fromkeys((APPROVE, ALWAYS, EDIT, DENY, *CHOICES), _pressed)}
)
_FORMS: Mapping[str, Reading] = MappingProxyType({EDIT: _filled, DENY: _filled})
_SHORTCUTS: Mapping[str, Reading] = MappingProxyType({ASK_MESSAGE: _pointed})
_COMMANDS: Mapping[str, Reading] = MappingProxyType({"": _commanded})
