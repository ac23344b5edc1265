"""Who people are, and what they wrote: the words of Slack's blocks, line by line as mrkdwn.

Blocks are read lazily and in order, so that a reader may stop at any line and pay for no more than it took.
"""

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeVar, cast

from agent_core.clock import Clock
from agent_core.messages import shorten
from channels.slack import api as f
from channels.slack.api import Identity, Json
from channels.slack.intake import part
from channels.slack.pace import Installation
from channels.slack.text import escape
from channels.text import one_line, visible

MAX_DEPTH = 8
"""Levels of blocks within blocks that are read."""
MAX_LABEL = 120
"""Characters of the name of a file, of a block and the like."""
_ID = re.compile(r"[A-Z][A-Z0-9]{1,40}")
_RANGES = frozenset({"here", "channel", "everyone"})


@dataclass(frozen=True, slots=True)
class Line:
    """A line of mrkdwn that someone wrote; *is_notice*: words of ours that name what is not shown."""

    text: str
    is_notice: bool = False


def named(value: object, *, limit: int = MAX_LABEL) -> str:
    """Return a name that others gave on one line in which all can be seen, without brackets of ours.

    It has at most *limit* characters, the last of which says that it was cut.
    """
    name = one_line(str(value or "")[: 4 * limit]).replace("[", "(").replace("]", ")")
    return shorten(name, limit)


def not_shown(what: str, *names: object) -> Line:
    """Return the line that says that *what* is there and cannot be shown."""
    about = ", ".join(name for name in map(named, names) if name)
    return Line(f"[attachment not shown: {f'{what} {about}'.strip()}]", is_notice=True)


def lines_of(blocks: Any, depth: int = 0) -> Iterator[Line]:
    """Yield the lines of *blocks*, which may be anything."""
    if depth > MAX_DEPTH:
        yield Line("[cut: what is nested deeper is not shown]", is_notice=True)
        return
    for block in objects(blocks):
        reading = _BLOCKS.get(str(block.get("type")))
        if reading is None:
            yield not_shown("block of the kind", block.get("type") or "unknown")
        else:
            yield from reading(block, depth)


def objects(value: Any) -> Iterator[Json]:
    """Yield the objects of a list that Slack has sent; anything else has none."""
    listed: list[Any] = cast("list[Any]", value) if isinstance(value, list) else []
    return (cast("Json", each) for each in listed if isinstance(each, Mapping))


def text_lines(value: Any) -> Iterator[Line]:
    """Yield the lines of a text object, or of a bare text."""
    if isinstance(value, Mapping):
        part = cast("Json", value)
        text = _plain(part)
        yield from _line(text if part.get("type") == "mrkdwn" else escape(text))
    elif isinstance(value, str):
        yield from _line(escape(value))


def _line(mrkdwn: str) -> Iterator[Line]:
    return iter([Line(mrkdwn)] if mrkdwn else [])


# ---- rich text --------------------------------------------------------------------------------------


def _inline(element: Json) -> str:
    """Return one element of a rich text as mrkdwn."""
    match element:
        case {"type": "text", "text": str(text)}:
            return _styled(escape(text), element)
        case {"type": "link", "url": str(url)}:
            label = str(element.get("text") or "")
            address = escape(url).replace("|", "%7C")
            return f"<{address}|{escape(label).replace('|', '/')}>" if label else f"<{address}>"
        case {"type": "user", "user_id": str(id)} if _ID.fullmatch(id):
            return f"<@{id}>"
        case {"type": "channel", "channel_id": str(id)} if _ID.fullmatch(id):
            return f"<#{id}>"
        case {"type": "usergroup", "usergroup_id": str(id)} if _ID.fullmatch(id):
            return f"<!subteam^{id}>"
        case {"type": "broadcast", "range": str(everyone)} if everyone in _RANGES:
            return f"<!{everyone}>"
        case {"type": "emoji", "name": str(name)}:
            return f":{escape(named(name))}:"
        case {"type": "date", "timestamp": int(seconds)}:
            return escape(str(element.get("fallback") or "")) or _day(seconds)
        case {"type": "color", "value": str(value)}:
            return escape(named(value))
        case {"text": str(text)}:
            return escape(text)
        case _:
            return ""


def _styled(text: str, element: Json) -> str:
    style = element.get("style")
    for name, mark in (("code", "`"), ("strike", "~")):
        if isinstance(style, Mapping) and cast("Json", style).get(name):
            text = f"{mark}{text}{mark}"
    return text


def _day(seconds: int) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        return ""


def _section(element: Json) -> Iterator[Line]:
    return _line("".join(map(_inline, objects(element.get("elements")))))


def _rich_text(block: Json, depth: int) -> Iterator[Line]:
    for element in objects(block.get("elements")):
        match element.get("type"):
            case "rich_text_list":
                yield from _list(element, depth)
            case "rich_text_preformatted":
                yield from chain([Line("```")], _section(element), [Line("```")])
            case "rich_text_quote":
                yield from (Line(f"> {row}") for line in _section(element) for row in line.text.split("\n"))
            case "rich_text_section":
                yield from _section(element)
            case other:
                yield not_shown("block of the kind", other or "unknown")


def _list(element: Json, depth: int) -> Iterator[Line]:
    indent = element.get("indent")
    space = "  " * (min(indent, MAX_DEPTH) if isinstance(indent, int) else 0)
    first = element.get("offset")
    start = (first if isinstance(first, int) else 0) + 1
    for n, item in enumerate(objects(element.get("elements")), start):
        sign = f"{n}." if element.get("style") == "ordered" else "•"
        nested = item.get("type") == "rich_text_list" and depth < MAX_DEPTH
        lines = _list(item, depth + 1) if nested else _section(item)
        yield from (
            Line(f"{space}{sign if not k else ' '} {line.text}", line.is_notice) for k, line in enumerate(lines)
        )


# ---- tables and charts ------------------------------------------------------------------------------


def _table(block: Json, depth: int) -> Iterator[Line]:
    yield from text_lines(block.get("caption"))
    rows: Any = block.get("rows")
    for row in cast("list[Any]", rows) if isinstance(rows, list) else ():
        yield from _line(" | ".join(_cell(cell, depth) for cell in objects(row)))


def _cell(cell: Json, depth: int) -> str:
    if cell.get("type") == "rich_text":
        return " ".join(line.text for line in islice(_rich_text(cell, depth), 20)).replace("\n", " ")
    value = cell.get("text") if cell.get("text") is not None else cell.get("value")
    return escape(" ".join(str("" if value is None else value).split()))


def _chart(block: Json, _: int) -> Iterator[Line]:
    chart = _object(block, "chart")
    yield Line(f"Chart ({escape(named(chart.get('type')))}): {escape(named(block.get('title')))}")
    yield from _points("", chart.get("segments"))
    for series in objects(chart.get("series")):
        yield from _points(f"{escape(named(series.get('name')))}: ", series.get("data"))


def _points(name: str, points: Any) -> Iterator[Line]:
    lines = (f"{escape(named(each.get('label')))} {escape(named(each.get('value')))}" for each in objects(points))
    listed = ", ".join(lines)
    return _line(f"{name}{listed}" if listed else "")


# ---- all others -------------------------------------------------------------------------------------


def _texts(*names: str) -> Callable[[Json, int], Iterator[Line]]:
    """Return the reading of a block that has texts in the fields *names*, one or several each."""

    def reading(block: Json, depth: int) -> Iterator[Line]:
        for name in names:
            value: Any = block.get(name)
            yield from _many(cast("list[Any]", value) if isinstance(value, list) else [value], depth)

    return reading


def _many(values: list[Any], depth: int) -> Iterator[Line]:
    for each in values:
        is_text = not isinstance(each, Mapping) or cast("Json", each).get("type") in ("plain_text", "mrkdwn")
        yield from text_lines(each) if is_text else lines_of([each], depth + 1)


def _image(block: Json, _: int) -> Iterator[Line]:
    title: Any = block.get("title")
    yield not_shown("image", _plain(title), block.get("alt_text"))


def _video(block: Json, _: int) -> Iterator[Line]:
    yield not_shown("video", _plain(block.get("title")), block.get("alt_text"), block.get("title_url"))


def _remote_file(block: Json, _: int) -> Iterator[Line]:
    yield not_shown("file", block.get("external_id"))


def _buttons(block: Json, _: int) -> Iterator[Line]:
    labels = (named(_plain(each.get("text"))) for each in objects(block.get("elements")))
    if texts := [label for label in islice(labels, 25) if label]:
        yield not_shown("buttons", *texts)


def _nothing(_: Json, __: int) -> Iterator[Line]:
    return iter(())


def _plain(value: Any) -> str:
    text: Any = cast("Json", value).get("text") if isinstance(value, Mapping) else value
    return text if isinstance(text, str) else ""


def _object(block: Json, name: str) -> Json:
    value: Any = block.get(name)
    return cast("Json", value) if isinstance(value, Mapping) else {}


_BLOCKS: Mapping[str, Callable[[Json, int], Iterator[Line]]] = MappingProxyType(
    {
        "rich_text": _rich_text,
        "section": _texts("text", "fields", "accessory"),
        "header": _texts("text"),
        "context": _texts("elements"),
        "markdown": _texts("text"),
        "alert": _texts("text"),
        "card": _texts("title", "subtitle", "body", "subtext", "hero_image"),
        "carousel": _texts("elements"),
        "container": _texts("title", "rich_text_title", "subtitle", "child_blocks"),
        "plan": _texts("title", "tasks"),
        "task_card": _texts("title", "details", "output"),
        "input": _texts("label", "hint"),
        "table": _table,
        "data_table": _table,
        "data_visualization": _chart,
        "image": _image,
        "video": _video,
        "file": _remote_file,
        "actions": _buttons,
        "button": _nothing,
        "static_select": _nothing,
        "overflow": _nothing,
        "context_actions": _nothing,
        "divider": _nothing,
    }
)


Kind = Literal["member", "guest", "stranger", "bot", "unknown"]
AGE = 3_600_000
"""Milliseconds for which what Slack said of a person is taken for true."""
MAX_CHANNEL_AGE = 300_000
"""Milliseconds for which what Slack said of a channel is taken for true; each message of it says so again."""
SIZE = 10_000
MAX_NAME = 80
"""Characters of a name, as many as quotations show of one."""
MAX_EMAIL = 320
"""Characters of an address, as RFC 3696 counts them."""
MAX_NAMES = 25
"""People who are looked up for one message; those beyond are called by their ids."""
Key = tuple[str, str]
_COLON = re.compile(r":+(?=\s|$)")


@dataclass(frozen=True, slots=True)
class Person:
    """A person: *team* is the workspace that they belong to. Of those who are *unknown* Slack says nothing.

    *email* is known of the workspace's own people and guests, and only with the scope `users:read.email`. *timezone* is
    the IANA name of theirs.
    """

    id: str
    name: str
    team: str
    kind: Kind = "member"
    email: str | None = None
    timezone: str | None = None

    @property
    def outside(self) -> bool:
        """Whether they are not the workspace's own people, as far as is known."""
        return self.kind in ("guest", "stranger", "unknown")


K = TypeVar("K")
V = TypeVar("V")


class Lately(Generic[K, V]):
    """What was noted in the last *age* milliseconds, the newest `SIZE` of it."""

    def __init__(self, clock: Clock, age: int, *, size: int = SIZE) -> None:
        self._clock, self._age, self._size = clock, age, size
        self._noted: OrderedDict[K, tuple[int, V]] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return what was noted of *key*, None when that is too long ago."""
        at, value = self._noted.get(key, (0, None))
        return value if self._clock.now() - at < self._age else None

    def note(self, key: K, value: V) -> None:
        """Note *value* of *key*."""
        self._noted[key] = (self._clock.now(), value)
        self._noted.move_to_end(key)
        while len(self._noted) > self._size:
            self._noted.popitem(last=False)


class People:
    """The people whom this process looked up lately. All requests for the same person share one call."""

    def __init__(self, clock: Clock, *, size: int = SIZE) -> None:
        self._known = Lately[Key, Person](clock, AGE, size=size)
        self._asking: dict[Key, asyncio.Task[Person]] = {}

    async def find(self, installation: Installation, user: str) -> Person:
        """Return who *user* is; raises a `SlackFailure`. A caller who gives up leaves the answer to the next one."""
        if (person := self.cached(installation, user)) is not None:
            return person
        key = (installation.me.team, user)
        if (asking := self._asking.get(key)) is None:
            asking = self._asking[key] = asyncio.create_task(self._ask(installation, user))
            asking.add_done_callback(lambda done: self._finished(key, done))
        return await asyncio.shield(asking)

    async def names(self, installation: Installation, users: Iterable[str], *, until: float) -> dict[str, str]:
        """Return the names of *users* that are known by the event loop's time *until*, by their ids."""
        wanted = list(dict.fromkeys(users))[:MAX_NAMES]
        tasks = [asyncio.ensure_future(self.find(installation, user)) for user in wanted]
        if tasks:
            await asyncio.wait(tasks, timeout=max(0.0, until - asyncio.get_running_loop().time()))
        for each in tasks:
            each.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        return {person.id: person.name for person in results if isinstance(person, Person)}

    def cached(self, installation: Installation, user: str) -> Person | None:
        """Return who *user* is if Slack need not be asked."""
        return self._known.get((installation.me.team, user))

    async def close(self) -> None:
        """Ask nothing more."""
        asking = list(self._asking.values())
        for each in asking:
            each.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    async def _ask(self, installation: Installation, user: str) -> Person:
        space = installation.space
        try:
            posted = await space.call("users.info", None, space.api.user, user)
        except f.Uncertain:  # looking a person up twice does no harm
            posted = await space.call("users.info", None, space.api.user, user)
        return person_of(posted, installation.me)

    def _finished(self, key: Key, done: asyncio.Task[Person]) -> None:
        del self._asking[key]
        # The error is read too: every waiter may be gone.
        if not done.cancelled() and done.exception() is None:
            self._known.note(key, done.result())


class Conversations:
    """A cache of whether channels are shared with another organisation.

    Each event of a message says it; of a command or a shortcut Slack must be asked.
    """

    def __init__(self, clock: Clock) -> None:
        self._shared = Lately[Key, bool](clock, MAX_CHANNEL_AGE)

    def note(self, team: str, channel: str, *, shared: bool) -> None:
        """Remember what an event says of *channel*."""
        self._shared.note((team, channel), shared)

    async def is_shared(self, installation: Installation, channel: str) -> bool:
        """Return whether other organisations are in *channel*; raises a `SlackFailure`."""
        team, space = installation.me.team, installation.space
        if (noted := self._shared.get((team, channel))) is not None:
            return noted
        info = await space.call("conversations.info", channel, space.api.channel, channel)
        shared = bool(info.get("is_ext_shared") or info.get("is_pending_ext_shared"))
        self.note(team, channel, shared=shared)
        return shared


def person_of(user: Json, me: Identity) -> Person:
    """Return the person of Slack's *user* object, as seen by the app *me*."""
    profile = part(user, "profile")
    name = user.get("real_name") or profile.get("real_name") or profile.get("display_name") or user.get("name")
    team = str(user.get("team_id") or me.team)
    kind = _kind(user, team, me)
    zone = user.get("tz")
    timezone = zone if isinstance(zone, str) else None
    return Person(str(user["id"]), called(name) or str(user["id"]), team, kind, _email(user, kind), timezone)


def _email(user: Json, kind: Kind) -> str | None:
    """Return the address that the workspace vouches for: a stranger's is what their own organisation says of them."""
    email = part(user, "profile").get("email")
    is_sure = kind in ("member", "guest") and user.get("is_email_confirmed") is not False
    return email if is_sure and isinstance(email, str) and len(email) <= MAX_EMAIL else None


def called(name: object) -> str:
    """Return a name that people gave themselves so that it ends where it seems to: quotations read `name: words`.

    To do it again changes nothing: a person who is to be forgotten is found in quotations by this name.
    """
    return " ".join(_COLON.sub("", named(name, limit=MAX_NAME)).split())


def _kind(user: Json, team: str, me: Identity) -> Kind:
    organisation = part(user, "enterprise_user").get("enterprise_id")
    akin = team == me.team or (me.enterprise is not None and organisation == me.enterprise)
    if user.get("is_bot") or user.get("is_workflow_bot") or user["id"] == "USLACKBOT":
        return "bot"
    if user.get("is_stranger") or not akin:
        return "stranger"
    return "guest" if user.get("is_restricted") or user.get("is_ultra_restricted") else "member"


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
        yield not_shown(
            _attached_kind(file, mode, mime), file.get("name") or file.get("title") or file.get("id"), about
        )
        yield from _file_text(file, mode)


def _attached_kind(file: Json, mode: str, mime: str) -> str:
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
