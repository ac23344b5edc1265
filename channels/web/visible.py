"""What a visitor sees of events, messages and runs: everything except what is for operators."""

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from agent_core.events import Event

ShowTools = Literal["none", "names", "full"]
Fields = dict[str, Any]

HIDDEN = frozenset(
    {
        "cache.missed",
        "compaction.failed",
        "context.added",
        "controls.changed",
        "hook.ruled",
        "snapshot.frozen",
        "tools.unavailable",
    }
)
PLAIN = frozenset(
    {
        "session.opened",
        "run.queued",
        "run.started",
        "run.waiting",
        "run.resumed",
        "render.shown",
        "text.delta",
        "reasoning.delta",
        "heartbeat",
    }
)
# What someone sent: to a visitor all operators are one.
SENT = frozenset({"message.received", "message.corrected", "run.cancelling", "run.cancelled"})
# A message may be the output of a tool: then it shows as much of that as the agent shows of its tools.
OF_TOOLS = (b'"tool_call"', b'"tool_result"')
OF_OPERATORS = b'"operator:'
PEOPLE = ("asker", "by", "decided_by")
ACTORS = ("actor", "by", "started_by")
ANY_OPERATOR = {"id": "operator", "kind": "service"}
# Left out of an event's body, whatever the agent shows of its tools.
OPERATORS: dict[str, tuple[str, ...]] = {
    "content.left_out": ("code", "files"),
    "context.compacted": (
        "kept_seq",
        "tokens_before",
        "tokens_after",
        "summary",
        "model",
        "usage",
        "cost",
        "uncached_cost",
    ),
    "step.started": ("controls", "cache_note"),
    "step.failed": ("code", "message", "usage", "cost", "uncached_cost"),
    "step.completed": ("usage", "cost", "uncached_cost"),
    "run.completed": ("usage", "cost"),
    "run.failed": ("detail",),
}
# Left out of an event's body while the agent shows the names of its tools only.
CONTENTS: dict[str, tuple[str, ...]] = {
    "tool.requested": ("arguments", "raw"),
    "tool.started": (),
    "tool.pending": (),
    "tool.completed": ("loaded", "parts", "ref"),
}
# The same for the parts of a message.
PART_CONTENTS: dict[str, tuple[str, ...]] = {"tool_call": ("arguments",), "tool_result": ("loaded", "parts")}
# What people are asked about a call, and say.
ASKING = frozenset({"approval.requested", "approval.voted", "approval.decided"})
APPROVAL_OPERATORS = ("hook", "deliver_to", "state")
# Left out of an approval, unless the visitor may vote on it or the agent shows everything of its tools.
APPROVAL_CONTENTS = ("arguments", "asked", "digest", "form", "parameters", "votes")
PRESET = "Preset: "
"""How a line of an approval's detail begins that holds a preset argument."""
RUN_OPERATORS = ("usage", "cost")
MESSAGE_OPERATORS = ("native",)
CITATION_OPERATORS = ("source",)
# Left out of a citation without an address on the web, unless the agent shows everything of its tools: it may quote a
# file of a tool's, and name it.
CITATION_CONTENTS = ("text", "title", "index")
SESSION_OPERATORS = ("metadata", "forked_from")


def visible(event: Event, show: ShowTools, *, decides: bool = False, own: str = "") -> bytes | None:
    """Return the JSON body of *event* for the visitor with the id *own*, or None when the event is not for visitors.

    *decides*: it is about an approval on which the visitor may vote. A type that this module does not know stays
    hidden.
    """
    if event.type in PLAIN:
        return event.raw
    if event.type in SENT:
        if any(kind in event.raw for kind in OF_TOOLS):
            return _edit(event, lambda body: _sent(body, show))
        return _edit(event, _unsigned) if OF_OPERATORS in event.raw else event.raw
    if event.type in ASKING:
        if show == "none" and not decides:
            return None
        return _edit(event, lambda body: visible_approval(body, show, decides=decides, own=own))
    if event.type in OPERATORS:
        return _edit(event, lambda body: _answered(without(body, OPERATORS[event.type]), body, show))
    if event.type == "message.completed":
        return _edit(event, lambda body: visible_message(body, show))
    if event.type in CONTENTS or event.type == "tool.progress":
        return _tool(event, show)
    return None


def _sent(body: Fields, show: ShowTools) -> Fields:
    return _unsigned({**body, "parts": visible_parts(body["parts"], show)} if "parts" in body else body)


def is_plain(event: Event) -> bool:
    """Return whether visitors see *event* exactly as operators do, whatever the agent shows of its tools."""
    return event.type in PLAIN


def visible_message(message: Fields, show: ShowTools) -> Fields:
    """Return *message*, an object or an event's body, with only the parts that a visitor sees."""
    seen = _unsigned(without(message, MESSAGE_OPERATORS))
    if message.get("role") == "assistant" and message.get("actor"):
        seen["actor"] = _replier(message["actor"])
    return {**seen, "parts": visible_parts(message["parts"], show)}


def visible_parts(parts: list[Fields], show: ShowTools) -> list[Fields]:
    """Return *parts* as *show* allows: all, tools by name, or no tools."""
    seen = [_cited(part, show) if "citations" in part else part for part in parts]
    match show:
        case "full":
            return seen
        case "names":
            return [without(part, PART_CONTENTS.get(part["type"], ())) for part in seen]
        case "none":
            return [part for part in seen if part["type"] not in PART_CONTENTS]


def _cited(part: Fields, show: ShowTools) -> Fields:
    """Return a text part whose citations name sources on the web alone: another name may be that of a place inside."""
    inside = CITATION_OPERATORS if show == "full" else (*CITATION_OPERATORS, *CITATION_CONTENTS)
    cited = [without(each, CITATION_OPERATORS if each.get("url") else inside) for each in part["citations"]]
    return {**part, "citations": cited}


def visible_run(run: Fields, show: ShowTools) -> Fields:
    """Return a Run object without usage and cost, its tools as *show* allows."""
    seen = _unsigned(without(run, RUN_OPERATORS))
    if seen.get("error"):
        seen["error"] = without(seen["error"], ("detail",))
    output = _answered(visible_message(run["output"], show), run, show)
    return {**seen, "output": output, "pending": _visible_pending(run["pending"], show)}


def visible_approval(approval: Fields, show: ShowTools, *, decides: bool, own: str = "") -> Fields:
    """Return *approval*, an object or an event's body, for the visitor *own*; *decides*: this visitor may vote on it.

    Of its responders, roles such as `asker` are shown and ids are not; `may_decide` says whether the visitor is one.
    Other people have their names and no ids.
    """
    contents = () if decides or show == "full" else APPROVAL_CONTENTS
    seen = without(approval, (*APPROVAL_OPERATORS, *contents))
    if contents and seen.get("detail"):  # the presets of a tool are arguments of its calls
        lines = [line for line in seen["detail"].split("\n") if not line.startswith(PRESET)]
        seen["detail"] = "\n".join(lines) or None
    seen |= {name: _someone(seen[name], own) for name in PEOPLE if seen.get(name) is not None}
    for name in ("speakers", "votes"):
        if isinstance(seen.get(name), list | tuple):  # in an event `votes` is how many
            seen[name] = [_someone_in(each, own) for each in seen[name]]
    if "responders" not in seen:
        return seen
    return {**seen, "responders": [who for who in seen["responders"] if ":" not in who], "may_decide": decides}


def visible_session(session: Fields) -> Fields:
    """Return a Session object without what an operator noted on it."""
    return without(session, SESSION_OPERATORS)


def without(fields: Fields, names: tuple[str, ...]) -> Fields:
    """Return *fields* without *names*."""
    return {name: value for name, value in fields.items() if name not in names}


def _someone(actor: Fields, own: str) -> Fields:
    """Return *actor* without the id, unless the visitor *own* is meant; an operator has no name either."""
    if actor["id"] == own:
        return actor
    return ANY_OPERATOR if actor["kind"] == "service" else {**actor, "id": "someone"}


def _replier(actor: Fields) -> Fields:
    """Return a person who replied in the agent's place: by the name that they gave, and without an id."""
    shown = ANY_OPERATOR if actor["kind"] == "service" else {**actor, "id": "someone"}
    return {**shown, "name": actor["name"]} if actor.get("name") else shown


def _someone_in(each: Fields, own: str) -> Fields:
    """Return an actor, or a vote with its actor, without another person's id."""
    return {**each, "actor": _someone(each["actor"], own)} if "actor" in each else _someone(each, own)


def _unsigned(body: Fields) -> Fields:
    """Return *body* without the ids and names of API keys."""
    seen = without(body, ("via",))
    named = {name: ANY_OPERATOR for name in ACTORS if is_key(seen.get(name))}
    return {**seen, **named}


def is_key(actor: Any) -> bool:
    """Return whether *actor*, as JSON, is an API key."""
    match actor:
        case {"id": str(id)}:
            return id.startswith("operator:")
        case _:
            return False


def _answered(seen: Fields, end: Fields, show: ShowTools) -> Fields:
    """Return *seen* without its structured answer if that is the arguments of a tool call (see *end*)."""
    is_call = end.get("stop_reason") == "no_executor"
    return without(seen, ("structured",)) if is_call and show != "full" else seen


def _visible_pending(calls: list[Fields], show: ShowTools) -> list[Fields]:
    """Return the open calls as *show* allows; calls that the visitor's page executes are always included in full."""
    return [
        call if show == "full" or call["on"] == "client" else without(call, ("arguments",))
        for call in calls
        if show != "none" or call["on"] == "client"
    ]


def _tool(event: Event, show: ShowTools) -> bytes | None:
    if event.type == "tool.pending" and msgspec.json.decode(event.raw).get("on") == "client":
        return event.raw
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
