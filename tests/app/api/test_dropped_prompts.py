"""Prompts that runs brought with them, deleted with the sessions, whatever cuts it off."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Connection, func, insert, select

from agent_core.core import Core
from agent_core.messages import Actor
from agent_core.store import catalog
from agent_core.store import catalog as prompts
from agent_core.store.catalog import SNAPSHOT
from agent_core.store.log import RUN
from agent_core.store.tables import DEFAULT_PROJECT
from tests.app.api.test_forgetting import everything
from tests.polling import PATIENCE

pytestmark = pytest.mark.whole

SECRET = "You talk with Ann Markername of Markerstreet."
OPERATOR = Actor("operator", "service")
APART = int(prompts.SETTLED * 1000)


class Killed(Exception):
    """The process is gone here."""


async def ask(client: httpx.AsyncClient, core: Core, system: str = SECRET) -> tuple[str, str]:
    """Have Ann ask with instructions of her own; return the session and the hash of the prompt."""
    messages = [{"role": "system", "text": system}, {"role": "user", "text": "Hello"}]
    body = {"actor": "ann", "messages": messages, "mode": "background"}
    run = (await client.post("/v1/agents/assistant/runs", json=body)).json()
    await core.settled(run["id"], timeout=PATIENCE)
    query = select(RUN.c.snapshot).where(RUN.c.id == run["id"])
    return run["session"], await core._store.read(lambda connection: connection.execute(query).scalar_one())


async def is_kept(core: Core, folder: Path) -> bool:
    return b"Markerstreet" in await everything(core, folder)


def hashes(connection: Connection) -> set[str]:
    return set(connection.execute(select(SNAPSHOT.c.hash)).scalars())


def noted(connection: Connection) -> int:
    return connection.execute(select(func.count()).select_from(prompts.DROPPED)).scalar_one()


async def write(core: Core, work: Any, *values: Any) -> None:
    await core._store.write(work, *values)


@pytest.mark.parametrize("is_committed", [False, True])
async def test_a_deletion_that_was_cut_off_is_completed_by_another(
    core: Core, client: httpx.AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_committed: bool
):
    """Cut off before or after any of its writes, the deletion of a person leaves no prompt once it is repeated."""
    monkeypatch.setattr(prompts, "SETTLED", 0.0)
    place = 0
    while True:
        await ask(client, core)
        writes, ordinary = 0, core._store.write

        async def killed(work: Any, ordinary: Any = ordinary, last: int = place) -> Any:
            nonlocal writes
            writes += 1
            if writes <= last:
                return await ordinary(work)
            if is_committed:
                await ordinary(work)
            raise Killed

        with monkeypatch.context() as patch, suppress(Killed):
            patch.setattr(core._store, "write", killed)
            await core.forget_actor("ann", pseudonym="forgotten:1", by=OPERATOR)
        await core.forget_actor("ann", pseudonym="forgotten:1", by=OPERATOR)
        assert not await is_kept(core, tmp_path), f"after {place} writes"
        assert await core._store.read(noted) == 0
        if writes <= place:
            break
        place += 1
    assert place > 4, "a look at each of its writes"


async def test_a_session_that_was_deleted_before_its_person_leaves_no_prompt(
    core: Core, client: httpx.AsyncClient, tmp_path: Path
):
    """What a deleted session's runs brought is gone after the deletion of the person too."""
    session, _ = await ask(client, core)
    assert await is_kept(core, tmp_path)
    await core.delete_session(session)
    assert (await client.delete("/v1/actors/ann")).status_code == 200
    assert not await is_kept(core, tmp_path)


async def test_the_sweep_deletes_the_prompts_of_deleted_sessions(
    core: Core, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    """Once it sets them aside, and the next time it deletes them; those that other sessions have stay."""
    monkeypatch.setattr(prompts, "SETTLED", 0.0)
    session, brought = await ask(client, core)
    shared, common = await ask(client, core, "Both have these instructions.")
    await ask(client, core, "Both have these instructions.")
    for each in (session, shared):
        await core.delete_session(each)
    for _ in range(2):
        await core._segments.tidy()
    assert {brought, common} & await core._store.read(hashes) == {common}
    assert await core._store.read(noted) == 0


async def test_prompts_are_deleted_some_seconds_after_each_was_set_aside(core: Core, client: httpx.AsyncClient):
    """One deletion does not end the time of another's; until then a run that has found the prompt reads it."""
    (first, early), (second, late) = await ask(client, core), await ask(client, core, "Another one.")
    await core.delete_session(first)
    await write(core, prompts.set_aside_prompts, 1_000)
    await core.delete_session(second)
    await write(core, prompts.set_aside_prompts, 1_500)
    await write(core, prompts.settle_prompts, 1_000 + APART)
    assert await core._store.read(catalog.snapshot, late) is not None
    with pytest.raises(LookupError):
        await core._store.read(catalog.snapshot, early)
    await write(core, prompts.settle_prompts, 1_500 + APART)
    assert await core._store.read(noted) == 0


@pytest.mark.parametrize("is_stored_again", [False, True])
async def test_a_prompt_that_is_wanted_while_it_is_deleted_stays(
    core: Core, client: httpx.AsyncClient, is_stored_again: bool
):
    """One that a run names after all gets its name back, and one that was stored again meanwhile is there once."""
    session, brought = await ask(client, core)
    await core.delete_session(session)
    before = await core._store.read(hashes)
    await write(core, prompts.set_aside_prompts, 1_000)
    assert before - await core._store.read(hashes) == {brought}
    other, _ = await ask(client, core, "Another one.")
    query = RUN.update().where(RUN.c.session.is_not(None)).values(snapshot=brought)
    await core._store.write(lambda connection: connection.execute(query))
    if is_stored_again:
        values = {"project": DEFAULT_PROJECT, "hash": brought, "content": b"{}"}
        await core._store.write(lambda connection: connection.execute(insert(SNAPSHOT).values(values)))
    await write(core, prompts.settle_prompts, 1_000 + APART)
    assert before <= await core._store.read(hashes)
    assert await core._store.read(noted) == 0
    await core.delete_session(other)
