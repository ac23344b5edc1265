"""The secret key that all other keys derive from, and the bootstrap API key."""

import hashlib
import hmac
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from agent_core import ConfigError
from app.settings import MIN_SECRET, Settings
from app.storage.at_rest import secure

SECRET_FILE = "secret.key"  # noqa: S105 - a file's name
API_KEY_FILE = "api_key.sha256"
API_KEY_NAME = "api_key.sha256"
"""What its hash is called among the values that the processes of a database share."""


SECRET_NAME = "secret_key.fingerprint"  # noqa: S105 - a name
"""What the fingerprint of the secret key is called there."""


@dataclass(frozen=True, slots=True, repr=False)
class Keys:
    """Keys for each purpose, by HMAC-SHA256 from one secret."""

    root: bytes

    def derive(self, purpose: str) -> bytes:
        """Return the 32 bytes for *purpose*; different purposes share nothing."""
        return hmac.digest(self.root, b"parley:" + purpose.encode(), "sha256")


@dataclass(frozen=True, slots=True, repr=False)
class ApiKey:
    """The bootstrap operator key, known by its hash.

    *generated* is the text of one made just now, *renewal* says how to get another than one that was made before.
    """

    digest: bytes
    generated: str | None = None
    renewal: str | None = None

    def fits(self, text: str) -> bool:
        """Return whether *text* is the key, in constant time."""
        return hmac.compare_digest(_hash(text), self.digest)


def load_keys(settings: Settings) -> Keys:
    """Return the keys of PARLEY_SECRET_KEY, else of the file in PARLEY_DATA, which is made when missing."""
    if settings.secret_key is not None:
        return Keys(settings.secret_key.get_secret_value().encode())
    text = _stored_secret(settings) or _write(settings.data / SECRET_FILE, secrets.token_urlsafe(48))
    return Keys(text.encode())


def check_keys(settings: Settings) -> None:
    """Raise ConfigError when a key that is kept in PARLEY_DATA, and is needed, cannot be used; make none."""
    if settings.postgres is None:
        if settings.secret_key is None:
            _stored_secret(settings)
        if settings.api_key is None:
            _stored_api_key(settings)


def _stored_secret(settings: Settings) -> str | None:
    path = settings.data / SECRET_FILE
    text = _read(path)
    if text is not None and len(text) < MIN_SECRET:
        raise ConfigError(f"PARLEY_SECRET_KEY: `{path}` holds no key; remove the file, or set the variable.")
    return text


def _stored_api_key(settings: Settings) -> ApiKey | None:
    path = settings.data / API_KEY_FILE
    digest = _read(path)
    try:
        renewal = f"remove {path} and start again, or set PARLEY_API_KEY"
        return None if digest is None else ApiKey(bytes.fromhex(digest), renewal=renewal)
    except ValueError:
        raise ConfigError(
            f"PARLEY_API_KEY: `{path}` is damaged; remove it for a new key, or set the variable."
        ) from None


def check_secret(settings: Settings) -> None:
    """Raise ConfigError when the other processes of the same Postgres have another PARLEY_SECRET_KEY."""
    if settings.postgres is None:
        return
    from agent_core.store.access import keep_shared as keep  # noqa: PLC0415 - as below
    from app.storage.postgres import connected  # noqa: PLC0415 - as below

    mark = load_keys(settings).derive("fingerprint")
    with connected(settings.postgres) as connection:
        shared = keep(connection, SECRET_NAME, mark)
    _compare(mark, shared)


def check_shared_secret(settings: Settings) -> None:
    """Do as `check_secret` on a migrated Postgres, and keep nothing: before the first start every secret will do."""
    if settings.postgres is None or settings.secret_key is None:
        return
    from agent_core.store.access import shared_value as value_of  # noqa: PLC0415 - as below
    from app.storage.postgres import connected  # noqa: PLC0415 - as below

    with connected(settings.postgres) as connection:
        shared = value_of(connection, SECRET_NAME)
    if shared is not None:
        _compare(load_keys(settings).derive("fingerprint"), shared)


def _compare(mark: bytes, shared: bytes) -> None:
    if not hmac.compare_digest(mark, shared):
        raise ConfigError(
            "PARLEY_SECRET_KEY: the processes of this Postgres have another one; set the same for all (how it is "
            "changed is in docs/operations.md)."
        )


def load_api_key(settings: Settings) -> ApiKey:
    """Return PARLEY_API_KEY, else the key of an earlier start, else a new one that is to be shown once.

    On Postgres its hash is kept in the database: the process that makes the key shows it, and all take it.
    """
    if settings.api_key is not None:
        return ApiKey(_hash(settings.api_key.get_secret_value()))
    made = f"parley_{secrets.token_urlsafe(24)}"
    if settings.postgres is not None:
        return _shared(settings.postgres, made)
    if existing := _stored_api_key(settings):
        return existing
    _write(settings.data / API_KEY_FILE, _hash(made).hex())
    return ApiKey(_hash(made), generated=made)


def find_api_key(settings: Settings) -> ApiKey | None:
    """Return PARLEY_API_KEY, else the key that a server on the same Postgres has made; make none."""
    if settings.api_key is not None:
        return ApiKey(_hash(settings.api_key.get_secret_value()))
    if settings.postgres is None:
        return None
    from agent_core.store.access import shared_value as value_of  # noqa: PLC0415 - as below
    from app.storage.postgres import connected  # noqa: PLC0415 - as below

    with connected(settings.postgres) as connection:
        digest = value_of(connection, API_KEY_NAME)
    return None if digest is None else ApiKey(digest)


def _shared(url: str, made: str) -> ApiKey:
    from agent_core.store.access import keep_shared as keep  # noqa: PLC0415 - what Postgres needs is imported only for it
    from app.storage.postgres import connected  # noqa: PLC0415 - as above

    with connected(url) as connection:
        digest = keep(connection, API_KEY_NAME, _hash(made))
    if digest == _hash(made):
        return ApiKey(digest, generated=made)
    return ApiKey(digest, renewal="set PARLEY_API_KEY for all processes")


def prepare_data(settings: Settings) -> Path:
    """Make the folder PARLEY_DATA, and all that is in it this user's alone; return it."""
    try:
        settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"PARLEY_DATA: `{settings.data}` cannot be made ({error.strerror}); name a folder that can."
        ) from None
    secure(settings)
    return settings.data


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"PARLEY_DATA: `{path}` cannot be read ({error}); correct its permissions.") from None


def _write(path: Path, text: str) -> str:
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text + "\n")
    except OSError as error:
        raise ConfigError(
            f"PARLEY_DATA: `{path}` cannot be written ({error.strerror}); name a folder that can."
        ) from None
    return text
