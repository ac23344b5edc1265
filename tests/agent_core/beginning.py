"""A stage for as long as a `with` lasts: for properties, which want a new one for each example."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from agent_core.agents import Definition, Hook
from agent_core.core import Core
from agent_core.store.database import Database
from agent_core.testing import ScriptedProvider
from agent_core.tools.base import Tool
from app.compose import CHANNELS
from tests.agent_core.stage import ANN, Stage


@asynccontextmanager
async def begin(
    database: Database, provider: ScriptedProvider, tools: Sequence[Tool], hooks: Sequence[Hook]
) -> AsyncIterator[Stage]:
    """Start a core with one agent and open a session."""
    core = Core(
        database,
        providers={"scripted": provider},
        tools={each.spec.name: each for each in tools},
        default_model="scripted",
        channels=CHANNELS,
    )
    await core.start()
    try:
        names = tuple(each.spec.name for each in tools)
        await core.agents.create(Definition(name="a", instructions="", tools=names, hooks=tuple(hooks)))
        yield Stage(core, provider, (await core.open_session(agent="a", actor=ANN)).id)
    finally:
        await core.stop(grace=1.0)
