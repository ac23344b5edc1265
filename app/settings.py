"""Settings: the environment, and `.env` in development. Whatever cannot work fails here, in one line."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict, SettingsError

from agent_core import ConfigError

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
MIN_SECRET = 32
SQLITE = "sqlite:///"
# Where a running server tells the commands of its machine how to reach it.
SERVER_FILE = "server.json"
POSTGRES = ("postgres://", "postgresql://")
REAL_PROVIDERS = ("anthropic", "openai", "openai-compatible")
DEMO = "demo"
REMEDIES = {
    "PORT": "give a number from 0 to 65535",
    "PARLEY_DEMO": "give on or off",
    "PARLEY_DEMO_RATE": "give deltas per second; 0 means flat out",
    "PARLEY_SECRET_KEY": f"give any text of {MIN_SECRET} characters or more",
    "PARLEY_API_KEY": "give a text without spaces",
    "PARLEY_ORIGINS": "give origins such as https://example.com, with commas between them",
}


class Settings(BaseSettings):
    """What Parley can be told from outside; the README has the table."""

    model_config = SettingsConfigDict(
        env_ignore_empty=True, extra="ignore", frozen=True, populate_by_name=True, hide_input_in_errors=True
    )

    host: str = Field("127.0.0.1", validation_alias="HOST")
    port: int = Field(8000, validation_alias="PORT", ge=0, le=65535)
    database_url: SecretStr | None = Field(None, validation_alias="DATABASE_URL")
    api_key: SecretStr | None = Field(None, validation_alias="PARLEY_API_KEY")
    agents: Path = Field(Path("agents"), validation_alias="PARLEY_AGENTS")
    model: str | None = Field(None, validation_alias="PARLEY_MODEL")
    data: Path = Field(Path("data"), validation_alias="PARLEY_DATA")
    secret_key: SecretStr | None = Field(None, validation_alias="PARLEY_SECRET_KEY")
    origins: Annotated[tuple[str, ...], NoDecode] = Field((), validation_alias="PARLEY_ORIGINS")
    demo_page: bool | None = Field(None, validation_alias="PARLEY_DEMO")
    demo_rate: float = Field(50, validation_alias="PARLEY_DEMO_RATE", ge=0, allow_inf_nan=False)
    anthropic_api_key: SecretStr | None = Field(None, validation_alias="ANTHROPIC_API_KEY")
    openai_api_key: SecretStr | None = Field(None, validation_alias="OPENAI_API_KEY")
    openai_base_url: str | None = Field(None, validation_alias="OPENAI_BASE_URL")

    @field_validator("origins", mode="before")
    @classmethod
    def _split(cls, given: object) -> object:
        if not isinstance(given, str):
            return given
        origins = tuple(part.strip().rstrip("/") for part in given.split(",") if part.strip())
        if not all(o == "*" or o.startswith(("http://", "https://")) for o in origins):
            raise ValueError("not an origin")
        return origins

    @field_validator("secret_key")
    @classmethod
    def _long(cls, given: SecretStr | None) -> SecretStr | None:
        if given is not None and len(given.get_secret_value()) < MIN_SECRET:
            raise ValueError("too short")
        return given

    @field_validator("api_key")
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
    def demo(self) -> bool:
        """Whether the open demo page exists."""
        return self.loopback if self.demo_page is None else self.demo_page

    @property
    def database(self) -> Path:
        """The SQLite file."""
        url = self.database_url.get_secret_value() if self.database_url else ""
        return Path(url.removeprefix(SQLITE)) if url else self.data / "parley.db"

    @property
    def default_model(self) -> str:
        """The model of agents that name none, as `provider` or `provider:model`."""
        return self.model or DEMO

    @property
    def unused_key(self) -> str | None:
        """The name of a provider's key that is set and answers nothing yet, because no model is named."""
        keys = {"ANTHROPIC_API_KEY": self.anthropic_api_key, "OPENAI_API_KEY": self.openai_api_key}
        given = [name for name, key in keys.items() if key is not None]
        return given[0] if given and self.model is None else None

    @property
    def model_origin(self) -> Literal["PARLEY_MODEL", "default"]:
        """Where the default model's name comes from."""
        return "PARLEY_MODEL" if self.model else "default"


def load_settings(env_file: Path | None = Path(".env"), *, serving: bool = True) -> Settings:
    """Return the settings of this process; raise ConfigError with one line when they cannot work.

    Without *serving* it is enough that a command finds the server.
    """
    try:
        settings = Settings(_env_file=env_file)  # pyright: ignore[reportCallIssue] - pydantic-settings' own
    except ValidationError as error:
        raise ConfigError(_first(error)) from None
    except (SettingsError, OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"`{env_file}` cannot be read ({error}); correct it or remove it.") from None
    if serving:
        check(settings)
    return settings


def check(settings: Settings) -> None:
    """Raise ConfigError for what is well-formed and still cannot work."""
    _check_database(settings)
    _check_base_url(settings)
    check_model(settings.default_model, "PARLEY_MODEL")
    if settings.agents.exists() and not settings.agents.is_dir():
        raise ConfigError(f"PARLEY_AGENTS: `{settings.agents}` is a file; name the folder that holds the agents.")
    if not settings.agents.exists():
        raise ConfigError(
            f"PARLEY_AGENTS: there is no folder `{settings.agents}`; make it, or name the folder of the agents."
        )


def check_model(name: str, where: str) -> None:
    """Raise ConfigError when no provider of this version serves *name*; *where* says who asks for it."""
    provider, _, model = name.partition(":")
    if name == DEMO:
        return
    if provider in REAL_PROVIDERS:
        raise ConfigError(
            f"{where}: models of `{provider}` are not built yet, so `{name}` cannot be served; use `demo`."
        )
    hint = f"`{provider}` is no provider" if model else "a model is written `provider:model`"
    raise ConfigError(f"{where}: `{name}` is unknown, {hint}; this version serves `demo`.")


def _check_database(settings: Settings) -> None:
    url = settings.database_url.get_secret_value() if settings.database_url else None
    if url is None:
        return
    if url.startswith(POSTGRES):
        raise ConfigError("DATABASE_URL: Postgres is not built yet; use sqlite:///path, or leave it unset.")
    if not url.startswith(SQLITE) or not url.removeprefix(SQLITE) or "?" in url:
        raise ConfigError("DATABASE_URL: this is no address of a database; use sqlite:///path, or leave it unset.")
    if settings.database.is_dir():
        raise ConfigError(f"DATABASE_URL: `{settings.database}` is a folder; name a file in it.")


def _check_base_url(settings: Settings) -> None:
    if settings.openai_base_url is not None and settings.model is None and settings.unused_key is None:
        raise ConfigError(
            "OPENAI_BASE_URL alone names no model; set PARLEY_MODEL too (openai-compatible:<model>), or unset it."
        )


def _first(error: ValidationError) -> str:
    """Say which setting is wrong and what to do, never what was given: it may be a secret."""
    found = error.errors(include_url=False, include_input=False)[0]
    name = str(found["loc"][0]) if found["loc"] else "a setting"
    fault = found["msg"].removeprefix("Value error, ").lower()
    return f"{name} cannot be used ({fault}); {REMEDIES.get(name, 'correct it')}, or leave it unset."
