"""Build everything: the application from a core, and the core from the settings."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog
from fastapi import APIRouter, Depends, FastAPI

from agent_core.agents import AgentDefaults
from agent_core.channels import Channels
from agent_core.charts.draw import Drawer
from agent_core.clock import Clock, SystemClock
from agent_core.core import Core
from agent_core.engine.local import LocalEngine
from agent_core.engine.pool import MAX_RUNS, Engine, Runs
from agent_core.errors import Unavailable
from agent_core.hooks.rules import HookResolvers
from agent_core.mcp.connections import McpConnected
from agent_core.net.fetch import Fetch
from agent_core.runtime.tools import ToolPorts
from agent_core.secrets import Secrets
from agent_core.store.database import Database, SqliteDatabase
from agent_core.store.hub import Bus
from agent_core.store.queue import Kind
from agent_core.tools.base import Tool
from agent_core.tools.toolset import Toolset
from agent_core.uploads.reader import ClamdCheck
from app.api import problems, schemas
from app.api.body import Callers
from app.api.deps import Services, operator
from app.api.guard import RequestGuard, admitted
from app.api.problems import answers
from app.api.routes import agents, console, health, keys, mcp, renders, runs, sessions
from app.api.routes.keys import Recording
from app.api.routes.mcp import client_document, client_router
from app.api.wire import TokenAnswer
from app.channels import CHANNELS
from app.checks import warn
from app.files import Files, read_once, toolset_with
from app.middleware import SafeHeaders, protect
from app.models import Models, notice
from app.serving.connections import Connections
from app.serving.credentials import Credentials
from app.serving.metrics import Metrics, Requests
from app.serving.readers import Look, Readers, Ready, Starting, look_at
from app.settings import Settings, place_of
from app.storage import ApiKey, check_migrated, check_secret, load_keys
from channels.spec import ChannelSpec
from channels.web.demo import Door
from channels.web.frame_page import frame_router
from channels.web.identity import OPERATOR, SCOPES, Principal, TokenSigner
from channels.web.routes import Answers, Demo, demo_router, script_router, token_router

VERSION = "0.1.0"
GRACE = 2.0
"""Seconds for what is driven to end where no other process would take it over: it resumes at the next start."""
SHARED_MAX_RUNS = 100
"""Runs of a process where others can take what is beyond: with more of them the slowest deltas are late."""
_log = structlog.get_logger("parley.start")


# In the order of their use: the first match answers.
ROUTES = (
    runs.router,
    sessions.router,
    runs.approvals_router,
    renders.router,
    sessions.uploads_router,
    health.costs_router,
    agents.router,
    agents.tools_router,
    mcp.router,
    agents.secrets_router,
    keys.router,
    keys.operations_router,
    sessions.actors_router,
    keys.web_router,
    keys.web_keys_router,
    sessions.conversations_router,
    health.router,
)
# Without FastAPI's pages and traces (`/metrics` counts); every route refuses query parameters that it does not know.
BARE: Mapping[str, Any] = {
    "docs_url": None,
    "redoc_url": None,
    "telemetry": {"tracing": False, "metrics": False, "logs": False},
    "dependencies": [Depends(admitted)],
}


@dataclass(frozen=True, slots=True)
class Parts:
    """What a core needs of the database: the store, the engine, and the bus to other processes, if there are any."""

    database: Database
    engine: Callable[[Runs, Clock], Engine]
    bus: Bus | None = None


def parts_of(settings: Settings, kind: Kind) -> Parts:
    """Build the parts that the database asks for; Postgres's are imported only for it."""
    url = settings.postgres
    if url is None:
        return Parts(SqliteDatabase(settings.database), partial(LocalEngine, max_runs=settings.max_runs or MAX_RUNS))
    from agent_core.engine.dbos import DbosEngine  # noqa: PLC0415
    from agent_core.store.postgres import PostgresDatabase  # noqa: PLC0415
    from agent_core.store.postgres_bus import PostgresBus  # noqa: PLC0415

    database = PostgresDatabase(url, pool=settings.pool)
    most = settings.max_runs or SHARED_MAX_RUNS
    engine = partial(DbosEngine, database=database, url=url, kind=kind, max_runs=most)
    return Parts(database, engine, PostgresBus(url, database))


@asynccontextmanager
async def running_core(
    settings: Settings, models: Models, *, kind: Kind = "both", tools: Sequence[Tool] | None = None
) -> AsyncIterator[Core]:
    """Give the core that *settings* describe, at work, with the agents of the files; stop it at the end.

    On Postgres a core of the *kind* `web` drives nothing.
    """
    async with running(settings, models, kind=kind, tools=tools, grace=GRACE) as composed:
        yield composed.core


@dataclass(frozen=True, slots=True)
class Running:
    """A core at work on its *database*; *look* checks that a shared database can be used, None is a ping.

    *files* are where its agents and own tools come from.
    """

    core: Core
    database: Database
    look: Look | None
    files: Files


@asynccontextmanager
async def running(
    settings: Settings,
    models: Models,
    *,
    kind: Kind,
    tools: Sequence[Tool] | None,
    grace: float,
    live: Files | None = None,
) -> AsyncIterator[Running]:
    """Do as `running_core`; at the end what is driven gets *grace* seconds.

    *tools* are all that agents may use; when None, those that ship and the own ones. Agents and own tools are read
    here, and a broken file ends the start, unless they are *live*.
    """
    files = live or await read_once(settings, tools, Channels(CHANNELS))
    own, looked_for = files.own, files.own.looked_for
    check_migrated(settings)
    check_secret(settings)
    parts, workers = parts_of(settings, kind), list[str]()
    fetch, drawer = Fetch(settings.fetch_allow), Drawer()

    def engine(runs: Runs, clock: Clock) -> Engine:
        made = parts.engine(runs, clock)
        workers.append(made.worker)
        return made

    core = _core(settings, models, parts, engine, fetch, toolset_with(own, tools, drawer), files, drawer)
    if settings.clamd is not None:
        core.files.check_by(ClamdCheck(settings.clamd))
    structlog.contextvars.bind_contextvars(worker=workers[0])
    try:
        await core.start()
        await files.load(core)
        await warn(core, settings, looked_for)
        look = None if settings.postgres is None else look_at(parts.database, workers[0])
        yield Running(core, parts.database, look, files)
    finally:
        await _stop(core, grace)
        await drawer.close()
        await fetch.close()


def _core(
    settings: Settings,
    models: Models,
    parts: Parts,
    engine: Callable[[Runs, Clock], Engine],
    fetch: Fetch,
    toolset: Toolset,
    files: Files,
    drawer: Drawer,
) -> Core:
    secrets, document = Secrets(load_keys(settings).derive("secrets")), client_document(settings.public_url)
    return Core(
        parts.database,
        providers=models.providers,
        tools=toolset,
        tools_looked_for=files.own.looked_for,
        default_model=models.default,
        engine=engine,
        bus=parts.bus,
        resolvers=HookResolvers(SystemClock(), fetch, secrets, fetch.guard),
        secrets=secrets,
        channels=CHANNELS,
        max_backlog=settings.max_backlog,
        drawer=drawer,
        defaults=AgentDefaults(
            include_render=settings.include_render,
            prompt_caching=settings.prompt_caching,
            idle_refreeze_s=settings.idle_refreeze,
            tool_limit=settings.tool_limit,
            clock=settings.clock,
        ),
        provider_needs=settings.needs,
        tool_ports=ToolPorts(lambda: files.places, fetch, McpConnected(fetch), settings.mcp_stdio, document),
    )


@asynccontextmanager
async def serving_channels(
    core: Core,
    database: Database,
    settings: Settings,
    *,
    socket: bool,
    channels: Sequence[ChannelSpec[Settings]] = CHANNELS,
) -> AsyncIterator[list[APIRouter]]:
    """Serve *channels* while the block lasts, and give their routes; with *socket* they open connections too."""
    async with AsyncExitStack() as stack:
        served = [
            await stack.enter_async_context(channel.serve(core, database, settings, socket=socket))
            for channel in channels
            if channel.serve is not None
        ]
        yield [routes for routes in served if routes is not None]


async def _stop(core: Core, grace: float) -> None:
    try:
        await core.stop(grace)
    except Unavailable:  # nothing is lost by it: the other processes see that its heartbeats have ended
        _log.warning("core.stopped", database="away")


def create_app(
    core: Core,
    settings: Settings,
    *,
    tokens: TokenSigner,
    api_key: ApiKey,
    readers: Readers | None = None,
    connections: Connections | None = None,
    look: Look | None = None,
    broken: Callable[[], Sequence[str]] | None = None,
    channels: Sequence[APIRouter] = (),
    credentials: Credentials | None = None,
) -> FastAPI:
    """Return the whole HTTP application around *core*, which the caller starts and stops.

    *broken* returns what could not be loaded, for the demo page; *look* reports what is wrong with the database;
    *channels* are routes that `serving_channels` gave; *readers* and *connections* are the server's; the caller follows
    *credentials*.
    """
    readers, url = Readers() if readers is None else readers, settings.public_url
    credentials = credentials or Credentials(core.access, tokens, api_key, readers=readers, public_url=url)
    app = FastAPI(title="Parley", version=VERSION, redirect_slashes=False, **BARE)
    https = (url or "").startswith("https://")
    app.state.services = Services(core, tokens, readers, credentials, https, settings.is_named)
    app.state.ready = Ready(core, readers, look)
    for routes in ROUTES:
        app.include_router(routes)
    described = Answers(
        token=answers(TokenAnswer, 400, 401, 403, 404, 413, 422, status=201),
        demo=answers(TokenAnswer, 401, 403, 404, 422, 429),
    )
    app.include_router(token_router(core, tokens, operator=operator, described=described))
    for routes in (
        *channels,
        script_router(),
        frame_router(settings.frame_ancestors),
        console.router,
        client_router(url),
    ):
        app.include_router(routes)
    if settings.demo:
        app.include_router(
            demo_router(core, tokens, _demo(settings, broken), holds=credentials.holds, described=described)
        )
    problems.install(app)
    schemas.install(app)
    protect(app, core, settings, credentials, partial(Recording, access=core.access, pseudonym=tokens.pseudonym))
    counted = Requests()
    health.install(app, Metrics(core, counted, lambda: readers.count, connections), counted)
    app.add_middleware(SafeHeaders, https=https)
    return app


def _demo(settings: Settings, broken: Callable[[], Sequence[str]] | None) -> Demo:
    password = settings.demo_password.get_secret_value() if settings.demo_password else None
    return Demo(partial(notice, settings), Door(password, place_of=place_of), broken, settings.demo_tool_context)


def create_watch(ready: Ready | Starting) -> FastAPI:
    """Return the health and metrics routes of a process that serves nothing else.

    Its `state` has *ready*, which may change, and later `metrics`, and the `api_key` and `credentials` that open them.
    """
    app = FastAPI(title="Parley worker", version=VERSION, openapi_url=None, **BARE)
    app.state.ready, app.state.api_key, app.state.credentials = ready, None, None
    app.include_router(health.router)
    app.include_router(health.metrics_router)
    problems.install(app)
    app.add_middleware(RequestGuard, routes=app.routes)
    app.add_middleware(Callers, identify=partial(_watcher, app))
    return app


def _watcher(app: FastAPI, text: str) -> Principal | None:
    """Return whom *text* names to a process that only shows how it is: the bootstrap key has every scope."""
    api_key: ApiKey | None = app.state.api_key
    credentials: Credentials | None = app.state.credentials
    if api_key is not None and api_key.fits(text):
        return Principal("operator", OPERATOR, scopes=SCOPES)
    return None if credentials is None else credentials.identify(text)
