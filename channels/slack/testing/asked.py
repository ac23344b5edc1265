"""One call of the Web API as it was asked: its arguments, and the errors that Slack answers with."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from channels.slack.testing.world import Channel, Json, SimulatedWorkspace

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

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return a boolean; forms write it as `1` or `true`."""
        value = self._values.get(name, default)
        return value in (True, 1, "1", "true", "True")

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
