"""What a server does not import before it is asked: its start and its memory are imports."""

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
from pydantic import BaseModel

from agent_core.testing import fail, say
from agent_core.testing.models import FakeModels
from app.bytecode import AS_EVER
from app.lean import unbuilt, without
from app.migrate import migrate
from app.settings import Settings

ROOT = Path(__file__).parents[2]
# What a server on SQLite does without, and who would bring it.
UNUSED = {
    "alembic": "parley migrate",
    "anthropic.types": "the first error of a vendor",
    "asyncpg": "Postgres",
    "cryptography": "a secret to keep",
    "dbos": "Postgres",
    "greenlet": "Postgres",
    "httpx": "parley chat",
    "hypothesis": "tests",
    "jsonschema": "the first call of a tool",
    "prometheus_client": "/metrics",
    "psycopg": "Postgres",
    "pydantic.v1": "FastAPI",
    "re2": "a rule with a pattern",
    "referencing": "the first call of a tool",
    "rich": "structlog",
    "rpds": "the first call of a tool",
    "slack_bolt": "Slack",
    "slack_sdk": "Slack",
    "sqlalchemy.dialects.postgresql": "the tables",
    "typer": "any other command",
    "uvicorn.supervisors": "uvicorn's command line",
}
SDKS = {"anthropic", "openai"}
OURS = ("agent_core.tools.builtin.calculate", "app.api.runs", "channels.web.routes")
KEY = "operators-key"
# `parley serve` that says at its end what it imported, and whether a docstring came with it.
SERVE = """
import atexit, json, sys
def has(module):
    return str(vars(module).get("__file__")).endswith(".py") and bool(module.__doc__)
told = lambda: {name: has(module) for name, module in sys.modules.items() if module}
atexit.register(lambda: print(json.dumps(told()), flush=True))
sys.argv = ["parley", "serve"]
from app.__main__ import main
main()
"""


async def imported(data: Path, **keys: str) -> dict[str, bool]:
    """Return what `parley serve` imports until it has answered once and refused once, and whether with a docstring."""
    migrate(Settings(_env_file=None, data=data))  # type: ignore[call-arg]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PORT": "0", "PARLEY_DATA": str(data)}
    environment |= {"PARLEY_AGENTS": str(ROOT / "agents"), "PARLEY_API_KEY": KEY, "PARLEY_DEMO_RATE": "0", **keys}
    command = (sys.executable, "-c", SERVE)
    process = await asyncio.create_subprocess_exec(*command, cwd=data, env=environment, stdout=PIPE)
    assert process.stdout is not None
    async with asyncio.timeout(120):
        url = re.findall(rb"http://\S+:\d+", await process.stdout.readline())[0].decode()
        while not (await process.stdout.readline()).startswith(b"Model:"):
            assert process.returncode is None
        async with httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {KEY}"}, timeout=60) as client:
            answer = await client.post("/v1/agents/assistant/runs", json={"input": "Hello"})
            stranger = await client.get(
                "/v1/sessions", headers={"Authorization": "Bearer eyJhbGciOiJSUzI1NiJ9.e30.c2ln"}
            )
        assert (answer.json()["status"], stranger.status_code) == ("completed", 401)
        process.send_signal(signal.SIGTERM)
        out, _ = await process.communicate()
    return json.loads(out.splitlines()[-1])


async def test_without_keys(tmp_path: Path):
    """A server imports no SDK, no other database and no other command before something needs it."""
    found = await imported(tmp_path)
    assert {*found} & {*UNUSED, *SDKS, "aiohttp", "httpx2"} == set()
    assert "fastapi" in found


@pytest.mark.parametrize(
    ("vendor", "other", "path", "types"),
    [("anthropic", "openai", "", "anthropic.types.message"), ("openai", "anthropic", "/v1", "openai.types.responses")],
)
async def test_with_a_key(tmp_path: Path, vendor: str, other: str, path: str, types: str):
    """A key brings the SDK of its vendor without its types, which no answer and no error needs, and not another's."""
    async with FakeModels([(fail("overloaded"),), (say("Hello."),)]) as models:
        keys = {f"{vendor.upper()}_API_KEY": "any", f"{vendor.upper()}_BASE_URL": models.url + path}
        found = await imported(tmp_path, **keys)
    assert {*found} & {*UNUSED, other, types} == set()
    assert vendor in found
    told = {name.partition(".")[0] for name, told in found.items() if told}
    early = told & sys.stdlib_module_names  # what Python itself had imported
    assert told - early - AS_EVER == set(), (
        "`make install` compiles libraries: python -B -X no_debug_ranges -m app.bytecode"
    )
    assert all(found[name] for name in OURS)


def test_without(monkeypatch: pytest.MonkeyPatch):
    """What is not found while something is imported is found again afterwards."""
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with without("colorsys"), pytest.raises(ImportError):
        import colorsys  # noqa: F401, PLC0415
    import colorsys as found  # noqa: PLC0415

    assert found.rgb_to_hsv


def test_unbuilt():
    """A model that waits for its first use is as good as another one; those that come later do not wait."""
    with unbuilt():

        class Late(BaseModel):
            number: int

    class Ready(BaseModel):
        number: int

    assert (Late.__pydantic_complete__, Ready.__pydantic_complete__) == (False, True)
    assert Late.model_validate({"number": "1"}).number == 1
