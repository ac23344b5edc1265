"""What files define: agents, tools and MCP servers, read, checked and given to a core."""

import asyncio
import difflib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

import msgspec
import structlog
import yaml
from dotenv import dotenv_values

from agent_core.agents import Definition, ToolDefinition, gathered
from agent_core.channels import Channels, misfit, unknown_field
from agent_core.core import Core
from agent_core.errors import ConfigError, InvalidInput
from agent_core.hooks.http import check_secrets
from agent_core.hooks.rules import check as check_hooks
from agent_core.runtime.agent_checks import RefusedAgent, check_fields
from agent_core.runtime.mcp import MAX_TIMEOUT, NAME
from agent_core.servers import McpServer
from agent_core.tools.base import Tool
from agent_core.tools.builtin import BUILTIN
from agent_core.tools.render import SpecCheck, render_tools
from agent_core.tools.toolset import Merged, Static, Toolset
from app.bounded_yaml import read_config
from app.own_tools import OwnTools
from app.settings import Settings, check_agents_model

SUFFIXES = frozenset({".yaml", ".yml"})
ENV_FILE = Path(".env")
_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class AgentFiles:
    """What the files of a folder define: *agents* by their files, and why the *broken* ones define nothing."""

    agents: Mapping[Path, Definition]
    broken: Mapping[Path, str]


def read_agents(folder: Path, *, channels: Channels, check: Callable[[str, str], None]) -> AgentFiles:
    """Return what the files of *folder* define.

    *channels* are what an agent may configure; *check* raises for a model that no provider serves, given with the place
    that names it. Which tools and servers there are may not be known yet, see `usable`. What is said of a broken file
    has its path and the field.
    """
    agents: dict[Path, Definition] = {}
    broken: dict[Path, str] = {}
    for path in sorted(p for p in folder.iterdir() if p.suffix in SUFFIXES):
        try:
            made = read_agent(path)
            made = _checked(path, made, channels)
            for field, model in _models(made):
                check(model, f"{path}: `{field}`")
            _check_name(path, made, agents)
        except ConfigError as error:
            broken[path] = str(error)
        else:
            agents[path] = made
    while conflicts := channels.conflicts(agents.values()):
        conflict = conflicts[0]
        path = next(path for path, made in agents.items() if made.name == conflict.second)
        broken[path] = f"{path}: `{conflict.path}`: {conflict}"
        del agents[path]
    return AgentFiles(agents, broken)


def usable(files: AgentFiles, check: Callable[[Definition], None]) -> AgentFiles:
    """Return *files* with those among the broken that *check* refuses, by `InvalidInput`."""
    agents, broken = dict[Path, Definition](), dict(files.broken)
    for path, made in files.agents.items():
        try:
            check(made)
        except InvalidInput as error:
            broken[path] = f"{path}: {error}"
        else:
            agents[path] = made
    return AgentFiles(agents, dict(sorted(broken.items())))


def _check_name(path: Path, made: Definition, others: Mapping[Path, Definition]) -> None:
    for other, definition in others.items():
        if made.name == definition.name:
            raise ConfigError(f"{path}: `name`: `{made.name}` is defined in `{other.name}` too; rename one of them.")


def read_agent(path: Path, env_file: Path | None = ENV_FILE) -> Definition:
    """Return the agent that the file at *path* defines.

    A hook's `secret: ${NAME}` is taken from the environment, or from *env_file*: no file has to contain a secret.
    """
    content = read_config(path)
    for place, config in enumerate(_configs(content)):
        if name := _VARIABLE.fullmatch(str(config.get("secret"))):
            config["secret"] = _variable(name[1], f"{path}: `hooks[{place}].config.secret`", env_file)
    try:
        made = msgspec.convert(gathered(content) if isinstance(content, dict) else content, Definition)
    except InvalidInput as error:
        raise ConfigError(f"{path}: {error}") from None
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {_field_fault(error, content)}") from None
    if not made.name.strip() or not made.instructions.strip():
        raise ConfigError(f"{path}: `name` and `instructions` must not be empty.")
    return made


def _configs(content: Any) -> list[dict[str, Any]]:
    """Return the configs of the hooks in *content*, an empty one for what has none: its shape is checked later."""
    hooks: Any = content.get("hooks") if isinstance(content, dict) else None
    listed = cast("list[Any]", hooks) if isinstance(hooks, list) else []
    configs: list[Any] = [hook.get("config") if isinstance(hook, dict) else None for hook in listed]
    return [config if isinstance(config, dict) else {} for config in configs]


def _variable(name: str, where: str, env_file: Path | None) -> str:
    """Return what the environment has under *name*; raise ConfigError, with *where* it is wanted, when it is unset."""
    value = os.environ.get(name) or (dotenv_values(env_file).get(name) if env_file else None) or ""
    if not value.strip():
        raise ConfigError(f"{where}: there is no environment variable `{name}`; set it.")
    return value.strip()


def _checked(path: Path, made: Definition, channels: Channels) -> Definition:
    try:
        check_fields(made)
        check_hooks(made.hooks, channels)
        check_secrets(made.hooks, ())
        return channels.checked(made)
    except InvalidInput as error:
        raise ConfigError(f"{path}: {error}") from None


def _models(made: Definition) -> Iterator[tuple[str, str]]:
    """Give the models that *made* names, each with its field."""
    if made.model is not None:
        yield "model", made.model
    if made.controls.model is not None:
        yield "controls.model", made.controls.model
    for place, model in enumerate(made.fallback_models):
        yield f"fallback_models[{place}]", model
    if made.compaction.model is not None:
        yield "compaction.model", made.compaction.model


def _field_fault(error: msgspec.ValidationError, content: Any) -> str:
    """Return why *content* is no agent, in a sentence that begins with the field."""
    where, why = misfit(error, Definition)
    fields = Definition.__struct_fields__
    if not where and isinstance(content, dict):  # a required field may only be misspelt
        strange = [str(name) for name in cast("dict[Any, Any]", content) if name not in fields]
        missing = [name for name in fields if f"`{name}`" in why]
        if typo := next((name for name in strange if difflib.get_close_matches(name, missing)), None):
            return unknown_field(typo, fields)
    return f"`{where}`: {why}." if where else f"{why}."


MAX_FILES = 500
_STEP = re.compile(r"[^.\[\]]+")


@dataclass(frozen=True, slots=True)
class FiledTool:
    """A definition, and where it is: in the file at *path*, *index* of its list, or the whole file when None."""

    path: Path
    definition: ToolDefinition
    index: int | None = None

    @property
    def place(self) -> str:
        """Its file, with the line where it begins."""
        return _at(self.path, self.index)

    def fault(self, error: InvalidInput) -> str:
        """Return *error*, which is about this definition, with file, line and field."""
        return f"{_at(self.path, self.index, error.path)}: {error}"


@dataclass(frozen=True, slots=True)
class TakenFiles:
    """What was taken up: the *tools* of each file, and why the *broken* ones define nothing new."""

    tools: Mapping[Path, Sequence[FiledTool]] = field(default_factory=dict[Path, Sequence[FiledTool]])
    broken: Mapping[Path, str] = field(default_factory=dict[Path, str])


class ToolFiles:
    """The tools that the YAML files of *folder* define; none until they are loaded.

    A broken file still gives the tools that it gave before.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self._taken = folder, TakenFiles()
        self._places: Mapping[str, str] = {}

    @property
    def problems(self) -> Sequence[str]:
        """What is wrong with files now, a sentence each with file, line if possible, field and remedy."""
        return list(self._taken.broken.values())

    @property
    def places(self) -> Mapping[str, str]:
        """Where each tool is defined, by its name."""
        return self._places

    def check(self) -> None:
        """Raise ConfigError with the first problem, if there is one."""
        if self.problems:
            first, *more = self.problems
            raise ConfigError(f"{first}{f' ({len(more)} more broken files.)' if more else ''}")

    async def load(self, core: Core) -> None:
        """Take up the files as they are now, as far as *core* can use what they define; see `problems`."""
        read = await asyncio.to_thread(read_tools, self.folder)
        tools, broken = dict[Path, Sequence[FiledTool]](), dict(read.broken)
        for path, filed in read.tools.items():
            fault = await _fault(filed, core)
            if fault is None:
                tools[path] = filed
            else:
                broken[path] = fault
        previous = {path: self._taken.tools[path] for path in broken if path in self._taken.tools}
        self._taken = TakenFiles(dict(sorted({**tools, **previous}.items())), dict(sorted(broken.items())))
        self._places = {each.definition.name: each.place for each in self._all()}

    async def store(self, core: Core) -> None:
        """Give *core* the tools that were taken up; those of files that are gone are removed."""
        whole = all(path in self._taken.tools for path in self._taken.broken)
        await core.tools.definitions.sync_files([each.definition for each in self._all()], whole=whole)

    def _all(self) -> Iterator[FiledTool]:
        for filed in self._taken.tools.values():
            yield from filed


async def _fault(filed: Sequence[FiledTool], core: Core) -> str | None:
    """Return why *core* could not use one of the definitions *filed*; None when it can use them all."""
    for each in filed:
        try:
            await core.tools.definitions.check_filed(each.definition)
        except InvalidInput as error:
            return each.fault(error)
    return None


def read_tools(folder: Path) -> TakenFiles:
    """Return what the YAML files of *folder* define; what is said of a broken one has its path and the field."""
    tools, broken = dict[Path, Sequence[FiledTool]](), dict[Path, str]()
    names: dict[str, FiledTool] = {}
    paths = _files(folder)
    for path in paths[MAX_FILES:]:
        broken[path] = (
            f"{path}: there are more than {MAX_FILES} YAML files in the folder; write several tools into one."
        )
    for path in paths[:MAX_FILES]:
        try:
            definitions = _read(path)
            _check_names(definitions, names)
        except ConfigError as error:
            broken[path] = str(error)
        else:
            tools[path] = definitions
            names.update({each.definition.name: each for each in definitions})
    return TakenFiles(tools, broken)


def _check_names(definitions: Sequence[FiledTool], others: Mapping[str, FiledTool]) -> None:
    """Raise ConfigError when one of *definitions* has the name of another one, or of one of *others*."""
    names = dict(others)
    for each in definitions:
        name = each.definition.name
        if name in names:
            fault = f"the tool `{name}` is defined at {names[name].place} too; rename one of them."
            raise ConfigError(each.fault(InvalidInput("name", fault)))
        names[name] = each


def _files(folder: Path) -> list[Path]:
    """Return the YAML files of *folder*; hidden ones do not count, and a folder that is not there has none."""
    try:
        return sorted(p for p in folder.iterdir() if p.suffix in SUFFIXES and not p.name.startswith("."))
    except OSError:  # that of the Python files: its loader says what is wrong
        return []


def _read(path: Path) -> list[FiledTool]:
    """Return the definitions in the file at *path*; raise ConfigError."""
    content = read_config(path)
    if isinstance(content, list):
        return [_converted(path, each, place) for place, each in enumerate(cast("list[Any]", content))]
    return [_converted(path, content, None)]


def _converted(path: Path, value: Any, index: int | None) -> FiledTool:
    if not isinstance(value, dict):
        where = _at(path, index)
        raise ConfigError(
            f"{where}: defines no tool; write `name`, `kind`, `description` and `config`, or a list of these."
        )
    try:
        return FiledTool(path, msgspec.convert(value, ToolDefinition), index)
    except msgspec.ValidationError as error:
        where, why = misfit(error, ToolDefinition)
        named = f"`{where}`: " if where else ""
        raise ConfigError(f"{_at(path, index, where)}: {named}{why}; correct it.") from None


def _at(path: Path, index: int | None, field: str = "") -> str:
    """Return *path* with the line of a *field* of its definition *index*, or of what is there of it."""
    try:
        node = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return str(path)
    steps = ([] if index is None else [str(index)]) + _STEP.findall(field)
    if node is None:
        return str(path)
    line = node.start_mark.line
    for step in steps:
        position = _inside(node, step)
        if position is None:
            break
        line, node = position
    return f"{path}:{line + 1}"


def _inside(node: yaml.Node, step: str) -> tuple[int, yaml.Node] | None:
    """Return the line of the field, or item, *step* of *node*, and its value."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == step:
                return key.start_mark.line, value
    if isinstance(node, yaml.SequenceNode) and step.isdigit() and int(step) < len(node.value):
        item = node.value[int(step)]
        return item.start_mark.line, item
    return None


MAX_BYTES = 1_000_000
MAX_SERVERS = 200
_MCP_FILE_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_TRANSPORTS = {
    **dict.fromkeys(("http", "streamablehttp", "streamable", "remote"), "http"),
    **dict.fromkeys(("stdio", "local", "command"), "stdio"),
}
"""What other clients write as `type`, in lower case, without `-` and `_`."""
_SAME = (
    *("url", "command", "args", "env", "cwd", "headers", "oauth", "timeout_s", "enabled"),
    *("allow", "deny", "trusted", "untrusted", "on_change", "context"),
)
_AS = {
    **dict.fromkeys(("serverUrl", "httpUrl"), "url"),
    **dict.fromkeys(("includeTools", "enabledTools"), "allow"),
    **dict.fromkeys(("excludeTools", "disabledTools"), "deny"),
}
"""Fields of other clients, and what they are here."""
_SHOWN_ELSEWHERE = "description name title icon version gallery note comment $comment"
_IGNORED = frozenset(("alwaysAllow", "autoApprove", "trust", *_SHOWN_ELSEWHERE.split()))
"""Fields of other clients that are about their own screens and questions to people; a warning names them."""
_OTHER = re.compile(r"[./@: ]+")
_REMEDY = "see docs/mcp.md"
_log = structlog.get_logger("parley.mcp")


def read_mcp_file(settings: Settings, environment: Mapping[str, str] | None = None) -> Sequence[McpServer]:
    """Return the servers of the file that PARLEY_MCP names, as `read_servers` does; the setting makes it required."""
    return read_servers(settings.mcp, required="mcp" in settings.model_fields_set, environment=environment)


def read_servers(
    path: Path, *, required: bool, environment: Mapping[str, str] | None = None, unset: str | None = None
) -> Sequence[McpServer]:
    """Return the servers of the file at *path*; none without a file, unless it is *required*.

    `${VAR}` and `${VAR:-default}` are replaced by variables of *environment*, by default the process's own. One that is
    not set is replaced by *unset*; when that is None it is an error. Raises ConfigError with the place and the remedy.
    """
    if not path.exists() and not required:
        return []
    text = _text(path)
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}, line {error.lineno}: this is not JSON ({error.msg}); correct it.") from None
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply; {_REMEDY}.") from None
    listed: Any = cast("dict[str, Any]", content).get("mcpServers") if isinstance(content, dict) else None
    if not isinstance(listed, dict):
        raise ConfigError(f'{path}: write {{"mcpServers": {{"name": {{…}}}}}}; {_REMEDY}.')
    servers = cast("dict[str, Any]", listed)
    if len(servers) > MAX_SERVERS:
        raise ConfigError(f"{path}: {len(servers)} servers are more than {MAX_SERVERS}; take some out.")
    variables = os.environ if environment is None else environment
    notes: list[str] = []
    by_name: dict[str, McpServer] = {}
    for name, entry in servers.items():
        read = _ServerEntry(path, text, name, variables, unset)
        server = read.server(entry)
        if server.name in by_name:
            raise read.fault("", f"two servers would be called `{server.name}`; rename one.")
        by_name[server.name] = server
        notes += read.notes
    if notes:
        _log.warning("mcp.file", file=str(path), notes=notes, remedy=_REMEDY)
    return list(by_name.values())


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ConfigError(f"{path}: larger than {MAX_BYTES:,} bytes; a file of servers is not.")
        return content.decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"PARLEY_MCP: there is no file `{path}`; make it, or leave it unset.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({error}); correct it.") from None


class _ServerEntry:
    """One entry of the file: its *name*, and how it is read; *notes* say what of it is not as it stands there."""

    def __init__(self, path: Path, text: str, name: str, environment: Mapping[str, str], unset: str | None) -> None:
        self._path, self._text, self._name = path, text, name
        self._environment, self._unset = environment, unset
        self.notes: list[str] = []

    def server(self, entry: object) -> McpServer:
        if not isinstance(entry, dict):
            raise self.fault("", "an object with `command` or `url`.")
        fields = cast("dict[str, Any]", entry)
        made: dict[str, Any] = {"name": self._plain_name(), "transport": self._transport(fields)}
        for name, value in fields.items():
            key = _AS.get(name, name)
            if key != name and key in fields:
                raise self.fault(name, f"`{key}` says the same; leave one out.")
            if key in _SAME:
                made[key] = self._filled(key, value)
            elif key == "disabled":
                made["enabled"] = value is not True
            elif key == "timeout":
                made.setdefault("timeout_s", self._seconds(value))
            elif key in _IGNORED:
                self.notes.append(f"`{self._name}.{key}` is not used")
            elif key not in ("type", "transport", "transportType"):
                raise self.fault(key, f"unknown; a server has {', '.join(_SAME)}, disabled, type. {_REMEDY}.")
        try:
            return msgspec.convert(made, McpServer)
        except msgspec.ValidationError as error:
            raise self.fault("", f"{error}; correct it.") from None

    def _plain_name(self) -> str:
        """Return the name with `_` for what no name of a tool could have, such as a dot."""
        name = self._name
        if not NAME.fullmatch(name):
            name = _OTHER.sub("_", name).strip("_")
        if not NAME.fullmatch(name):
            raise self.fault("", "a server's name has 1 to 32 letters, digits, `_` and `-`; rename it.")
        if name != self._name:
            self.notes.append(f"`{self._name}` is called `{name}`")
        return name

    def _seconds(self, value: object) -> object:
        """Return a `timeout` in seconds: clients write seconds or milliseconds, and no call takes ten minutes."""
        return value / 1000 if isinstance(value, int | float) and value > MAX_TIMEOUT else value

    def _transport(self, fields: Mapping[str, Any]) -> str:
        kind = next((fields[key] for key in ("type", "transport", "transportType") if key in fields), None)
        if kind is None:
            return "stdio" if "command" in fields else "http"
        if kind == "sse":
            remedy = "write the address of its streamable HTTP endpoint, and `http`"
            raise self.fault("type", f"servers over HTTP+SSE are not connected to, which MCP has given up; {remedy}.")
        transport = _TRANSPORTS.get(re.sub("[-_]", "", str(kind)).lower())
        if transport is None:
            raise self.fault("type", "`http` or `stdio`.")
        return transport

    def _filled(self, key: str, value: object) -> object:
        """Return *value* with the variables of the environment in its texts."""
        if isinstance(value, str):
            return _MCP_FILE_VARIABLE.sub(lambda match: self._value(key, match[1], match[2]), value)
        if isinstance(value, dict):
            inside = cast("dict[str, object]", value).items()
            return {name: self._filled(f"{key}.{name}", each) for name, each in inside}
        if isinstance(value, list):
            return [self._filled(key, each) for each in cast("list[object]", value)]
        return value

    def _value(self, key: str, name: str, default: str | None) -> str:
        text = self._environment.get(name) or default or self._unset
        if text is None:
            raise self.fault(key, f"the variable {name} is not set; set it, or write ${{{name}:-default}}.")
        return text

    def fault(self, key: str, message: str) -> ConfigError:
        """Return the error at *key* of the entry, with the line that names the server, or the key after it."""
        lines = self._text.splitlines()
        named = next((n for n, line in enumerate(lines) if f'"{self._name}"' in line), 0)
        wanted = f'"{key.rsplit(".", maxsplit=1)[-1]}"'
        line = next((n for n in range(named, len(lines)) if wanted in lines[n]), named) if key else named
        where = f"mcpServers.{self._name}" + (f".{key}" if key else "")
        return ConfigError(f"{self._path}, line {line + 1}: `{where}`: {message}")


class Files(Protocol):
    """The agents and own tools of a process."""

    @property
    def own(self) -> OwnTools: ...

    @property
    def places(self) -> Mapping[str, str]:
        """Where the tools that do not ship are defined, by their names."""
        ...

    @property
    def broken(self) -> Callable[[], Sequence[str]] | None:
        """Returns what is broken now, a sentence each; None where files are read once, and a broken one is refused."""
        ...

    async def load(self, core: Core) -> None:
        """Give *core* the agents and tools as they were read; raises ConfigError."""
        ...

    def following(self, core: Core) -> AbstractAsyncContextManager[None]:
        """Give *core* what changes while the block lasts."""
        ...


@dataclass(frozen=True, slots=True)
class StillFiles:
    """Agents and tools that were read once, at the start; without *filed* no tools of YAML files."""

    own: OwnTools
    agents: Mapping[Path, Definition]
    filed: ToolFiles | None
    servers: Sequence[McpServer] = ()
    broken: None = None

    @property
    def places(self) -> Mapping[str, str]:
        return places_of(self.own, self.filed)

    async def load(self, core: Core) -> None:
        """Store the MCP servers, the tools and the agents; raise ConfigError when that cannot be done."""
        await load_servers(core, self.servers)
        if self.filed is not None:
            await self.filed.load(core)
            self.filed.check()
            await self.filed.store(core)
        try:
            await core.agents.sync_files(list(self.agents.values()))
        except RefusedAgent as error:
            path = next(path for path, made in self.agents.items() if made.name == error.agent)
            raise ConfigError(f"{path}: {error}") from None
        except InvalidInput as error:
            raise ConfigError(f"PARLEY_AGENTS: {error}") from None

    def following(self, core: Core) -> AbstractAsyncContextManager[None]:  # noqa: ARG002 - the port has it
        """Change nothing."""
        return nullcontext()


async def read_once(settings: Settings, tools: Sequence[Tool] | None, channels: Channels) -> StillFiles:
    """Return the own tools, loaded unless *tools* are used, and the agents; raise ConfigError for a broken file.

    Which tools there are is known when the core runs: some are in its database.
    """
    own = OwnTools.of(settings)
    if tools is None:
        await own.refresh()
        own.check()
    check = partial(check_agents_model, settings)
    files = read_agents(settings.agents, channels=channels, check=check)
    for fault in files.broken.values():
        raise ConfigError(fault)
    if tools is not None:
        return StillFiles(own, files.agents, None)
    return StillFiles(own, files.agents, ToolFiles(settings.tools), read_mcp_file(settings))


def places_of(own: OwnTools, filed: ToolFiles | None) -> Mapping[str, str]:
    """Return where tools are defined, by their names; of two with one name the Python file's is in use."""
    return own.places if filed is None else {**filed.places, **own.places}


async def load_servers(core: Core, servers: Sequence[McpServer]) -> None:
    """Store the MCP servers of the operator's file; raise ConfigError for one that cannot work."""
    try:
        await core.tools.servers.sync_files(servers)
    except InvalidInput as error:
        raise ConfigError(f"PARLEY_MCP: {error}") from None


def toolset_with(own: OwnTools, tools: Sequence[Tool] | None = None, drawer: SpecCheck | None = None) -> Toolset:
    """Return *own* tools beside *tools*, by default those that ship; *drawer* tries charts out."""
    shipped = {tool.spec.name: tool for tool in (BUILTIN if tools is None else tools)}
    # Each kind of tools is one toolset here.
    return Merged((Static(shipped if tools is not None else {**shipped, **render_tools(drawer)}), own))
