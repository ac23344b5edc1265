"""The tool port: a spec and a call that ends in an `Outcome`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from agent_core.clock import Clock
from agent_core.domain.agents import ToolSpec
from agent_core.domain.messages import Actor, Part


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a tool may know of its call.

    *call* is the id of this use: an idempotent tool passes it on as its idempotency key. *session* and *run* are ids,
    *channel* is where the conversation is: `web`, `slack`, `terminal`, `api` or another channel's name. *actor* is who
    asked: the one whose message opened the run. What others say into a run that is at work changes neither *actor* nor
    *tool_context*. *progress* shows a line to readers who follow the session live; it is not stored. *tool_context* is
    what the run brings for its tools; it may hold secrets, so keep it out of results and logs.
    """

    call: str
    session: str
    run: str
    actor: Actor
    channel: str
    clock: Clock
    progress: Callable[[str], None]
    tool_context: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)


@dataclass(frozen=True, slots=True)
class NewRender:
    """Something to show to people: *payload* is what a surface that knows *kind* draws, *text* says the same plainly.

    Kinds are open. The text is shown wherever the kind is unknown, and hooks see it; markup in it is shown as it is.
    """

    kind: str
    payload: dict[str, Any]
    text: str
    title: str | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """The tool answered: the model reads *parts*, people see *renders* too.

    With renders and no text the model reads the texts of the renders.
    """

    parts: tuple[Part, ...]
    renders: tuple[NewRender, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolError:
    """The tool could not; the model reads *message*."""

    message: str


@dataclass(frozen=True, slots=True)
class Pending:
    """An approval, the client or another run finishes this call."""

    on: Literal["approval", "client", "run"]


Outcome = Done | ToolError | Pending


class UnfitFunction(TypeError):
    """A function that no tool can be made of; its message names the function and the remedy."""


class Tool(Protocol):
    """One tool: its spec, and its use."""

    @property
    def spec(self) -> ToolSpec: ...

    async def call(self, arguments: dict[str, Any], context: CallContext) -> Outcome:
        """Run with *arguments* that fit the schema; the model reads an exception as a failure."""
        ...
