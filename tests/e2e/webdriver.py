"""Firefox and WebKit by what they speak themselves: Marionette, and WebDriver of W3C. Both know the same commands."""

import asyncio
import json
import os
import shutil
import signal
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.server import free_port
from tests.polling import PATIENCE, until_async

NEEDED = {"firefox": ("firefox-esr",), "webkit": ("WebKitWebDriver", "xvfb-run")}
"""The programs that each needs; Debian's packages are firefox-esr, webkit2gtk-driver and xvfb."""
MINIBROWSER = "/usr/lib/x86_64-linux-gnu/webkit2gtk-4.1/MiniBrowser"
ENTER = "\ue007"


class Page(ABC):
    """The one window of a browser."""

    @abstractmethod
    async def do(self, command: str, path: str, body: Mapping[str, Any]) -> Any:
        """Run a command, by its name in Marionette and its path in WebDriver; return its value.

        Raises RuntimeError with what the browser says.
        """

    async def go(self, address: str) -> None:
        await self.do("Navigate", "url", {"url": address})

    async def reload(self) -> None:
        await self.do("Refresh", "refresh", {})

    async def evaluate(self, script: str, *arguments: object) -> Any:
        """Return what *script*, the body of a function, returns."""
        return await self.do("ExecuteScript", "execute/sync", {"script": script, "args": list(arguments)})

    async def until(self, script: str, *arguments: object) -> None:
        """Return once *script* returns what is true."""

        async def holds() -> bool:
            return bool(await self.evaluate(script, *arguments))

        await until_async(holds)

    async def type(self, text: str) -> None:
        """Strike the keys of *text* where the focus is."""
        strokes = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        await self.do("PerformActions", "actions", {"actions": [{"type": "key", "id": "keys", "actions": strokes}]})


class Firefox(Page):
    """Marionette: frames of JSON with their length before them."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._sent = 0

    async def begin(self) -> None:
        await self._read()  # its greeting
        await self.do("NewSession", "", {})

    async def do(self, command: str, path: str, body: Mapping[str, Any]) -> Any:
        self._sent += 1
        frame = json.dumps([0, self._sent, f"WebDriver:{command}", body]).encode()
        self._writer.write(b"%d:%s" % (len(frame), frame))
        _, _, error, value = await self._read()
        if error:
            raise RuntimeError(f"{command}: {error['message']}")
        return value.get("value")

    async def _read(self) -> Any:
        async with asyncio.timeout(PATIENCE):
            length = await self._reader.readuntil(b":")
            return json.loads(await self._reader.readexactly(int(length[:-1])))


class WebKit(Page):
    """WebDriver: a request for each command."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self._session = ""

    async def begin(self) -> None:
        options = {"binary": MINIBROWSER, "args": ["--automation"]}
        wanted = {"capabilities": {"alwaysMatch": {"webkitgtk:browserOptions": options}}}
        self._session = f"/session/{(await self._post('/session', wanted))['sessionId']}"

    async def do(self, command: str, path: str, body: Mapping[str, Any]) -> Any:
        return await self._post(f"{self._session}/{path}", body)

    async def end(self) -> None:
        await self._client.delete(self._session)

    async def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        answer = await self._client.post(path, json=body)
        value = answer.json()["value"]
        if answer.is_error:
            raise RuntimeError(f"{value['error']}: {value['message']}")
        return value


def missing(name: str) -> str | None:
    """Return a program that the browser *name* needs and that is not there; None where all are."""
    return next((each for each in NEEDED[name] if shutil.which(each) is None), None)


@asynccontextmanager
async def opened(name: str, folder: Path) -> AsyncIterator[Page]:
    """Give the browser *name*, which keeps its files in *folder* and ends with the `async with`."""
    port = free_port()
    words = _firefox(folder, port) if name == "firefox" else ["xvfb-run", "-a", "WebKitWebDriver", f"--port={port}"]
    with (folder / "browser.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(*words, stdout=log, stderr=log, start_new_session=True)
    try:
        await until_async(lambda: _listens(port))
        async with (_firefox_page if name == "firefox" else _webkit_page)(port) as page:
            yield page
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        await process.wait()


def _firefox(folder: Path, port: int) -> list[str]:
    profile = folder / "profile"
    profile.mkdir()
    (profile / "user.js").write_text(f'user_pref("marionette.port", {port});\n', "utf-8")
    return ["firefox-esr", "-marionette", "-headless", "-no-remote", "-profile", str(profile)]


@asynccontextmanager
async def _firefox_page(port: int) -> AsyncIterator[Page]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**24)
    page = Firefox(reader, writer)
    try:
        await page.begin()
        yield page
    finally:
        writer.close()


@asynccontextmanager
async def _webkit_page(port: int) -> AsyncIterator[Page]:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE, trust_env=False) as client:
        page = WebKit(client)
        await page.begin()
        try:
            yield page
        finally:
            await page.end()


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
