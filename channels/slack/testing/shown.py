"""What a person sees of a thread: drawn texts, task cards, buttons, status; and whom a message would notify."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from channels.slack.testing.deliveries import streamed
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
        elements: list[Json] = list(block.get("elements", []))
        if accessory := block.get("accessory"):
            elements.append(accessory)
        for element in elements:
            match element.get("type"):
                case "button":
                    yield _button(element, element, block_id)
                case "feedback_buttons":
                    for name in ("positive_button", "negative_button"):
                        yield _button(element, element[name], block_id)
                case _:
                    continue


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
        str(element.get("confirm", {}).get("title", {}).get("text", "")),
    )


def _drawn(block: Json) -> str:
    match block.get("type"):
        case "markdown":
            return str(block["text"])
        case "divider" | "actions" | "context_actions" | "task_card":
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
            names = ("title", "text", "fields", "elements", "rows")
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


Node = Any
_SLACK = re.compile(r"<([@#!][^<>|]+|(?:https?|mailto):[^<>|]+)(?:\|([^<>]*))?>")
_SPANS = re.compile(r"```(?s:(.+?))```|`([^`\n]+)`|\*([^*\n]+)\*|(?<!\w)_([^_\n]+)_(?!\w)|~([^~\n]+)~")
_SPAN_TAGS = ("pre", "code", "strong", "em", "s")
_SAFE = ("http://", "https://", "mailto:")
_TAGS: Mapping[str, str] = {
    "paragraph": "p",
    "bullet_list": "ul",
    "ordered_list": "ol",
    "list_item": "li",
    "blockquote": "blockquote",
    "table": "table",
    "thead": "thead",
    "tbody": "tbody",
    "tr": "tr",
    "th": "th",
    "td": "td",
    "strong": "strong",
    "em": "em",
    "s": "s",
}


def node(tag: str, children: Iterable[Node] = (), **attributes: Any) -> Node:
    """Return an element."""
    return [tag, {name: value for name, value in attributes.items() if value}, list(children)]


class Drawing:
    """Draw for one workspace: *names* say what a user id is called, *files* where a picture with an id is."""

    def __init__(self, names: Mapping[str, str], files: Mapping[str, str] | None = None) -> None:
        self._names = names
        self._files: Mapping[str, str] = files if files is not None else {}
        self._markdown = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])

    def markdown(self, text: str) -> list[Node]:
        """Draw CommonMark with tables."""
        return self._children(SyntaxTreeNode(self._markdown.parse(text)))

    def mrkdwn(self, text: str) -> list[Node]:
        """Draw Slack's own older markup."""
        nodes: list[Node] = []
        end = 0
        for match in _SPANS.finditer(text):
            nodes += self._lines(text[end : match.start()])
            tag, inner = next((t, g) for t, g in zip(_SPAN_TAGS, match.groups(), strict=True) if g is not None)
            nodes.append(node(tag, [plain(inner)] if tag in ("pre", "code") else self.mrkdwn(inner)))
            end = match.end()
        return [*nodes, *self._lines(text[end:])]

    def blocks(self, blocks: list[Json]) -> list[Node]:
        """Draw the blocks of a message or view."""
        return [
            drawn for n, each in enumerate(blocks) for drawn in self._block(each, str(each.get("block_id") or f"b{n}"))
        ]

    def files(self, files: Iterable[Json]) -> list[Node]:
        """Draw what is attached to a message: pictures as they are, others by name."""
        return [self._file(each) for each in files]

    def _file(self, file: Json) -> Node:
        name, source = str(file.get("name", "")), self._files.get(str(file.get("id")))
        if source and str(file.get("mimetype", "")).startswith("image/"):
            return node("picture", [node("b", [file["title"]]), node("image", src=source, alt=file["title"])])
        return node(
            "card",
            [
                node("p", [node("b", [f"{file.get('title') or name}"])]),
                node("p", [f"{name}, {file.get('size')} bytes"]),
            ],
        )

    def _block(self, block: Json, block_id: str) -> list[Node]:
        match block.get("type"):
            case "markdown":
                return self.markdown(block["text"])
            case "section":
                return [node("section", self._section(block, block_id))]
            case "actions" | "context_actions":
                return [node("actions", self._buttons(block["elements"], block_id))]
            case "input":
                facts = {"element": block["element"], "hint": block.get("hint", {}).get("text")}
                return [node("field", self._text(block["label"]), block=block_id, free=block.get("optional"), **facts)]
            case "rich_text":
                return [drawn for each in block["elements"] for drawn in self._rich(each)]
            case "table" | "data_table":
                return self._table(block)
            case _:
                return [self._plainer(block)]

    def _plainer(self, block: Json) -> Node:
        """Draw a block that nothing can be pressed in."""
        match block["type"]:
            case "header":
                return node("h3", [block["text"]["text"]])
            case "divider":
                return node("hr")
            case "context":
                return node("context", [node("span", self._text(each)) for each in block["elements"]])
            case "image":
                return self._image(block)
            case "task_card":
                return self.task(block)
            case "data_visualization":
                return node("chart", chart=block["chart"], title=block["title"])
            case kind:
                return node("context", [f"a block of type {kind}"])

    def _image(self, image: Json) -> Node:
        """Draw an image: a file of the workspace as it is, and of another address its text alone."""
        id = str(image.get("slack_file", {}).get("id", ""))
        source = self._files.get(id)
        title = [node("b", [image["title"]["text"]])] if image.get("title") else []
        alt = str(image.get("alt_text", ""))
        return node("picture", [*title, node("image", src=source, alt=alt) if source else alt])

    def task(self, card: Json) -> Node:
        """Draw a task card."""
        inner: list[Node] = [node("b", [card["title"]])]
        inner += [node("div", self.blocks([card[name]])) for name in ("details", "output") if card.get(name)]
        return node("task", inner, status=card["status"])

    def _section(self, block: Json, block_id: str) -> Iterator[Node]:
        if text := block.get("text"):
            yield node("p", self._text(text))
        for each in block.get("fields", []):
            yield node("p", self._text(each))
        if accessory := block.get("accessory"):
            yield from self._buttons([accessory], block_id)

    def _buttons(self, elements: list[Json], block_id: str) -> Iterator[Node]:
        for element in elements:
            faces: list[Json] = [element]
            if element["type"] == "feedback_buttons":
                faces = [element["positive_button"], element["negative_button"]]
            for face in faces:
                label = face.get("text", {}).get("text") or element["type"]
                facts = {"action": element.get("action_id"), "value": face.get("value"), "block": block_id}
                facts["confirm"] = _question(element.get("confirm"))
                yield node("button", [label], **facts, look=element.get("style"))

    def _text(self, text: Json) -> list[Node]:
        if text["type"] == "image":
            return [self._image(text)]
        return self.mrkdwn(text["text"]) if text["type"] == "mrkdwn" else [text["text"]]

    def _table(self, block: Json) -> list[Node]:
        settings: list[Json] = [each or {} for each in block.get("column_settings", [])]
        aligned: list[str] = [each.get("align", "") for each in settings] + [""] * len(block["rows"][0])
        rows = [
            node("tr", [node("td" if n else "th", self._cell(c), align=a) for c, a in zip(row, aligned, strict=False)])
            for n, row in enumerate(block["rows"])
        ]
        drawn = node("table", [node("thead", rows[:1]), node("tbody", rows[1:])])
        caption = block.get("caption")
        return [*([node("context", [caption])] if caption else []), drawn]

    def _cell(self, cell: Json) -> list[Node]:
        return self.blocks([cell]) if cell["type"] == "rich_text" else [str(cell["text"])]

    def _rich(self, element: Json) -> list[Node]:
        inner = cast("list[Json]", element["elements"])
        match element["type"]:
            case "rich_text_list":
                tag = "ol" if element.get("style") == "ordered" else "ul"
                drawn = node(tag, [node("li", self._rich(each)) for each in inner])
                for _ in range(element.get("indent", 0)):
                    drawn = node("ul", [drawn])
                return [drawn]
            case "rich_text_preformatted":
                return [node("pre", self._spans(inner))]
            case "rich_text_quote":
                return [node("blockquote", self._spans(inner))]
            case _:
                return [node("p", self._spans(inner))]

    def _spans(self, elements: list[Json]) -> Iterator[Node]:
        for each in elements:
            style: Json = each.get("style") or {}
            match each["type"]:
                case "text" if each["text"] == "\n":
                    drawn: Node = node("br")
                case "text":
                    drawn = each["text"]
                case "link":
                    drawn = self._link(each["url"], [each.get("text") or each["url"]])
                case "user" | "usergroup" | "broadcast" | "channel":
                    drawn = self._mention(str(next(v for k, v in each.items() if k not in ("type", "style"))))
                case "date":
                    drawn = str(each.get("fallback") or each["timestamp"])
                case kind:
                    drawn = f":{each.get('name', kind)}:"
            for name, tag in (("code", "code"), ("bold", "strong"), ("italic", "em"), ("strike", "s")):
                if style.get(name):
                    drawn = node(tag, [drawn])
            yield drawn

    def _children(self, parent: SyntaxTreeNode) -> list[Node]:
        return [drawn for child in parent.children for drawn in self._token(child)]

    def _token(self, token: SyntaxTreeNode) -> list[Node]:
        match token.type:
            case "text":
                return self._slack(token.content)
            case "softbreak" | "hardbreak":
                return [node("br")]
            case "code_inline":
                return [node("code", [token.content])]
            case "fence" | "code_block":
                return [node("pre", [token.content], language=token.info)]
            case "hr":
                return [node("hr")]
            case "heading":
                return [node("h3", self._children(token))]
            case "link":
                return [self._link(str(token.attrs.get("href", "")), self._children(token))]
            case "image":
                return [self._link(str(token.attrs.get("src", "")), [token.content or "image"])]
            case kind if kind in _TAGS:
                start = token.attrs.get("start") if kind == "ordered_list" else None
                align = str(token.attrs.get("style", "")).removeprefix("text-align:")
                return [node(_TAGS[kind], self._children(token), start=start, align=align)]
            case _:
                return self._children(token) if token.children else [token.content]

    def _lines(self, text: str) -> list[Node]:
        first, *rest = text.split("\n")
        nodes = self._slack(first, entities=True)
        for line in rest:
            nodes += [node("br"), *self._slack(line, entities=True)]
        return nodes

    def _slack(self, text: str, *, entities: bool = False) -> list[Node]:
        """Draw the mentions and links that Slack honours in any text."""
        read = plain if entities else str
        nodes: list[Node] = []
        end = 0
        for match in _SLACK.finditer(text):
            target, label = match.groups()
            nodes.append(read(text[end : match.start()]))
            if target.startswith("!date^"):
                nodes.append(read(label or ""))
            else:
                link = self._link(target, [read(label or target)])
                nodes.append(self._mention(target) if target[0] in "@#!" else link)
            end = match.end()
        nodes.append(read(text[end:]))
        return [each for each in nodes if each != ""]

    def _mention(self, target: str) -> Node:
        bare = target.lstrip("@#!")
        sign = "#" if target.startswith("#") else "@"
        return node("mention", [f"{sign}{self._names.get(bare, bare)}"])

    @staticmethod
    def _link(url: str, children: list[Node]) -> Node:
        return node("a", children, href=url) if url.startswith(_SAFE) else node("span", children)


def _question(confirm: Json | None) -> Json | None:
    """Return the texts of the dialog that a button opens."""
    return {name: confirm[name]["text"] for name in ("title", "text", "confirm", "deny")} if confirm else None
