"""The settings of a process: addresses, named providers, the variables themselves, and what cannot work together."""

import difflib
import ipaddress
import json
import os
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args
from urllib.parse import urlsplit

from dotenv import dotenv_values
from pydantic import Field, PrivateAttr, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict, SettingsError

from agent_core.agent.snapshot import OFF, is_zone
from agent_core.agents import MAX_IDLE
from agent_core.errors import ConfigError
from agent_core.net.targets import read_target
from agent_core.providers.base import Vision, table
from app.bounded_yaml import read_config

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
# A name in ASCII (others are written `xn--…` in an origin), or an address.
_NAME = r"[a-z0-9_-]+(\.[a-z0-9_-]+)*"
_HOST = re.compile(rf"{_NAME}|[0-9a-f:.]*:[0-9a-f:.]*")
_PATTERN = re.compile(rf"(\*\.)?{_NAME}|[0-9a-f:]*:[0-9a-f:.]*")
PRIVATE = tuple(
    ipaddress.ip_network(each)
    for each in ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")
)
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


def origin(text: str) -> str:
    """Return *text* as browsers write an origin; raise ValueError for what no browser sends."""
    if text == "*":
        return text
    parts = urlsplit(text.rstrip("/"))
    host, usual = parts.hostname or "", {"http": 80, "https": 443}.get(parts.scheme)
    extra = parts.path or parts.query or parts.fragment or parts.username is not None
    if usual is None or extra or not _HOST.fullmatch(host) or parts.port == 0:
        raise ValueError("not an origin")
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}" + (f":{parts.port}" if parts.port not in {None, usual} else "")


def network(text: str) -> Network:
    """Return the network of an address or of `address/bits`; raise ValueError for anything else, and for all there is.

    With every address trusted, each caller's own word for who it is would be believed.
    """
    parsed = ipaddress.ip_network(text)
    if not parsed.prefixlen:
        raise ValueError("every address")
    return parsed


def host_pattern(text: str) -> str:
    """Return a name, an address, or `*.` before a name; raise ValueError for anything else."""
    pattern = text.lower().removeprefix("[").removesuffix("]").removesuffix(".")
    if not _PATTERN.fullmatch(pattern):
        raise ValueError("not a name")
    return pattern


def fits(host: str, patterns: Collection[str]) -> bool:
    """Return whether one of *patterns* is *host*, or is of its domain."""
    return host in patterns or any(each.startswith("*.") and host.endswith(each[1:]) for each in patterns)


@lru_cache(maxsize=4096)
def place_of(address: str) -> str:
    """Return what counts as one place: an IPv4 address, or the /64 network of an IPv6 one, which one person has."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(parsed) if parsed.is_loopback else str(ipaddress.ip_network((parsed, 64), strict=False))


def is_loopback(address: str) -> bool:
    """Return whether *address*, of a connection, is this machine's own; what is no address is a local socket's."""
    network = _network_of(address)
    return network is None or network.is_loopback


def is_shared(address: str) -> bool:
    """Return whether *address*, of a connection, stands for many callers: this machine's own, or a private network's.

    That is a proxy, named to us or not; what is no address is a local socket's.
    """
    network = _network_of(address)
    return network is None or network.is_loopback or network.is_link_local or within(address, PRIVATE)


def within(address: str, networks: Collection[Network]) -> bool:
    """Return whether *address* is of one of *networks*."""
    network = _network_of(address)
    return network is not None and any(network.version == each.version and network.overlaps(each) for each in networks)


def _network_of(address: str) -> Network | None:
    """Return what counts as the place of *address*, None for what is no address."""
    try:
        return ipaddress.ip_network(place_of(address))
    except ValueError:
        return None


MIN_SECRET = 32
MIN_API_KEY = 24
MAX_CONTEXT = 4_000
"""Bytes of a `tool_context`: as many as a visitor's token takes."""
SQLITE = "sqlite:///"
POSTGRES = ("postgres://", "postgresql://")
REMEDIES = {
    "PORT": "give a number from 0 to 65535",
    "PARLEY_DEMO": "give on or off",
    "PARLEY_DEMO_TOOL_CONTEXT": 'give a JSON object such as {"customer": "C-1"}',
    "PARLEY_DEMO_PASSWORD": "give 8 characters or more",
    "PARLEY_TRUSTED_PROXIES": "give addresses or networks such as 10.0.0.7 or 10.0.0.0/8, with commas between them, "
    "and not every address",
    "PARLEY_HOSTS": "give names such as parley.example.com or *.example.com, without a scheme, port or path, with "
    "commas between them",
    "PARLEY_MAX_CONNECTIONS": "give how many connections a process takes at once, 8 or more",
    "PARLEY_MAX_CONNECTIONS_PER_ADDRESS": "give how many of them may come from one address, 1 or more",
    "PARLEY_DEMO_RATE": "give deltas per second; 0 means flat out",
    "PARLEY_SECRET_KEY": f"give any text of {MIN_SECRET} characters or more",
    "PARLEY_MAX_RUNS": "give how many runs a process may drive at once, 1 or more",
    "PARLEY_MAX_BACKLOG": "give how many runs may be queued, 1 or more",
    "PARLEY_POOL": "give a number of connections from 2 to 1000",
    "PARLEY_GRACE": "give seconds from 0 to 3600",
    "PARLEY_LOG": "give text or json",
    "PARLEY_URL": "give the address of a server, such as https://parley.example.com",
    "PARLEY_API_KEY": "give a text without spaces",
    "PARLEY_ORIGINS": "give whole origins such as https://example.com, each with http:// or https://, "
    "without a path and without a * in it, with commas between them (one * alone allows every site)",
    "PARLEY_FRAME_ANCESTORS": "give the whole origins of the sites that embed the chat as an iframe, such as "
    "https://example.com, each by its name and without a path, with commas between them",
    "ANTHROPIC_API_KEY": "give the key as the provider shows it",
    "OPENAI_API_KEY": "give the key as the provider shows it",
    "ANTHROPIC_BASE_URL": "give an address such as https://api.anthropic.com, without a name or password in it",
    "OPENAI_BASE_URL": "give an address such as http://localhost:11434/v1, without a name or password in it",
    "SLACK_BOT_TOKEN": "give the token as Slack shows it, xoxb-…",
    "SLACK_SIGNING_SECRET": "give the secret as Slack shows it",
    "SLACK_APP_TOKEN": "give the token as Slack shows it, xapp-…",
    "SLACK_API_URL": "give an address such as http://127.0.0.1:4020/api/",
    "PARLEY_PUBLIC_URL": "give the address that others reach this server by, such as https://parley.example.com",
    "PARLEY_INCLUDE_RENDER": "give on or off",
    "PARLEY_PROMPT_CACHING": "give on or off",
    "PARLEY_TOOL_LIMIT": "give a number of tools, from 0 to 1000",
    "PARLEY_IDLE_REFREEZE": "give seconds, from 0 to 2592000",
    "PARLEY_CLOCK": "give the IANA name of a time zone, such as Europe/Berlin, or off",
    "CHART_BACKEND": "give local (charts are drawn on this machine) or quickchart (they are sent to QUICKCHART_URL)",
    "QUICKCHART_URL": "give the address of a QuickChart server, such as https://quickchart.io, without a name or "
    "password in it",
}


def web_address(text: str) -> str:
    """Return *text* without a closing slash; raise ValueError when it is no http address, or holds a secret."""
    parts = urlsplit(text.strip())
    # A port that is none raises as it is read.
    plain = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    if not plain or parts.username is not None or parts.query or parts.fragment or not text.isprintable():
        raise ValueError("not an http address")
    return text.strip().rstrip("/")


def json_object(text: str) -> dict[str, Any]:
    """Return the JSON object in *text*; raise ValueError, without what was given, when it is none."""
    with suppress(ValueError, RecursionError):
        value: object = json.loads(text)
        if isinstance(value, dict):
            return cast("dict[str, Any]", value)
    raise ValueError("not a JSON object")


def check_database(url: str) -> None:
    """Raise ConfigError when *url* is no address of a database; the error never holds it: a password may be in it."""
    if url.startswith(POSTGRES):
        _check_postgres(url)
    elif url.startswith("postgresql+"):
        raise ConfigError(
            "DATABASE_URL: Parley chooses the driver itself; write postgresql://user:password@host:5432/name, without "
            "the + and what follows it."
        )
    elif not url.startswith(SQLITE) or not url.removeprefix(SQLITE) or "?" in url:
        raise ConfigError(
            "DATABASE_URL: this is no address of a database; use postgres://user:password@host/name or sqlite:///path, "
            "or leave it unset."
        )


def _check_postgres(url: str) -> None:
    try:
        parts = urlsplit(url)
        # An unescaped one of these ends the password early, and each driver parses the rest in its own way.
        apart = parts.netloc.count("@") <= 1 and "@" not in parts.path
        whole = apart and url.isprintable() and not parts.fragment and parts.port != 0
    except ValueError:
        whole = False
    if not whole:
        raise ConfigError(
            "DATABASE_URL: this Postgres address cannot be read; write postgres://user:password@host:5432/name, with "
            "%23 for #, %2F for /, %3A for : and %40 for @ in the password."
        )


def fault(error: ValidationError) -> str:
    """Say which setting is wrong and what to do, never what was given: it may be a secret."""
    details = error.errors(include_url=False, include_input=False)[0]
    name = str(details["loc"][0]) if details["loc"] else "a setting"
    fault = details["msg"].removeprefix("Value error, ").lower()
    return f"{name} cannot be used ({fault}); {REMEDIES.get(name, 'correct it')}, or leave it unset."


ProviderKind = Literal["anthropic", "openai", "openai-compatible"]
KINDS: tuple[ProviderKind, ...] = get_args(ProviderKind)
DEFAULT_FILE = "providers.yaml"
SETTING = "PARLEY_PROVIDERS"
NAMES = "2 to 40 small letters, digits, `-` and `_`, beginning with a letter"
_ENDPOINTS_NAME = re.compile(r"[a-z][a-z0-9_-]{1,39}")
_RESERVED = frozenset({"demo"})
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_OWN_HEADERS = frozenset(
    (
        "accept",
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "host",
        "transfer-encoding",
    )
)
_FIELDS = ("kind", "base_url", "key", "headers", "query", "vision")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where models of a *kind* of API are asked, and with what; what may be a secret is never shown.

    Without *base_url* it is the vendor's own. *headers* and *query* go with every request. *needs* is what to set when
    its server refuses the key; *lacks* what to set before it can be asked at all, the variables with their places.
    *vision* is whether its models see pictures, or the names of those that do; None: what is known of them.
    """

    kind: ProviderKind
    base_url: str | None = None
    key: SecretStr | None = None
    headers: Mapping[str, SecretStr] = field(default_factory=dict[str, SecretStr])
    query: Mapping[str, SecretStr] = field(default_factory=dict[str, SecretStr])
    needs: str = ""
    lacks: str = ""
    vision: Vision | None = None


def read_endpoints(setting: str | None, env_file: Path | None) -> dict[str, Endpoint]:
    """Return the named providers: of *setting*, a file's path or a JSON object, or of `providers.yaml` if there is one.

    `${NAME}` in a key, a header or a query is taken from the environment, or from *env_file*; where it is not set, the
    provider lacks it. Raises `ConfigError` with one line that names the place, the entry and what to do, and holds no
    value.
    """
    where, providers = _source(setting)
    if not isinstance(providers, dict):
        raise ConfigError(f"{where}: gives no providers; write `name: {{kind: …, key: …}}` for each.")
    filed: Mapping[str, str | None] = dotenv_values(env_file) if env_file else {}

    def variable(name: str) -> str:
        return (os.environ.get(name) or filed.get(name) or "").strip()

    entries = cast("dict[Any, Any]", providers)
    return {str(name): _endpoint(f"{where}: `{name}`", str(name), each, variable) for name, each in entries.items()}


def _source(setting: str | None) -> tuple[str, Any]:
    """Return where the providers are written, and what is there: nothing when no file is named and none is there."""
    if setting is not None and setting.lstrip().startswith("{"):
        try:
            return SETTING, json.loads(setting)
        except (ValueError, RecursionError):
            raise ConfigError(f"{SETTING}: is no JSON object; correct it, or name a file.") from None
    path = Path(setting or DEFAULT_FILE)
    if not path.exists():
        if setting is None:
            return str(path), {}
        raise ConfigError(f"{SETTING}: `{path}` cannot be read, as it is not there; name a file of providers.")
    return str(path), read_config(path) or {}


def _endpoint(where: str, name: str, value: Any, variable: Callable[[str], str]) -> Endpoint:
    if not _ENDPOINTS_NAME.fullmatch(name) or name in _RESERVED:
        raise ConfigError(f"{where}: is no name of a provider; give {NAMES}.")
    if not isinstance(value, dict):
        raise ConfigError(
            f"{where}: is no record; give it `kind`, and `base_url`, `key`, `headers`, `query`, `vision` as needed."
        )
    entry = cast("dict[Any, Any]", value)
    if strange := next((str(each) for each in entry if each not in _FIELDS), None):
        near = difflib.get_close_matches(strange, _FIELDS, 1)
        remedy = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(f'`{each}`' for each in _FIELDS)}."
        raise ConfigError(f"{where}: has no field `{strange[:40]}`; {remedy}")
    kind = _kind(where, name, entry.get("kind"))
    url = _address(where, entry.get("base_url"))
    key = entry.get("key")
    made = Endpoint(
        kind=kind,
        base_url=url,
        key=None if key is None else SecretStr(_word(f"{where}: `key`", _filled(f"{where}: `key`", key, variable))),
        headers=_headers(where, entry.get("headers"), variable),
        query=_texts(where, "query", entry.get("query"), variable),
        needs=f"`key` of {where}",
        lacks=_unset(where, entry, variable),
        vision=_vision(where, entry.get("vision")),
    )
    if made.key is None and not made.headers and (kind == "anthropic" or url is None):
        raise ConfigError(f"{where}: has neither `key` nor `headers`; give a key, such as `key: ${{SOME_KEY}}`.")
    if kind == "openai-compatible" and url is None:
        raise ConfigError(f"{where}: has no `base_url`; give its server's, such as http://localhost:11434/v1.")
    return made


def _kind(where: str, name: str, kind: Any) -> ProviderKind:
    if kind not in KINDS:
        raise ConfigError(f"{where}: `kind` must be one of {', '.join(f'`{each}`' for each in KINDS)}.")
    if name in KINDS and name != kind:
        raise ConfigError(f"{where}: is of the kind `{kind}`; give it another name than that of a kind.")
    return kind


def _address(where: str, url: Any) -> str | None:
    if url is None:
        return None
    try:
        return web_address(str(url))
    except ValueError:
        remedy = "give one such as https://example.com/v1, without a name, password or query in it (see `query`)"
        raise ConfigError(f"{where}: `base_url` is no http address; {remedy}.") from None


def _vision(where: str, value: Any) -> Vision | None:
    match value:
        case None | bool():
            return value
        case [*names] if all(isinstance(name, str) and name.strip() for name in names):
            return tuple(map(str, names))
        case _:
            remedy = "give `true`, `false`, or a list of the names of models that see pictures, such as [qwen-vl*]"
            raise ConfigError(f"{where}: `vision` says not which models see pictures; {remedy}.")


def _headers(where: str, fields: Any, variable: Callable[[str], str]) -> dict[str, SecretStr]:
    headers = _texts(where, "headers", fields, variable)
    for name, value in headers.items():
        if not _HEADER.fullmatch(name) or name.lower() in _OWN_HEADERS:
            raise ConfigError(f"{where}: `headers`: `{name[:40]}` cannot be set; take it out.")
        text = value.get_secret_value()
        if not (text.isascii() and text.isprintable()):
            raise ConfigError(f"{where}: `headers.{name}` is not one line of ASCII; correct it.")
    return headers


def _texts(where: str, name: str, fields: Any, variable: Callable[[str], str]) -> dict[str, SecretStr]:
    """Return *fields* as texts by name; they may be secrets."""
    if fields is None:
        return {}
    if not isinstance(fields, dict):
        raise ConfigError(f"{where}: `{name}` gives no names and texts; write `name: text` for each.")
    entries = cast("dict[Any, Any]", fields)
    return {str(key): SecretStr(_filled(f"{where}: `{name}.{key}`", value, variable)) for key, value in entries.items()}


def _filled(where: str, template: Any, variable: Callable[[str], str]) -> str:
    """Return *template* with variables of the environment in the place of their names; one not set stays."""
    if not isinstance(template, str):  # YAML makes a date of 2024-10-21, and a number of 1.0
        raise ConfigError(f"{where}: is no text; write it in quotes.")
    text = _VARIABLE.sub(lambda match: variable(match[1]) or match[0], template).strip()
    if not text:
        raise ConfigError(f"{where}: is empty; give a text, or take it out.")
    return text


def _unset(where: str, entry: Mapping[str, Any], variable: Callable[[str], str]) -> str:
    """Return the variables that the texts of *entry* name and that are not set, each with its place."""
    texts = {"key": entry.get("key") or ""}
    for group in ("headers", "query"):
        texts |= {f"{group}.{name}": text for name, text in (entry.get(group) or {}).items()}
    references = [(name, place) for place, text in texts.items() for name in _VARIABLE.findall(text)]
    return " and ".join(f"{name} ({where}: `{place}`)" for name, place in references if not variable(name))


def _word(where: str, text: str) -> str:
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise ConfigError(f"{where}: is not one word; give the key as its provider shows it.")
    return text


LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
# Holds the address of a running server, for the commands of its machine.
SERVER_FILE = "server.json"
DEMO = "demo"
ChartBackend = Literal["local", "quickchart"]
QUICKCHART = "https://quickchart.io"
# What each provider of the environment cannot do without.
NEEDS = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "openai-compatible": "OPENAI_BASE_URL (Ollama: http://localhost:11434/v1), or OPENAI_API_KEY",
}
_PROVIDER_OF = {"ANTHROPIC_API_KEY": "anthropic", "OPENAI_API_KEY": "openai"}


class Settings(BaseSettings):
    """The settings of a process; the README has the table."""

    model_config = SettingsConfigDict(
        env_ignore_empty=True, extra="ignore", frozen=True, populate_by_name=True, hide_input_in_errors=True
    )

    host: str = Field("127.0.0.1", validation_alias="HOST")
    port: int = Field(8000, validation_alias="PORT", ge=0, le=65535)
    database_url: SecretStr | None = Field(None, validation_alias="DATABASE_URL")
    api_key: SecretStr | None = Field(None, validation_alias="PARLEY_API_KEY")
    agents: Path = Field(Path("agents"), validation_alias="PARLEY_AGENTS")
    tools: Path = Field(Path("tools"), validation_alias="PARLEY_TOOLS")
    model: str | None = Field(None, validation_alias="PARLEY_MODEL")
    named_providers: SecretStr | None = Field(None, validation_alias=SETTING)
    data: Path = Field(Path("data"), validation_alias="PARLEY_DATA")
    secret_key: SecretStr | None = Field(None, validation_alias="PARLEY_SECRET_KEY")
    origins: Annotated[tuple[str, ...], NoDecode] = Field((), validation_alias="PARLEY_ORIGINS")
    frame_ancestors: Annotated[tuple[str, ...], NoDecode] = Field((), validation_alias="PARLEY_FRAME_ANCESTORS")
    fetch_allow: Annotated[tuple[str, ...], NoDecode] = Field((), validation_alias="PARLEY_FETCH_ALLOW")
    demo_page: bool | None = Field(None, validation_alias="PARLEY_DEMO")
    demo_password: SecretStr | None = Field(None, validation_alias="PARLEY_DEMO_PASSWORD", min_length=8)
    demo_tool_context: Annotated[dict[str, Any] | None, NoDecode] = Field(
        None, validation_alias="PARLEY_DEMO_TOOL_CONTEXT"
    )
    proxies: Annotated[tuple[Network, ...], NoDecode] = Field((), validation_alias="PARLEY_TRUSTED_PROXIES")
    hosts: Annotated[tuple[str, ...], NoDecode] = Field((), validation_alias="PARLEY_HOSTS")
    connections: int = Field(4096, validation_alias="PARLEY_MAX_CONNECTIONS", ge=8)
    connections_per_address: int = Field(256, validation_alias="PARLEY_MAX_CONNECTIONS_PER_ADDRESS", ge=1)
    demo_rate: float = Field(50, validation_alias="PARLEY_DEMO_RATE", ge=0, allow_inf_nan=False)
    url: str | None = Field(None, validation_alias="PARLEY_URL")
    max_runs: int | None = Field(None, validation_alias="PARLEY_MAX_RUNS", ge=1)
    max_backlog: int = Field(10_000, validation_alias="PARLEY_MAX_BACKLOG", ge=1)
    pool: int = Field(10, validation_alias="PARLEY_POOL", ge=2, le=1000)
    grace: float = Field(25, validation_alias="PARLEY_GRACE", ge=0, le=3600, allow_inf_nan=False)
    log: Literal["text", "json"] = Field("text", validation_alias="PARLEY_LOG")
    anthropic_api_key: SecretStr | None = Field(None, validation_alias="ANTHROPIC_API_KEY")
    anthropic_base_url: str | None = Field(None, validation_alias="ANTHROPIC_BASE_URL")
    openai_api_key: SecretStr | None = Field(None, validation_alias="OPENAI_API_KEY")
    openai_base_url: str | None = Field(None, validation_alias="OPENAI_BASE_URL")
    slack_bot_token: SecretStr | None = Field(None, validation_alias="SLACK_BOT_TOKEN")
    slack_signing_secret: SecretStr | None = Field(None, validation_alias="SLACK_SIGNING_SECRET")
    slack_app_token: SecretStr | None = Field(None, validation_alias="SLACK_APP_TOKEN")
    slack_api_url: str = Field("https://slack.com/api", validation_alias="SLACK_API_URL")
    public_url: str | None = Field(None, validation_alias="PARLEY_PUBLIC_URL")
    include_render: bool = Field(True, validation_alias="PARLEY_INCLUDE_RENDER")
    prompt_caching: bool = Field(True, validation_alias="PARLEY_PROMPT_CACHING")
    tool_limit: int = Field(40, ge=0, le=1_000, validation_alias="PARLEY_TOOL_LIMIT")
    mcp: Path = Field(Path("./mcp.json"), validation_alias="PARLEY_MCP")
    mcp_stdio: bool = Field(False, validation_alias="PARLEY_MCP_STDIO")
    idle_refreeze: int = Field(1800, validation_alias="PARLEY_IDLE_REFREEZE", ge=0, le=MAX_IDLE)
    clock: str = Field("UTC", validation_alias="PARLEY_CLOCK")
    chart_backend: ChartBackend = Field("local", validation_alias="CHART_BACKEND")
    quickchart_url: str = Field(QUICKCHART, validation_alias="QUICKCHART_URL")
    clamd: str | None = Field(None, validation_alias="PARLEY_CLAMD", pattern=r"^(/.+|.+:\d{1,5})$")
    _named: Mapping[str, Endpoint] = PrivateAttr(default_factory=dict[str, Endpoint])

    @field_validator("origins", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        return tuple(origin(part.strip()) for part in value.split(",") if part.strip())

    @field_validator("frame_ancestors", mode="before")
    @classmethod
    def _each_named(cls, value: object) -> object:
        origins = cls._split(value)
        if isinstance(origins, tuple) and "*" in origins:
            raise ValueError("every site")
        return origins

    @field_validator("demo_tool_context", mode="before")
    @classmethod
    def _object(cls, value: object) -> object:
        if isinstance(value, str) and len(value.encode()) > MAX_CONTEXT:
            raise ValueError(f"more than {MAX_CONTEXT:,} bytes")
        return json_object(value) if isinstance(value, str) else value

    @field_validator("proxies", "hosts", "fetch_allow", mode="before")
    @classmethod
    def _listed(cls, value: object, info: ValidationInfo) -> object:
        if not isinstance(value, str):
            return value
        read = {"proxies": network, "hosts": host_pattern}.get(info.field_name or "", str)
        return tuple(map(read, value.replace(",", " ").split()))

    @field_validator("clock")
    @classmethod
    def _zone(cls, value: str) -> str:
        if value != OFF and not is_zone(value):
            raise ValueError("no time zone")
        return value

    @field_validator("secret_key")
    @classmethod
    def _long(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and len(value.get_secret_value()) < MIN_SECRET:
            raise ValueError("too short")
        return value

    @field_validator("anthropic_base_url", "openai_base_url", "url", "slack_api_url", "public_url", "quickchart_url")
    @classmethod
    def _web_address(cls, value: str | None) -> str | None:
        return None if value is None else web_address(value)

    @field_validator(
        "anthropic_api_key",
        "openai_api_key",
        "slack_bot_token",
        "slack_signing_secret",
        "slack_app_token",
        mode="before",
    )
    @classmethod
    def _stripped(cls, value: object) -> object:
        """Take a key as a file with a last newline holds it; one of blanks alone is none."""
        return value.strip() or None if isinstance(value, str) else value

    @field_validator(
        "api_key", "anthropic_api_key", "openai_api_key", "slack_bot_token", "slack_signing_secret", "slack_app_token"
    )
    @classmethod
    def _one_word(cls, value: SecretStr | None) -> SecretStr | None:
        text = value.get_secret_value() if value else "x"
        if not (text.isascii() and text.isprintable()) or " " in text:
            raise ValueError("not one word")
        return value

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return self.host in LOOPBACK

    @property
    def fronted(self) -> str | None:
        """The name of the setting that says that others than this machine reach the server; None without one."""
        if not self.loopback:
            return "HOST"
        others = {
            "PARLEY_TRUSTED_PROXIES": self.proxies,
            "PARLEY_PUBLIC_URL": self.public_url,
            "PARLEY_HOSTS": self.hosts,
        }
        return next((name for name, value in others.items() if value), None)

    @property
    def is_named(self) -> bool:
        """Whether a setting says which names the server has."""
        return bool(self.hosts or self.public_url)

    @property
    def demo(self) -> bool:
        """Whether the demo page exists: openly where only this machine reaches the server, else with a password."""
        if self.demo_page is None:
            return self.demo_password is not None or self.fronted is None
        return self.demo_page

    @property
    def postgres(self) -> str | None:
        """The address of the Postgres, with its password; None on SQLite."""
        url = self.database_url.get_secret_value() if self.database_url else ""
        return url if url.startswith(POSTGRES) else None

    @property
    def database(self) -> Path:
        """The SQLite file."""
        url = self.database_url.get_secret_value() if self.database_url else ""
        return Path(url.removeprefix(SQLITE)) if url else self.data / "parley.db"

    @property
    def default_model(self) -> str:
        """The model of agents that name none, as `provider:model` or `demo`."""
        if self.model or self.default_key is None:
            return self.model or DEMO
        provider = _PROVIDER_OF[self.default_key]
        return f"{provider}:{table().defaults[provider]}"

    @property
    def default_key(self) -> str | None:
        """The name of the provider's key that chooses the default model when PARLEY_MODEL names none."""
        keys = {"ANTHROPIC_API_KEY": self.anthropic_api_key, "OPENAI_API_KEY": self.openai_api_key}
        return next((name for name, key in keys.items() if key is not None), None)

    @property
    def endpoints(self) -> Mapping[str, Endpoint]:
        """The providers that can be asked with what is set, by name; those of a file stand for the variables'."""
        anthropic, openai = self.anthropic_api_key, self.openai_api_key
        own = dict[str, Endpoint]()
        if anthropic is not None:
            own["anthropic"] = Endpoint("anthropic", self.anthropic_base_url, anthropic, needs="ANTHROPIC_API_KEY")
        if openai is not None:
            own["openai"] = Endpoint("openai", self.openai_base_url, openai, needs="OPENAI_API_KEY")
        if self.openai_base_url is not None or openai is not None:
            needs = "OPENAI_BASE_URL" if openai is None else "OPENAI_API_KEY"
            own["openai-compatible"] = Endpoint("openai-compatible", self.openai_base_url, openai, needs=needs)
        return {name: each for name, each in {**own, **self._named}.items() if not each.lacks}

    @property
    def needs(self) -> Mapping[str, str]:
        """What to set for each provider that is known, and cannot be asked before."""
        needs = {**NEEDS, **{name: each.lacks for name, each in self._named.items()}}
        return {name: lacks for name, lacks in needs.items() if name not in self.endpoints}

    @property
    def named(self) -> Mapping[str, Endpoint]:
        """The providers that PARLEY_PROVIDERS defines, once they are read, see `with_providers`."""
        return self._named

    @property
    def providers(self) -> tuple[str, ...]:
        """The names of the providers that can be asked with what is set."""
        return (DEMO, *self.endpoints)

    def listed_as(self, model: str) -> str:
        """Return the name of *model*, `provider:name`, in the model table, which has vendors by their kinds."""
        provider, _, name = model.partition(":")
        endpoint = self._named.get(provider)
        return f"{endpoint.kind}:{name}" if endpoint else model


def load_settings(env_file: Path | None = Path(".env"), *, serving: bool = True) -> Settings:
    """Return the settings of this process; raise ConfigError with one line when they cannot work.

    Without *serving* it is enough that a command finds the server; an address of a database must be one even then,
    since what is none may hold a password, and would be shown as a file's name.
    """
    try:
        settings = Settings(_env_file=env_file)  # pyright: ignore[reportCallIssue] - pydantic-settings' own
    except ValidationError as error:
        raise ConfigError(fault(error)) from None
    except (SettingsError, OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"`{env_file}` cannot be read ({error}); correct it or remove it.") from None
    if settings.database_url is not None:
        check_database(settings.database_url.get_secret_value())
    if serving:
        settings = with_providers(settings, env_file)
        check(settings)
    return settings


def with_providers(settings: Settings, env_file: Path | None) -> Settings:
    """Return *settings* with the named providers of PARLEY_PROVIDERS; raises ConfigError."""
    copy = settings.model_copy()
    providers = settings.named_providers.get_secret_value() if settings.named_providers else None
    copy._named = read_endpoints(providers, env_file)  # noqa: SLF001 - a copy's own
    return copy


def check(settings: Settings) -> None:
    """Raise ConfigError for what is well-formed and still cannot work."""
    check_file(settings)
    _check_secret(settings)
    _check_api_key(settings)
    if settings.openai_base_url and settings.model is None and settings.default_key is None:
        raise ConfigError(
            "OPENAI_BASE_URL alone names no model; set PARLEY_MODEL too (openai-compatible:<model>), or unset it."
        )
    if settings.named and settings.model is None and settings.default_key is None:
        raise ConfigError(
            f"{SETTING}: providers alone name no model; set PARLEY_MODEL too ({next(iter(settings.named))}:<model>, or "
            "demo)."
        )
    check_model(settings, settings.default_model, "PARLEY_MODEL")
    _check_slack(settings)
    _check_fetch(settings)
    _check_demo(settings)
    if settings.agents.exists() and not settings.agents.is_dir():
        raise ConfigError(f"PARLEY_AGENTS: `{settings.agents}` is a file; name the folder that holds the agents.")
    if not settings.agents.exists():
        raise ConfigError(
            f"PARLEY_AGENTS: there is no folder `{settings.agents}`; make it, or name the folder of the agents "
            "(`parley init NAME` makes a whole project)."
        )


def _check_slack(settings: Settings) -> None:
    """Raise ConfigError when Parley could send to Slack but not receive, or the other way round."""
    receives = settings.slack_signing_secret or settings.slack_app_token
    if settings.slack_bot_token is None and receives is not None:
        name = "SLACK_SIGNING_SECRET" if settings.slack_signing_secret else "SLACK_APP_TOKEN"
        raise ConfigError(f"{name}: without SLACK_BOT_TOKEN nothing can be said in Slack; set it too, or unset this.")
    if settings.slack_bot_token is not None and receives is None:
        raise ConfigError(
            "SLACK_BOT_TOKEN alone receives nothing: set SLACK_SIGNING_SECRET (Slack sends requests), or "
            "SLACK_APP_TOKEN (Socket Mode)."
        )


def _check_demo(settings: Settings) -> None:
    """Raise ConfigError where the demo page would be open to others than this machine."""
    if settings.demo and settings.demo_password is None and settings.fronted is not None:
        raise ConfigError(
            f"PARLEY_DEMO: with {settings.fronted} set others than this machine can reach the server, and the demo "
            "page is open to all who can; set PARLEY_DEMO_PASSWORD too, or leave PARLEY_DEMO unset."
        )


def _check_fetch(settings: Settings) -> None:
    for number, entry in enumerate(settings.fetch_allow, 1):
        try:
            read_target(entry)
        except ValueError:
            shown = f"entry {number}" if "@" in entry else f"`{entry[:100]}`"  # before an @ may be a password
            raise ConfigError(
                f"PARLEY_FETCH_ALLOW: {shown} is no host:port; write wiki.internal:8080, 10.0.0.7:80 or [::1]:8080, "
                "with commas between them, or leave it unset."
            ) from None


class MissingProvider(ConfigError):
    """A model is well named, and its provider cannot be asked here: it lacks what can be set, or is not known."""


def check_agents_model(settings: Settings, name: str, where: str) -> None:
    """Raise ConfigError when *name*, of an agent's file at *where*, is no model.

    Without its provider it is one: the agent is unavailable, see `Roster.unserved`, and the others serve.
    """
    with suppress(MissingProvider):
        check_model(settings, name, where)


def check_model(settings: Settings, name: str, where: str) -> None:
    """Raise ConfigError when *name* is no model that can be asked for here; *where* names what asks for it."""
    provider, colon, model = name.partition(":")
    if name == DEMO:
        return
    is_written = bool(model) and not any(character.isspace() for character in model)
    if provider not in NEEDS and provider not in settings.named:
        hint = f"`{provider}` is no provider" if colon and provider != DEMO else "a model is written `provider:model`"
        models = ", ".join(f"`{each}:<model>`" for each in dict.fromkeys((*NEEDS, *settings.named)))
        fault = MissingProvider if is_written and provider != DEMO else ConfigError
        raise fault(f"{where}: `{name}` is unknown, {hint}; use {models} or `demo`.")
    if not is_written:
        raise ConfigError(f"{where}: `{name}` names no model; write `{provider}:<model>`, without spaces.")
    if provider not in settings.providers:
        raise MissingProvider(f"{where}: `{name}` needs {settings.needs[provider]}; set it, or use another model.")


def check_file(settings: Settings) -> None:
    """Raise ConfigError when what should be the SQLite file is none."""
    if settings.postgres is None and settings.database.is_dir():
        raise ConfigError(f"DATABASE_URL: `{settings.database}` is a folder; name a file in it.")


def _check_api_key(settings: Settings) -> None:
    """Raise ConfigError for a key that can be guessed where others than this machine can try."""
    if settings.fronted and settings.api_key and len(settings.api_key.get_secret_value()) < MIN_API_KEY:
        raise ConfigError(
            f"PARLEY_API_KEY: with {settings.fronted} set others than this machine can reach the server, and this key "
            f"can be guessed; give it {MIN_API_KEY} characters or more (`openssl rand -hex 32` makes one), or unset it "
            "and the first start makes one."
        )


def _check_secret(settings: Settings) -> None:
    if settings.postgres is not None and settings.secret_key is None:
        raise ConfigError(
            "PARLEY_SECRET_KEY: with Postgres set it to the same text for all processes, "
            f"{MIN_SECRET} characters or more (`openssl rand -hex 32` makes one)."
        )
