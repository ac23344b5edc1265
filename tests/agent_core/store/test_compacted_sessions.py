"""Compactions in the store: where a window begins, in the session, its forks, and once a person is forgotten."""

import pytest
from sqlalchemy import Connection, select

from agent_core.agent.window import Window
from agent_core.core import Core
from agent_core.events import CompactionKind, ContextCompacted, Fact
from agent_core.messages import Actor, text_of
from agent_core.providers.base import Request
from agent_core.store import log, sessions
from agent_core.store.log import SESSION
from agent_core.testing import ScriptedProvider, call, say
from agent_core.testing.scripted import Answer
from agent_core.tools.functions import tool
from tests.agent_core.scenes import ANN, local, open_session, say_and_wait
from tests.conftest import MakeCore
from tests.polling import until

BOB = Actor("bob", "user", "Bob")


@tool
async def look(what: str) -> str:
    """Look something up."""
    return f"{what} " * 400


def script(request: Request) -> Answer:
    newest = request.messages[-1].message
    return (call("look", what="tea"),) if newest.role == "user" else (say("Found."),)


async def talk(make_core: MakeCore) -> tuple[Core, str]:
    core = await make_core(ScriptedProvider(script), tools=(look,))
    session = await open_session(core)
    for n in range(3):
        await say_and_wait(core, session, f"question {n}")
    await until(lambda: not local(core).pool.driven)
    return core, session


async def window(core: Core, session: str) -> Window:
    core._cache.forget(session)
    return (await core._cache.get(session)).window


def shape(window: Window) -> list[tuple[int, bool, bool, bytes]]:
    return [(entry.seq, entry.border, entry.summary, entry.wire) for entry in window.entries]


async def compact(core: Core, session: str, kind: CompactionKind, from_seq: int) -> None:
    """Compact a quiet session from *from_seq* on."""
    cached = await core._cache.get(session)
    summary = "Bob wanted tea." if kind == "summary" else None
    made = ContextCompacted(kind=kind, from_seq=from_seq, tokens_before=2, tokens_after=1, summary=summary)

    def work(connection: Connection) -> list[Fact]:
        ref = sessions.hold(connection, session)
        first = log.take_seqs(connection, ref.key, 1)
        return log.write(connection, ref.session_key, first, [(None, made)], now=1)

    cached.window.apply(await core._store.write(work))


async def begins(core: Core, session: str) -> int:
    return await core._store.read(
        lambda connection: connection.execute(select(SESSION.c.window_seq).where(SESSION.c.id == session)).scalar_one()
    )


@pytest.mark.parametrize("kinds", [("prune",), ("summary",), ("cut",), ("summary", "prune"), ("prune", "summary")])
async def test_the_rebuilt_window_is_the_one_that_grew(make_core: MakeCore, kinds: tuple[CompactionKind, ...]):
    """After each kind, and one after another, the log gives the window that the process had; forks have it too."""
    core, session = await talk(make_core)
    borders = [entry.seq for entry in (await window(core, session)).entries if entry.border]
    for kind, border in zip(kinds, borders[1:], strict=False):
        await compact(core, session, kind, border)
    moved = [border for kind, border in zip(kinds, borders[1:], strict=False) if kind != "prune"]
    assert await begins(core, session) == (moved[-1] if moved else 1)
    grown = shape((await core._cache.get(session)).window)
    assert shape(await window(core, session)) == grown
    fork = (await core.fork_session(session)).id
    assert await begins(core, fork) == await begins(core, session)
    assert shape(await window(core, fork)) == grown
    await say_and_wait(core, session, "question 3")
    await until(lambda: not local(core).pool.driven)
    after = shape((await core._cache.get(session)).window)
    assert after[: len(grown)] == grown
    assert shape(await window(core, session)) == after


async def test_a_summary_is_forgotten_with_who_wrote(make_core: MakeCore):
    """It says in other words what people wrote: once one of them is forgotten it is deleted, else it stays."""
    core, session = await talk(make_core)
    await say_and_wait(core, session, "and I want tea", actor=BOB)
    last = [entry.seq for entry in (await window(core, session)).entries if entry.border][-1]
    await compact(core, session, "summary", last)
    await core.forget_actor("carol", pseudonym="deleted-1", by=ANN)
    assert "Bob wanted tea." in text_of((await window(core, session)).entries[0].message.parts)
    await core.forget_actor("bob", pseudonym="deleted-2", by=ANN)
    seen = text_of((await window(core, session)).entries[0].message.parts)
    assert "tea" not in seen
    assert "[deleted]" in seen


async def test_a_placeholder_holds_nothing_of_who_is_forgotten(make_core: MakeCore):
    """What a pruned result of theirs still says, such as its handle, is gone; others' placeholders stay."""
    words = iter(["Cy's order", "Bob's hernia", "Dee's order"])

    def answers(request: Request) -> Answer:
        if request.messages[-1].message.role == "user":
            return (call("look", what=f"[result r1: {next(words)}]\n"),)
        return (say("Found."),)

    core = await make_core(ScriptedProvider(answers), tools=(look,))
    session = await open_session(core)
    for actor in (ANN, BOB, ANN):
        await say_and_wait(core, session, "look it up", actor=actor)
    await until(lambda: not local(core).pool.driven)
    last = [entry.seq for entry in (await window(core, session)).entries if entry.border][-1]
    await compact(core, session, "prune", last)

    async def results() -> list[str]:
        window = (await core._cache.get(session)).window
        return [repr(entry.message.parts) for entry in window.entries if entry.message.role == "tool"]

    assert ["left out to make room" in each for each in await results()] == [True, True, False]
    assert "[result r1: Bob's hernia]" in (await results())[1]
    await core.forget_actor("bob", pseudonym="deleted-1", by=ANN)
    cy, bob, dee = await results()
    assert "[result r1: Cy's order]" in cy
    assert "left out to make room" in cy
    assert "hernia" not in bob
    assert "Dee's order" in dee
