"""The application around a real core with a scripted model, and clients of it."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from agent_core.agents import Definition
from agent_core.channels import Inbound
from agent_core.core import Core
from agent_core.messages import Actor
from agent_core.testing import Answer, ScriptedProvider, call, pause, say, step_of
from agent_core.tools.builtin import calculate
from app.compose import create_app
from app.serving.credentials import Credentials
from app.serving.readers import Readers
from app.settings import Settings
from app.storage import ApiKey, Keys
from channels.web.identity import TokenSigner
from tests.app.processes import PlainShell, Serving, Shell, start

KEY = "the-operators-own-testing-key"
SECRET = b"a secret of no less than 32 characters"


class Model:
    """Use a tool, then repeat what was asked; after `hold` it waits for `release` before it says anything."""

    def __init__(self) -> None:
        self._gate = asyncio.Event()
        self._gate.set()
        self.provider = ScriptedProvider(self._answer)

    def hold(self) -> None:
        self._gate.clear()

    def release(self) -> None:
        self._gate.set()

    def _answer(self, request) -> Answer:
        asked = next(entry.message for entry in reversed(request.messages) if entry.message.role == "user")
        if step_of(request) == 0 and request.controls.tool_choice != "none":
            return [pause(self._gate), call("calculate", expression="1+1")]
        return [pause(self._gate), say("You said: ", " ".join(part.text for part in asked.parts))]


@pytest.fixture(autouse=True)
def no_settings(monkeypatch) -> None:
    """Remove the keys and settings of the machine from the environment."""
    unset(monkeypatch)


def unset(patch: pytest.MonkeyPatch) -> None:
    for field in Settings.model_fields.values():
        patch.delenv(str(field.validation_alias), raising=False)


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
async def core(make_core, model: Model) -> Core:
    """A core with two agents: `assistant`, and `filed` from a file."""
    core = await make_core(model.provider, tools=(calculate,))
    await core.agents.sync_files([Definition(name="filed", instructions="Be there.")])
    return core


@pytest.fixture
def taken(core: Core, monkeypatch) -> list[Inbound]:
    """What the core was given, by messages and by runs."""
    found: list[Inbound] = []

    def listen(name: str) -> None:
        original = getattr(core, name)

        async def noted(place, inbound, **more):
            found.append(inbound)
            return await original(place, inbound, **more)

        monkeypatch.setattr(core, name, noted)

    listen("receive")
    listen("run_agent")
    return found


@pytest.fixture
def tokens() -> TokenSigner:
    return TokenSigner(Keys(SECRET).derive)


@pytest.fixture
def readers() -> Readers:
    return Readers()


@pytest.fixture
def settings(tmp_path) -> Settings:
    return settings_in(tmp_path)


def settings_in(folder: Path) -> Settings:
    """Return settings that keep everything in *folder*."""
    return Settings(_env_file=None, data=folder, agents=folder, origins=("https://site.example",))  # type: ignore[call-arg]


class Current:
    """Forwards to what the test that runs has, in an application that outlives the test."""

    def __init__(self) -> None:
        self._of_the_test: Any = None

    def become(self, what: Any) -> None:
        self._of_the_test = what

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of_the_test, name)


class CurrentCore(Current):
    """Forwards to the core of the test that runs, and to its keys and revocations."""

    def __init__(self) -> None:
        super().__init__()
        self.access = Current()

    def become(self, what: Any) -> None:
        super().become(what)
        self.access.become(what.access)


class CurrentCredentials(Current):
    """Forwards to the credentials of the test that runs, also what the application bound when it was made."""

    def identify(self, text: str) -> Any:
        return self._of_the_test.identify(text)

    def holds(self, principal: Any) -> bool:
        return self._of_the_test.holds(principal)


class OneApp:
    """One application for all tests of a worker: FastAPI builds the routes of each again, which costs 40 ms."""

    def __init__(self, settings: Settings) -> None:
        self._core, self._readers, self._credentials = CurrentCore(), Current(), CurrentCredentials()
        self._tokens, self._key = TokenSigner(Keys(SECRET).derive), ApiKey(hashlib.sha256(KEY.encode()).digest())
        core, readers, credentials = self._core, self._readers, self._credentials
        self._app = create_app(
            core,  # type: ignore[arg-type]
            settings,
            tokens=self._tokens,
            api_key=self._key,
            readers=readers,  # type: ignore[arg-type]
            credentials=credentials,  # type: ignore[arg-type]
        )

    def around(self, core: Core, readers: Readers) -> FastAPI:
        """Return the application, around *core* until it is asked for again."""
        self._core.become(core)
        self._readers.become(readers)
        self._credentials.become(Credentials(core.access, self._tokens, self._key, readers=readers))
        return self._app


@pytest.fixture(scope="session")
def one_app(tmp_path_factory: pytest.TempPathFactory) -> OneApp:
    with pytest.MonkeyPatch.context() as patch:
        unset(patch)
        return OneApp(settings_in(tmp_path_factory.mktemp("app")))


@pytest.fixture
def app(one_app: OneApp, core: Core, readers: Readers) -> FastAPI:
    return one_app.around(core, readers)


@pytest.fixture
async def anyone(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """A caller without a key, on this machine."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
        yield client


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """An operator."""
    async with caller(app, KEY) as client:
        yield client


@pytest.fixture
async def visitor(app: FastAPI, core: Core, tokens: TokenSigner) -> AsyncIterator[httpx.AsyncClient]:
    """A visitor called Ada, who may talk to the assistant."""
    agent = await core.agents.get("assistant")
    async with caller(app, tokens.visitor(Actor(id="ada", kind="visitor"), agent=agent.id).text) as client:
        yield client


def caller(app: FastAPI, text: str) -> httpx.AsyncClient:
    """Return a client that sends *text* as its key or token."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    headers = {"Authorization": f"Bearer {text}"}
    return httpx.AsyncClient(transport=transport, base_url="http://parley.test", headers=headers)


@pytest.fixture
def shell(tmp_path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture
def plain_shell(tmp_path) -> PlainShell:
    return PlainShell(tmp_path)


@pytest.fixture
async def serving(shell: Shell, template: Path) -> AsyncIterator[Serving]:
    async with start(shell.migrated(template)) as serving:
        yield serving
