"""Fixtures: the local model server with a script, and each provider in turn in front of it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from agent_core.agents import PLAIN_DEFAULTS, AgentDefaults, DeclaredTool, Definition
from agent_core.clock import Clock
from agent_core.core import Core
from agent_core.messages import Message
from agent_core.providers.base import ModelDelta, Provider
from agent_core.store.database import Database, SqliteDatabase
from agent_core.testing.models import FakeModels
from agent_core.tools.base import Tool
from tests.agent_core.providers.contract.received import Received, received
from tests.agent_core.providers.contract.wires import INSTRUCTIONS, KEY, WIRES, ConnectedProvider, Wire, collect
from tests.agent_core.stage import ANN, Stage


@pytest.fixture(params=WIRES, ids=lambda wire: wire.name)
def wire(request: pytest.FixtureRequest) -> Wire:
    """Each wire in turn."""
    return request.param


@dataclass
class Line:
    """A provider and the server that it talks to."""

    wire: Wire
    models: FakeModels
    provider: ConnectedProvider

    async def deltas(self, *messages: Message, **options: Any) -> list[ModelDelta]:
        """Ask once and return all deltas."""
        return await collect(self.provider.stream(self.wire.request(self.provider, *messages, **options)))

    async def receive(self, *messages: Message, **options: Any) -> Received:
        """Ask once and return the received answer."""
        return received(await self.deltas(*messages, **options))


@dataclass
class Lines:
    """Opens lines; all are closed at the end of the test."""

    stack: AsyncExitStack

    async def __call__(self, wire: Wire, script: Any, *, key: str = KEY, idle: float = 20.0, **options: Any) -> Line:
        models = await self.stack.enter_async_context(FakeModels(script, **options))
        provider = wire.provider(models.url, key=key, idle=idle)
        self.stack.push_async_callback(provider.close)
        return Line(wire, models, provider)


Dial = Callable[..., Awaitable[Line]]


@pytest.fixture
async def dial() -> AsyncIterator[Dial]:
    """Start a server with a script and return a line to it over one wire."""
    async with AsyncExitStack() as stack:
        yield Lines(stack)


@pytest.fixture
async def ask(dial: Dial, wire: Wire) -> Callable[..., Awaitable[Received]]:
    """Ask a model that has one answer."""

    async def receive(answer: Sequence[Any], **options: Any) -> Received:
        return await (await dial(wire, [answer], **options)).receive()

    return receive


@dataclass
class WireStage(Stage):
    """A session whose agent is answered by the server at the other end of a line."""

    line: Line

    @property
    def requests(self) -> list[list[bytes]]:
        """Return the messages of every request so far, as they were sent."""
        return [self.line.wire.sent(asked) for asked in self.line.models.asked]


SetScene = Callable[..., Awaitable[WireStage]]


@pytest.fixture
async def scene(dial: Dial, database_path: Path) -> AsyncIterator[SetScene]:
    """Start a core whose model is at the other end of a wire, and open a session, or go on with *session*."""
    cores: list[Core] = []

    async def make(
        wire: Wire,
        script: Any = None,
        *,
        line: Line | None = None,
        tools: Sequence[Tool] = (),
        clock: Clock | None = None,
        database: Database | None = None,
        session: str | None = None,
        wrap: Callable[[ConnectedProvider], Provider] | None = None,
        stand_in: Line | None = None,
        server: dict[str, Any] | None = None,
        declared: Sequence[DeclaredTool] = (),
        defaults: AgentDefaults = PLAIN_DEFAULTS,
        **definition: Any,
    ) -> WireStage:
        line = line or await dial(wire, script, **(server or {}))
        provider = wrap(line.provider) if wrap else line.provider
        providers = {stand_in.wire.name: stand_in.provider} if stand_in else {}
        core = Core(
            database or SqliteDatabase(database_path),
            providers={**providers, wire.name: provider},
            tools={tool.spec.name: tool for tool in tools},
            default_model=wire.full,
            clock=clock,
            defaults=defaults,
        )
        cores.append(core)
        await core.start()
        core._segments.pressure.stop()  # that the machine is busy with tests is no subject of theirs
        if session is None:
            names = (*(tool.spec.name for tool in tools), *declared)
            wanted = {"name": "assistant", "instructions": INSTRUCTIONS, "tools": names, **definition}
            await core.agents.create(Definition(**wanted))
            session = (await core.open_session(agent="assistant", actor=ANN)).id
        return WireStage(core, cast("Any", provider), session, line)

    yield make
    for core in cores:
        await core.stop(grace=1.0)
