"""A running server, held against its own description by generated requests."""

import asyncio
import sys
from asyncio.subprocess import PIPE, STDOUT

import httpx

from tests.app.processes import Serving

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
    "ignored_auth",
)
# Ids that are there, so that the requests reach what lies behind them.
KNOWN = """
[[operations]]
include-path-regex = "^/v1/sessions/.id./(messages|events|fork)$"
parameters = {{ "path.id" = "{session}", "query.until" = "idle" }}
[[operations]]
include-path-regex = "^/v1/sessions/.id.(/close)?$"
parameters = {{ "path.id" = "{doomed}" }}
[[operations]]
include-path-regex = "^/v1/runs/.id."
parameters = {{ "path.id" = "{run}" }}
[[operations]]
include-path-regex = "^/v1/agents/.id./runs"
parameters = {{ "path.id" = "assistant" }}
[[operations]]
include-path-regex = "^/v1/approvals/.id.$"
parameters = {{ "path.id" = "{approval}" }}
"""
CAREFUL = {
    "name": "careful",
    "instructions": "Ask.",
    "tools": ["calculate"],
    "hooks": [{"event": "PreToolUse", "type": "approval", "config": {"edit": True, "remember": True}}],
}


async def test_nothing_is_answered_that_is_not_described(serving: Serving, tmp_path):
    """Hundreds of valid and invalid requests get no 5xx, and no status, type or body that OpenAPI does not name."""
    headers = {"Authorization": f"Bearer {serving.key}"}
    async with httpx.AsyncClient(base_url=serving.url, headers=headers) as client:
        ids = [(await client.post("/v1/sessions", json={"agent": "assistant"})).json()["id"] for _ in range(2)]
        run = (await client.post("/v1/agents/assistant/runs", json={"input": "Hello"})).json()["id"]
        assert (await client.post("/v1/agents", json=CAREFUL)).status_code == 201
        asks = (await client.post("/v1/agents/careful/runs", json={"input": "What is 12 * 7?"})).json()
    known = KNOWN.format(session=ids[0], doomed=ids[1], run=run, approval=asks["pending"][0]["approval"])
    (tmp_path / "schemathesis.toml").write_text(known)
    options = ("--phases", "coverage,fuzzing", "--max-examples", "4", "--seed", "1", "--no-color")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{serving.url}/openapi.json"),
        *("--header", f"Authorization: {headers['Authorization']}", "--checks", ",".join(CHECKS), *options),
        cwd=tmp_path,
        stdout=PIPE,
        stderr=STDOUT,
    )
    told, _ = await asyncio.wait_for(process.communicate(), 240)
    assert process.returncode == 0, told.decode()[-8000:]
