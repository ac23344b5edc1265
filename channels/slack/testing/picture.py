"""What the page shows of a stand-in, as JSON: one person's view of one workspace, one channel and one thread."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from channels.slack.testing.drawing import Drawing, Node
from channels.slack.testing.faults import Armed
from channels.slack.testing.server import ApiCall, SlackStandIn
from channels.slack.testing.shown import VisibleMessage
from channels.slack.testing.team import Team
from channels.slack.testing.world import Json, SimulatedWorkspace

_ENDS = {"stopped_by_user": "stopped", "expired": "expired", "closed": "closed by Slack"}
_CALLS = 40
_DELIVERIES = 20


@dataclass(frozen=True, slots=True)
class PageLocation:
    """Who looks at what; empty where the page says nothing."""

    team: str = ""
    user: str = ""
    channel: str = ""
    thread: str = ""


@dataclass(frozen=True, slots=True)
class FilePlaces(Mapping[str, str]):
    """Where the page finds the files of *workspace* that are complete, by id."""

    workspace: SimulatedWorkspace

    def __getitem__(self, id: str) -> str:
        if not self.workspace.files[id].is_complete:
            raise KeyError(id)
        return f"/page/file/{self.workspace.id}/{id}"

    def __iter__(self) -> Iterator[str]:
        return (id for id, file in self.workspace.files.items() if file.is_complete)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class PageDrawing:
    """Draw one page; a message is drawn again only when it has changed."""

    def __init__(self, stand_in: SlackStandIn, place: PageLocation) -> None:
        self._stand_in = stand_in
        self._team = stand_in.teams.get(place.team) or stand_in.team()
        people = self._team.workspace.users
        self._user = people.get(place.user) or next(each for each in people.values() if not each.bot)
        self._channel, self._thread = place.channel, place.thread
        workspace = self._team.workspace
        names = {each.id: each.name for each in people.values()} | {c.id: c.name for c in workspace.channels.values()}
        self._drawing = Drawing(names, FilePlaces(workspace))
        self._drawn: dict[str, tuple[str, list[Node]]] = {}

    def now(self) -> Json:
        """Return everything as it is now."""
        team, workspace, user = self._team, self._team.workspace, self._user
        direct = workspace.im(user.id)
        mine = [each for each in workspace.channels.values() if user.id in each.members]
        channel = next((each for each in mine if each.id == self._channel), mine[0])
        messages = team.top(channel.id, user=user.id)
        return {
            "teams": [{"id": each.id, "name": each.workspace.name} for each in self._stand_in.teams.values()],
            "team": {"id": team.id, "name": workspace.name, "bot": workspace.bot.name},
            "people": [asdict(each) for each in workspace.users.values() if not each.bot],
            "user": asdict(user),
            "channels": [_channel(each.id, each.name, each.kind, shared=each.shared) for each in mine],
            "direct": direct.id,
            "channel": _channel(channel.id, channel.name, channel.kind, shared=channel.shared),
            "prompts": channel.prompts,
            "messages": [self._message(each, channel.id, in_thread=False) for each in messages],
            "thread": self._open_thread(team, channel.id),
            "views": [self._view(each.id, each.view) for each in workspace.views.values() if each.user == user.id],
            "home": self._home(),
            "faults": [_fault(n, each) for n, each in enumerate(self._stand_in.faults.armed)],
            "calls": [_call(each) for each in self._stand_in.calls[-_CALLS:]][::-1],
            "deliveries": [
                {"type": each.type, "acked": each.acked, "failures": each.failures}
                for each in self._stand_in.sent[-_DELIVERIES:]
            ][::-1],
            "link": self._link(),
        }

    def _link(self) -> str:
        """Say where events go."""
        app, sockets = self._stand_in.app, len(self._stand_in.sockets.open)
        if not app.socket_mode:
            return f"Events go to {app.url}" if app.url else "No app listens yet"
        return f"Socket Mode, {sockets} open" if sockets else "Socket Mode, no app is connected"

    def _open_thread(self, team: Team, channel: str) -> Json | None:
        if not self._thread:
            return None
        session = team.session(channel, self._thread)
        thread = team.thread(channel, self._thread, user=self._user.id)
        return {
            "ts": self._thread,
            "session": asdict(session) if session else None,
            "messages": [self._message(each, channel, in_thread=True) for each in thread],
        }

    def _message(self, message: VisibleMessage, channel: str, *, in_thread: bool) -> Json:
        author = self._team.workspace.users.get(message.user)
        session = None if in_thread else self._team.session(channel, message.ts)
        return {
            "ts": message.ts,
            "name": author.real_name if author else message.user,
            "bot": author is None or author.bot,
            "mine": message.user == self._user.id,
            "mark": "guest" if author and author.guest else "external" if author and author.stranger else "",
            "nodes": self._draw(message),
            "source": message.source,
            "streaming": message.streaming,
            "ended": _ENDS.get(message.ended or ""),
            "edited": message.edited,
            "deleted": message.deleted,
            "private": message.to is not None,
            "replies": 0 if in_thread else len(self._team.workspace.channels[channel].replies(message.ts)),
            "status": session.status if session else "",
            "title": session.title if session else "",
        }

    def _draw(self, message: VisibleMessage) -> list[Node]:
        key = json.dumps([message.source, message.blocks, message.files])
        if message.ts not in self._drawn or self._drawn[message.ts][0] != key:
            blocks = list(message.blocks)
            nodes = self._drawing.blocks(blocks) if blocks else self._drawing.mrkdwn(message.source)
            self._drawn[message.ts] = key, [*nodes, *self._drawing.files(message.files)]
        return self._drawn[message.ts][1]

    def _home(self) -> Json | None:
        home = self._team.workspace.homes.get(self._user.id)
        return self._view(home.id, home.view) if home else None

    def _view(self, id: str, view: Json) -> Json:
        text: Callable[[str], str] = lambda name: str(view.get(name, {}).get("text", ""))  # noqa: E731
        return {
            "id": id,
            "title": text("title"),
            "submit": text("submit"),
            "close": text("close"),
            "errors": view.get("errors", {}),
            "state": view.get("state", {}).get("values", {}),
            "nodes": self._drawing.blocks(view.get("blocks", [])),
        }


def _channel(id: str, name: str, kind: str, *, shared: bool) -> Json:
    return {"id": id, "name": name, "kind": kind, "shared": shared}


def _fault(n: int, armed: Armed) -> Json:
    fault = armed.fault
    return {"n": n, "kind": fault.kind, "on": fault.on or "", "struck": armed.struck, "spent": armed.spent}


def _call(call: ApiCall) -> Json:
    error: Any = "" if call.ok else (call.answer or {}).get("error", "")
    return {"at": call.at, "method": call.method, "status": call.status, "error": error}
