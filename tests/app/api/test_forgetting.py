"""The deletion of one person's data, proved by searching everything that the database has on disk."""

import hashlib
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from fastapi import FastAPI
from sqlalchemy import Connection, MetaData, Table, func, inspect, select

from agent_core.channels import Context, Inbound
from agent_core.core import Core
from agent_core.events import FACTS
from agent_core.messages import Actor, Text
from agent_core.objects import Decider, Decision
from agent_core.quotas import Origin, key_of
from agent_core.store.catalog import SNAPSHOT
from agent_core.store.log import RUN
from agent_core.store.quotas import QUOTA
from agent_core.testing import Answer, ScriptedProvider, call, say, step_of, think
from app.compose import create_app
from app.settings import Settings
from app.storage import ApiKey
from channels.web.identity import TokenSigner
from tests.agent_core.asking import Till, asks
from tests.app.api.test_keys import made
from tests.app.conftest import KEY, caller
from tests.cases import for_each
from tests.conftest import MakeCore
from tests.polling import PATIENCE

ANN = Actor("ann-7f3a-marker", "user", "Ann Markername")
BOB = Actor("bob", "user", "Bob")
SAYS = "my secret marker sentence 4711"
WROTE = "another marker line in the thread"
KEPT = "what Bob says is kept"
MARKERS = (ANN.id, str(ANN.name), SAYS, WROTE)


def repeats(request: Any) -> Answer:
    """Repeat all that people said in thinking, in text and in a call, as models do."""
    entries = [entry.message for entry in request.messages if entry.message.role == "user"]
    said = " / ".join(part.text for message in entries for part in message.parts if isinstance(part, Text))
    return (
        [think(f"They say {said}"), say(f"You said: {said}"), call("look", what=said)]
        if not step_of(request)
        else [say(f"It is fine: {said}")]
    )


@pytest.fixture
async def core(make_core: MakeCore) -> Core:
    """A core whose agent repeats everything, and asks before it looks."""
    hooks = (asks("look", responders=["anyone"], timeout_s=600),)
    return await make_core(ScriptedProvider(repeats), tools=Till().tools(), definition={"hooks": hooks})


@pytest.fixture
def app(core: Core, tokens: TokenSigner, settings: Settings) -> FastAPI:
    return create_app(core, settings, tokens=tokens, api_key=ApiKey(hashlib.sha256(KEY.encode()).digest()))


async def said(core: Core, session: str, actor: Actor, words: str, **more: Any) -> str:
    """Have *actor* say *words*, and answer the question about the call that follows; return the run."""
    run = (await core.receive(session, Inbound(parts=(Text(words),), actor=actor, key=words[:20], **more))).run
    await core.settled(run, timeout=PATIENCE)
    (asked,) = (await core.approvals.list(status="open", run=run)).items
    await core.approvals.decide(
        Decision(approval=asked.id, by=Decider(actor=actor, is_present=True), approved=True, surface="api")
    )
    await core.settled(run, timeout=PATIENCE)
    return run


async def everything(core: Core, folder: Path) -> bytes:
    """Return all that the database has: its files, or on Postgres each value of each table."""

    def tables(connection: Connection) -> bytes:
        if connection.dialect.name == "sqlite":
            return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
        rows = [
            value
            for table in inspect(connection).get_table_names()
            for row in connection.execute(select(Table(table, MetaData(), autoload_with=connection)))
            for value in row
        ]
        return b"\n".join(value if isinstance(value, bytes) else str(value).encode() for value in rows)

    return await core._store.read(tables)


async def ask_of_ann(core: Core, folder: Path) -> list[str]:
    """Return the markers that are found."""
    found = await everything(core, folder)
    return [marker for marker in MARKERS if marker.encode() in found]


async def test_nothing_of_a_person_is_left(
    core: Core, app: FastAPI, client: httpx.AsyncClient, tmp_path: Path, tokens: TokenSigner
):
    """After the deletion no file has the person's id, name or words; what others said stays, and the session works."""
    own = (await core.open_session(agent="assistant", actor=ANN, metadata={"of": ANN.id})).id
    shared = (await core.open_session(agent="assistant", actor=BOB)).id
    await core.receive(own, Inbound(parts=(Text(SAYS),), actor=ANN))  # its question stays open
    await said(core, shared, ANN, SAYS)
    quoted = (Context(text=f"Hi\n{WROTE}", author=ANN.name), Context(text="Yes, says Cy", author="Cy"))
    theirs = await said(core, shared, BOB, KEPT, context=quoted)
    await core.feedback(theirs, by=ANN, rating="up", comment=SAYS)
    await core.access.revoke("actor", ANN.id)
    before = [fact.type for batch in [b async for b in core.follow(shared, until_idle=True)] for fact in batch]
    assert await ask_of_ann(core, tmp_path) == list(MARKERS)

    key = await made(client, "admin")
    async with caller(app, key["secret"]) as admin:
        answer = await admin.delete(f"/v1/actors/{ANN.id}")
    done = answer.json()
    assert answer.status_code == 200, answer.text
    assert (done["pseudonym"], done["remaining"]) == (tokens.pseudonym(ANN.id), [])
    assert {name: done[name] for name in ("sessions", "messages", "approvals", "feedback")} == {
        "sessions": 1,
        "messages": 1,
        "approvals": 1,
        "feedback": 1,
    }
    assert await ask_of_ann(core, tmp_path) == []

    assert (await client.get(f"/v1/sessions/{own}")).status_code == 404
    facts = [fact for batch in [b async for b in core.follow(shared, until_idle=True)] for fact in batch]
    assert [fact.type for fact in facts] == before, "every fact is still there, in its place"
    for fact in facts:
        msgspec.json.decode(fact.raw, type=FACTS[fact.type])
    found = await everything(core, tmp_path)
    assert KEPT.encode() in found
    assert b"Cy: Yes, says Cy" in found
    audit = (await client.get("/v1/approvals/audit")).text
    assert done["pseudonym"] in audit
    record = (await client.get("/v1/audit")).text
    assert "DELETE /v1/actors/{id}" in record
    assert ANN.id not in record
    await said(core, shared, BOB, "And it goes on")


async def test_prompts_that_came_with_a_persons_runs_are_deleted(client: httpx.AsyncClient, core: Core, tmp_path: Path):
    """Instructions of a run go with the person, also from the files, unless runs of others have the same ones."""

    async def ask(actor: str, system: str) -> str:
        messages = [{"role": "system", "text": system}, {"role": "user", "text": "Hello"}]
        body = {"actor": actor, "messages": messages, "mode": "background"}
        answer = await client.post("/v1/agents/assistant/runs", json=body)
        assert answer.status_code == 202, answer.text
        return answer.json()["id"]

    await ask(ANN.id, f"You talk with {ANN.name}.")
    both = "Both have these instructions."
    await ask(ANN.id, both)
    kept = await ask("bob", both)
    await core.settled(kept, timeout=PATIENCE)
    before = await core._store.read(stored_prompts)
    assert await ask_of_ann(core, tmp_path) == [ANN.id, str(ANN.name)]
    assert (await client.delete(f"/v1/actors/{ANN.id}")).status_code == 200
    assert await ask_of_ann(core, tmp_path) == []
    assert both.encode() in await everything(core, tmp_path)
    assert await core._store.read(stored_prompts) == before - 1
    await ask(ANN.id, f"You talk with {ANN.name}.")


def stored_prompts(connection: Connection) -> int:
    return connection.execute(select(func.count()).select_from(SNAPSHOT)).scalar_one()


async def test_what_was_replied_to_a_person_is_deleted_with_them(core: Core, client: httpx.AsyncClient, tmp_path: Path):
    """An operator's reply goes with the person whom the agent had answered last, also from the files; others stay."""
    shared = (await core.open_session(agent="assistant", actor=BOB)).id
    await said(core, shared, ANN, SAYS)
    path = f"/v1/sessions/{shared}"
    await client.post(f"{path}/replies", json={"text": "To 5 Markerstreet it goes.", "name": "Meg"})
    await said(core, shared, BOB, KEPT)
    await client.post(f"{path}/replies", json={"text": "Yours came back.", "name": "Meg"})
    assert b"Markerstreet" in await everything(core, tmp_path)
    assert [each["id"] for each in (await client.get("/v1/sessions?q=markerstreet")).json()["items"]] == [shared]
    assert (await client.delete(f"/v1/actors/{ANN.id}")).status_code == 200
    found = await everything(core, tmp_path)
    assert b"Markerstreet" not in found
    assert b"Yours came back." in found
    assert await ask_of_ann(core, tmp_path) == []
    for words in ("markerstreet", "markername", "4711"):
        assert (await client.get(f"/v1/sessions?q={words}")).json()["items"] == []
    await said(core, shared, BOB, "And it goes on")


async def test_nothing_is_counted_of_a_deleted_person(core: Core, client: httpx.AsyncClient):
    """The counts of a deleted visitor, and the numbers that name them in runs, are gone; those of others stay."""
    ada, ben = (Actor(id, "visitor") for id in ("ada", "ben"))
    shared = (await core.open_session(agent="assistant", actor=ben)).id
    for each in (ada, ben):
        await said(core, shared, each, f"I am {each.id}")
    assert await counted(core) == {key_of("visitor", "ada"), key_of("visitor", "ben")}
    assert (await client.delete("/v1/actors/ada")).status_code == 200
    assert await counted(core) == {key_of("visitor", "ben")}


async def test_a_deleted_persons_bytes_are_given_back(core: Core, client: httpx.AsyncClient):
    """What a deleted visitor's conversation took of the network address's quota is free again."""
    ada, origin = Actor("ada", "visitor"), Origin(address="203.0.113.7")
    own = (await core.open_session(agent="assistant", actor=ada, origin=origin)).id
    await said(core, own, ada, "Hello", origin=origin)
    (run,) = (await core.runs(session=own)).items
    await core.cancel(run.id, by=ada)
    assert await stored(core, key_of("address", "203.0.113.7")) > 0
    assert (await client.delete("/v1/actors/ada")).status_code == 200
    assert await stored(core, key_of("address", "203.0.113.7")) == 0


async def stored(core: Core, subject: int) -> int:
    """Return the bytes that count towards a quota."""
    query = select(QUOTA.c.stored).where(QUOTA.c.subject == subject)
    return await core._store.read(lambda connection: connection.execute(query).scalar_one())


async def counted(core: Core) -> set[int]:
    """Return the numbers of people that the database has."""

    def work(connection: Connection) -> set[int]:
        found = {
            *connection.execute(select(QUOTA.c.subject)).scalars(),
            *connection.execute(select(RUN.c.actor)).scalars(),
        }
        return found - {0}

    return await core._store.read(work)


async def test_a_person_who_left_nothing_is_deleted_too(client: httpx.AsyncClient):
    """The deletion of someone unknown changes nothing and says so, whatever the id contains."""
    for id in ("slack:T1:U1", "a/b", "né"):
        done = (await client.delete(f"/v1/actors/{id}")).json()
        assert (done["sessions"], done["messages"], done["facts"]) == (0, 0, 0)


@for_each("id", ["operator", "operator:key_1"])
async def test_a_key_is_no_person(client: httpx.AsyncClient, id: str):
    """What operators did is not deleted with a person: that is refused."""
    answer = await client.delete(f"/v1/actors/{id}")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


async def test_a_deleted_persons_tokens_end(app: FastAPI, client: httpx.AsyncClient):
    """A token from before the deletion is refused afterwards."""
    token = (await client.post("/v1/web/visitor-tokens", json={"actor": "ada", "agent": "assistant"})).json()["token"]
    async with caller(app, token) as visitor:
        assert (await visitor.post("/v1/sessions", json={})).status_code == 201
        assert (await client.delete("/v1/actors/ada")).json()["sessions"] == 1
        assert (await visitor.get("/v1/sessions")).status_code == 401
