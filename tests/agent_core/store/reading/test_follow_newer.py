"""follow beside a newer version: facts that this version does not know are passed over, and nothing else is missing."""

import pytest
from sqlalchemy import update

from agent_core.store import follow, sessions
from agent_core.store.log import EVENT
from agent_core.testing import ScriptedProvider, say
from tests.agent_core.scenes import log_of, open_session, say_and_wait, send
from tests.agent_core.store.reading.reader import joined, read
from tests.conftest import MakeCore
from tests.polling import until


@pytest.mark.parametrize("page", [1, 2, 3, 500])
async def test_every_cursor_gives_all_the_facts_that_are_known(
    make_core: MakeCore, monkeypatch: pytest.MonkeyPatch, page: int
):
    """Unknown facts within a page, as a whole page and as the newest of the log end no reading and hide nothing."""
    monkeypatch.setattr(follow, "_PAGE", page)
    core = await make_core(ScriptedProvider(lambda _: [say("Hi.")]))
    session = await open_session(core)
    await say_and_wait(core, session, "Hello")
    known = [fact.seq for fact in await log_of(core, session)]
    strange = {known[3], known[4], known[5], known[-1]}

    def age(connection) -> None:
        key = sessions.find(connection, session).key
        connection.execute(update(EVENT).where(EVENT.c.session == key, EVENT.c.seq.in_(strange)).values(type=9_999))

    await core._store.write(age)
    core._cache.forget(session)
    left = [seq for seq in known if seq not in strange]
    for after in range(known[-1] + 1):
        reading = await read(core.follow(session, after=after, until_idle=True))
        assert reading.seqs == [seq for seq in left if seq > after]
    reading, task = await joined(core, session)
    assert reading.seqs == left
    sent = await send(core, session, "And?")
    await until(lambda: reading.seqs[-1] == sent.seq + 1)
    assert reading.seqs == [*left, sent.seq, sent.seq + 1], "the message and its run, which waits for a newer version"
    task.cancel()
