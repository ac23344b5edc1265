"""What the API asks of the core beside runs: conversations, lists, files, costs, health."""

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from sqlalchemy import Connection

from agent_core import events as e
from agent_core.errors import InvalidInput, NotFound, UnknownCursor
from agent_core.events import Fact
from agent_core.hooks.chain import Resolver
from agent_core.hooks.rules import HookResolvers
from agent_core.ids import new_id
from agent_core.messages import Actor, CostFilter, CostGroup, CostItem, FileObject, Text
from agent_core.objects import ConversationObject, Feedback, MessageObject, Page, RenderObject, SessionObject
from agent_core.quotas import Origin
from agent_core.runtime.access import PAUSES, retried
from agent_core.runtime.roster import cursor_key
from agent_core.store import catalog, changes, conversations, files, listing, quotas, sessions
from agent_core.store.changes import Also
from agent_core.store.database import Pooled
from agent_core.store.files import NewFile
from agent_core.store.hub import Bus, Flushing
from agent_core.store.listing import Candidate, Moment, Wanted
from agent_core.store.queue import Figures, figures
from agent_core.store.reading import message_object
from agent_core.store.store import Store
from agent_core.uploads.reader import FileCheck, FileReader, kind_of, least_kept

EVERYTHING = CostFilter()
"""All that was spent."""


class Costs:
    """What the model calls of this core's database have cost."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def listed(
        self, by: CostGroup, wanted: CostFilter = EVERYTHING, *, limit: int = 50, cursor: str | None = None
    ) -> Page[CostItem]:
        """Return sums of what is *wanted*: days with the latest first, others with the most expensive first.

        Raises `UnknownCursor`.
        """
        after = cursor_key(cursor)
        return await self._store.read(listing.costs, by, wanted, limit=limit, after=after)


class SentFiles:
    """What people have sent to this core's agents."""

    def __init__(self, store: Store) -> None:
        self._store, self._reader = store, FileReader(clock=store.clock)

    def check_by(self, check: FileCheck) -> None:
        """Ask *check* about each file from now on, before it is kept."""
        self._reader.check = check

    async def add(
        self,
        data: bytes,
        *,
        name: str,
        declared: str | None,
        accept: Collection[str],
        actor: Actor,
        origin: Origin,
        agent: str | None = None,
        session: str | None = None,
    ) -> FileObject:
        """Read a file and keep it for a message, for a day; *declared* is the type that its sender says.

        *agent* is the id of the one whose quotas it counts towards. Raises `InvalidInput` for what is not one of the
        types *accept*, cannot be read or is refused by the check of files; `NotFound`, `RateLimited`, `Unavailable`.
        """
        mime = kind_of(data, name, declared)
        if mime not in accept:
            raise InvalidInput("file", f"files of the type {mime} are not taken here.")
        now, least = self._store.clock.now(), least_kept(data, mime)
        await self._store.read(files.check_room, agent, actor, origin, least, now=now)
        whose = "operator" if origin.is_operator else actor.kind  # an operator may name any actor
        owner = f"address:{origin.address}" if origin.is_anonymous else f"{whose}:{actor.id}"
        file = await self._reader.read(data, name=name, mime=mime, owner=owner)
        new = NewFile(
            name=file.name,
            mime=file.mime,
            data=file.data,
            text=file.text,
            pages=file.pages,
            actor=actor,
            agent=agent,
            session=session,
            origin=origin,
        )
        now = self._store.clock.now()
        return await self._store.write(files.add, new, now=now)

    async def find(self, id: str) -> tuple[FileObject, ...]:
        """Return the file *id* in each place where it is, the oldest first; raises `NotFound`."""
        return await self._store.read(files.find, id)

    async def data(self, file: FileObject) -> bytes:
        """Return the bytes of *file*; raises `NotFound`."""
        return (await self._store.read(quotas.get_blob, file.id))[1]


class CoreHealth:
    """What operators watch of a core."""

    def __init__(self, store: Store, bus: Bus | None, resolvers: Resolver) -> None:
        self._store, self._bus, self._resolvers = store, bus, resolvers

    async def ping(self) -> None:
        """Return when the database answers."""
        await self._store.read(catalog.ping)

    async def figures(self) -> Figures:
        """Return the open runs and live workers of all processes."""
        now = self._store.clock.now()
        return await self._store.read(figures, now)

    @property
    def pool(self) -> Pooled | None:
        """Return how busy the database's connections are; None where it counts none."""
        database = self._store.database
        return database if isinstance(database, Pooled) else None

    @property
    def flushing(self) -> Flushing | None:
        """Return what was flushed to other processes; None where there are none."""
        return self._bus if isinstance(self._bus, Flushing) else None

    @property
    def hook_errors(self) -> Mapping[tuple[str, str], int]:
        """Return how often hooks failed in this process, by type and event."""
        return self._resolvers.errors if isinstance(self._resolvers, HookResolvers) else {}


class OperatorReplies:
    """What operators say to users, as people."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def give(
        self, session: str, text: str, *, by: Actor, key: str | None = None, also: Also | None = None
    ) -> MessageObject:
        """Say *text* to the user of *session* as *by*, and return the message; the same *key* says it once.

        It is an answer that no run made: whether one is at work or not, none starts, stops or waits for it. The model
        reads of it with its next step. *also* is committed together with it. Raises `NotFound`, `SessionClosed`,
        `IdempotencyMismatch`.
        """
        message = e.MessageCompleted(
            message=new_id("msg"), role="assistant", parts=(Text(text),), stop="done", actor=by
        )
        now = self._store.clock.now()
        done = await self._store.commit(None, changes.reply, session, message, key=key, also=also, now=now)
        assert done.reply is not None
        return message_object(done.reply)


EVERY = Wanted()
"""Any session."""


class ChartDrawer(Protocol):
    """Draws checked Vega-Lite specifications, see `charts.draw.Drawer`; what cannot be drawn is a `ParleyError`."""

    async def png(
        self, spec: Mapping[str, Any], /, *, scale: float = 2.0, dark: bool = False, owner: str = ""
    ) -> bytes: ...

    async def svg(self, spec: Mapping[str, Any], /, *, dark: bool = False, owner: str = "") -> bytes: ...

    async def check(self, spec: Mapping[str, Any], /, *, owner: str = "") -> None: ...


class Renders:
    """What the calls of this core's sessions have shown."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def get(self, id: str, wanted: Wanted = EVERY) -> RenderObject:
        """Return a render that was shown in a session that is *wanted*, the oldest one; raises `NotFound`.

        A fork shows what it copied under the same id.
        """
        return await self._store.read(listing.render, id, wanted)


MAX_SESSIONS, MAX_FACTS = 5_000, 250_000
"""Sessions, and facts of theirs, that one search looks at; `next_cursor` continues it in older ones."""
MAX_OWN = 200
"""Sessions that a person's search in their own looks at, and one portion of facts."""
AT_ONCE_SESSIONS, AT_ONCE_FACTS = 400, listing.MAX_OF_ONE
"""Of those, how many one transaction looks at: other readers come between."""
MAX_WORDS = 10
_DIGITS = 19


class Listing:
    """Sessions as operators look for them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def newest(self, wanted: Wanted, *, limit: int = 50, cursor: str | None = None) -> Page[SessionObject]:
        """Return sessions, the newest first."""
        before = cursor_key(cursor)
        return await self._store.read(listing.listed, wanted, limit=limit, before=before)

    async def find(
        self, wanted: Wanted, words: str | None = None, *, limit: int = 50, cursor: str | None = None
    ) -> Page[SessionObject]:
        """Return sessions, those with the latest activity first; with *words* those in which each of them is found.

        A word is found in the session's id and title, in the ids and names of people, and in what people and the model
        said, in any case of its letters and as a part of longer words. A search that has looked at `MAX_SESSIONS` or
        `MAX_FACTS` returns what it has found, even nothing; while older sessions are left there is a cursor.
        """
        before, sought = _moment(cursor), frozenset((words or "").casefold().split()[:MAX_WORDS])
        maximum = (MAX_OWN if wanted.own else MAX_SESSIONS) if sought else limit
        rows = await self._store.read(listing.recent, wanted, limit=maximum + 1, before=before)
        keys, looked = await self._matching(rows[:maximum], sought, limit, own=wanted.own)
        objects = await self._store.read(listing.objects, keys)
        end = rows[looked - 1].moment if looked < len(rows) and looked else None
        return Page(tuple(objects), f"{end.at}.{end.key}" if end else None)

    async def _matching(
        self, rows: Sequence[Candidate], words: frozenset[str], limit: int, *, own: bool
    ) -> tuple[Sequence[int], int]:
        """Return the keys of up to *limit* of *rows* that have *words*, and how many rows were looked at for them."""
        if not words:
            return [row.moment.key for row in rows], len(rows)
        keys, looked, facts = list[int](), 0, 0
        for some in _portions(rows):
            texts = await self._store.read(listing.words_in, some, words, own=own)
            for row in some:
                looked, facts = looked + 1, facts + row.facts
                if all(word in row.words or word in texts.get(row.moment.key, ()) for word in words):
                    keys.append(row.moment.key)
                if len(keys) == limit:
                    return keys, looked
            if facts >= (AT_ONCE_FACTS if own else MAX_FACTS):
                break
        return keys, looked


def _portions(rows: Sequence[Candidate]) -> Iterator[Sequence[Candidate]]:
    """Yield *rows* in portions that one transaction looks at."""
    portion, facts = list[Candidate](), 0
    for row in rows:
        size = min(row.facts, listing.MAX_OF_ONE)
        if portion and (len(portion) == AT_ONCE_SESSIONS or facts + size > AT_ONCE_FACTS):
            yield portion
            portion, facts = [], 0
        portion.append(row)
        facts += size
    if portion:
        yield portion


def _moment(cursor: str | None) -> Moment | None:
    """Return the place that a list's *cursor* names; raises `UnknownCursor`."""
    if cursor is None:
        return None
    parts = cursor.split(".")
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() and len(part) < _DIGITS for part in parts):  # noqa: PLR2004 - time and key
        raise UnknownCursor("cursor", "not a cursor of this list; use `next_cursor` of the page before.")
    return Moment(*map(int, parts))


REASON = "the conversation is deleted"
_PAUSES = PAUSES[:6]
"""Seconds before each attempt at a session whose runs are ending: 1.5 in all, for a person waits."""


class OwnConversations:
    """The sessions of one person, as that person has them; *stop* and *delete* are what the core does with any."""

    def __init__(
        self, store: Store, *, stop: Callable[..., Awaitable[object]], delete: Callable[[str], Awaitable[None]]
    ) -> None:
        self._store, self._listing, self._stop, self._delete = store, Listing(store), stop, delete

    async def find(
        self, wanted: Wanted, words: str | None = None, *, limit: int = 50, cursor: str | None = None
    ) -> Page[ConversationObject]:
        """Return conversations, those with the latest activity first; with *words* those in which each is found."""
        page = await self._listing.find(wanted, words, limit=limit, cursor=cursor)
        described = await self._store.read(conversations.described, page.items)
        return Page(described, page.next_cursor)

    async def ratings(self, id: str, by: Actor) -> Page[Feedback]:
        """Return what *by* thinks of the answers of a session, the newest first."""
        return Page(await self._store.read(changes.feedback_of_actor, id, by), None)

    async def start_of(self, id: str, *, last: int) -> int:
        """Return the seq after which the *last* newest messages of a session follow, 0 for the whole log.

        No run is open there: what follows can be read as a log of its own. Raises `NotFound`.
        """
        return await self._store.read(conversations.start_of, id, last=last)

    async def earlier(self, id: str, *, last: int, before: int) -> tuple[int, list[Fact]]:
        """Return where the page of the *last* messages before seq *before* begins, as `start_of`, and its facts."""
        return await self._store.read(conversations.recent_page, id, last=last, before=before)

    async def branch(self, id: str, message: str, *, by: Actor, origin: Origin) -> str:
        """Let a session go on as a copy that ends before *message*, and return its id; see `conversations.branch`."""
        now = self._store.clock.now()
        return await self._store.write(
            lambda connection: conversations.branch(
                connection, sessions.hold(connection, id), message, by=by, origin=origin, now=now
            )
        )

    async def rename(self, id: str, title: str) -> ConversationObject:
        """Give a session another title, cut to 200 characters; raises `NotFound`."""

        def work(connection: Connection) -> ConversationObject:
            sessions.rename(connection, sessions.hold(connection, id), title)
            return conversations.described(connection, [listing.get(connection, id)])[0]

        return await self._store.write(work)

    async def remove(self, id: str, *, by: Actor) -> None:
        """Delete a session, its runs stopped, with those that it goes on from and a copy in which nothing was said.

        Raises `NotFound`, `SessionBusy`.
        """
        for name in await self._store.read(conversations.related, id):
            with suppress(NotFound):  # deleted by someone else just now
                await self._delete(name)
        await retried(self._store.clock, partial(self._stop_and_delete, id, by), _PAUSES)

    async def _stop_and_delete(self, id: str, by: Actor) -> None:
        await self._stop(id, by=by, reason=REASON)
        await self._delete(id)
