"""`parley doctor`: what it finds of the database, agents, tools and servers, of providers, Slack and charts."""

import asyncio
import os
import resource
import shutil
import sqlite3
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg
from msgspec.structs import replace
from sqlalchemy import Connection, text

from agent_core.agent.snapshot import OFF
from agent_core.agents import Definition, secrets_in
from agent_core.channels import Channels
from agent_core.charts.draw import Drawer, DrawingFailed
from agent_core.errors import ConfigError, InvalidInput
from agent_core.listings import changes_of, offered_of
from agent_core.net.targets import TargetGuard
from agent_core.objects import AgentObject
from agent_core.providers.base import find
from agent_core.runtime.agent_checks import Surroundings, check_agent
from agent_core.runtime.mcp import check_filed, names_in, status_of, why_none
from agent_core.servers import McpServer, login_object
from agent_core.store.queue import PROTOCOL, newer_runs
from agent_core.store.servers import StoredServer
from agent_core.tools.base import Tool
from agent_core.tools.builtin import BUILTIN
from app.channels import CHANNELS
from app.checks import Finding, Level, of_agent, of_model
from app.files import AgentFiles, FiledTool, read_agents, read_mcp_file, read_tools, usable
from app.logs import say
from app.models import ANTHROPIC_URL, OPENAI_URL
from app.own_tools import UNREAD_REMEDY, OfflineKinds, OwnTools, shipped_names
from app.serving.server import SPARE_FILES, listening
from app.settings import Settings, check, check_agents_model, load_settings, with_providers
from app.storage import (
    CONNECT_TIMEOUT,
    ENGINE_SCHEMA,
    FIRST,
    all_agents,
    check_keys,
    check_shared_secret,
    connected,
    newest,
    place_of,
    revision,
    revision_of,
    server_note,
    stored_secrets,
    stored_servers,
    stored_tools,
)
from channels.slack.settings import IN_SLACK, is_in_slack

GIGABYTE = 1_000_000_000
MIN_FREE, LITTLE_FREE = GIGABYTE // 10, GIGABYTE
QUEUED = """
SELECT count(*) AS queued, min(event.time) FILTER (WHERE NOT EXISTS (
    SELECT 1 FROM run AS active WHERE active.session = run.session AND active.parent IS NULL
    AND active.status IN ('running', 'waiting', 'requires_action')
)) AS oldest
FROM run JOIN event ON event.session = run.session AND event.seq = run.first_seq WHERE run.status = 'queued'
"""
"""How many runs are queued, and since when the oldest that a worker could drive is."""


def sqlite(settings: Settings) -> Iterator[Finding]:
    """Check the SQLite file, its owner and the disk; raises ConfigError when it cannot be read."""
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
    if (note := server_note(settings)) is None:
        remedy = "start `parley serve`: messages wait" if queued else ""
        return Finding("warn" if queued else "ok", "engine", f"no server runs on `{settings.data}`", remedy)
    owner = f"process {note['pid']} at {note['url']}" if note else "a process that does not serve yet"
    return Finding("ok", "engine", f"`{settings.data}` belongs to {owner}")


def _disk(path: Path) -> Finding:
    free = shutil.disk_usage(path.parent).free
    text = f"{free / GIGABYTE:.1f} GB free beside `{path}`"
    if free < LITTLE_FREE:
        return Finding("fail" if free < MIN_FREE else "warn", "disk", text, "free some, or move PARLEY_DATA")
    return Finding("ok", "disk", text)


def migrations(revision: str | None, *, exact: bool) -> Finding:
    """Check that the database is at the newest revision; without *exact* a later one is accepted."""
    wanted = newest()
    if revision == wanted:
        return Finding("ok", "migrations", f"revision {revision}, the newest")
    if revision is not None and revision > wanted:
        level: Level = "fail" if exact else "warn"
        return Finding(
            level, "migrations", f"revision {revision}, of a later Parley than this ({wanted})", "update this one"
        )
    return Finding("fail", "migrations", f"revision {revision or 'none'}, not {wanted}", "run `parley migrate`")


def backlog(queued: int, most: int, oldest: int | None, now: float) -> Finding:
    """Report how many runs are queued, and for how long the oldest that could be driven has waited."""
    waits = 0.0 if oldest is None else max(0.0, now - oldest / 1000)
    text = f"{queued} of at most {most} runs wait" + (f", the oldest for {waits:.0f} s" if oldest is not None else "")
    if queued >= most:
        return Finding("fail", "backlog", text, "messages are refused with 429: start more workers")
    if waits > 60:  # noqa: PLR2004 - a minute without an answer
        return Finding("warn", "backlog", text, "start more workers, or look for an agent whose cap is too low")
    return Finding("ok", "backlog", text)


EXPIRE_AFTER = 10.0
"""Seconds without a heartbeat after which a worker counts as expired."""
AHEAD, FAR_AHEAD = 1.0, 10.0
"""Seconds by which clocks may differ: beyond the first, answers may seem to precede their questions."""
SLOW = 0.05
NOTIFY_TIMEOUT = 3.0
CHANNEL = "parley_doctor"
_FULL, _ALMOST = 0.95, 0.8

_WORKERS = text("SELECT kind, extract(epoch FROM clock_timestamp()) - beat_at / 1000.0 AS age FROM worker")
_DRIVERS = text("""
SELECT count(*) FILTER (WHERE protocol > :known) AS newer, count(*) FILTER (WHERE protocol < :known) AS older
FROM worker WHERE kind <> 'web' AND extract(epoch FROM clock_timestamp()) - beat_at / 1000.0 < :expire_after
""")
_CONNECTIONS = text("""
SELECT (SELECT count(*) FROM pg_stat_activity WHERE datid IS NOT NULL) AS used,
       current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int AS most
""")
_ENGINE = text(
    "SELECT 1 FROM information_schema.tables WHERE table_schema = :schema AND table_name = 'workflow_status'"
)


def postgres(settings: Settings, url: str) -> Iterator[Finding]:
    """Check the Postgres at *url*; raises ConfigError when it cannot be used."""
    with connected(url) as connection:
        connection.execute(text(f"SET LOCAL statement_timeout = '{CONNECT_TIMEOUT}s'"))
        yield _server(connection, url)
        revision = revision_of(connection)
        yield migrations(revision, exact=False)
        yield _clock(connection)
        if revision is not None and revision >= FIRST:
            yield _engine(connection)
            yield from _workers(connection, settings)
            yield _versions(connection)
        yield _connections(connection)
    yield _notifications(url)


def _server(connection: Connection, url: str) -> Finding:
    version = connection.execute(text("SHOW server_version")).scalar_one()
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        connection.execute(text("SELECT 1"))
        seconds.append(time.perf_counter() - began)
    latency = statistics.median(seconds)
    line = f"Postgres {version} at {place_of(url)}, {latency * 1000:.1f} ms a round trip"
    if latency > SLOW:
        return Finding("warn", "database", line, "run Parley nearer to it: a message takes several round trips")
    return Finding("ok", "database", line)


def _clock(connection: Connection) -> Finding:
    before = time.time()
    theirs = float(connection.execute(text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())
    return clock((before + time.time()) / 2 - theirs)


def clock(ahead: float) -> Finding:
    """Report by how many seconds this machine's clock is *ahead* of the database's."""
    line = f"{abs(ahead):.2f} s {'ahead of' if ahead > 0 else 'behind'} the database's"
    if abs(ahead) > AHEAD:
        return Finding("fail" if abs(ahead) > FAR_AHEAD else "warn", "clock", line, "set both by NTP")
    return Finding("ok", "clock", line)


def _engine(connection: Connection) -> Finding:
    if connection.execute(_ENGINE, {"schema": ENGINE_SCHEMA}).first() is None:
        return Finding("fail", "engine", f"the schema `{ENGINE_SCHEMA}` is not there", "run `parley migrate`")
    return Finding("ok", "engine", f"the schema `{ENGINE_SCHEMA}` is there")


def _workers(connection: Connection, settings: Settings) -> Iterator[Finding]:
    ages = [(kind, float(age)) for kind, age in connection.execute(_WORKERS)]
    live = [(kind, age) for kind, age in ages if age < EXPIRE_AFTER]
    drive = sum(kind != "web" for kind, _ in live)
    row: Any = connection.execute(text(QUEUED)).one()
    oldest = f", the oldest heartbeat {max(age for _, age in live):.1f} s ago" if live else ""
    line = f"{drive} that drive runs, {len(live) - drive} that only serve{oldest}"
    if not drive:
        level, remedy = ("fail", "messages wait") if row.queued else ("warn", "no run is driven")
        yield Finding(level, "workers", line, f"{remedy}: start `parley serve` or `parley worker`")
    else:
        yield Finding("ok", "workers", line)
    if expired := len(ages) - len(live):
        remedy = "the others remove them within seconds" if drive else "a worker removes them when it starts"
        yield Finding("warn", "workers", f"{expired} rows of processes that ended without deregistering", remedy)
    yield backlog(row.queued, settings.max_backlog, row.oldest, time.time())


def _versions(connection: Connection) -> Finding:
    row: Any = connection.execute(_DRIVERS, {"known": PROTOCOL, "expire_after": EXPIRE_AFTER}).one()
    line = f"of those that drive runs {row.newer} know more than this version, {row.older} less"
    waiting = newer_runs(connection, int(EXPIRE_AFTER * 1000))
    if waiting and not row.newer:
        line = f"{waiting} runs wait for a newer version than any that drives runs"
        return Finding("warn", "versions", line, "start that version again, or cancel them")
    return Finding("ok", "versions", f"{line}; {waiting} runs wait for newer ones")


def _connections(connection: Connection) -> Finding:
    row: Any = connection.execute(_CONNECTIONS).one()
    line = f"{row.used} of {row.most} in use"
    remedy = "raise max_connections, or lower PARLEY_POOL"
    if row.used >= row.most * _ALMOST:
        return Finding("fail" if row.used >= row.most * _FULL else "warn", "connections", line, remedy)
    return Finding("ok", "connections", line)


def _notifications(url: str) -> Finding:
    """Send a notification from one connection to another: a pooler in transaction mode loses it."""
    remedy = "have DATABASE_URL name Postgres itself, or a pooler in session mode"
    try:
        with _connected(url) as receiver, _connected(url) as sender:
            receiver.execute(f"LISTEN {CHANNEL}")
            began = time.perf_counter()
            sender.execute("SELECT pg_notify(%s, 'hello')", (CHANNEL,))
            received = next(receiver.notifies(timeout=NOTIFY_TIMEOUT, stop_after=1), None)
            milliseconds = (time.perf_counter() - began) * 1000
    except psycopg.Error as error:
        return Finding("fail", "listen", f"LISTEN and NOTIFY do not work ({type(error).__name__})", remedy)
    if received is None:
        return Finding("fail", "listen", f"a notification did not arrive within {NOTIFY_TIMEOUT:.0f} s", remedy)
    return Finding("ok", "listen", f"a notification takes {milliseconds:.1f} ms")


def _connected(url: str) -> psycopg.Connection[Any]:
    return psycopg.connect(url, autocommit=True, connect_timeout=CONNECT_TIMEOUT)


_SHOWN = 5
"""Tools that are left out of a server which are named."""
_LATE_S = 3 * 3600
"""Seconds without a discovery after which no process seems to ask: they do each hour."""

_OVERDUE_S = 120
"""Seconds after which a server that is due was not asked: a process that does has it for 90."""


@dataclass(frozen=True, slots=True)
class Agents:
    """The agents of files and those of the database beside them, with what is *around* them."""

    files: AgentFiles
    stored: Sequence[AgentObject]
    around: Surroundings

    @property
    def usable(self) -> Mapping[str, Definition]:
        """Those that a server would have, by where they are."""
        stored = {f"`{each.definition.name}`": each.definition for each in self.stored if each.source == "api"}
        return {**{path.name: made for path, made in self.files.agents.items()}, **stored}


def agents_of(settings: Settings, own: OwnTools, filed: Sequence[McpServer]) -> Agents:
    """Return the agents that a server would have with the *own* tools and the servers *filed* in mcp.json."""

    def check_model(name: str, where: str) -> None:
        check_agents_model(settings, name, where)

    channels = Channels(CHANNELS)
    around, files = surroundings(settings, own, filed, channels), AgentFiles({}, {})
    if settings.agents.is_dir():  # else the settings have said so
        read = read_agents(settings.agents, channels=channels, check=check_model)
        files = usable(read, lambda made: check_agent(made, around))
    return Agents(files, all_agents(settings), around)


def agents(settings: Settings, found: Agents) -> Iterator[Finding]:
    """Report each agent's file that a start would refuse, and what may be wrong with the agents that it would have."""
    today = datetime.now(UTC).date()
    for fault in found.files.broken.values():
        yield Finding("fail", "agents", fault)
    # A start writes the files over the agents of their names, and refuses what then claims one place twice.
    filed = found.files.agents.values()
    names = {made.name for made in filed}
    stored = [each.definition for each in found.stored if each.definition.name not in names]
    for conflict in found.around.channels.conflicts([*stored, *filed]):
        remedy = "change one of them: an agent's file, or over HTTP (PATCH /v1/agents/{id}) while its file is away"
        yield Finding("fail", "agents", f"Agents: {conflict}", remedy)
    yield from of_model(settings.default_model, settings, today)
    for where, made in found.usable.items():
        model = made.controls.model or made.model or settings.default_model
        searches = bool(find(settings.listed_as(model)).tool_search)
        yield from of_agent(made, where, found.around, settings, searches=searches, today=today)


def server(settings: Settings) -> Iterator[Finding]:
    """Report what else would end a start: a folder, keys or a port that cannot be used."""
    checks: dict[str, Callable[[], None]] = {
        "data": lambda: _check_data(settings),
        "keys": lambda: check_keys(settings),
        "secret": lambda: _check_secret(settings),
        "port": lambda: _check_port(settings),
    }
    for about, look in checks.items():
        try:
            look()
        except ConfigError as error:
            yield Finding("fail", about, str(error))


def _check_secret(settings: Settings) -> None:
    if settings.postgres is not None and revision(settings) is not None:
        check_shared_secret(settings)


def _check_data(settings: Settings) -> None:
    """Raise ConfigError where PARLEY_DATA could not be made, or written to."""
    if settings.postgres is not None:
        return
    place = next(each for each in (settings.data.absolute(), *settings.data.absolute().parents) if each.exists())
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        raise ConfigError(f"PARLEY_DATA: `{settings.data}` cannot be written; name a folder that can.")


def _check_port(settings: Settings) -> None:
    """Raise ConfigError where nothing could listen, unless the server of this deployment does."""
    note = server_note(settings)
    # One that owns the folder has not said yet where it serves.
    if note is not None and (not note or note["url"].endswith(f":{settings.port}")):
        return
    with listening(settings.host, settings.port):
        pass


def own_tools(own: OwnTools) -> Iterator[Finding]:
    """Report the *own* tools, which were loaded as a server loads them."""
    for problem in own.problems:
        yield Finding("fail", "tools", str(problem))
    if not own.folder.is_dir():
        yield Finding("ok", "tools", f"there is no folder `{own.folder}`: no tools of your own (PARLEY_TOOLS)")
    for path in own.unread:
        yield Finding("warn", "tools", f"{path}: a folder, whose Python files are not loaded", UNREAD_REMEDY)
    by_place = defaultdict[str, list[str]](list)
    for name, place in own.places.items():
        by_place[place.rpartition(":")[0] or place].append(f"`{name}`")
    for place, names in by_place.items():
        yield Finding("ok", "tools", f"{place}: {', '.join(sorted(names))}")
    for stem, count in own.files.items():
        if count == 0 and not stem.startswith("_"):
            path = own.folder / f"{stem}.py"
            remedy = "decorate a function with `@tool`, or begin the name of a file of helpers with `_`"
            yield Finding("warn", "tools", f"{path}: holds no tool", remedy)


def tool_files(settings: Settings, own: OwnTools) -> Iterator[Finding]:
    """Report the YAML files of tools as a server with the *own* tools takes them, and the secrets that they lack."""
    files, secrets = read_tools(settings.tools), stored_secrets(settings)
    for problem in files.broken.values():
        yield Finding("fail", "tools", problem)
    kinds = OfflineKinds(TargetGuard.of(settings.fetch_allow).check)
    tools = {**{tool.spec.name: tool for tool in BUILTIN}, **own.loaded}
    for path, filed in files.tools.items():
        faults = [fault for each in filed if (fault := _fault(each, kinds, tools, own)) is not None]
        for fault in faults:
            yield Finding("fail", "tools", fault)
        for each in filed:
            wanted = secrets_in([each.definition.config, each.definition.preset])
            if missing := sorted(wanted - set(wanted if secrets is None else secrets)):
                text = f"{each.place}: `{each.definition.name}`: no secret {', '.join(missing)}"
                yield Finding("fail", "tools", text, "store it with `parley secrets set`")
        if not faults:
            names = ", ".join(f"`{each.definition.name}`" for each in filed)
            yield Finding("ok", "tools", f"{path}: {names}")


def _fault(filed: FiledTool, kinds: OfflineKinds, tools: Mapping[str, Tool], own: OwnTools) -> str | None:
    """Return why a server with *tools* would refuse what was *filed*; None when it would not."""
    name = filed.definition.name
    if name in {*tools, *shipped_names()}:
        place = own.places.get(name)
        where = f"is defined at {place}" if place else "ships with Parley"
        return filed.fault(InvalidInput("name", f"the tool `{name}` {where}; choose another name."))
    try:
        kinds.check(filed.definition, tools)
    except InvalidInput as error:
        return filed.fault(error)
    return None


def mcp_servers(settings: Settings, filed: Sequence[McpServer]) -> Iterator[Finding]:
    """Report the first of the servers *filed* in mcp.json that could not work, and all as their processes know them."""
    try:
        check_filed(filed, check_url=TargetGuard.of(settings.fetch_allow).check)
    except InvalidInput as error:
        yield Finding("fail", "mcp", f"PARLEY_MCP: {error}")
    stored, secrets = stored_servers(settings)
    names = {each.server.name for each in stored}
    for server in filed:
        if server.name not in names:
            yield Finding("ok", "mcp", f"`{server.name}` of {settings.mcp}: new, asked when a server starts")
    yield from described(stored, secrets, time.time())


def described(stored: Sequence[StoredServer], secrets: Collection[str], now: float) -> Iterator[Finding]:
    """Give how each of the servers is at *now*, in seconds since the epoch."""
    for each in stored:
        name, listing = each.server.name, None if each.kept is None else each.kept.listing
        changes = changes_of(each.server, listing, each.accepted)
        tools = len(offered_of(each.server, listing, each.accepted))
        summary = "never reached" if each.listed_at is None else f"{tools} tools, {_ago(now - each.listed_at / 1000)}"
        if missing := sorted(secrets_in(each.server) - set(secrets)):
            listed = ", ".join(missing)
            yield Finding("fail", "mcp", f"`{name}`: no secret {listed}", "store it with `parley secrets set`")
        if each.kept is not None and each.kept.left_out and each.server.enabled:
            left = "; ".join(f"{gone.tool}: {gone.why}" for gone in each.kept.left_out[:_SHOWN])
            more = f" and {len(each.kept.left_out) - _SHOWN} more" if len(each.kept.left_out) > _SHOWN else ""
            yield Finding("warn", "mcp", f"`{name}`: left out: {left}{more}", "correct them at the server")
        login = login_object(each.server, each.login_state, round(now * 1000)) if each.server.enabled else None
        if login is not None and login.remedy is not None:
            yield Finding("warn", "mcp", f"`{name}`: {login.why}", login.remedy)
            continue
        match status_of(each):
            case "disabled":
                yield Finding("ok", "mcp", f"`{name}`: disabled")
            case "failing":
                yield Finding("warn", "mcp", f"`{name}`: {summary}; {each.error}", _again(each.due_at / 1000 - now))
            case "changed":
                held = ", ".join(change.tool for change in changes if change.change != "removed")
                remedy = f"see `parley tools show {name}`, then `parley tools accept {name}`"
                yield Finding("warn", "mcp", f"`{name}`: {summary}; held back: {held}", remedy)
            case "new":
                yield Finding("warn", "mcp", f"`{name}`: never asked", "start `parley serve`")
            case "ok" if each.listed_at is not None and now - each.listed_at / 1000 > _LATE_S:
                yield Finding("warn", "mcp", f"`{name}`: {summary}", "no process asks it; start `parley serve`")
            case "ok":
                yield Finding("ok", "mcp", f"`{name}`: {summary}")


def _ago(seconds: float) -> str:
    return f"asked {max(0, round(seconds / 60))} min ago"


def _again(seconds: float) -> str:
    """Return when a server is asked again that is due in *seconds*, which are negative once it should have been."""
    if seconds < -_OVERDUE_S:
        return f"overdue for {round(-seconds / 60)} min, no process asks it; start `parley serve`"
    return f"asked again in {max(1, round(seconds / 60))} min"


@dataclass(frozen=True, slots=True)
class DeployedServers:
    """The MCP servers that a start would know, by *names*; the *unreached* give no tools, each with the reason."""

    names: Collection[str]
    unreached: Mapping[str, str]

    async def known(self, _names: Collection[str], /) -> Collection[str]:
        return self.names


def surroundings(settings: Settings, own: OwnTools, filed: Sequence[McpServer], channels: Channels) -> Surroundings:
    """Return what a server with these *settings* has; *filed* are the servers of mcp.json, *own* the own tools."""
    stored = _stored(settings, filed)
    reached = {each.server.name: each for each in stored if why_none(each) is None}
    unreached = {each.name: "It was never asked." for each in filed} | {
        each.server.name: why for each in stored if (why := why_none(each)) is not None
    }
    for name in reached:
        unreached.pop(name, None)
    defined = (each.definition.name for tools in read_tools(own.folder).tools.values() for each in tools)
    return Surroundings(
        tools={*shipped_names(), *own.places, *defined, *stored_tools(settings), *_offered(stored, reached)},
        servers=DeployedServers({*reached, *unreached}, unreached),
        channels=channels,
        looked_for=own.looked_for,
        include_render=settings.include_render,
        guard=TargetGuard.of(settings.fetch_allow),
    )


def _stored(settings: Settings, filed: Sequence[McpServer]) -> Sequence[StoredServer]:
    """Return the stored servers as a start would leave them: as mcp.json has them, or disabled if it has them no more.

    Whether its address has changed is not looked at: what is stored of it is sealed.
    """
    written, servers = {each.name: each for each in filed}, list[StoredServer]()
    for each in stored_servers(settings)[0]:
        now = written.get(each.server.name)
        if now is not None:
            servers.append(replace(each, server=now))
        elif each.source == "file":
            servers.append(replace(each, server=replace(each.server, enabled=False)))
        else:
            servers.append(each)
    return servers


def _offered(stored: Sequence[StoredServer], reached: Collection[str]) -> Collection[str]:
    """Return the names that agents have the tools of the *reached* servers under."""
    names = names_in(stored)
    return {
        names[each.server.name, tool.name]
        for each in stored
        if each.server.name in reached and each.kept is not None
        for tool in offered_of(each.server, each.kept.listing, each.accepted)
    }


TIMEOUT = 10.0
"""Seconds for a provider, Slack or a QuickChart server to answer."""
_REFUSED = (401, 403)
_INSTALL = "put the manifest of `parley slack manifest` into the app's settings, and install the app again"
SAMPLE = {
    "data": {"values": [{"day": "Mon", "n": 2}, {"day": "Tue", "n": 5}]},
    "mark": "bar",
    "encoding": {"x": {"field": "day", "type": "nominal"}, "y": {"field": "n", "type": "quantitative"}},
}
_UNDRAWN = (
    "install the package `vl-convert-python` of this version's lock file; set no `ulimit -v`, as V8 reserves 50 GB of "
    "addresses that it never uses, and no `ulimit -d` below 1 GB; until then charts that no surface draws itself "
    "are shown as text"
)


def doctor(*, offline: bool, env_file: Path | None = Path(".env")) -> bool:
    """Print the findings, line by line; return whether none is a failure."""
    well = True
    for finding in examine(offline=offline, env_file=env_file):
        well = well and finding.level != "fail"
        say(str(finding))
    return well


def examine(*, offline: bool, env_file: Path | None) -> Iterator[Finding]:
    """Yield the findings one by one, none twice; without settings or a database there are fewer."""
    try:
        settings = load_settings(env_file, serving=False)
    except ConfigError as error:
        yield Finding("fail", "settings", str(error))
        return
    try:
        settings = with_providers(settings, env_file)
    except ConfigError as error:
        yield Finding("fail", "providers", str(error))
    texts = set[str]()
    for finding in _all(settings, offline=offline):
        if finding.text not in texts:
            texts.add(finding.text)
            yield finding


def _all(settings: Settings, *, offline: bool) -> Iterator[Finding]:
    own = OwnTools.of(settings)
    own.load()
    basics = chain([_settings(settings)], _zone(settings), edges(settings), _database(settings))
    yield from chain(basics, own_tools(own), tool_files(settings, own))
    made: Collection[Definition] | None = None
    try:
        filed = read_mcp_file(settings)
    except ConfigError as error:
        yield Finding("fail", "mcp", str(error))
        yield from mcp_servers(settings, ())
    else:
        yield from mcp_servers(settings, filed)
        found = agents_of(settings, own, filed)
        made = found.usable.values()
        yield from agents(settings, found)
    yield from server(settings)
    yield from _providers(settings, offline=offline)
    yield from slack(settings, made, offline=offline)
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


def edges(settings: Settings) -> Iterator[Finding]:
    """Yield what a stranger meets first."""
    yield _demo(settings)
    yield _proxies(settings)
    yield _clients(settings)


def _demo(settings: Settings) -> Finding:
    if not settings.demo:
        why = "PARLEY_DEMO is off" if settings.demo_page is False else f"{settings.fronted} lets others in"
        return Finding("ok", "demo", f"closed, as {why}")
    if settings.demo_password is not None:
        return Finding("ok", "demo", "open to those who know PARLEY_DEMO_PASSWORD")
    if settings.fronted is not None:
        return Finding("fail", "demo", f"open, and {settings.fronted} lets others in", "set PARLEY_DEMO_PASSWORD")
    remedy = "behind a proxy or tunnel set PARLEY_TRUSTED_PROXIES, PARLEY_HOSTS, or PARLEY_DEMO=off"
    return Finding("ok", "demo", "open to this machine alone", remedy)


def _proxies(settings: Settings) -> Finding:
    if settings.proxies:
        names = ", ".join(str(each) for each in settings.proxies)
        text = f"{names} are believed; " + (f"answers to {', '.join(settings.hosts)}" if settings.hosts else "any host")
        return Finding("ok", "proxies", text, "" if settings.hosts else "PARLEY_HOSTS names those to answer to")
    if settings.public_url is not None:
        remedy = "if one is in front, name it in PARLEY_TRUSTED_PROXIES: else all its callers are one address"
        return Finding("warn", "proxies", "PARLEY_PUBLIC_URL is set, and no proxy is believed", remedy)
    remedy = "" if settings.loopback else "if one is in front, name it in PARLEY_TRUSTED_PROXIES"
    return Finding("ok", "proxies", "none are believed: a caller's address is that of its connection", remedy)


def _clients(settings: Settings) -> Finding:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    text = f"at most {settings.connections} at once, {settings.connections_per_address} of one address"
    if hard != resource.RLIM_INFINITY and hard < settings.connections + SPARE_FILES:
        return Finding("warn", "clients", f"{text}, but this system allows {hard} open files", "raise `ulimit -Hn`")
    return Finding("ok", "clients", text)


def _database(settings: Settings) -> Iterator[Finding]:
    """Check the database and what depends on it."""
    try:
        if settings.postgres is not None:
            yield from postgres(settings, settings.postgres)
        else:
            yield from sqlite(settings)
    except ConfigError as error:
        yield Finding("fail", "database", str(error))


def _providers(settings: Settings, *, offline: bool) -> Iterator[Finding]:
    wanted = dict(_requests(settings))
    if not wanted:
        text = "no key is set: `demo` answers, which is a script"
        yield Finding("warn", "providers", text, "set ANTHROPIC_API_KEY or OPENAI_API_KEY")
    for name, endpoint in settings.named.items():
        if endpoint.lacks:
            yield Finding("warn", name, f"it cannot be asked without {endpoint.lacks}", "set it, or take the entry out")
    for name, (url, headers, needs) in wanted.items():
        yield Finding("ok", name, f"{needs} is set; not asked") if offline else _provider(name, url, headers, needs)


def _requests(settings: Settings) -> Iterator[tuple[str, tuple[str, dict[str, str], str]]]:
    """Give each provider that is set up, and each server of the environment's once: address, headers, and its key.

    What is asked for is the list of models, the smallest thing that a key is needed for.
    """
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
        yield shown, (str(httpx.URL(url, params=query) if query else url), {**auth, **headers}, endpoint.needs)


def _provider(name: str, url: str, headers: dict[str, str], needs: str) -> Finding:
    host, began = httpx.URL(url).host, time.perf_counter()
    try:
        status = httpx.get(url, headers=headers, timeout=TIMEOUT).status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        remedy = "check the network, the proxy and the address"
        return Finding("fail", name, f"{host} cannot be reached ({type(error).__name__})", remedy)
    text = f"{host} answered {status} in {(time.perf_counter() - began) * 1000:.0f} ms"
    if status in _REFUSED:
        return Finding("fail", name, text, f"it does not take {needs}: set a valid one")
    if status >= httpx.codes.BAD_REQUEST:
        return Finding("warn", name, text, "it is reached, but does not list its models")
    return Finding("ok", name, text)


def slack(settings: Settings, agents: Collection[Definition] | None, *, offline: bool) -> Iterator[Finding]:
    """Look for one of *agents* that is in Slack, and ask Slack who the bot token is of and which scopes it has.

    Without a token there is nothing to find.
    """
    if settings.slack_bot_token is None:
        return
    if agents is not None and not any(map(is_in_slack, agents)):
        text = "no agent is in Slack: who calls the bot reads that no agent answers"
        yield Finding("warn", "slack", text, f"put `{IN_SLACK}` into an agent's file, or set it over HTTP")
    if offline:
        yield Finding("ok", "slack", "SLACK_BOT_TOKEN is set; not asked")
        return
    headers = {"Authorization": f"Bearer {settings.slack_bot_token.get_secret_value()}"}
    try:
        answer = httpx.post(f"{settings.slack_api_url}/auth.test", headers=headers, timeout=TIMEOUT)
        reply = answer.json()
        well = bool(reply["ok"])
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError) as error:
        text = f"{settings.slack_api_url} gives no answer of Slack's ({type(error).__name__})"
        yield Finding("fail", "slack", text, "check the network, the proxy and SLACK_API_URL")
        return
    if not well:
        text = f"Slack does not accept SLACK_BOT_TOKEN ({str(reply.get('error'))[:100]})"
        yield Finding("fail", "slack", text, "install the app again, and set the token that it gives")
        return
    yield _scopes(str(reply.get("team") or reply.get("team_id")), answer.headers.get("x-oauth-scopes"))


def _scopes(team: str, granted: str | None) -> Finding:
    from channels.slack.manifest import OPTIONAL, SCOPES  # noqa: PLC0415 - it brings the SDK, only for those who use Slack

    place = f"the app is in the workspace {team}"
    if granted is None:
        return Finding("warn", "slack", f"{place}; Slack does not say what it may do there")
    held = {scope.strip() for scope in granted.split(",")}
    missing = [scope for scope in SCOPES if scope not in held]
    if needed := [scope for scope in missing if scope not in OPTIONAL]:
        return Finding("warn", "slack", f"{place} without {', '.join(needed)}", _INSTALL)
    if missing:
        without = "; ".join(dict.fromkeys(OPTIONAL[scope] for scope in missing))
        text = f"{place} without {', '.join(missing)}: {without}"
        return Finding("warn", "slack", text, f"{_INSTALL}, or leave it if that is not needed")
    return Finding("ok", "slack", f"{place}, with all its scopes")


def charts(settings: Settings, *, offline: bool) -> Iterator[Finding]:
    """Start the drawing process and draw a chart; ask the server of QUICKCHART_URL where charts are sent to it."""
    yield _drawn()
    if settings.chart_backend == "quickchart":
        yield _sent(settings, offline=offline)


def _drawn() -> Finding:
    began = time.perf_counter()
    try:
        picture = asyncio.run(_draw())
    except DrawingFailed as error:
        return Finding("fail", "charts", f"no chart can be drawn here: {error}", _UNDRAWN)
    duration = (time.perf_counter() - began) * 1000
    return Finding("ok", "charts", f"drawn on this machine, the first of {len(picture):,} bytes in {duration:.0f} ms")


async def _draw() -> bytes:
    drawer = Drawer()
    try:
        return await drawer.png(SAMPLE)
    finally:
        await drawer.close()


def _sent(settings: Settings, *, offline: bool) -> Finding:
    """Report who is sent the data of charts; asked is only whether the server is there."""
    host = urlsplit(settings.quickchart_url).hostname
    text = f"Slack's pictures of charts are links to {host}, which is sent their data"
    if offline:
        return Finding("ok", "quickchart", f"{text}; not asked")
    try:
        status = httpx.get(f"{settings.quickchart_url}/healthcheck", timeout=TIMEOUT).status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        remedy = "correct QUICKCHART_URL, or set CHART_BACKEND=local"
        return Finding("fail", "quickchart", f"{host} cannot be reached ({type(error).__name__})", remedy)
    if status >= httpx.codes.BAD_REQUEST:
        return Finding("warn", "quickchart", f"{host} answered {status}", "check that it is a QuickChart server")
    return Finding("ok", "quickchart", text)
