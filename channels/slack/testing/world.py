"""What a Slack stand-in remembers: workspaces, people, channels, messages, streams and sessions."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from mimetypes import guess_type
from typing import Any, Literal, Self, TypeVar, cast

from channels.slack import limits

Json = dict[str, Any]
ChannelKind = Literal["channel", "group", "im", "mpim"]
SessionStatus = Literal["processing", "active", "suspended", "closed"]
StreamEnd = Literal["finished", "expired", "stopped_by_user", "closed"]

SCOPES = (
    "app_mentions:read assistant:write channels:history channels:read chat:write commands files:read files:write "
    "groups:history groups:read im:history im:read im:write mpim:history mpim:read "
    "usergroups:read users:read users:read.email"
)
"""What the app may do in a workspace that says nothing else."""


@dataclass(frozen=True, slots=True)
class User:
    """A person or a bot; *team* is the workspace it belongs to, another one for a stranger of Slack Connect."""

    id: str
    name: str
    real_name: str
    team: str
    bot: bool = False
    guest: bool = False
    stranger: bool = False
    email: str = ""
    tz: str = "Europe/London"

    def as_json(self, *, email: bool = False) -> Json:
        """Return the user object of `users.info`, with its *email* for those who may read it."""
        profile = {"real_name": self.real_name, "display_name": self.name, "team": self.team}
        return {
            "id": self.id,
            "team_id": self.team,
            "name": self.name,
            "real_name": self.real_name,
            "tz": self.tz,
            "is_bot": self.bot,
            "is_restricted": self.guest,
            "is_ultra_restricted": False,
            "is_stranger": self.stranger,
            "is_app_user": False,
            "is_email_confirmed": bool(self.email),
            "profile": profile | ({"email": self.email} if email and self.email else {}),
        }


@dataclass(slots=True)
class TaskCard:
    """A task card, as the updates with its id have made it."""

    id: str
    title: str
    status: str
    details: str = ""
    output: str = ""


@dataclass(slots=True)
class Stream:
    """What was streamed into a message: Markdown, tasks and blocks in the order of their arrival."""

    started: int
    parts: "list[str | TaskCard | list[Json]]" = field(default_factory=list["str | TaskCard | list[Json]"])
    ended: StreamEnd | None = None

    def settled(self, now: int) -> bool:
        """Return whether it is over; it ends of itself at its age."""
        if self.ended is None and now - self.started >= limits.STREAM_AGE * 1000:
            self.ended = "expired"
        return self.ended is not None

    @property
    def markdown(self) -> str:
        """Return all the text."""
        return "".join(part for part in self.parts if isinstance(part, str))

    @property
    def tasks(self) -> list[TaskCard]:
        return [part for part in self.parts if isinstance(part, TaskCard)]

    def write(self, text: str) -> None:
        """Add *text*, to the last piece of text if nothing is between."""
        if self.parts and isinstance(last := self.parts[-1], str):
            self.parts[-1] = last + text
        elif text:
            self.parts.append(text)


@dataclass(slots=True)
class SlackMessage:
    """One message; *stream* is what it was streamed from, until an update replaces it."""

    ts: str
    user: str
    text: str
    thread_ts: str | None = None
    team: str = ""
    bot_id: str | None = None
    blocks: list[Json] = field(default_factory=list[Json])
    attachments: list[Json] = field(default_factory=list[Json])
    files: list[Json] = field(default_factory=list[Json])
    metadata: Json | None = None
    edited: Json | None = None
    subtype: str | None = None
    stream: Stream | None = None
    to: str | None = None
    """Who alone sees it, for an ephemeral message."""

    @property
    def root(self) -> str:
        """Return the `ts` of the thread that it belongs to or would open."""
        return self.thread_ts or self.ts


@dataclass(slots=True, eq=False)
class SlackFile:
    """An uploaded file: it is complete, and then processed until *ready_at* (milliseconds).

    *shares* are the messages that hold it, by channel.
    """

    id: str
    name: str
    length: int
    title: str = ""
    alt: str = ""
    content: bytes = b""
    ready_at: int | None = None
    shares: dict[str, list[Json]] = field(default_factory=dict[str, list[Json]])

    @property
    def is_complete(self) -> bool:
        """Whether the upload was completed: its bytes are kept."""
        return self.ready_at is not None

    @property
    def mimetype(self) -> str:
        return guess_type(self.name)[0] or "application/octet-stream"

    def as_json(self) -> Json:
        """Return the file object, without its shares."""
        about: Json = {"id": self.id, "name": self.name, "title": self.title, "mimetype": self.mimetype}
        return about | {"filetype": self.name.rpartition(".")[2], "size": self.length, "mode": "hosted"}


@dataclass(slots=True)
class SlackSession:
    """An agent's session in a thread."""

    status: SessionStatus = "active"
    title: str = ""
    since: int = 0
    loading: str = ""
    """A text of `assistant.threads.setStatus`."""

    def settled(self, now: int) -> SessionStatus:
        """Return the status; `processing` falls back to `active` after an hour."""
        if self.status == "processing" and now - self.since >= limits.PROCESSING_AGE * 1000:
            self.status, self.loading = "active", ""
        return self.status

    def become(self, status: SessionStatus, now: int) -> None:
        """Take *status*, from *now* on."""
        self.status, self.since, self.loading = status, now, ""


@dataclass(slots=True)
class Channel:
    """A conversation of any kind; *shared* with another organisation by Slack Connect."""

    id: str
    name: str
    kind: ChannelKind = "channel"
    members: set[str] = field(default_factory=set[str])
    shared: bool = False
    archived: bool = False
    messages: dict[str, SlackMessage] = field(default_factory=dict[str, SlackMessage])
    ephemeral: list[SlackMessage] = field(default_factory=list[SlackMessage])
    sessions: dict[str, SlackSession] = field(default_factory=dict[str, SlackSession])
    prompts: Json | None = None
    last: int = 0
    """Microseconds of the newest `ts`."""
    arriving: list[tuple[int, SlackMessage, list[SlackFile]]] = field(
        default_factory=list[tuple[int, SlackMessage, list[SlackFile]]]
    )
    """Messages with files that are still processed, each with the time (ms) at which it comes."""

    def stamp(self, now: int) -> str:
        """Return a `ts` that is later than all before, *now* in milliseconds."""
        self.last = max(now * 1000, self.last + 100)
        return f"{self.last // 1_000_000}.{self.last % 1_000_000:06d}"

    def thread(self, root: str) -> Iterator[SlackMessage]:
        """Give the message at *root*, if it is still there, and all answers to it."""
        return (each for each in self.messages.values() if root in (each.ts, each.thread_ts))

    def replies(self, root: str) -> list[SlackMessage]:
        return [each for each in self.thread(root) if each.ts != root]

    def remove(self, message: SlackMessage) -> None:
        """Delete *message*; a root that was answered leaves a tombstone."""
        if message.root == message.ts and self.replies(message.ts):
            message.subtype, message.user, message.text = "tombstone", "USLACKBOT", "This message was deleted."
            message.blocks, message.stream, message.metadata = [], None, None
            message.attachments, message.files = [], []
        else:
            del self.messages[message.ts]

    def arrive(self, at: int, message: SlackMessage, files: list[SlackFile]) -> None:
        """Let *message*, which holds *files*, come at *at* (milliseconds)."""
        self.arriving.append((at, message, files))

    def _bring(self, now: int) -> None:
        for arrival in [each for each in self.arriving if each[0] <= now]:
            self.arriving.remove(arrival)
            at, message, files = arrival
            message.ts = self.stamp(at)
            self.messages[message.ts] = message
            for file in files:
                place: Json = {"ts": message.ts} | ({"thread_ts": message.thread_ts} if message.thread_ts else {})
                file.shares.setdefault(self.id, []).append(place)

    def settle(self, now: int) -> None:
        """Let what is overdue happen: streams expire and take their sessions back to `active`, statuses fall back.

        Messages come whose files are processed.
        """
        self._bring(now)
        for message in self.messages.values():
            stream = message.stream
            if stream is None or stream.ended is not None or not stream.settled(now):
                continue
            session = self.sessions.get(message.root)
            if session is not None and session.status == "processing":
                session.become("active", now)
        for session in self.sessions.values():
            session.settled(now)


@dataclass(slots=True)
class View:
    """A modal."""

    id: str
    hash: str
    view: Json
    user: str


@dataclass(slots=True)
class SimulatedWorkspace:
    """One workspace with the app installed.

    Users and channels are found by id; `SimulatedWorkspace.example` has some of each kind. *scopes* are what the bot
    token may do. *groups* are user groups with their members.
    """

    id: str
    name: str
    bot: User
    enterprise: str | None = None
    scopes: frozenset[str] = frozenset(SCOPES.split())
    users: dict[str, User] = field(default_factory=dict[str, User])
    channels: dict[str, Channel] = field(default_factory=dict[str, Channel])
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    views: dict[str, View] = field(default_factory=dict[str, View])
    bot_token: str = ""
    files: dict[str, SlackFile] = field(default_factory=dict[str, SlackFile])
    processing: int = 0
    """Milliseconds for which a file is processed before it can be shown."""

    def __post_init__(self) -> None:
        self.bot_token = self.bot_token or f"xoxb-{self.id}-stand-in"
        self.users[self.bot.id] = self.bot

    @classmethod
    def example(cls, id: str = "T0001", name: str = "Acme", *, enterprise: str | None = None) -> Self:
        """Return a workspace with people and channels of every kind.

        Their ids are the same in each such workspace, so that code which confuses two workspaces is found out.
        """
        made = cls(id, name, User("UPARLEY", "parley", "Parley", id, bot=True), enterprise)
        made.add(
            User("UANN", "ann", "Ann Lee", id, email="ann@acme.example"),
            User("UBEN", "ben", "Ben Okoro", id, email="ben@acme.example"),
            User("UCLEO", "cleo", "Cleo Marsh", id),
            User("UGUEST", "gus", "Gus Guest", id, guest=True),
            User("USAM", "sam", "Sam Stranger", "TOTHER", stranger=True, email="ann@acme.example"),
            User("UBUILD", "buildbot", "Build bot", id, bot=True),
        )
        staff = {"UANN", "UBEN", "UCLEO", "UBUILD", "UPARLEY"}
        made.add(
            Channel("CGENERAL", "general", members=staff | {"UGUEST"}),
            Channel("CDATA", "data", members=set(staff)),
            Channel("CQUIET", "without-the-app", members=staff - {"UPARLEY"}),
            Channel("GSECRET", "board", "group", members={"UANN", "UBEN", "UPARLEY"}),
            Channel("GTRIO", "mpdm-ann--ben--parley-1", "mpim", members={"UANN", "UBEN", "UPARLEY"}),
            Channel("CSHARED", "with-other-corp", members={"UANN", "UBEN", "USAM", "UPARLEY"}, shared=True),
        )
        made.groups["SDATA"] = ("UBEN", "UCLEO")
        return made

    def add(self, *things: User | Channel) -> None:
        """Add users and channels."""
        for thing in things:
            if isinstance(thing, User):
                self.users[thing.id] = thing
            else:
                self.channels[thing.id] = thing

    def im(self, user: str) -> Channel:
        """Return the direct messages between *user* and the app, opened if need be."""
        channel = next((each for each in self.ims() if user in each.members), None)
        if channel is None:
            channel = Channel(f"D{user[1:]}", self.users[user].name, "im", {user, self.bot.id})
            self.channels[channel.id] = channel
        return channel

    def ims(self) -> Iterable[Channel]:
        return (each for each in self.channels.values() if each.kind == "im")

    @property
    def bot_id(self) -> str:
        """Return the `B…` id of the app's bot."""
        return f"B{self.bot.id[1:]}"


Got = TypeVar("Got")


class MethodFailed(Exception):
    """Slack says no: `ok: false` with HTTP status 200, or 429 with *retry_after* seconds."""

    def __init__(self, code: str, *messages: str, retry_after: int = 0, **more: Any) -> None:
        super().__init__(code)
        self.code, self.messages, self.retry_after, self.more = code, messages, retry_after, more

    def as_json(self) -> Json:
        """Return the body of the answer."""
        body: Json = {"ok": False, "error": self.code, **self.more}
        if self.messages:
            body["response_metadata"] = {"messages": list(self.messages)}
        return body


class Arguments(Mapping[str, Any]):
    """The arguments of a call, whether they came as JSON, as a form or as a query."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = {name: value for name, value in values.items() if value is not None}

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Any:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def text(self, name: str, default: str = "") -> str:
        """Return a string; raises `invalid_arguments` for anything else."""
        value = self._values.get(name, default)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise _wrong(f"[ERROR] must be a string [json-pointer:/{name}]")
        return str(value)

    def need(self, name: str) -> str:
        """Return a string that must be there."""
        if not (value := self.text(name)):
            raise _wrong(f"[ERROR] missing required field: {name}")
        return value

    def number(self, name: str, default: int) -> int:
        """Return a whole number."""
        try:
            return int(self._values.get(name) or default)
        except (TypeError, ValueError):
            raise _wrong(f"[ERROR] must be a number [json-pointer:/{name}]") from None

    def listed(self, name: str, code: str) -> list[Json] | None:
        """Return a list of objects, given as such or as JSON text; None without it; raises *code*."""
        value = self._parsed(name, code)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in cast("list[Any]", value)):
            raise MethodFailed(code)
        return cast("list[Json]", value)

    def texts(self, name: str) -> list[str]:
        """Return a list of strings, given as such, as JSON text or with commas between."""
        value = self._values.get(name)
        if isinstance(value, str):
            value = json.loads(value) if value.startswith("[") else value.split(",")
        return [str(each) for each in cast("list[Any]", value or [])]

    def mapping(self, name: str, code: str) -> Json | None:
        """Return an object, given as such or as JSON text; None without it; raises *code*."""
        value = self._parsed(name, code)
        if value is not None and not isinstance(value, dict):
            raise MethodFailed(code)
        return cast("Json | None", value)

    def _parsed(self, name: str, code: str) -> Any:
        value = self._values.get(name)
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value) if value else None
        except ValueError:
            raise MethodFailed(code) from None


@dataclass(frozen=True, slots=True)
class MethodContext:
    """Where a method works: the workspace whose token asked, the time, and what it may set off.

    *notify* sends an event to the app, *subscribed* says whether the app listens to one. *check* is the strict look at
    blocks. *redeem* takes a trigger id, once and in time.
    """

    workspace: SimulatedWorkspace
    app_id: str
    now: int
    base_url: str
    notify: Callable[[Channel, Json], object]
    subscribed: Callable[[str], bool]
    redeem: Callable[[str], str]
    unique: Callable[[str], str]

    def channel(self, name: str, *, write: bool = False) -> Channel:
        """Return the channel *name*, or the direct messages with the user of that id; with the app in it to *write*."""
        workspace = self.workspace
        if name in workspace.users and workspace.users[name] != workspace.bot:
            channel = workspace.im(name)
        else:
            channel = workspace.channels.get(name)
        inside = channel is not None and workspace.bot.id in channel.members
        if channel is None or (not inside and channel.kind != "channel"):
            raise MethodFailed("channel_not_found")
        channel.settle(self.now)
        if write and channel.archived:
            raise MethodFailed("is_archived")
        if write and not inside:
            raise MethodFailed("not_in_channel")
        return channel

    def need_scope(self, *any_of: str) -> None:
        """Raise `missing_scope` unless the token has one of these."""
        if not self.workspace.scopes.intersection(any_of):
            raise MethodFailed(
                "missing_scope", needed=",".join(any_of), provided=",".join(sorted(self.workspace.scopes))
            )


Method = Callable[[MethodContext, Arguments], Json]


def _wrong(message: str) -> MethodFailed:
    return MethodFailed("invalid_arguments", message)
