"""Build everything: the application from a core, and the core from the settings."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import structlog
from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from agent_core import ConfigError, Core, InvalidInput, SqliteDatabase, SystemClock
from agent_core.providers.demo import DemoProvider
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
from app.settings import DEMO, Settings
from channels.web.identity import OPERATOR, Principal, Tokens
from channels.web.routes import Answers, Demo, demo_router, script_router, token_router

VERSION = "0.1.0"
_log = structlog.get_logger("parley.start")
DEMO_NOTICE = "This is a demonstration: no model answers here, a script does."


@asynccontextmanager
async def running_core(settings: Settings) -> AsyncIterator[Core]:
    """Give the core that *settings* describe, at work, with the agents of the files; stop it at the end."""
    tools = {tool.spec.name: tool for tool in BUILTIN}
    definitions = load_agents(settings.agents, tools=tools)
    check_migrated(settings)
    clock = SystemClock()
    core = Core(
        SqliteDatabase(settings.database),
        providers={DEMO: DemoProvider(clock, settings.demo_rate)},
        tools=tools,
        default_model=settings.default_model,
        clock=clock,
    )
    await core.start()
    try:
        await core.agents.sync_files(definitions)
    except InvalidInput as error:
        await core.stop()
        raise ConfigError(f"PARLEY_AGENTS: {error}") from None
    for agent, tool in await core.agents.lacking():
        _log.warning("agent.tool_missing", agent=agent, tool=tool, remedy="bring it back or take it out of `tools`")
    try:
        yield core
    finally:
        await core.stop()


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
    for routes in (agents, sessions, runs, health):
        app.include_router(routes.router)
    described = Answers(
        token=answers(TokenAnswer, 400, 401, 403, 404, 413, 422, status=201),
        demo=answers(TokenAnswer, 403, 404, 422),
    )
    app.include_router(token_router(core, tokens, operator=operator, described=described))
    app.include_router(script_router())
    if settings.demo:
        app.include_router(demo_router(core, tokens, Demo(demo_agent, notice(settings)), described=described))
    problems.install(app)
    openapi.install(app)
    _protect(app, settings, identify=lambda text: _principal(text, tokens, api_key))
    return app


def notice(settings: Settings) -> str:
    """Return what the demo page says of the model behind it."""
    if settings.default_model != DEMO:
        return f"Answers come from {settings.default_model}."
    return f"{DEMO_NOTICE} {why_demo(settings)}"


def why_demo(settings: Settings) -> str:
    """Return why no real model answers, in a sentence."""
    if settings.unused_key is None:
        return "This version has no real models yet."
    return f"{settings.unused_key} is set, but this version has no real models yet: the demo answers."


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
