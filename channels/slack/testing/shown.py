"""What a person sees of a thread: drawn texts, task cards, buttons, status; and whom a message would notify."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from channels.slack.testing.payloads import streamed
from channels.slack.testing.world import Json, SessionStatus, SlackMessage, SlackSession, StreamEnd, TaskCard

_PING = re.compile(r"<(![a-z]+(?:\^[^>|]*)?|@[UW][A-Z0-9]+)(?:\|[^>]*)?>")
_QUIET = ("!date",)


@dataclass(frozen=True, slots=True)
class Button:
    """A button that can be pressed; one with a *confirm* asks that once more."""

    action_id: str
    text: str
    value: str
    block_id: str
    type: str = "button"
    visible_to: tuple[str, ...] = ()
    confirm: str = ""


@dataclass(frozen=True, slots=True)
class VisibleMessage:
    """One message as a person sees it; *text* is what its blocks say, *source* the text that goes with them.

    Markdown is in both as it was written; in *text* a task or a block between two pieces is a line end. *ended*
    says how its stream ended. *pings* are the mentions that notify people. *to* is the user who sees an ephemeral one.
    """

    ts: str
    user: str
    text: str
    source: str
    blocks: tuple[Json, ...]
    tasks: tuple[TaskCard, ...] = ()
    buttons: tuple[Button, ...] = ()
    streaming: bool = False
    ended: StreamEnd | None = None
    edited: bool = False
    deleted: bool = False
    pings: tuple[str, ...] = ()
    metadata: Json | None = None
    to: str | None = None
    files: tuple[Json, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionShown:
    """What is shown above a thread."""

    status: SessionStatus
    title: str
    loading: str
    stop_button: bool


def shown(message: SlackMessage, now: int) -> VisibleMessage:
    """Return *message* as it is seen at *now*."""
    stream = message.stream
    blocks = streamed(stream) if stream else message.blocks
    source = stream.markdown if stream else message.text
    return VisibleMessage(
        message.ts,
        message.user,
        drawn(blocks) if blocks else plain(source),
        source,
        tuple(blocks),
        tuple(stream.tasks) if stream else (),
        tuple(buttons(blocks)),
        streaming=stream is not None and not stream.settled(now),
        ended=stream.ended if stream else None,
        edited=message.edited is not None,
        deleted=message.subtype == "tombstone",
        pings=tuple(pings(source, blocks)),
        metadata=message.metadata,
        to=message.to,
        files=tuple(message.files),
    )


def session_shown(session: SlackSession, now: int, *, stop_button: bool) -> SessionShown:
    """Return *session* as it is seen at *now*."""
    status = session.settled(now)
    return SessionShown(status, session.title, session.loading, stop_button and status == "processing")


def buttons(blocks: list[Json]) -> Iterator[Button]:
    """Give every button of *blocks*, feedback's two among them."""
    for n, block in enumerate(blocks):
        block_id = str(block.get("block_id") or f"b{n}")
        elements: list[Json] = [*block.get("elements", []), *block.get("actions", [])]
        if accessory := block.get("accessory"):
            elements.append(accessory)
        for element in elements:
            match element.get("type"):
                case "button" | "icon_button":
                    yield _button(element, element, block_id)
                case "feedback_buttons":
                    for name in ("positive_button", "negative_button"):
                        yield _button(element, element[name], block_id)
                case _:
                    continue
        yield from buttons(block.get("child_blocks", []))


def drawn(blocks: list[Json]) -> str:
    """Return the text of *blocks*, a line or more for each."""
    return "\n".join(filter(None, (_drawn(block) for block in blocks)))


def plain(text: str) -> str:
    """Return mrkdwn *text* with its entities resolved."""
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def pings(source: str, blocks: list[Json]) -> Iterator[str]:
    """Give the mentions that are active in a text or in the texts of *blocks*."""
    texts = [source, *(text for block in blocks for text in _active(block))]
    names = dict.fromkeys(each for text in texts for each in _PING.findall(text) if not each.startswith(_QUIET))
    yield from names
    for block in blocks:
        yield from _elements(block)


def _button(element: Json, face: Json, block_id: str) -> Button:
    return Button(
        str(element.get("action_id", "")),
        str(face.get("text", {}).get("text", "")),
        str(face.get("value", "")),
        block_id,
        str(element["type"]),
        tuple(element.get("visible_to_user_ids", ())),
        str(element.get("confirm", {}).get("title", {}).get("text", "")),
    )


def _drawn(block: Json) -> str:
    match block.get("type"):
        case "markdown":
            return str(block["text"])
        case "task_card":
            return ""
        case "divider" | "actions" | "context_actions" | "plan":
            return ""
        case "table" | "data_table":
            return "\n".join("\t".join(_words(cell) for cell in row) for row in block["rows"])
        case _:
            return _words(block)


def _words(part: Any) -> str:
    """Return the words of a part of a block, in their order."""
    if isinstance(part, list):
        return "".join(map(_words, cast("list[Any]", part)))
    if not isinstance(part, dict):
        return ""
    part = cast("Json", part)
    match part.get("type"):
        case "rich_text":
            return "\n".join(_words(each) for each in part["elements"])
        case "rich_text_list":
            return "\n".join(_words(each) for each in part["elements"])
        case "user" | "usergroup" | "channel" | "broadcast" | "emoji":
            names = ("user_id", "usergroup_id", "channel_id", "range", "name")
            return str(next(part[name] for name in names if name in part))
        case "link":
            return str(part.get("text") or part["url"])
        case "date":
            return str(part.get("fallback") or part["timestamp"])
        case "mrkdwn":
            return plain(part["text"])
        case _:
            if isinstance(part.get("text"), str):
                return str(part["text"])
            names = ("title", "text", "fields", "elements", "rows", "body", "child_blocks")
            return "\n".join(filter(None, (_words(part.get(name)) for name in names)))


def _active(part: Any) -> Iterator[str]:
    """Give the texts of a block in which Slack's own syntax is honoured."""
    if isinstance(part, list):
        for each in cast("list[Any]", part):
            yield from _active(each)
    elif isinstance(part, dict):
        part = cast("Json", part)
        if part.get("type") in ("mrkdwn", "markdown") and isinstance(part.get("text"), str):
            yield part["text"]
        for value in part.values():
            yield from _active(value)


def _elements(part: Any) -> Iterator[str]:
    """Give the mentions that rich text makes with elements of their own."""
    if isinstance(part, list):
        for each in cast("list[Any]", part):
            yield from _elements(each)
    elif isinstance(part, dict):
        part = cast("Json", part)
        match part.get("type"):
            case "user":
                yield f"@{part.get('user_id')}"
            case "usergroup":
                yield f"!subteam^{part.get('usergroup_id')}"
            case "broadcast":
                yield f"!{part.get('range')}"
            case _:
                for value in part.values():
                    yield from _elements(value)
