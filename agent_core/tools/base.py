"""The tool port: a spec and a call that ends in an `Outcome`."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Protocol, TypeVar, cast

import msgspec

from agent_core.agent import router
from agent_core.agents import CALL_TOOL, LIST_RESOURCES, SEARCH_TOOLS, USE_RESOURCE, Agent, ToolSpec
from agent_core.charts.made import NewRender
from agent_core.clock import Clock
from agent_core.errors import NotFound
from agent_core.messages import Actor, File, LoadedTool, Part, Text, clean
from agent_core.traces import words_of


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


PREFIX = "X-Parley-Context-"
OWN = ("actor", "actor_name", "actor_kind", "channel", "session", "run")
"""Keys whose values are the core's own; no caller can set them."""
REPEATED = "its header is that of another key; keys differ by more than case, `_` and `-`."
MAX_VALUE = 1_000
"""Characters of one header's value."""


def context_headers(keys: Iterable[str], context: CallContext) -> dict[str, str]:
    """Return the headers with what *context* knows of each of *keys*; a key without a value has no header.

    Those of `OWN` are the core's own; any other key is one of `tool_context`, such as `email`. A key that `repeats`
    another has no header. Characters that no header may have are left out.
    """
    own = {
        "actor": context.actor.id,
        "actor_name": context.actor.name,
        "actor_kind": context.actor.kind,
        "channel": context.channel,
        "session": context.session,
        "run": context.run,
    }
    listed = list(keys)
    usable = [key for place, key in enumerate(listed) if not repeats(key, listed[:place])]
    values = {key: own[key] if key in own else context.tool_context.get(key) for key in usable}
    return {_name(key): _value(value) for key, value in values.items() if isinstance(value, str | int | float)}


def repeats(key: str, before: Iterable[str]) -> bool:
    """Return whether the header of *key* is that of a key *before* it, or of another one that is the core's own."""
    taken = {*before, *(each for each in OWN if each != key)}
    return _name(key) in map(_name, taken)


def _name(key: str) -> str:
    return PREFIX + "-".join(word.capitalize() for word in key.replace("_", "-").split("-") if word)


def _value(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    plain = "".join(each for each in text if each.isprintable())
    return plain[:MAX_VALUE].encode("ascii", "xmlcharrefreplace").decode()


T = TypeVar("T")


class ForeignError(Exception):
    """What foreign code raised: *kind* is the name of its type, the text that and its own, where it has one."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(words_of(error))
        self.kind = type(error).__name__


async def called(work: Callable[[], Awaitable[T]]) -> T:
    """Return what *work*, foreign code, returns; raises `ForeignError` for whatever it raises.

    Here, in the task that calls it: asyncio lets a `SystemExit` and a `KeyboardInterrupt` of a task end the process.
    Only a cancellation that was asked of this task goes on as one.
    """
    task = asyncio.current_task()
    try:
        return await work()
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        raise ForeignError(error) from error


async def use(tool: Tool, arguments: dict[str, Any], context: CallContext) -> Outcome:
    """Return the outcome of a call of *tool*, one that the log can hold; raises `ForeignError`."""
    outcome: object = await called(lambda: tool.call(arguments, context))
    match outcome:
        case Done(parts):
            try:
                _check(outcome)
                return replace(outcome, parts=tuple(map(_kept, parts)))
            except Exception as error:  # noqa: BLE001 - whatever it is, the tool has run
                return unshown(words_of(error))
        case ToolError():
            return _fit(outcome, ToolError) or ToolError("It failed, and its message is no text.")
        case Pending():
            return _fit(outcome, Pending) or unshown("it waits for what no call can wait for")
        case Elicitation():
            return _fit(outcome, Elicitation) or unshown("its question is none: it has no text, or no schema")
        case _:
            return unshown(f"a `{type(outcome).__name__}` is no outcome")


def _check(done: Done) -> None:
    """Raise TypeError where what *done* brings beside its parts is of another type."""
    renders, loaded, data = cast("tuple[Any, Any, Any]", (done.renders, done.loaded, done.data))
    if not all(_is_render(each) for each in renders):
        raise TypeError("its renders are none")
    if not all(isinstance(each, LoadedTool) for each in loaded):
        raise TypeError("its loaded tools are none")
    if not isinstance(data, str | None):
        raise TypeError("its data is no text")


def _is_render(value: Any) -> bool:
    if not isinstance(value, NewRender):
        return False
    of_its_own = cast("tuple[Any, ...]", (value.kind, value.text, value.title or "", value.payload))
    return all(isinstance(each, kind) for each, kind in zip(of_its_own, (str, str, str, dict), strict=True))


def _fit(outcome: Any, kind: type[T]) -> T | None:
    """Return *outcome* with whole characters in its texts; None where a field is not of the type that *kind* says."""
    given = {name: getattr(outcome, name) for name in (each.name for each in fields(outcome))}
    try:
        values = {name: clean(value) if isinstance(value, str) else value for name, value in given.items()}
        return msgspec.convert(values, kind)
    except msgspec.ValidationError:
        return None


def _kept(part: object) -> Part:
    """Return *part* as the log will have it; half characters in a text are replaced where all its texts are."""
    if isinstance(part, Text) and isinstance(cast("object", part.text), str):
        return part
    return msgspec.json.decode(msgspec.json.encode(part), type=Part)


@dataclass(frozen=True, slots=True)
class RouterTool:
    """A tool of the router, which only answers; what it opens or loads is folded from the log."""

    spec: ToolSpec
    answer: Callable[[Mapping[str, Any]], Outcome]

    async def call(self, arguments: dict[str, Any], context: CallContext) -> Outcome:  # noqa: ARG002 - the port has it
        return self.answer(arguments)


def router_tools(agent: Agent) -> Mapping[str, Tool]:
    """Return those of the router's tools that the prompt of *agent* has."""
    if not agent.calls_by_name:
        return {}
    routed = agent.snapshot.routed

    def find(arguments: Mapping[str, Any]) -> Outcome:
        text, tools = router.search(routed, arguments["query"], arguments.get("limit", router.FOUND))
        return Done((Text(text),), loaded=tools)

    def find_resources(arguments: Mapping[str, Any]) -> Outcome:
        return Done((Text(router.listing(routed, arguments.get("query"))),))

    def show_resource(arguments: Mapping[str, Any]) -> Outcome:
        text = router.definitions(routed, arguments["name"], arguments.get("tools"))
        return ToolError(router.no_resource(routed, arguments["name"])) if text is None else Done((Text(text),))

    def refuse(arguments: Mapping[str, Any]) -> Outcome:  # noqa: ARG001 - as of the others
        """Answer a call that means no other tool; one that does is recorded as a call of that."""
        return ToolError(f"Name the tool that you want to call, not `{CALL_TOOL}`.")

    answers = {CALL_TOOL: refuse}
    if agent.snapshot.searches:
        answers[SEARCH_TOOLS] = find
    elif routed:
        answers |= {LIST_RESOURCES: find_resources, USE_RESOURCE: show_resource}
    return {name: RouterTool(agent.tools[name], made) for name, made in answers.items()}
