"""Conversations: what a person does with sessions of their own."""

from contextlib import suppress
from functools import partial
from typing import Protocol

from sqlalchemy import Connection

from agent_core.errors import NotFound
from agent_core.events import Fact
from agent_core.messages import Actor
from agent_core.objects import ConversationObject, Feedback, Page
from agent_core.quotas import Origin
from agent_core.runtime.services.forgetting import PAUSES, retried
from agent_core.runtime.services.listing import Listing
from agent_core.store import changes, conversations, listing, sessions
from agent_core.store import conversations as branching
from agent_core.store import conversations as recent
from agent_core.store.listing import Wanted
from agent_core.store.store import Store

REASON = "the conversation is deleted"
_PAUSES = PAUSES[:6]
"""Seconds before each attempt at a session whose runs are ending: 1.5 in all, for a person waits."""


class Sessions(Protocol):
    """What is done with any session; the core does it."""

    async def stop_session(self, session: str, *, by: Actor, reason: str | None = None) -> object:
        """Stop the runs of *session*; raises `NotFound`."""
        ...

    async def delete_session(self, id: str) -> None:
        """Remove a session and its log; raises `NotFound`, `SessionBusy`."""
        ...


class OwnConversations:
    """The sessions of one person, as that person has them."""

    def __init__(self, store: Store, all_sessions: Sessions) -> None:
        self._store, self._listing, self._all = store, Listing(store), all_sessions

    async def find(
        self, wanted: Wanted, words: str | None = None, *, limit: int = 50, cursor: str | None = None
    ) -> Page[ConversationObject]:
        """Return conversations, those with the latest activity first; with *words* those in which each is found."""
        page = await self._listing.find(wanted, words, limit=limit, cursor=cursor)
        described = await self._store.read(lambda connection: conversations.described(connection, page.items))
        return Page(described, page.next_cursor)

    async def ratings(self, id: str, by: Actor) -> Page[Feedback]:
        """Return what *by* thinks of the answers of a session, the newest first."""
        return Page(await self._store.read(lambda connection: changes.feedback_of_actor(connection, id, by)), None)

    async def start_of(self, id: str, *, last: int) -> int:
        """Return the seq after which the *last* newest messages of a session follow, 0 for the whole log.

        No run is open there: what follows can be read as a log of its own. Raises `NotFound`.
        """
        return await self._store.read(lambda connection: recent.start_of(connection, id, last=last))

    async def earlier(self, id: str, *, last: int, before: int) -> tuple[int, list[Fact]]:
        """Return where the page of the *last* messages before seq *before* begins, as `start_of`, and its facts."""
        return await self._store.read(lambda connection: recent.recent_page(connection, id, last=last, before=before))

    async def branch(self, id: str, message: str, *, by: Actor, origin: Origin) -> str:
        """Let a session go on as a copy that ends before *message*, and return its id; see `branching.branch`."""
        now = self._store.clock.now()
        return await self._store.write(
            lambda connection: branching.branch(
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
        for name in await self._store.read(lambda connection: branching.related(connection, id)):
            with suppress(NotFound):  # deleted by someone else just now
                await self._all.delete_session(name)
        await retried(self._store.clock, partial(self._stop_and_delete, id, by), _PAUSES)

    async def _stop_and_delete(self, id: str, by: Actor) -> None:
        await self._all.stop_session(id, by=by, reason=REASON)
        await self._all.delete_session(id)
