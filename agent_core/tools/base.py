"""The tool port: a spec and a call that ends in an `Outcome`."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from agent_core.agents import ToolSpec
from agent_core.charts.made import NewRender
from agent_core.clock import Clock
from agent_core.errors import NotFound
from agent_core.messages import Actor, File, LoadedTool, Part, Text


async def _no_rows(handle: str) -> list[dict[str, Any]]:
    raise NotFound("result", handle, "This call is of no session.")


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a tool may know of its call.

    *call* is the id of this use: an idempotent tool passes it on as its idempotency key. *session* and *run* are ids,
    *channel* is where the conversation is: `web`, `slack`, `terminal`, `api` or another channel's name. *actor* is who
    asked: the one whose message opened the run. What others say into a run that is at work changes neither *actor* nor
    *tool_context*. *progress* shows a line to readers who follow the session live; it is not stored. *tool_context* is
    what the run brings for its tools; it may hold secrets, so keep it out of results and logs.

    *answer* is what a person answered to what an earlier execution of this call asked, see `Elicitation`.

    *rows* returns the rows that an earlier call of the session returned, whole, by their handle such as `r4`; it raises
    `NotFound`, which names the handles there are.

    *keep_file* stores bytes under a mime type and a name, with the session, and returns the part that names them; None
    where nothing can be stored.
    """

    call: str
    session: str
    run: str
    actor: Actor
    channel: str
    clock: Clock
    progress: Callable[[str], None]
    tool_context: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    answer: "ElicitationAnswer | None" = None
    rows: Callable[[str], Coroutine[Any, Any, list[dict[str, Any]]]] = _no_rows
    keep_file: Callable[[bytes, str, str], Coroutine[Any, Any, File]] | None = None


def render_id(call: str, n: int) -> str:
    """Return the id of the *n*-th render of *call*, from 1: a call that runs again after a crash shows the same."""
    return f"ren_{call.partition('_')[2]}.{n}"


@dataclass(frozen=True, slots=True)
class Done:
    """The tool answered: the model reads *parts*, people see *renders* too.

    With renders and no text the model reads the texts of the renders. *data* is the JSON to which the `output` of a
    definition is applied, where that is not each text. *loaded* are tools beside the prompt that the router's search
    found; those of any other tool are ignored: a result adds no tools.
    """

    parts: tuple[Part, ...]
    renders: tuple[NewRender, ...] = ()
    data: str | None = None
    loaded: tuple[LoadedTool, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolError:
    """The tool could not; the model reads *message*. *unknown*: what it was to change may have been changed."""

    message: str
    unknown: bool = False


@dataclass(frozen=True, slots=True)
class Pending:
    """An approval, the client or another run finishes this call."""

    on: Literal["approval", "client", "run"]


@dataclass(frozen=True, slots=True)
class Elicitation:
    """The call needs an answer of a person first; it is then made again, with it in `CallContext.answer`.

    *title* is the question, *detail* more of it. *schema* is the JSON Schema of an object with the fields to fill in.
    *state* is what the tool needs to go on, also in another process; people and the model do not see it.
    """

    title: str
    schema: dict[str, Any]
    detail: str | None = None
    state: str = ""


@dataclass(frozen=True, slots=True)
class ElicitationAnswer:
    """What a person answered: when *accepted*, *content* fits the schema; *state* is the question's own."""

    accepted: bool
    content: Mapping[str, Any] = field(default_factory=dict[str, Any])
    state: str = ""


Outcome = Done | ToolError | Pending | Elicitation


UNSHOWN = "It ran; its result cannot be shown"


def unshown(why: str) -> Done:
    """Return the outcome of a call that ran and whose result cannot be shown: *why* is no sentence."""
    return Done((Text(f"{UNSHOWN} ({why.rstrip('.')})."),))


class UnfitFunction(TypeError):
    """A function that no tool can be made of; its message names the function and the remedy."""


class Tool(Protocol):
    """One tool: its spec, and its use."""

    @property
    def spec(self) -> ToolSpec: ...

    async def call(self, arguments: dict[str, Any], context: CallContext) -> Outcome:
        """Run with *arguments* that fit the schema; the model reads an exception as a failure."""
        ...
