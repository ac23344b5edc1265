"""What a message of Slack's carries besides its words, as the model reads it; pure.

Forwarded messages, tables, previews and files: their text is quoted, bounded, and what cannot be text is named in a
line of ours. Those lines begin with a bracket; no line of others does.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from channels.legible import visible
from channels.slack.inbound.block_text import Line, lines_of, not_shown, objects, text_lines
from channels.slack.inbound.intake import part
from channels.slack.inbound.people import called
from channels.slack.web_api.client import Json

MAX_FORWARDED = 10
"""Forwarded messages of one message that are read."""
DEEPEST = 3
"""Messages within forwarded messages."""
CUT = "[cut: the rest of this message is not shown]"
_USER = re.compile(r"<@([UW][A-Z0-9]{1,30})(?:\|[^<>]*)?>")
_BRACKETS = r"\[\u2045\u23a1\u2e22\uff3b\u3010\u3014\u3016\u3018\u301a\u27e6\u2772"
_FORGED = re.compile(rf"^(?=[^\S\n]*[{_BRACKETS}]\s*\w)", re.MULTILINE)
MAX_SIZE = 10**15
"""Bytes from which on a size is none: JSON may hold a number of any length."""
_UNITS = ((1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB"))
_OF_PEOPLE = frozenset({"rich_text", "table"})
_CANVASES = frozenset({"quip", "canvas"})


@dataclass(frozen=True, slots=True)
class Quote:
    """What one person wrote, in *lines*: *author* by id, *name* as Slack gives it; or *forwarded* by someone else."""

    author: str
    name: str
    lines: tuple[Line, ...]
    forwarded: bool = False

    @property
    def people(self) -> Iterator[str]:
        """The ids of its author, and of those whom it mentions."""
        users = (user for line in self.lines if not line.is_notice for user in _USER.findall(line.text))
        return chain([self.author] if self.author else [], users)


def quotes(message: Json, room: int) -> tuple[Quote, ...]:
    """Return all that *message* says, its own words first, then what it forwards; each has *room* characters."""
    author, name = _author(message)
    own = Quote(author, name, bounded(chain(_words(message), _beside(message)), room))
    return own, *_forwarded(message, room)


def beside(message: Json, room: int) -> tuple[Quote, ...]:
    """Return what *message* carries besides its words; its own, and what it forwards, have *room* characters each."""
    author, name = _author(message)
    rich = iter(()) if _has_words(message) else _rich(message)
    own = Quote(author, name, bounded(chain(rich, _other_blocks(message), _beside(message)), room))
    return tuple(each for each in (own, *_forwarded(message, room)) if each.lines)


def bounded(lines: Iterable[Line], room: int) -> tuple[Line, ...]:
    """Return as many *lines* as *room* characters hold, with a last line that says so if there are more."""
    taken: list[Line] = []
    for line in lines:
        if len(line.text) > room:
            taken += [Line(line.text[:room], line.is_notice)] if room and not line.is_notice else []
            taken.append(Line(CUT, is_notice=True))
            break
        room -= len(line.text) + 1
        taken.append(line)
    return tuple(taken)


def readable(lines: Iterable[Line], read: Callable[[str], str]) -> str:
    """Return *lines* as text: others' mrkdwn is *read*, can be seen, and does not pass for a line of ours."""
    return "\n".join(line.text if line.is_notice else others(read(line.text)) for line in lines)


def others(text: str) -> str:
    """Return the words of others with all of them to be seen, and no line that begins as ours do."""
    return _FORGED.sub(r"\\", visible(text))


def file_lines(files: Any) -> Iterator[Line]:
    """Yield a line for each of Slack's *files*, and the text that Slack gives of them."""
    for file in objects(files):
        mode, mime = str(file.get("mode") or ""), str(file.get("mimetype") or "")
        if mode == "tombstone":
            yield not_shown("a file that was deleted")
            continue
        if mode == "hidden_by_limit":
            yield not_shown("a file that the limit of the workspace's plan hides")
            continue
        size = file.get("size")
        about = _size(size) if isinstance(size, int) and 0 < size < MAX_SIZE else ""
        yield not_shown(_kind(file, mode, mime), file.get("name") or file.get("title") or file.get("id"), about)
        yield from _file_text(file, mode)


def _kind(file: Json, mode: str, mime: str) -> str:
    if str(file.get("filetype")) in _CANVASES or mode in _CANVASES:
        return "canvas"
    if file.get("subtype") == "slack_audio" or mime.startswith("audio/"):
        return "audio"
    family = mime.partition("/")[0]
    if mode in ("snippet", "email", "list"):
        return mode
    return family if family in ("image", "video") else "file"


def _file_text(file: Json, mode: str) -> Iterator[Line]:
    """Yield the beginning of a snippet or an e-mail, and what was said in a clip, where Slack sends it."""
    preview = file.get("preview") if mode == "snippet" else file.get("plain_text") if mode == "email" else None
    transcript = part(part(file, "transcription"), "preview").get("content")
    for text in (preview, transcript):
        if isinstance(text, str) and text.strip():
            yield from chain([Line("```")], text_lines(text), [Line("```")])


def _size(size: int) -> str:
    return next((f"{size / unit:.3g} {name}" for unit, name in _UNITS if size >= unit), f"{size} bytes")


def _author(message: Json) -> tuple[str, str]:
    """Return the id and the name of who wrote *message*, as far as it says."""
    by_name = str(message.get("username") or part(message, "bot_profile").get("name") or "")
    return ("" if message.get("username") else str(message.get("user") or message.get("bot_id") or ""), by_name)


def _words(message: Json) -> Iterator[Line]:
    """Yield what is written in a message: an app's blocks stand for its text, a person's text stands for its words."""
    if message.get("bot_id") or message.get("subtype") == "bot_message":
        lines = lines_of(message.get("blocks"))
        first = next((line for line in lines if not line.is_notice), None)
        return _text(message) if first is None else chain([first], lines)
    return chain(_text(message) if _has_words(message) else _rich(message), _other_blocks(message))


def _has_words(message: Json) -> bool:
    return bool(str(message.get("text") or "").strip())


def _text(message: Json) -> Iterator[Line]:
    text = message.get("text")
    return text_lines({"type": "mrkdwn", "text": text}) if isinstance(text, str) and text else iter(())


def _rich(message: Json) -> Iterator[Line]:
    return lines_of([each for each in objects(message.get("blocks")) if each.get("type") == "rich_text"])


def _other_blocks(message: Json) -> Iterator[Line]:
    """Yield the blocks of which the text of a person's message has nothing."""
    return lines_of([each for each in objects(message.get("blocks")) if each.get("type") != "rich_text"])


def _beside(message: Json) -> Iterator[Line]:
    """Yield the attachments that are no messages of others, and the files."""
    for each in objects(message.get("attachments")):
        if not _is_forward(each):
            yield from _attachment(each)
    yield from file_lines(message.get("files"))


def _is_forward(attachment: Json) -> bool:
    return bool(attachment.get("is_msg_unfurl") or attachment.get("is_share") or attachment.get("message_blocks"))


def _attachment(attachment: Json) -> Iterator[Line]:
    """Yield the text of an attachment: a table that was pasted, a link's preview, what an app attached."""
    lines = chain(
        text_lines(f"Preview of {attachment['from_url']}" if attachment.get("from_url") else None),
        *(_mrkdwn(attachment, name) for name in ("pretext", "author_name", "title", "text")),
        lines_of(attachment.get("blocks")),
        *(_field(each) for each in objects(attachment.get("fields"))),
        _mrkdwn(attachment, "footer"),
        _picture(attachment),
        file_lines(attachment.get("files")),
    )
    first = next(lines, None)
    return _mrkdwn(attachment, "fallback") if first is None else chain([first], lines)


def _mrkdwn(source: Json, name: str) -> Iterator[Line]:
    return text_lines({"type": "mrkdwn", "text": source.get(name)})


def _field(field: Json) -> Iterator[Line]:
    return text_lines({"type": "mrkdwn", "text": f"{field.get('title') or ''}: {field.get('value') or ''}"})


def _picture(attachment: Json) -> Iterator[Line]:
    return iter([not_shown("image", attachment.get("title"))] if attachment.get("image_url") else [])


def _forwarded(message: Json, room: int, depth: int = 0) -> tuple[Quote, ...]:
    """Return the messages that *message* forwards, and those that they forward."""
    forwarded = [each for each in objects(message.get("attachments")) if _is_forward(each)]
    each_room = room // max(1, min(len(forwarded), MAX_FORWARDED))
    taken = [quote for each in forwarded[:MAX_FORWARDED] for quote in _forward(each, each_room, depth)]
    if len(forwarded) > MAX_FORWARDED:
        rest = f"[cut: {len(forwarded) - MAX_FORWARDED} more forwarded messages are not shown]"
        taken.append(Quote("", "", (Line(rest, is_notice=True),), forwarded=True))
    return tuple(taken)


def _forward(attachment: Json, room: int, depth: int) -> tuple[Quote, ...]:
    inner = {**_inner(attachment), "files": attachment.get("files"), "text": attachment.get("text")}
    author = str(attachment.get("author_id") or "")
    name = str(attachment.get("author_name") or attachment.get("author_subname") or "")
    lines = chain(_words(inner), _beside({**inner, "attachments": attachment.get("attachments")}), _picture(attachment))
    first = next(lines, None)
    whole = _mrkdwn(attachment, "fallback") if first is None else chain([first], lines)
    quote = Quote(author, name, bounded(whole, room), forwarded=True)
    return (quote, *(_forwarded(attachment, room, depth + 1) if depth < DEEPEST else ()))


def _inner(attachment: Json) -> Json:
    """Return what Slack sends of a forwarded message's blocks, as a message: an app's if people cannot make these."""
    messages = (part(each, "message") for each in objects(attachment.get("message_blocks")))
    blocks = [block for each in islice(messages, MAX_FORWARDED) for block in objects(each.get("blocks"))]
    by_app = any(block.get("type") not in _OF_PEOPLE for block in blocks)
    return {"blocks": blocks, "subtype": "bot_message" if by_app else None}


def names_in(all_of: Iterable[Quote]) -> list[str]:
    """Return the people of quotes, each once."""
    return list(dict.fromkeys(user for each in all_of for user in each.people))


def author_of(quote: Quote, names: Mapping[str, str]) -> str:
    """Return the name by which a quote's author is called: a person's own comes before what a message calls them."""
    return called(names.get(quote.author) or quote.name or quote.author or "someone")
