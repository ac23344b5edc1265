"""Settings: the environment, and `.env` in development. Whatever cannot work fails here, in one line."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal, cast
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict, SettingsError

from agent_core import ConfigError
from agent_core.net.targets import read_target
from agent_core.providers.models import table
from app.addresses import Network, host_pattern, network, origin

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
MIN_SECRET = 32
MAX_CONTEXT = 4_000
"""Bytes of a `tool_context`: as many as a visitor's token takes."""
SQLITE = "sqlite:///"
# Holds the address of a running server, for the commands of its machine.
SERVER_FILE = "server.json"
POSTGRES = ("postgres://", "postgresql://")
DEMO = "demo"
# What each provider cannot do without.
NEEDS = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "openai-compatible": "OPENAI_BASE_URL (Ollama: http://localhost:11434/v1), or OPENAI_API_KEY",
}
_PROVIDER_OF = {"ANTHROPIC_API_KEY": "anthropic", "OPENAI_API_KEY": "openai"}
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
    "ANTHROPIC_API_KEY": "give the key as the provider shows it",
    "OPENAI_API_KEY": "give the key as the provider shows it",
    "ANTHROPIC_BASE_URL": "give an address such as https://api.anthropic.com, without a name or password in it",
    "OPENAI_BASE_URL": "give an address such as http://localhost:11434/v1, without a name or password in it",
    "SLACK_BOT_TOKEN": "give the token as Slack shows it, xoxb-…",
    "SLACK_SIGNING_SECRET": "give the secret as Slack shows it",
    "SLACK_APP_TOKEN": "give the token as Slack shows it, xapp-…",
    "SLACK_API_URL": "give an address such as http://127.0.0.1:4020/api/",
    "PARLEY_PUBLIC_URL": "give the address that others reach this server by, such as https://parley.example.com",
}


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
    data: Path = Field(Path("data"), validation_alias="PARLEY_DATA")
    secret_key: SecretStr | None = Field(None, validation_alias="PARLEY_SECRET_KEY")
    origins: Annotated[tuple[str, ...], NoDecode] = Field((), validation_alias="PARLEY_ORIGINS")
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

    @field_validator("origins", mode="before")
    @classmethod
    def _split(cls, given: object) -> object:
        if not isinstance(given, str):
            return given
        return tuple(origin(part.strip()) for part in given.split(",") if part.strip())

    @field_validator("proxies", mode="before")
    @classmethod
    def _networks(cls, given: object) -> object:
        return tuple(network(part) for part in given.replace(",", " ").split()) if isinstance(given, str) else given

    @field_validator("demo_tool_context", mode="before")
    @classmethod
    def _object(cls, given: object) -> object:
        return _json_object(given) if isinstance(given, str) else given

    @field_validator("hosts", mode="before")
    @classmethod
    def _names(cls, given: object) -> object:
        return (
            tuple(host_pattern(part) for part in given.replace(",", " ").split()) if isinstance(given, str) else given
        )

    @field_validator("fetch_allow", mode="before")
    @classmethod
    def _entries(cls, given: object) -> object:
        return tuple(given.replace(",", " ").split()) if isinstance(given, str) else given

    @field_validator("secret_key")
    @classmethod
    def _long(cls, given: SecretStr | None) -> SecretStr | None:
        if given is not None and len(given.get_secret_value()) < MIN_SECRET:
            raise ValueError("too short")
        return given

    @field_validator("anthropic_base_url", "openai_base_url", "url", "slack_api_url", "public_url")
    @classmethod
    def _web_address(cls, given: str | None) -> str | None:
        return None if given is None else _address(given)

    @field_validator(
        "anthropic_api_key",
        "openai_api_key",
        "slack_bot_token",
        "slack_signing_secret",
        "slack_app_token",
        mode="before",
    )
    @classmethod
    def _stripped(cls, given: object) -> object:
        """Take a key as a file with a last newline holds it; one of blanks alone is none."""
        return given.strip() or None if isinstance(given, str) else given

    @field_validator(
        "api_key", "anthropic_api_key", "openai_api_key", "slack_bot_token", "slack_signing_secret", "slack_app_token"
    )
    @classmethod
    def _one_word(cls, given: SecretStr | None) -> SecretStr | None:
        text = given.get_secret_value() if given else "x"
        if not (text.isascii() and text.isprintable()) or " " in text:
            raise ValueError("not one word")
        return given

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
        return next((name for name, given in others.items() if given), None)

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
    def providers(self) -> tuple[str, ...]:
        """The names of the providers that can be asked with what is set."""
        compatible = self.openai_base_url or self.openai_api_key
        found = {"anthropic": self.anthropic_api_key, "openai": self.openai_api_key, "openai-compatible": compatible}
        return (DEMO, *(name for name, given in found.items() if given is not None))


def load_settings(env_file: Path | None = Path(".env"), *, serving: bool = True) -> Settings:
    """Return the settings of this process; raise ConfigError with one line when they cannot work.

    Without *serving* it is enough that a command finds the server; an address of a database must be one even then,
    since what is none may hold a password, and would be shown as a file's name.
    """
    try:
        settings = Settings(_env_file=env_file)  # pyright: ignore[reportCallIssue] - pydantic-settings' own
    except ValidationError as error:
        raise ConfigError(_first(error)) from None
    except (SettingsError, OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"`{env_file}` cannot be read ({error}); correct it or remove it.") from None
    _check_address(settings)
    if serving:
        check(settings)
    return settings


def check(settings: Settings) -> None:
    """Raise ConfigError for what is well-formed and still cannot work."""
    check_file(settings)
    _check_secret(settings)
    if settings.openai_base_url and settings.model is None and settings.default_key is None:
        raise ConfigError(
            "OPENAI_BASE_URL alone names no model; set PARLEY_MODEL too (openai-compatible:<model>), or unset it."
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


def check_model(settings: Settings, name: str, where: str) -> None:
    """Raise ConfigError when *name* is no model that can be asked for here; *where* names what asks for it."""
    provider, colon, model = name.partition(":")
    if name == DEMO:
        return
    if provider not in NEEDS:
        hint = f"`{provider}` is no provider" if colon and provider != DEMO else "a model is written `provider:model`"
        known = ", ".join(f"`{each}:<model>`" for each in NEEDS)
        raise ConfigError(f"{where}: `{name}` is unknown, {hint}; use {known} or `demo`.")
    if not model or any(character.isspace() for character in model):
        raise ConfigError(f"{where}: `{name}` names no model; write `{provider}:<model>`, without spaces.")
    if provider not in settings.providers:
        raise ConfigError(f"{where}: `{name}` needs {NEEDS[provider]}; set it, or use another model.")


def _check_address(settings: Settings) -> None:
    url = settings.database_url.get_secret_value() if settings.database_url else None
    if url is None:
        return
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
        found = urlsplit(url)
        # An unescaped one of these ends the password early, and each driver parses the rest in its own way.
        apart = found.netloc.count("@") <= 1 and "@" not in found.path
        whole = apart and url.isprintable() and not found.fragment and found.port != 0
    except ValueError:
        whole = False
    if not whole:
        raise ConfigError(
            "DATABASE_URL: this Postgres address cannot be read; write postgres://user:password@host:5432/name, with "
            "%23 for #, %2F for /, %3A for : and %40 for @ in the password."
        )


def check_file(settings: Settings) -> None:
    """Raise ConfigError when what should be the SQLite file is none."""
    if settings.postgres is None and settings.database.is_dir():
        raise ConfigError(f"DATABASE_URL: `{settings.database}` is a folder; name a file in it.")


def _check_secret(settings: Settings) -> None:
    if settings.postgres is not None and settings.secret_key is None:
        raise ConfigError(
            "PARLEY_SECRET_KEY: with Postgres set it to the same text for all processes, "
            f"{MIN_SECRET} characters or more (`openssl rand -hex 32` makes one)."
        )


def _address(given: str) -> str:
    """Return *given* without a closing slash; raise ValueError when it is no http address, or holds a secret."""
    found = urlsplit(given.strip())
    # A port that is none raises as it is read.
    plain = found.scheme in ("http", "https") and found.hostname and found.port != 0
    if not plain or found.username is not None or found.query or found.fragment or not given.isprintable():
        raise ValueError("not an http address")
    return given.strip().rstrip("/")


def _json_object(given: str) -> dict[str, Any]:
    """Return the JSON object in *given*; raise ValueError, without what was given, when it is none."""
    try:
        found: object = json.loads(given)
    except ValueError:
        raise ValueError("not JSON") from None
    if not isinstance(found, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - what pydantic reports
    if len(given.encode()) > MAX_CONTEXT:
        raise ValueError(f"more than {MAX_CONTEXT:,} bytes")
    return cast("dict[str, Any]", found)


def _first(error: ValidationError) -> str:
    """Say which setting is wrong and what to do, never what was given: it may be a secret."""
    found = error.errors(include_url=False, include_input=False)[0]
    name = str(found["loc"][0]) if found["loc"] else "a setting"
    fault = found["msg"].removeprefix("Value error, ").lower()
    return f"{name} cannot be used ({fault}); {REMEDIES.get(name, 'correct it')}, or leave it unset."
