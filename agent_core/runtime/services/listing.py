"""Listing: sessions by their activity, and those in which words were said."""

from collections.abc import Iterator, Sequence

from agent_core.errors import UnknownCursor
from agent_core.objects import Page, SessionObject
from agent_core.runtime.agents.roster import cursor_key
from agent_core.store import listing
from agent_core.store.listing import Candidate, Moment, Wanted
from agent_core.store.store import Store

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
        return await self._store.read(lambda connection: listing.listed(connection, wanted, limit=limit, before=before))

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
        rows = await self._store.read(
            lambda connection: listing.recent(connection, wanted, limit=maximum + 1, before=before)
        )
        keys, looked = await self._matching(rows[:maximum], sought, limit, own=wanted.own)
        objects = await self._store.read(lambda connection: listing.objects(connection, keys))
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
            texts = await self._store.read(
                lambda connection, some=some: listing.words_in(connection, some, words, own=own)
            )
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
