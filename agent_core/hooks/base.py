"""The input of a hook and its answers. Pure."""

from typing import Any

import msgspec

from agent_core.domain.hooks import HookEvent
from agent_core.domain.messages import Actor


class Occasion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a hook is asked about.

    *channel* is the kind of place that the session is in (`slack`, `web`, `terminal`, `api`), *actor* who asked for the
    run. *tool*, *call* and *arguments* (presets among them) are there for a call, *wraps* for one of a tool that gives
    that one another name, *result* (its text) after one, *text* for an answer or, at the start of a run, what was
    asked; *status* is how a run ended.
    """

    event: HookEvent
    hook: str
    agent: str
    session: str
    run: str
    channel: str
    actor: Actor | None
    tool: str | None = None
    wraps: str | None = None
    call: str | None = None
    arguments: dict[str, Any] | None = None
    result: str | None = None
    text: str | None = None
    status: str | None = None


class Allow(msgspec.Struct, frozen=True):
    """Go on; *error* says why the hook itself gave no answer."""

    reason: str | None = None
    error: str | None = None


class Deny(msgspec.Struct, frozen=True):
    """Do not; the model, or the person, reads *reason*."""

    reason: str | None = None
    error: str | None = None


class Modify(msgspec.Struct, frozen=True):
    """Go on with other *arguments*, another *result* or another *text*."""

    arguments: dict[str, Any] | None = None
    result: str | None = None
    text: str | None = None
    reason: str | None = None


Answer = Allow | Deny | Modify
