"""Files that people send, in the store: taken by messages, counted, copied by forks, gone with what has them."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import func, select

from agent_core.agents import Limits
from agent_core.channels import Inbound
from agent_core.core import Core
from agent_core.errors import InvalidInput, NotFound, RateLimited
from agent_core.messages import FILE_KINDS, KEPT_FOR, Actor, File, FileObject, Text
from agent_core.quotas import Origin, VisitorQuota, key_of
from agent_core.store import files
from agent_core.store.files import FILE
from agent_core.store.quotas import BLOB, QUOTA
from agent_core.testing import FakeClock, ScriptedProvider, say
from tests.agent_core.scenes import idle, log_of, open_session
from tests.conftest import MakeCore

ADA, BEN = Actor("ada", "visitor"), Actor("ben-with-a-long-id", "visitor", "Ben")
HERE = Origin(address="203.0.113.7")
TEXT = b"A note of thirty characters..."
LONG = b"a" * 100_001


@pytest.fixture
async def core(make_core: MakeCore) -> Core:
    """A core whose visitors may store a megabyte."""
    definition = {"limits": Limits(visitor=VisitorQuota(stored_bytes=1_000_000))}
    return await make_core(ScriptedProvider(lambda _: [say("Thanks.")]), definition=definition, clock=FakeClock())


async def kept(core: Core, data: bytes = TEXT, actor: Actor = ADA, session: str | None = None) -> FileObject:
    agent = (await core.agents.get("assistant")).id
    return await core.files.add(
        data,
        name="note-of-ben.txt",
        declared=None,
        accept=FILE_KINDS,
        actor=actor,
        origin=HERE,
        agent=agent,
        session=session,
    )


async def post(core: Core, session: str, *sent: FileObject, actor: Actor = ADA) -> str:
    parts = (Text("Look at this"), *(each.part for each in sent))
    run = (await core.receive(session, Inbound(parts=parts, actor=actor, origin=HERE))).run
    await idle(core, session)
    return run


async def rows(core: Core) -> tuple[int, int, int]:
    """Return how many files and blobs there are, and what is counted as stored by Ada."""

    def work(connection: Any) -> tuple[int, int, int]:
        counts = [connection.execute(select(func.count()).select_from(each)).scalar() for each in (FILE, BLOB)]
        stored = select(func.sum(QUOTA.c.stored)).where(QUOTA.c.subject == key_of("visitor", ADA.id))
        return counts[0], counts[1], int(connection.execute(stored).scalar() or 0)

    return await core._store.read(work)


async def test_a_message_takes_a_file_into_its_session(core: Core):
    """A file waits for a message without a session; then it is in that one, and a second message cannot take it."""
    sent, session = await kept(core), await open_session(core, actor=ADA)
    assert [each.session for each in await core.files.find(sent.id)] == [None]
    await post(core, session, sent)
    (found,) = await core.files.find(sent.id)
    assert (found.session, await core.files.data(found)) == (session, TEXT)
    with pytest.raises(InvalidInput, match="before"):
        await post(core, session, sent)
    gone = File("file_gone", "a.txt", "text/plain", 1)
    with pytest.raises(InvalidInput, match="no longer here"):
        await core.receive(session, Inbound(parts=(gone,), actor=ADA))


async def test_a_copy_in_which_something_is_said_again_is_counted(core: Core):
    """Its files and its log are charged; beyond the quota there is no copy; what is deleted is given back."""
    session = await open_session(core, actor=ADA)
    await post(core, session, await kept(core, b"a" * 300_000))
    sent = await core.receive(session, Inbound(parts=(Text("And?"),), actor=ADA, origin=HERE))
    await idle(core, session)
    _, _, before = await rows(core)
    copy = await core.conversations.branch(session, sent.message, by=ADA, origin=HERE)
    files_kept, blobs_kept, after = await rows(core)
    assert (files_kept, blobs_kept) == (2, 4)
    assert after - before > 400_000
    sent = await core.receive(copy, Inbound(parts=(Text("And?"),), actor=ADA, origin=HERE))
    await idle(core, copy)
    held = await rows(core)
    with pytest.raises(RateLimited, match="stored"):
        await core.conversations.branch(copy, sent.message, by=ADA, origin=HERE)
    assert (await rows(core), (await core.session(copy)).status) == (held, "idle")
    await core.delete_session(copy)
    assert (await rows(core))[2] == before
    await core.delete_session(session)
    assert await rows(core) == (0, 0, 0)


async def test_another_session_gets_a_copy(core: Core):
    """A file that one session has is copied into another, and counted there too; each is deleted with its session."""
    sent, first, second = await kept(core, LONG), *[await open_session(core, actor=ADA) for _ in range(2)]
    size = (await rows(core))[2]
    assert size > 2 * len(LONG) - 10
    await post(core, first, sent)
    _, _, before = await rows(core)
    await post(core, second, sent)
    found, blobs, after = await rows(core)
    assert (found, blobs) == (2, 4)
    assert after - before >= size
    await core.delete_session(first)
    assert [each.session for each in await core.files.find(sent.id)] == [second]
    await core.delete_session(second)
    assert await rows(core) == (0, 0, 0)


async def test_a_fork_has_the_files_of_its_messages(core: Core):
    """A fork has files of messages that it has, and no others: those can be sent in it; it outlives its parent."""
    one, two, session = await kept(core), await kept(core), await open_session(core, actor=ADA)
    await post(core, session, one)
    end = (await log_of(core, session))[-1].seq
    await post(core, session, two)
    fork = (await core.fork_session(session, at=end)).id
    assert [each.session for each in await core.files.find(one.id)] == [session, fork]
    assert [each.session for each in await core.files.find(two.id)] == [session]
    await post(core, fork, two)
    await core.delete_session(session)
    for each in (one, two):
        (left,) = await core.files.find(each.id)
        assert (left.session, await core.files.data(left)) == (fork, TEXT)


async def test_what_no_message_took_is_removed_after_a_day(core: Core):
    """A file that waits longer than a day is removed with its bytes and no longer counted; one that was taken stays."""
    session = await open_session(core, actor=ADA)
    taken, waiting, meant = await kept(core), await kept(core), await kept(core, session=session)
    await post(core, session, taken)
    now = core._store.clock.now()
    assert await core._store.write(files.sweep, now + KEPT_FOR) == 0
    before = await rows(core)
    assert await core._store.write(files.sweep, now + KEPT_FOR + 1) == 2
    after = await rows(core)
    assert (before[0] - after[0], before[1] - after[1], before[2] - after[2]) == (2, 2, 2 * files.MIN_STORED)
    for each in (waiting, meant):
        with pytest.raises(NotFound):
            await core.files.find(each.id)
    assert await core.files.find(taken.id)


async def test_the_quota_of_stored_bytes_counts_files(core: Core):
    """What a visitor sends counts as stored at once: beyond the quota nothing is kept."""
    await kept(core, b"a" * 800_000)
    before = await rows(core)
    with pytest.raises(RateLimited, match="stored"):
        await kept(core, LONG)
    assert await rows(core) == before
    assert await kept(core, LONG, actor=BEN)


async def test_files_of_a_few_bytes_cannot_be_sent_without_end(core: Core):
    """A file counts for four kilobytes at least, which its deletion gives back."""
    await kept(core, b"a" * 400_000)
    size = (await rows(core))[2]
    for _ in range((1_000_000 - size) // files.MIN_STORED):
        await kept(core, b"a")
    with pytest.raises(RateLimited, match="stored"):
        await kept(core, b"a")
    count, _, stored = await rows(core)
    assert stored == size + (count - 1) * files.MIN_STORED
    clock = core._store.clock
    assert isinstance(clock, FakeClock)
    clock.advance(KEPT_FOR / 1000 + 1)
    while await core._store.write(files.sweep, clock.now()):
        pass
    assert await rows(core) == (0, 0, 0)


async def test_without_room_a_file_is_not_even_read(core: Core):
    """A file that the quota has no room for is refused before the check of files is asked about it, and its reading."""

    class Check:
        async def refusal(self, data: bytes) -> str:
            return "it was read"

    core.files.check_by(Check())
    with pytest.raises(RateLimited, match="stored"):
        await kept(core, b"a" * 2_100_000)
    with pytest.raises(InvalidInput, match="it was read"):
        await kept(core)


async def test_anonymous_visitors_of_one_address_wait_together(core: Core):
    """Files of anonymous visitors are in one queue by address, with their check: new ids give no more places in it."""
    asked, answer = asyncio.Semaphore(0), asyncio.Event()

    class Check:
        async def refusal(self, data: bytes) -> None:
            asked.release()
            await answer.wait()

    core.files.check_by(Check())
    agent = (await core.agents.get("assistant")).id

    async def add(id: str, address: str) -> FileObject:
        origin, actor = Origin(address=address, is_anonymous=True), Actor(id, "visitor")
        given = {"name": "a.txt", "declared": None, "accept": FILE_KINDS, "agent": agent}
        return await core.files.add(TEXT, actor=actor, origin=origin, **given)

    waiting = [asyncio.create_task(add(f"anonymous_{n}", "203.0.113.7")) for n in range(9)]
    done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    assert [type(each.exception()) for each in done] == [RateLimited]
    waiting.append(asyncio.create_task(add("anonymous_9", "203.0.113.8")))
    for _ in range(2):
        await asked.acquire()
    assert asked.locked()
    answer.set()
    assert sum(isinstance(each, FileObject) for each in await asyncio.gather(*waiting, return_exceptions=True)) == 9


async def test_a_forgotten_person_leaves_no_file(core: Core):
    """With a person's data go files that wait, those in their sessions, and what they sent in others' sessions."""
    own, shared = await open_session(core, actor=BEN), await open_session(core, actor=ADA)
    mine, theirs, waiting, adas = [await kept(core, actor=actor) for actor in (BEN, BEN, BEN, ADA)]
    await post(core, own, mine, actor=BEN)
    await post(core, shared, theirs, actor=BEN)
    await post(core, shared, adas, actor=ADA)
    await core.forget_actor(BEN.id, pseudonym="forgotten:1", by=Actor("op", "service"))
    for each in (mine, theirs, waiting):
        with pytest.raises(NotFound):
            await core.files.find(each.id)
    (left,) = await core.files.find(adas.id)
    assert await core.files.data(left) == TEXT
    assert (await rows(core))[:2] == (1, 1)
    said = (await core.messages(shared)).items
    assert [part for message in said for part in message.parts if isinstance(part, File)] == [
        File(adas.id, "[deleted]", "text/plain", len(TEXT))
    ]
