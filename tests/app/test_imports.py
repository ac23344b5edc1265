"""A server imports slow modules only when they are needed, inside the functions that use them."""

import asyncio
import json
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import httpx
import pytest

from agent_core.testing import fail, say
from agent_core.testing.models import FakeModels
from tests.app.processes import Shell
from tests.polling import PATIENCE

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[2]
# Modules that a server on SQLite does not import, and what needs them.
UNUSED = {
    "alembic": "parley migrate",
    "asyncpg": "Postgres",
    "dbos": "Postgres",
    "hypothesis": "tests",
    "jsonschema": "the first call of a tool",
    "psycopg": "Postgres",
    "re2": "a rule with a pattern",
    "slack_bolt": "Slack",
    "slack_sdk": "Slack",
    "sqlalchemy.dialects.postgresql": "Postgres",
}
# What a server imports neither for a start nor for an answer to a request with an API key.
LATER = {
    "cryptography": "a visitor's token, or a secret",
    "jwt": "a visitor's token",
    "markdown_it": "a table that a channel draws",
    "wcwidth": "a chart or table with text that is not ASCII",
}
SDKS = {"anthropic", "openai"}
KEY = "operators-key"
# `parley serve` that prints what it has imported, at SIGUSR1 and at its end.
SERVE = """
import atexit, json, signal, sys
shown = lambda *_: print(json.dumps(sorted(sys.modules)), flush=True)
atexit.register(shown)
signal.signal(signal.SIGUSR1, shown)
sys.argv = ["parley", "serve"]
from app.__main__ import main
main()
"""


async def imported(shell: Shell, **keys: str) -> tuple[set[str], set[str]]:
    """Return what `parley serve` imports until it has answered once, and until it has also refused once."""
    data = shell.data
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PORT": "0", "PARLEY_DATA": str(data)}
    environment |= {"PARLEY_AGENTS": str(ROOT / "agents"), "PARLEY_API_KEY": KEY, "PARLEY_DEMO_RATE": "0", **keys}
    command = (sys.executable, "-c", SERVE)
    process = await asyncio.create_subprocess_exec(*command, cwd=data, env=environment, stdout=PIPE, limit=1_000_000)
    assert process.stdout is not None
    async with asyncio.timeout(2 * PATIENCE):
        url = re.findall(rb"http://\S+:\d+", await process.stdout.readline())[0].decode()
        while not (await process.stdout.readline()).startswith(b"Model:"):
            assert process.returncode is None
        async with httpx.AsyncClient(
            base_url=url, headers={"Authorization": f"Bearer {KEY}"}, timeout=PATIENCE
        ) as client:
            answer = await client.post("/v1/agents/assistant/runs", json={"input": "Hello"})
            process.send_signal(signal.SIGUSR1)
            answering = set(json.loads(await process.stdout.readline()))
            token = {"Authorization": "Bearer eyJhbGciOiJSUzI1NiJ9.e30.c2ln"}
            refused = await client.get("/v1/sessions", headers=token)
        assert (answer.json()["status"], refused.status_code) == ("completed", 401)
        process.send_signal(signal.SIGTERM)
        out, _ = await process.communicate()
    return answering, set(json.loads(out.splitlines()[-1]))


async def test_without_a_key_no_sdk_is_imported(shell: Shell, template: Path):
    """A server without keys imports no SDK, nothing for Postgres or Slack and nothing of other commands.

    What signs tokens, reads keys or draws tables is imported where the first of them comes.
    """
    answering, found = await imported(shell.migrated(template))
    assert answering & LATER.keys() == set()
    assert "app.main" in answering
    assert found & {*UNUSED, *SDKS, "aiohttp", "httpx2"} == set()
    assert "fastapi" in found


@pytest.mark.whole
@pytest.mark.parametrize(
    ("vendor", "other", "path"),
    [("anthropic", "openai", ""), pytest.param("openai", "anthropic", "/v1", marks=pytest.mark.whole)],
)
async def test_a_key_imports_the_sdk_of_its_vendor_alone(
    shell: Shell, template: Path, vendor: str, other: str, path: str
):
    """A key brings the SDK of its vendor, and not that of another one."""
    async with FakeModels([(fail("overloaded"),), (say("Hello."),)]) as models:
        keys = {f"{vendor.upper()}_API_KEY": "any", f"{vendor.upper()}_BASE_URL": models.url + path}
        _, found = await imported(shell.migrated(template), **keys)
    assert found & {*UNUSED, other} == set()
    assert vendor in found
