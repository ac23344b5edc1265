"""The seam of a channel: one value that says what the channel is, registered with one line in the composition."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import msgspec

from agent_core import ChannelConflict, Core, InvalidInput, Responder, misfit
from channels.base import Records, ShownRender

if TYPE_CHECKING:
    from fastapi import APIRouter

S = TypeVar("S", bound=msgspec.Struct)
Process_contra = TypeVar("Process_contra", contravariant=True)
_UNKNOWN = re.compile(r"unknown field `([^`]*)`")


class NoSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of a channel of which an agent configures nothing."""


@dataclass(frozen=True, slots=True)
class AgentSettings(Generic[S]):
    """What an agent may configure of a channel: a struct of *type*, every field with a default.

    *check* raises `InvalidInput`, its paths begin with `$`, for what the types do not refuse. *claims* says whether
    settings claim a place that only one agent can have, *conflicts* which agents claim the same one.
    """

    type: type[S]
    check: Callable[[S], None] = lambda _: None
    claims: Callable[[S], bool] = lambda _: False
    conflicts: Callable[[Sequence[tuple[str, S]]], Sequence[ChannelConflict]] = lambda _: ()

    def of(self, channel: str, channels: Mapping[str, Any]) -> S:
        """Return an agent's settings of *channel*, the defaults where it has none.

        Fields that another version has stored, and this one does not know or cannot read, are left out.
        """
        settings: Mapping[str, Any] = channels.get(channel, {})
        try:
            return self.readable(settings)
        except InvalidInput:
            return self.readable({name: value for name, value in settings.items() if self._reads(name, value)})

    def readable(self, stored: Mapping[str, Any]) -> S:
        """Return *stored* settings without fields that this version does not know; raises `InvalidInput`."""
        return self._converted({name: each for name, each in stored.items() if name in self.type.__struct_fields__})

    def read(self, value: Any) -> S:
        """Return *value* settings, checked; raises `InvalidInput`."""
        read = self._converted(value)
        self.check(read)
        return read

    def _converted(self, value: Any) -> S:
        try:
            return msgspec.convert(value, self.type)
        except msgspec.ValidationError as error:
            path, message = misfit(error, self.type)
            unknown = _UNKNOWN.search(message)
            end = f".{unknown[1]}" if unknown else ""
            raise InvalidInput(f"$.{path}".removesuffix(".") + end, f"{message}.") from None

    def _reads(self, name: str, value: Any) -> bool:
        try:
            self.readable({name: value})
        except InvalidInput:
            return False
        return True

    def stored(self, settings: S) -> dict[str, Any]:
        """Return *settings* as JSON, empty when they are the defaults."""
        return {} if settings == self.type() else msgspec.json.decode(msgspec.json.encode(settings))


class Serve(Protocol[Process_contra]):
    """Serves a channel while the block lasts, and gives its HTTP routes, if it has some."""

    def __call__(
        self, core: Core, records: Records, settings: Process_contra, /, *, socket: bool
    ) -> "AbstractAsyncContextManager[APIRouter | None]":
        """Serve with the *settings* of the process; with *socket* receive also by connections opened here.

        *records* keeps what the channel delivered.
        """
        ...


class ChannelPreview(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a channel would be sent; *upload* names a file that is uploaded first, with a made-up id in *blocks*."""

    blocks: tuple[dict[str, Any], ...]
    text: str
    upload: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSpec(Generic[Process_contra]):
    """One channel; *Process_contra* is what it reads of the settings of the process.

    *name* begins its addresses, its responders and its destinations; *address* matches a whole address and names its
    parts. *responder* says what `<name>:<id>` is as the responder of an approval. With *delivers_approvals* an approval
    can be shown at `<name>:<place>` outside its conversation. *serve* is None for a channel that others serve: its
    routes are those of the API, or it is a command. *receives* says, for the greeting, how a server at a URL receives.
    *no_socket* says why the process cannot receive by connections of its own, None if it can. *preview* gives a render
    in the form that the channel is sent first; None for a channel that has no form of its own.
    """

    name: str
    address: re.Pattern[str]
    settings: AgentSettings[Any] = field(default_factory=lambda: AgentSettings(NoSettings))
    responder: Callable[[str], Responder | None] = lambda _: None
    delivers_approvals: bool = False
    serve: Serve[Process_contra] | None = None
    receives: Callable[[Process_contra, str | None], str | None] = lambda _settings, _url: None
    no_socket: Callable[[Process_contra], str | None] = lambda _: None
    preview: Callable[[ShownRender], ChannelPreview] | None = None

    def parse_address(self, address: str) -> dict[str, str] | None:
        """Return the parts of an *address* of this channel by their names, None when it is none."""
        match = self.address.fullmatch(address)
        return match.groupdict() if match else None

    def checked(self, settings: Any, /) -> dict[str, Any]:
        return self.settings.stored(self.settings.read(settings))

    def readable(self, settings: Mapping[str, Any], /) -> dict[str, Any]:
        return self.settings.stored(self.settings.readable(settings))

    def claims(self, settings: Mapping[str, Any], /) -> bool:
        return self.settings.claims(self._of(settings))

    def conflicts(self, agents: Sequence[tuple[str, Mapping[str, Any]]], /) -> Sequence[ChannelConflict]:
        return self.settings.conflicts([(name, self._of(settings)) for name, settings in agents])

    def delivers(self, place: str, /) -> bool:
        return self.delivers_approvals and bool(place.strip())

    def _of(self, settings: Mapping[str, Any]) -> Any:
        return self.settings.of(self.name, {self.name: settings})
