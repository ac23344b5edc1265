"""Inbound: a message on its way in, whatever place it comes from."""

from typing import Literal

import msgspec

from agent_core.agents import Controls
from agent_core.messages import Actor, Message, Part

Overlap = Literal["queue", "steer", "interrupt", "reject"]


class Inbound(msgspec.Struct, frozen=True, kw_only=True):
    """A new user message, and how to take it.

    *overlap* says what to do while a run is active. *key* makes the intake idempotent: the same key with the same
    *digest* gives the same answer and no second run. *history* are imported messages before it; *instructions*
    replace the agent's, and *controls* override it, for the run that takes the message.
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


class RunOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a run brings of its own; kept with the run."""

    controls: Controls = Controls()
