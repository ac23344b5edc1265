"""Channels as the core knows them: by name, through a port that checks what agents configure. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec
from msgspec.structs import replace

from agent_core.domain.agents import Definition
from agent_core.domain.messages import Actor
from agent_core.domain.unknown_fields import unknown_field
from agent_core.errors import InvalidInput

TERMINAL = "terminal:"
"""The prefix of the ids of people at a terminal; over HTTP they are users like all others."""
Responder = Literal["person", "group"]
"""Whether a responder is one person or any number of people."""
Settings = Mapping[str, Any]
"""What an agent configures of one channel, as JSON."""


class ChannelConflict(msgspec.Struct, frozen=True):
    """Two agents that claim the same place: *claim* names it, *path* is the field of the settings that claims it."""

    first: str
    second: str
    path: str
    claim: str

    def __str__(self) -> str:
        return f"`{self.first}` and `{self.second}` both claim {self.claim}; take it from one of them."


class ChannelPort(Protocol):
    """What the core asks of a channel."""

    @property
    def name(self) -> str:
        """The channel's name: the prefix of its addresses and responders, and the key of its settings in agents."""
        ...

    def checked(self, settings: Any, /) -> dict[str, Any]:
        """Return *settings* with defaults filled in; empty if all of them are defaults.

        Raises `InvalidInput` with paths inside the settings, which begin with `$`.
        """
        ...

    def readable(self, settings: Settings, /) -> dict[str, Any]:
        """Return stored settings like `checked`, without fields that this version does not know.

        Raises `InvalidInput` for settings that this version cannot read.
        """
        ...

    def claims(self, settings: Settings, /) -> bool:
        """Return whether *settings* claim a place that only one agent can have."""
        ...

    def conflicts(self, agents: Sequence[tuple[str, Settings]], /) -> Sequence[ChannelConflict]:
        """Return which of *agents* (names and settings) claim the same place."""
        ...

    def responder(self, id: str, /) -> Responder | None:
        """Return what the responder `<name>:<id>` is, None when the channel knows no such responder."""
        ...

    def delivers(self, place: str, /) -> bool:
        """Return whether an approval can be shown at `<name>:<place>`, outside its conversation."""
        ...


class Channels:
    """The channels of this process, by name."""

    def __init__(self, ports: Iterable[ChannelPort] = ()) -> None:
        """Register *ports*; raises ValueError for a channel that has the name of an agent's field."""
        self._ports = {port.name: port for port in ports}
        if taken := self._ports.keys() & set(Definition.__struct_fields__):
            raise ValueError(f"An agent has a field `{min(taken)}`; give the channel another name.")

    def checked(self, definition: Definition) -> Definition:
        """Return *definition* with checked, complete settings, without channels whose settings are all defaults.

        Raises `InvalidInput` with paths such as `<channel>.<field>`.
        """
        checked = {name: self._checked(name, each) for name, each in definition.channels.items()}
        return replace(definition, channels={name: settings for name, settings in checked.items() if settings})

    def readable(self, definition: Definition) -> Definition:
        """Return a stored *definition* in the form of `checked`, without what this version does not know.

        Settings that this version cannot read, see `unreadable`, are returned as they are.
        """
        readable = {
            name: self._readable(name, each) for name, each in definition.channels.items() if name in self._ports
        }
        return replace(definition, channels={name: settings for name, settings in readable.items() if settings})

    def unreadable(self, definition: Definition) -> Sequence[InvalidInput]:
        """Return why this version cannot read settings of a stored *definition*; the paths begin with the channel."""
        faults = (self._fault(name, settings) for name, settings in definition.channels.items() if name in self._ports)
        return [each for each in faults if each is not None]

    def _readable(self, name: str, settings: Settings) -> Settings:
        return settings if self._fault(name, settings) else self._ports[name].readable(settings)

    def _fault(self, name: str, settings: Settings) -> InvalidInput | None:
        try:
            self._ports[name].readable(settings)
        except InvalidInput as error:
            first, *more = (fault.within(name) for fault in error.faults)
            return InvalidInput(first.path, first.message, *more)
        return None

    def keep_unknown(self, definition: Definition, stored: Definition) -> Definition:
        """Return *definition* with what *stored* configures of channels that only other processes know."""
        unknown = {name: settings for name, settings in stored.channels.items() if name not in self._ports}
        return replace(definition, channels={**unknown, **definition.channels}) if unknown else definition

    def claims(self, definition: Definition) -> bool:
        """Return whether *definition* claims a place that only one agent can have."""
        return any(port.claims(definition.channels.get(name, {})) for name, port in self._ports.items())

    def conflicts(self, definitions: Iterable[Definition]) -> list[ChannelConflict]:
        """Return which agents claim the same place; the paths begin with the channel."""
        made = list(definitions)
        return [
            replace(conflict, path=f"{name}.{conflict.path}")
            for name, port in self._ports.items()
            for conflict in port.conflicts([(each.name, each.channels.get(name, {})) for each in made])
        ]

    def responder(self, name: str) -> Responder | None:
        """Return what the responder *name*, `<channel>:<id>`, is; None when no channel knows it."""
        channel, _, id = name.partition(":")
        return self._ports[channel].responder(id) if channel in self._ports and id.strip() else None

    def delivers(self, place: str) -> bool:
        """Return whether an approval can be shown at *place*, `<channel>:<place>`."""
        channel, _, where = place.partition(":")
        return channel in self._ports and bool(where.strip()) and self._ports[channel].delivers(where)

    @property
    def of_responders(self) -> list[str]:
        """The names of the channels that know responders."""
        return sorted(name for name, port in self._ports.items() if port.responder("id"))

    @property
    def of_deliveries(self) -> list[str]:
        """The names of the channels that show approvals outside their conversations."""
        return sorted(name for name, port in self._ports.items() if port.delivers("id"))

    def _checked(self, name: str, settings: Any) -> dict[str, Any]:
        if name not in self._ports:
            raise InvalidInput(name, unknown_field(name, (*Definition.__struct_fields__, *sorted(self._ports))))
        try:
            return self._ports[name].checked(settings)
        except InvalidInput as error:
            first, *more = (fault.within(name) for fault in error.faults)
            raise InvalidInput(first.path, first.message, *more) from None


def channel_of(address: str | None, asker: Actor | None) -> str:
    """Return the surface that a run came from: that of its session's address, or that of the person who asked.

    A visitor is always on a page: their id is arbitrary text and is not looked at.
    """
    if address:
        return address.partition(":")[0]
    match asker:
        case Actor(kind="visitor"):
            return "web"
        case Actor(kind="user", id=id) if id.startswith(TERMINAL):
            return "terminal"
        case _:
            return "api"
