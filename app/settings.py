"""Settings: the environment, and `.env` in development. Whatever cannot work fails here, in one line."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict, SettingsError

from agent_core import ConfigError
from agent_core.agent.snapshot import OFF, is_zone
from agent_core.agents import MAX_IDLE
from agent_core.net.targets import read_target
from agent_core.providers.models import table
from app.addresses import Network, host_pattern, network, origin
from app.endpoints import SETTING, Endpoint, read_endpoints
from app.setting_texts import MIN_API_KEY, MIN_SECRET, POSTGRES, SQLITE, check_database, fault, json_object, web_address

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

    @field_validator("proxies", mode="before")
    @classmethod
    def _networks(cls, value: object) -> object:
        return tuple(network(part) for part in value.replace(",", " ").split()) if isinstance(value, str) else value

    @field_validator("demo_tool_context", mode="before")
    @classmethod
    def _object(cls, value: object) -> object:
        return json_object(value) if isinstance(value, str) else value

    @field_validator("hosts", mode="before")
    @classmethod
    def _names(cls, value: object) -> object:
        return (
            tuple(host_pattern(part) for part in value.replace(",", " ").split()) if isinstance(value, str) else value
        )

    @field_validator("fetch_allow", mode="before")
    @classmethod
    def _entries(cls, value: object) -> object:
        return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value

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
