"""What channels hand to the core, and what they tell of themselves."""

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Literal, Protocol, get_args

import msgspec
from msgspec import inspect
from msgspec.structs import replace

from agent_core.agents import Controls, Definition
from agent_core.errors import InvalidInput
from agent_core.messages import Actor, Message, Part
from agent_core.quotas import ANYWHERE, Origin

_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_STEP = re.compile(r"\.(\w+)|\[[^\]]*\]")
MAX_FIELD_NAME = 50
"""Characters of a field's name that are repeated."""


def misfit(error: msgspec.ValidationError, kind: Any) -> tuple[str, str]:
    """Return where, such as `limits` or `hooks[0]`, and why something does not fit the type *kind*, as *error* says."""
    fault, _, place = str(error).partition(" - at ")
    where = place.strip("`").removeprefix("$")
    unknown = _UNKNOWN.fullmatch(fault)
    if unknown is not None:
        fault = unknown_field(unknown[1], fields_at(where, kind)).removesuffix(".")
    return where.removeprefix("."), fault


def misfit_in(field: str, error: msgspec.ValidationError, kind: Any) -> tuple[str, str]:
    """Return the path, such as `config.methd`, and why the value of *field* does not fit the type *kind*."""
    where, why = misfit(error, kind)
    unknown = _UNKNOWN.fullmatch(str(error).partition(" - at ")[0])
    path = ".".join(filter(None, (field, where, unknown and unknown[1][:MAX_FIELD_NAME])))
    return path, why if why.endswith(".") else f"{why}."


def unknown_field(name: str, names: Collection[str]) -> str:
    """Return the sentence about a field *name* that is none of *names*."""
    near = difflib.get_close_matches(name[:MAX_FIELD_NAME], names, n=1)
    likely = f"; did you mean `{near[0]}`?" if near else "."
    return (
        f"unknown field `{name[:MAX_FIELD_NAME]}`{likely} Known: {', '.join(f'`{each}`' for each in names) or 'none'}."
    )


def fields_at(where: str, kind: Any) -> tuple[str, ...]:
    """Return the names of the fields at *where*, a path such as `.hooks[0]`, in the type *kind*; none if unknown."""
    types: list[inspect.Type] = [inspect.type_info(kind)]
    for step in _STEP.finditer(where):
        types = [inner for each in _alternatives(types) for inner in _inner(each, step[1])]
    structs = [each for each in _alternatives(types) if isinstance(each, inspect.StructType)]
    return tuple(dict.fromkeys(field.encode_name for each in structs for field in each.fields))


def known_fields(
    value: dict[str, Any], kind: type[msgspec.Struct], groups: tuple[type[msgspec.Struct], ...]
) -> dict[str, Any]:
    """Return the fields of *value* that *kind* has, and of those in it that are one of *groups* likewise."""
    fields: dict[str, Any] = {}
    for name, group in _groups(kind, groups).items():
        if name in value:
            field = value[name]
            fields[name] = field if group is None or field is None else known_fields(field, group, groups)
    return fields


@cache
def _groups(
    kind: type[msgspec.Struct], groups: tuple[type[msgspec.Struct], ...]
) -> dict[str, type[msgspec.Struct] | None]:
    """Return the fields of *kind* with the group that each holds: to look at annotations costs a millisecond."""
    types_of = {field.name: get_args(field.type) or (field.type,) for field in msgspec.structs.fields(kind)}
    return {name: next((each for each in types if each in groups), None) for name, types in types_of.items()}


def _alternatives(types: Iterable[inspect.Type]) -> Iterator[inspect.Type]:
    for each in types:
        if isinstance(each, inspect.UnionType):
            yield from _alternatives(each.types)
        else:
            yield each


def _inner(kind: inspect.Type, field: str | None) -> Iterator[inspect.Type]:
    """Yield the types of the *field* of *kind*, or of its items."""
    match kind:
        case inspect.StructType() if field is not None:
            yield from (each.type for each in kind.fields if each.encode_name == field)
        case inspect.DictType():
            yield kind.value_type
        case inspect.ListType() | inspect.VarTupleType() | inspect.SetType() | inspect.FrozenSetType():
            yield kind.item_type
        case inspect.TupleType():
            yield from kind.item_types
        case _:
            return


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


Overlap = Literal["queue", "steer", "interrupt", "reject"]
INTERRUPTED = "interrupted"
"""Why a run was cancelled for whose place another message came."""


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What the model reads besides a message: *text* that *author* wrote in the `thread`, a `note`, or the `clock`.

    Text of a thread is shown as a quotation, see `context.quoted`; a note is shown as it is, so it may hold no text of
    others. What is *attached* belongs to the message, and is deleted with it while it waits.
    """

    text: str
    author: str | None = None
    source: Literal["thread", "note", "clock"] = "thread"
    attached: bool = False


class Inbound(msgspec.Struct, frozen=True, kw_only=True):
    """A new user message, and how to process it.

    *overlap* says what to do while a run is active. *key* makes the intake idempotent: the same key with the same
    *digest* gives the same answer and no second run. *history* are imported messages before it; *instructions*
    replace the agent's, and *controls* override it, for the run that answers the message. *context* is shown to the
    model right before the message. *metadata* is merged into the session's, None removes an entry; a repeated key
    changes nothing. *via* sent it in the name of *actor*: for `not_asker` both have asked. *origin* says whether quotas
    apply. *tool_context* is what the channel itself knows of who asks: it is passed to the tools of the run, over what
    the controls have under the same keys, and to no one else. In a *shared* place the model reads who wrote each
    message; elsewhere it does from when a second person writes. *timezone* is the IANA name of the actor's, if known.
    """

    parts: tuple[Part, ...]
    actor: Actor
    overlap: Overlap = "queue"
    key: str | None = None
    digest: bytes = b""
    key_scope: Literal["session", "agent"] = "session"
    history: tuple[Message, ...] = ()
    instructions: str | None = None
    controls: Controls = Controls()
    context: tuple[Context, ...] = ()
    metadata: dict[str, Any] = {}
    via: Actor | None = None
    origin: Origin = ANYWHERE
    tool_context: Mapping[str, Any] | None = None
    shared: bool = False
    timezone: str | None = None

    def __repr__(self) -> str:
        return f"Inbound(actor={self.actor!r}, parts={self.parts!r}, overlap={self.overlap!r}, key={self.key!r})"

    @property
    def all_parts(self) -> tuple[Part, ...]:
        """What it says, the imported messages first."""
        return (*(part for old in self.history for part in old.parts), *self.parts)


class SteeredContext(msgspec.Struct, frozen=True):
    """What the channel knows of who sent the steered message at *seq*."""

    seq: int
    tool_context: dict[str, Any]

    def __repr__(self) -> str:
        return f"SteeredContext({self.seq})"


class RunOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """The options of a single run, stored with it; *tool_context* is what the channel knows of who asked.

    *steered* is the same of messages that joined the run: it is for the run that one of them may open.
    """

    controls: Controls = Controls()
    tool_context: Mapping[str, Any] | None = None
    steered: tuple[SteeredContext, ...] = ()

    def __repr__(self) -> str:
        return f"RunOptions({self.controls!r})"


NO_OPTIONS = RunOptions()


def read_options(stored: bytes | None) -> RunOptions:
    """Return the options that are *stored* with a run."""
    return msgspec.json.decode(stored, type=RunOptions) if stored else NO_OPTIONS
