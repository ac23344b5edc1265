"""Keys, tokens and agents of the version before work on after the upgrade."""

import hashlib
import time
from pathlib import Path

import httpx
import jwt
import pytest
from alembic import command

from agent_core import Actor, Core, Definition, SqliteDatabase
from agent_core.testing import ScriptedProvider, say
from app.compose import create_app
from app.settings import Settings
from app.storage.keys import API_KEY_FILE, SECRET_FILE, Keys, load_api_key, load_keys
from app.storage.migrate import migrate
from channels.web.identity import TokenSigner
from tests.app.conftest import caller
from tests.conftest import alembic_config
from tests.polling import PATIENCE

BEFORE = "0009"
KEY = "parley_printed-at-the-first-start"
SECRET = "the text of a secret key of an earlier start, in a file"


def settings_of(data: Path) -> Settings:
    return Settings(_env_file=None, data=data, agents=data)  # type: ignore[call-arg]


def core_of(settings: Settings) -> Core:
    """Return a core on the database of *settings*; call it inside a running event loop."""
    provider = ScriptedProvider([[say("Hello.")]])
    database = SqliteDatabase(settings.database)
    return Core(database, providers={provider.name: provider}, tools={}, default_model=provider.name)


@pytest.fixture
async def old(tmp_path: Path) -> tuple[Settings, str, str]:
    """A folder as the version before left it: its settings, an agent and a visitor's session there."""
    settings = settings_of(tmp_path)
    config = alembic_config(f"sqlite:///{settings.database}")
    command.upgrade(config, "head")
    (tmp_path / SECRET_FILE).write_text(SECRET + "\n")
    (tmp_path / API_KEY_FILE).write_text(hashlib.sha256(KEY.encode()).hexdigest() + "\n")
    core = core_of(settings)
    await core.start()
    agent = (await core.agents.create(Definition(name="old", instructions="Be."))).id
    session = (await core.open_session(agent=agent, actor=Actor("ada", "visitor"))).id
    await core.stop(grace=0)
    command.downgrade(config, BEFORE)  # what is in later columns and tables is gone
    return settings, agent, session


def signed(purpose: str, **claims: object) -> str:
    """Return a token as the version before signed it: with neither an id nor the time it was made."""
    body = {"exp": int(time.time()) + 600, **claims}
    return jwt.encode(body, Keys(SECRET.encode()).derive(purpose), algorithm="HS256")


async def test_keys_tokens_and_agents_work_on(old: tuple[Settings, str, str]):
    """The printed key, a visitor's token, a command's token and an agent of before open what they opened."""
    settings, agent, session = old
    assert migrate(settings).startswith(f"revision {BEFORE} -> ")
    tokens, api_key = TokenSigner(load_keys(settings).derive), load_api_key(settings)
    assert api_key.generated is None, "the key of before is the key"
    core = core_of(settings)
    await core.start()
    app = create_app(core, settings, tokens=tokens, api_key=api_key)
    token = signed("visitor-token", sub="ada", aud="visitor", agent=agent)
    async with caller(app, KEY) as operator, caller(app, token) as ada:
        await works(operator, agent)
        assert [each["id"] for each in (await ada.get("/v1/sessions")).json()["items"]] == [session]
        posted = await ada.post(f"/v1/sessions/{session}/messages", json={"text": "Hi"})
        assert posted.status_code == 202
        await core.settled(posted.json()["run_id"], timeout=PATIENCE)
        assert (await operator.post("/v1/web/revocations", json={"actor": "ada"})).status_code == 201
        assert (await ada.get("/v1/sessions")).status_code == 401, "a token that does not say when it was made is older"
    command_token = signed("operator-token", sub="operator", aud="operator", scope="approvals:as")
    async with caller(app, command_token) as command_line:
        await works(command_line, agent)
    slack = signed("visitor-token", sub="slack:T1:U1", aud="visitor", agent=agent)
    async with caller(app, slack) as pretender:
        assert (await pretender.get("/v1/sessions")).status_code == 401
    await core.stop(grace=0)


async def works(operator: httpx.AsyncClient, agent: str) -> None:
    """Fail unless a caller may read, run and administer."""
    assert (await operator.get("/v1/agents/old")).json()["id"] == agent
    assert (await operator.post("/v1/sessions", json={"agent": "old"})).status_code == 201
    changed = await operator.patch("/v1/agents/old", json={"instructions": "Be brief."})
    assert changed.status_code == 200
    assert (await operator.get("/v1/keys")).status_code == 200
