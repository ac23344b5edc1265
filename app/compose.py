"""Build everything: the application from a core, and the core from the settings."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime
from functools import partial

import structlog
from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from agent_core import AgentObject, ConfigError, Core, InvalidInput, SqliteDatabase, SystemClock
from agent_core.tools.builtin import BUILTIN
from app.agents import load_agents
from app.api import agents, health, openapi, problems, runs, sessions
from app.api.deps import Services, operator
from app.api.guard import Guard
from app.api.problems import answers
from app.api.readers import Readers
from app.api.wire import TokenAnswer
from app.keys import ApiKey
from app.migrate import check_migrated
from app.models import Models, models_of, notice, warn_of_end
from app.settings import Settings, check_model
from channels.web.identity import OPERATOR, Principal, Tokens
from channels.web.routes import Answers, Demo, demo_router, script_router, token_router

VERSION = "0.1.0"
_log = structlog.get_logger("parley.start")


@asynccontextmanager
async def running_core(settings: Settings, models: Models) -> AsyncIterator[Core]:
    """Give the core that *settings* describe, at work, with the agents of the files; stop it at the end."""
    tools = {tool.spec.name: tool for tool in BUILTIN}
    definitions = load_agents(settings.agents, tools=tools, check=partial(check_model, settings))
    check_migrated(settings)
    clock = SystemClock()
    core = Core(
        SqliteDatabase(settings.database),
        providers=models.providers,
        tools=tools,
        default_model=models.default,
        clock=clock,
    )
    await core.start()
    try:
        await core.agents.sync_files(definitions)
    except InvalidInput as error:
        await core.stop()
        raise ConfigError(f"PARLEY_AGENTS: {error}") from None
    try:
        await _warn(core, models, datetime.fromtimestamp(clock.now() / 1000, UTC).date())
        yield core
    finally:
        await core.stop()


async def _warn(core: Core, models: Models, today: date) -> None:
    """Log what the stored agents name and this process does not have, or will not have for long."""
    warn_of_end(models.default, today)
    for agent, tool in await core.agents.lacking():
        _log.warning("agent.tool_missing", agent=agent, tool=tool, remedy="bring it back or take it out of `tools`")
    async for agent in _agents(core):
        for model in models_of(agent.definition):
            warn_of_end(model, today, agent=agent.definition.name)
            if model.partition(":")[0] not in models.providers:
                remedy = "set its provider's key or name another model"
                _log.warning("agent.model_missing", agent=agent.definition.name, model=model, remedy=remedy)


async def _agents(core: Core) -> AsyncIterator[AgentObject]:
    cursor, more = None, True
    while more:
        page = await core.agents.list(limit=100, cursor=cursor)
        for agent in page.items:
            yield agent
        cursor, more = page.next_cursor, page.next_cursor is not None


def create_app(
    core: Core,
    settings: Settings,
    *,
    tokens: Tokens,
    api_key: ApiKey,
    readers: Readers | None = None,
    demo_agent: str = "assistant",
) -> FastAPI:
    """Return the whole HTTP application around *core*, which the caller starts and stops.

    *demo_agent* answers on the open demo page.
    """
    app = FastAPI(
        title="Parley",
        version=VERSION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.services = Services(core, tokens, Readers() if readers is None else readers)
    for routes in (runs, sessions, agents, health):  # as often as they are asked for: the first that fits answers
        app.include_router(routes.router)
    described = Answers(
        token=answers(TokenAnswer, 400, 401, 403, 404, 413, 422, status=201),
        demo=answers(TokenAnswer, 403, 404, 422),
    )
    app.include_router(token_router(core, tokens, operator=operator, described=described))
    app.include_router(script_router())
    if settings.demo:
        app.include_router(demo_router(core, tokens, Demo(demo_agent, partial(notice, settings)), described=described))
    problems.install(app)
    openapi.install(app)
    _protect(app, settings, identify=lambda text: _principal(text, tokens, api_key))
    return app


def _protect(app: FastAPI, settings: Settings, *, identify: Callable[[str], Principal | None]) -> None:
    """Put the gates before the routes; the last added is the first passed."""
    app.add_middleware(Guard, identify=identify)
    if settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.origins,
            allow_methods=("GET", "POST", "PATCH", "DELETE"),
            allow_headers=("Authorization", "Last-Event-ID", "Content-Type"),
            expose_headers=("Parley-Run", "Parley-Session"),
        )


def _principal(text: str, tokens: Tokens, api_key: ApiKey) -> Principal | None:
    if api_key.fits(text):
        return Principal("operator", OPERATOR)
    return tokens.read(text)
