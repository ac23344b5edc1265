"""The commands' side of the API: find a running server, by PARLEY_URL or in PARLEY_DATA, and talk HTTP to it."""

import json
from collections.abc import Iterator
from typing import Any

import httpx

from agent_core import ConfigError, ParleyError
from app.cli.frames import Frames
from app.settings import SERVER_FILE, SQLITE, Settings
from app.storage.keys import SECRET_FILE, load_keys
from app.storage.lock import is_owned
from channels.web.identity import Tokens


class Refused(ParleyError):
    """The server said no; the message is its `detail`."""

    code = "refused"

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class Client:
    """One command's connection to a server."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        headers = {"Authorization": f"Bearer {credential(settings)}"}
        self._http = httpx.Client(base_url=server_url(settings), headers=headers, timeout=30.0, trust_env=False)

    def call(self, method: str, path: str, *, body: Any = None, **query: str | int | None) -> Any:
        """Return the answer's JSON; raise `Refused` with the server's own words."""
        params = {name: value for name, value in query.items() if value is not None}
        try:
            found = self._http.request(method, path, params=params, json=body)
        except httpx.TransportError:
            raise nobody(self._settings) from None
        if found.is_error:
            raise Refused(found.status_code, detail_of(found))
        return found.json() if found.content else None

    def every(self, path: str, **query: str | int | None) -> Iterator[dict[str, Any]]:
        """Give the items of a list, page by page."""
        cursor: str | None = None
        while True:
            page = self.call("GET", path, cursor=cursor, **query)
            yield from page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def lines(self, path: str, **query: str | int | None) -> Iterator[dict[str, Any]]:
        """Give the lines of JSON of an answer as they come."""
        params = {name: value for name, value in query.items() if value is not None}
        try:
            with self._http.stream("GET", path, params=params) as found:
                _check(found)
                rest = b""
                for chunk in found.iter_bytes():  # cut as bytes: text may hold signs that Python calls line ends
                    *whole, rest = (rest + chunk).split(b"\n")
                    yield from map(json.loads, whole)
        except httpx.TransportError:
            raise nobody(self._settings) from None

    def events(self, path: str) -> Iterator[tuple[int | None, str, dict[str, Any]]]:
        """Give the frames of a stream as seq, type and data, until it ends."""
        try:
            with self._http.stream("GET", path, timeout=httpx.Timeout(30.0, read=60.0)) as found:
                _check(found)
                frames = Frames()
                for chunk in found.iter_bytes():
                    for frame in frames.feed(chunk):
                        yield frame.id, frame.type, json.loads(frame.data)
        except httpx.TransportError:
            raise nobody(self._settings) from None


def _check(found: httpx.Response) -> None:
    """Raise `Refused` when a stream that was asked for is a refusal."""
    if found.is_error:
        found.read()
        raise Refused(found.status_code, detail_of(found))


def server_url(settings: Settings) -> str:
    """Return where PARLEY_URL, else PARLEY_DATA, says that the server is; raise ConfigError when none runs.

    A note of its address counts only while somebody owns the folder: whoever listens where a killed server did is a
    stranger, and must not be sent the key.
    """
    if settings.url is not None:
        return settings.url
    if not is_owned(settings):
        raise nobody(settings)
    try:
        return json.loads((settings.data / SERVER_FILE).read_text(encoding="utf-8"))["url"]
    except (OSError, ValueError, KeyError, TypeError):
        raise nobody(settings) from None


def credential(settings: Settings) -> str:
    """Return the API key when it is known here, else a token that only a holder of the secret key can sign."""
    if settings.api_key is not None:
        return settings.api_key.get_secret_value()
    if settings.secret_key is not None or (settings.data / SECRET_FILE).exists():
        return Tokens(load_keys(settings).derive).operator().text
    if settings.url is not None:
        raise ConfigError(f"PARLEY_API_KEY: set the key of the server at {settings.url}, as it was printed there.")
    raise nobody(settings)


def nobody(settings: Settings) -> ConfigError:
    """Return the error of who looks for a server and finds none."""
    if settings.url is not None:
        return ConfigError(f"PARLEY_URL: no server answers at {settings.url}; look whether it runs, or correct it.")
    if settings.postgres is not None:
        return ConfigError(
            "No server of this DATABASE_URL is known on this machine; set PARLEY_URL to the address of one "
            "(https://parley.example.com), or start one here with `parley serve`."
        )
    return ConfigError(
        f"No server runs on DATABASE_URL {SQLITE}{settings.database}; start one with `parley serve`, "
        "or set PARLEY_DATA to the folder of one that runs."
    )


def detail_of(found: httpx.Response) -> str:
    """Return what a problem says."""
    try:
        return str(found.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return f"The server answered {found.status_code}."
