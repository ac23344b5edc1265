"""Moves: what a strategy decides comes next in a run. Pure."""

import msgspec

from agent_core import events as e
from agent_core.controls import Controls
from agent_core.loop.compaction import Compact
from agent_core.loop.waiting import CallState
from agent_core.messages import ToolCall


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """Call the model: step *n*, attempt *attempt*, after a pause of *delay* seconds; *note* is shown to it first.

    *sends* is the part of *controls* that is sent to its API, None for all. With *repair* earlier reasoning is left out
    from now on, because the model refused it.
    """

    n: int
    attempt: int
    message: str
    takes: tuple[int, ...]
    controls: Controls
    snapshot: str
    sends: Controls | None = None
    delay: float = 0.0
    note: str | None = None
    repair: bool = False


class AskHooks(msgspec.Struct, frozen=True):
    """Ask the hooks: whether these *calls* may run, or with none whether the run may start."""

    calls: tuple[CallState, ...] = ()


class Recall(msgspec.Struct, frozen=True):
    """Ask the context sources, before the first step."""


class UseTools(msgspec.Struct, frozen=True):
    """Request the calls that a person's message makes, before the model sees the message."""

    calls: tuple[ToolCall, ...]


class CallTools(msgspec.Struct, frozen=True):
    """Run these calls; more than one only when all may run side by side."""

    calls: tuple[CallState, ...]


class Wait(msgspec.Struct, frozen=True):
    """End the segment: a call is finished by a person, a client or another run."""

    on: tuple[e.WaitingOn, ...]


class Finish(msgspec.Struct, frozen=True):
    """End the run."""

    end: e.Terminal


Move = Ask | AskHooks | Recall | UseTools | CallTools | Wait | Compact | Finish
