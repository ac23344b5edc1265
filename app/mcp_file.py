"""mcp.json: the operator's own MCP servers, in the form that every client reads, with a few fields of Parley's."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import structlog

from agent_core import ConfigError
from agent_core.runtime.mcp import MAX_TIMEOUT, NAME
from agent_core.servers import McpServer
from app.settings import Settings

MAX_BYTES = 1_000_000
MAX_SERVERS = 200
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
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
            return _VARIABLE.sub(lambda match: self._value(key, match[1], match[2]), value)
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
