"""Inbound: a message on its way in, from any channel."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from agent_core.domain.agents import Controls
from agent_core.domain.messages import Actor, Message, Part
from agent_core.domain.quotas import ANYWHERE, Origin

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
