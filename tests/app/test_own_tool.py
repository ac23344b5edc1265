"""A tool of one's own finds the same libraries in a real server as under pytest."""

import json
from pathlib import Path

import httpx
import jwt

from agent_core.testing import call, say
from agent_core.testing.models import FakeModels
from tests.app.frames import frames
from tests.app.processes import PlainShell, start
from tests.app.signing import sign

SCRIPT = [(call("sign", subject="ann"),), (say("Signed."),)]
AGENT = {"name": "signer", "instructions": "Sign.", "tools": ["sign"]}


def check(result: str) -> None:
    """Verify the token in *result* with the public key beside it."""
    signed = json.loads(result)
    assert jwt.get_unverified_header(signed["token"])["alg"] == "RS256"
    assert jwt.decode(signed["token"], signed["key"], algorithms=["RS256"]) == {"sub": "ann"}


async def test_a_tool_that_signs_with_rs256_works_under_pytest():
    """In this process PyJWT signs with a key pair."""
    check(await sign(subject="ann"))


async def test_a_tool_that_signs_with_rs256_works_in_a_server(template: Path, tmp_path: Path):
    """In a process of `parley serve` the same tool signs with a key pair."""
    async with FakeModels(SCRIPT) as models:
        env = {"ANTHROPIC_API_KEY": "any", "ANTHROPIC_BASE_URL": models.url}
        async with start(PlainShell(tmp_path, module="tests.app.signing").migrated(template), **env) as serving:
            headers = {"Authorization": f"Bearer {serving.key}"}
            async with httpx.AsyncClient(base_url=serving.url, headers=headers, timeout=60) as client:
                assert (await client.post("/v1/agents", json=AGENT)).status_code == 201
                run = (await client.post("/v1/agents/signer/runs", json={"input": "Sign."})).json()
                assert run["status"] == "completed", run
                events = frames((await client.get(f"/v1/runs/{run['id']}/events")).text)
    (completed,) = (event.data for event in events if event.event == "tool.completed")
    assert completed["outcome"] == "done", completed
    check(completed["parts"][0]["text"])
