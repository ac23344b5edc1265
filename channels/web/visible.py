"""What a visitor sees of events, messages and runs: everything but what is the operator's."""

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from agent_core import Event

ShowTools = Literal["none", "names", "full"]
Fields = dict[str, Any]

HIDDEN = frozenset({"context.added", "controls.changed", "hook.ruled", "snapshot.frozen", "step.failed"})
PLAIN = frozenset(
    {
        "session.opened",
        "context.compacted",
        "message.received",
        "message.corrected",
        "run.queued",
        "run.started",
        "run.waiting",
        "run.resumed",
        "run.cancelling",
        "run.cancelled",
        "text.delta",
        "reasoning.delta",
        "heartbeat",
    }
)
# Left out of an event's body, whatever the agent shows of its tools.
OPERATORS: dict[str, tuple[str, ...]] = {
    "step.started": ("controls",),
    "step.completed": ("usage", "cost"),
    "run.completed": ("usage", "cost"),
    "run.failed": ("detail",),
}
# Left out of an event's body while the agent shows the names of its tools only.
CONTENTS: dict[str, tuple[str, ...]] = {
    "tool.requested": ("arguments", "raw"),
    "tool.started": (),
    "tool.pending": (),
    "tool.completed": ("parts", "ref"),
}
# The same for the parts of a message.
PART_CONTENTS: dict[str, tuple[str, ...]] = {"tool_call": ("arguments",), "tool_result": ("parts",)}
RUN_OPERATORS = ("usage", "cost")
MESSAGE_OPERATORS = ("native",)
SESSION_OPERATORS = ("metadata",)


def visible(event: Event, show: ShowTools) -> bytes | None:
    """Return the JSON body of *event* for a visitor, or None when the event is not for visitors.

    A type that this module does not know stays hidden.
    """
    if event.type in PLAIN:
        return event.raw
    if event.type in OPERATORS:
        return _edit(event, lambda body: without(body, OPERATORS[event.type]))
    if event.type == "message.completed":
        return _edit(event, lambda body: visible_message(body, show))
    if event.type in CONTENTS or event.type == "tool.progress":
        return _tool(event, show)
    return None


def is_plain(event: Event) -> bool:
    """Tell whether visitors see *event* exactly as operators do, whatever the agent shows of its tools."""
    return event.type in PLAIN


def visible_message(message: Fields, show: ShowTools) -> Fields:
    """Return *message*, an object or an event's body, with only the parts that a visitor sees."""
    return {**without(message, MESSAGE_OPERATORS), "parts": visible_parts(message["parts"], show)}


def visible_parts(parts: list[Fields], show: ShowTools) -> list[Fields]:
    """Return *parts* as *show* allows: all, tools by name, or no tools."""
    match show:
        case "full":
            return parts
        case "names":
            return [without(part, PART_CONTENTS.get(part["type"], ())) for part in parts]
        case "none":
            return [part for part in parts if part["type"] not in PART_CONTENTS]


def visible_run(run: Fields, show: ShowTools) -> Fields:
    """Return a Run object without usage and cost, its tools as *show* allows."""
    seen = without(run, RUN_OPERATORS)
    if seen.get("error"):
        seen["error"] = without(seen["error"], ("detail",))
    pending: list[Fields] = [] if show == "none" else run["pending"]
    if show == "names":
        pending = [without(call, ("arguments",)) for call in pending]
    return {**seen, "output": visible_message(run["output"], show), "pending": pending}


def visible_session(session: Fields) -> Fields:
    """Return a Session object without what an operator noted on it."""
    return without(session, SESSION_OPERATORS)


def without(fields: Fields, names: tuple[str, ...]) -> Fields:
    """Return *fields* less those called *names*."""
    return {name: value for name, value in fields.items() if name not in names}


def _tool(event: Event, show: ShowTools) -> bytes | None:
    match show:
        case "full":
            return event.raw
        case "names" if names := CONTENTS.get(event.type):
            return _edit(event, lambda body: without(body, names))
        case "names":
            return event.raw if event.type in CONTENTS else None
        case "none":
            return None


def _edit(event: Event, change: Callable[[Fields], Fields]) -> bytes:
    return msgspec.json.encode(change(msgspec.json.decode(event.raw)))
