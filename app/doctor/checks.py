"""`parley doctor`: checks what a deployment depends on, and prints a line with the remedy for each finding."""

import json
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import httpx

from agent_core import ConfigError, Definition, InvalidInput
from agent_core.context.clock import OFF
from agent_core.hooks.check import check_addresses, fails_open
from agent_core.net.targets import TargetGuard
from agent_core.providers.models import find
from app.agents import SUFFIXES, read_agent
from app.channels import CHANNELS
from app.doctor.charts import charts
from app.doctor.edges import edges
from app.doctor.findings import QUEUED, Finding, backlog, migrations
from app.doctor.mcp import mcp_servers
from app.doctor.slack import slack
from app.doctor.start import refusals
from app.doctor.tools import own_tools, tool_files
from app.models import ANTHROPIC_URL, OPENAI_URL, UNLISTED, is_unlisted, models_of
from app.own_tools.toolset import OwnTools
from app.printer import say
from app.settings import SERVER_FILE, Settings, check, load_settings, with_providers
from app.storage.agents import stored_agents
from app.storage.lock import is_owned
from app.storage.migrate import revision
from app.strangers import REMEDY, costs_without_end

GIGABYTE = 1_000_000_000
MIN_FREE, LITTLE_FREE = GIGABYTE // 10, GIGABYTE
TIMEOUT = 10.0
"""Seconds for a provider to answer."""
_REFUSED = (401, 403)


def doctor(*, offline: bool, env_file: Path | None = Path(".env")) -> bool:
    """Print the findings, line by line; return whether none is a failure."""
    well = True
    for finding in examine(offline=offline, env_file=env_file):
        well = well and finding.level != "fail"
        say(str(finding))
    return well


def examine(*, offline: bool, env_file: Path | None) -> Iterator[Finding]:
    """Yield the findings one by one; without settings or a database there are fewer."""
    try:
        settings = load_settings(env_file, serving=False)
    except ConfigError as error:
        yield Finding("fail", "settings", str(error))
        return
    try:
        settings = with_providers(settings, env_file)
    except ConfigError as error:
        yield Finding("fail", "providers", str(error))
    own, texts = OwnTools.of(settings), set[str]()
    own.load()
    basics = chain([_settings(settings)], _zone(settings), edges(settings), _database(settings))
    tools = chain(own_tools(own), tool_files(settings, own), mcp_servers(settings))
    for finding in chain(basics, tools, _models(settings), stored_hooks(settings)):
        texts.add(finding.text)
        yield finding
    # A start stops at its first fault, which may have been reported above, beside others of its kind.
    yield from (finding for finding in refusals(settings, own, CHANNELS) if finding.text not in texts)
    yield from _providers(settings, offline=offline)
    yield from slack(settings, offline=offline)
    yield from charts(settings, offline=offline)


def _settings(settings: Settings) -> Finding:
    try:
        check(settings)
    except ConfigError as error:
        return Finding("fail", "settings", str(error))
    where = "Postgres" if settings.postgres else "SQLite"
    return Finding("ok", "settings", f"{where}, agents in `{settings.agents}`, model {settings.default_model}")


def _zone(settings: Settings) -> Iterator[Finding]:
    """Report the time zone in which models learn the time, where it is not the default."""
    if settings.clock != Settings.model_fields["clock"].default:
        sentence = "models learn no time" if settings.clock == OFF else f"models learn the time of {settings.clock}"
        yield Finding("ok", "zone", f"{sentence}, where neither agent nor person has a zone of their own")


def _models(settings: Settings) -> Iterator[Finding]:
    """Report the models that PARLEY_MODEL and the files of PARLEY_AGENTS name and this version does not know."""
    named = {settings.default_model}
    files = sorted(settings.agents.iterdir()) if settings.agents.is_dir() else []
    for path in (path for path in files if path.suffix in SUFFIXES):
        try:
            definition = read_agent(path)
            named.update(models_of(definition))
            yield from _unavailable(path, definition, settings)
            yield from _router(path.name, definition, settings)
            yield from _hooks(path.name, definition)
            yield from _budget(path.name, definition)
        except ConfigError as error:
            yield Finding("fail", "agents", str(error))
    for model in sorted(each for each in named if is_unlisted(settings.listed_as(each))):
        yield Finding("warn", "models", f"`{model}` is not among the models that this version knows", UNLISTED)


def _unavailable(path: Path, definition: Definition, settings: Settings) -> Iterator[Finding]:
    """Report an agent's file of whose models none can be asked here."""
    model = definition.controls.model or definition.model or settings.default_model
    provider, colon, _ = model.partition(":")
    served = {each.partition(":")[0] for each in (model, *definition.fallback_models)} & {*settings.providers}
    if not served and colon:  # without one it is no model, and a start refuses it
        needs = settings.needs.get(provider)
        text = f"{path.name}: `{definition.name}` is unavailable: its model `{model}` needs "
        text += needs or f"the provider `{provider}`, which is not known here"
        yield Finding("warn", "agents", text, f"{'set' if needs else 'define'} it, or give the agent another model")


def stored_hooks(settings: Settings) -> Iterator[Finding]:
    """Report the webhooks, routers and budgets of agents that were made over HTTP, as those of files are."""
    guard = TargetGuard.of(settings.fetch_allow)
    for agent in stored_agents(settings):
        where = f"`{agent.definition.name}`"
        try:
            check_addresses(agent.definition.hooks, guard)
        except InvalidInput as error:
            yield Finding("fail", "hooks", f"{where}: {error}")
        yield from _hooks(where, agent.definition)
        yield from _budget(where, agent.definition)
        yield from _router(where, agent.definition, settings)


def _router(where: str, definition: Definition, settings: Settings) -> Iterator[Finding]:
    """Report an agent with `router: native` whose model is not known to load tools."""
    model = definition.controls.model or definition.model or settings.default_model
    if definition.router == "native" and not find(settings.listed_as(model)).tool_search:
        text = f"{where}: `{model}` is not known to load tools that were searched for, so `router: native` is `meta`"
        yield Finding("warn", "agents", text, "name a model that does, or say `router: meta`")


def _hooks(where: str, definition: Definition) -> Iterator[Finding]:
    """Report the webhooks of an agent that fail open unsaid."""
    if places := fails_open(definition.hooks):
        named = ", ".join(definition.hooks[place].name or f"hook {place + 1}" for place in places)
        text = f"{where}: {named} allows what it cannot be asked about"
        yield Finding("warn", "hooks", text, "say `on_error: deny`, or `on_error: allow`, in its config")


def _budget(where: str, definition: Definition) -> Iterator[Finding]:
    """Report an agent that anonymous visitors may use at any cost."""
    if costs_without_end(definition):
        yield Finding("warn", "agents", f"{where}: anonymous visitors may use it at any cost", REMEDY)


def _database(settings: Settings) -> Iterator[Finding]:
    """Check the database and what depends on it."""
    try:
        if settings.postgres is not None:
            from app.doctor.postgres import postgres  # noqa: PLC0415 - the driver takes its time, SQLite needs none

            yield from postgres(settings, settings.postgres)
        else:
            yield from _sqlite(settings)
    except ConfigError as error:
        yield Finding("fail", "database", str(error))


def _sqlite(settings: Settings) -> Iterator[Finding]:
    path = settings.database
    if not path.exists():
        yield Finding("fail", "database", f"there is no file `{path}`", "run `parley migrate`")
        return
    began = time.perf_counter()
    yield migrations(revision(settings), exact=True)
    with _opened(path) as connection:
        mode, size = connection.execute("PRAGMA journal_mode").fetchone()[0], path.stat().st_size
        queued, oldest = connection.execute(QUEUED).fetchone() if revision(settings) else (0, None)
    milliseconds = (time.perf_counter() - began) * 1000
    text = f"SQLite {sqlite3.sqlite_version}, `{path}`, {size / 1e6:.1f} MB, {mode}, read in {milliseconds:.0f} ms"
    yield Finding("ok", "database", text)
    yield Finding("ok", "clock", "this machine's, for the database too")
    yield _owner(settings, queued)
    yield backlog(queued, settings.max_backlog, oldest, time.time())
    yield _disk(path)


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Give a connection that only reads, beside a server that owns the file."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=5)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise ConfigError(f"`{path}` cannot be read ({error}); restore it from a backup if it is damaged.") from None


def _owner(settings: Settings, queued: int) -> Finding:
    if not is_owned(settings):
        remedy = "start `parley serve`: messages wait" if queued else ""
        return Finding("warn" if queued else "ok", "engine", f"no server runs on `{settings.data}`", remedy)
    try:
        note = json.loads((settings.data / SERVER_FILE).read_text(encoding="utf-8"))
        owner = f"process {note['pid']} at {note['url']}"
    except (OSError, ValueError, KeyError):
        owner = "a process that does not serve yet"
    return Finding("ok", "engine", f"`{settings.data}` belongs to {owner}")


def _disk(path: Path) -> Finding:
    free = shutil.disk_usage(path.parent).free
    text = f"{free / GIGABYTE:.1f} GB free beside `{path}`"
    if free < LITTLE_FREE:
        return Finding("fail" if free < MIN_FREE else "warn", "disk", text, "free some, or move PARLEY_DATA")
    return Finding("ok", "disk", text)


@dataclass(frozen=True, slots=True)
class _Request:
    """What asks a provider for its models, the smallest thing that a key is needed for."""

    url: str
    headers: dict[str, str]
    key: str


def _providers(settings: Settings, *, offline: bool) -> Iterator[Finding]:
    wanted = dict(_requests(settings))
    if not wanted:
        text = "no key is set: `demo` answers, which is a script"
        yield Finding("warn", "providers", text, "set ANTHROPIC_API_KEY or OPENAI_API_KEY")
    for name, endpoint in settings.named.items():
        if endpoint.lacks:
            yield Finding("warn", name, f"it cannot be asked without {endpoint.lacks}", "set it, or take the entry out")
    for name, request in wanted.items():
        if offline:
            yield Finding("ok", name, f"{request.key} is set; not asked")
        else:
            yield _provider(name, request)


def _requests(settings: Settings) -> Iterator[tuple[str, _Request]]:
    """Give what to ask of each provider that is set up, and each server of the environment's once."""
    for name, endpoint in settings.endpoints.items():
        if name == "openai-compatible" and "openai" in settings.endpoints and name not in settings.named:
            continue
        key = endpoint.key.get_secret_value() if endpoint.key else None
        headers = {each: value.get_secret_value() for each, value in endpoint.headers.items()}
        query = {each: value.get_secret_value() for each, value in endpoint.query.items()}
        if endpoint.kind == "anthropic":
            auth = {"anthropic-version": "2023-06-01", **({"x-api-key": key} if key else {})}
            url, query = f"{endpoint.base_url or ANTHROPIC_URL}/v1/models", {"limit": "1", **query}
        else:
            auth = {"Authorization": f"Bearer {key}"} if key else {}
            url = f"{endpoint.base_url or OPENAI_URL}/models"
        shown = "openai" if name == "openai-compatible" and name not in settings.named else name
        yield shown, _Request(str(httpx.URL(url, params=query) if query else url), {**auth, **headers}, endpoint.needs)


def _provider(name: str, request: _Request) -> Finding:
    host, began = httpx.URL(request.url).host, time.perf_counter()
    try:
        status = httpx.get(request.url, headers=request.headers, timeout=TIMEOUT).status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        remedy = "check the network, the proxy and the address"
        return Finding("fail", name, f"{host} cannot be reached ({type(error).__name__})", remedy)
    text = f"{host} answered {status} in {(time.perf_counter() - began) * 1000:.0f} ms"
    if status in _REFUSED:
        return Finding("fail", name, text, f"it does not take {request.key}: set a valid one")
    if status >= httpx.codes.BAD_REQUEST:
        return Finding("warn", name, text, "it is reached, but does not list its models")
    return Finding("ok", name, text)
