"""What a server of this deployment would have: its tools, MCP servers and agents, and what it would not start with.

The checks of the start itself, without its effects.
"""

import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from msgspec.structs import replace

from agent_core import AgentObject, Channels, ConfigError, Definition, InvalidInput
from agent_core.agents import secrets_in
from agent_core.listings import changes_of, offered_of
from agent_core.net.targets import TargetGuard
from agent_core.providers.models import find
from agent_core.runtime.agent_checks import Surroundings, check_agent
from agent_core.runtime.mcp import check_filed, names_in, status_of, why_none
from agent_core.servers import McpServer, login_object
from agent_core.store.servers import StoredServer
from agent_core.tools.base import Tool
from agent_core.tools.builtin import BUILTIN
from app.channels import CHANNELS
from app.checks import Finding, of_agent, of_model
from app.files import AgentFiles, FiledTool, read_agents, read_tools, usable
from app.own_tools import UNREAD_REMEDY, OfflineKinds, OwnTools, shipped_names
from app.serving.server import listening
from app.settings import SERVER_FILE, Settings, check_agents_model
from app.storage import (
    all_agents,
    check_keys,
    check_shared_secret,
    is_owned,
    revision,
    stored_secrets,
    stored_servers,
    stored_tools,
)

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
    for about, check in checks.items():
        try:
            check()
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
    if _serves(settings):
        return
    with listening(settings.host, settings.port):
        pass


def _serves(settings: Settings) -> bool:
    """Return whether a server that PARLEY_DATA knows has the port."""
    if not is_owned(settings):
        return False
    try:
        note = json.loads((settings.data / SERVER_FILE).read_text(encoding="utf-8"))
        return str(note["url"]).endswith(f":{settings.port}")
    except (OSError, ValueError, KeyError, TypeError):
        return True  # it has not said yet where


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
