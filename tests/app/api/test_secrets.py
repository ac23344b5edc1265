"""Routes and commands of secrets: values go in, and are in no answer, no record and no error."""

import json

import httpx
import pytest
from typer.testing import CliRunner

from agent_core.core import Core
from app.cli import tools as cli
from app.cli.commands import app as commands
from tests.cases import for_each

VALUE = "s3cr3t-value-of-the-test"


async def test_a_secret_is_set_listed_by_name_changed_and_deleted(client: httpx.AsyncClient, core: Core):
    """Creating answers 201, a second one of the name 409, and nothing that is read has a value."""
    made = await client.post("/v1/secrets", json={"name": "KEY", "value": VALUE})
    assert (made.status_code, made.json()["name"]) == (201, "KEY")
    again = await client.post("/v1/secrets", json={"name": "KEY", "value": VALUE})
    assert (again.status_code, again.json()["code"]) == (409, "conflict")
    changed = await client.put("/v1/secrets/KEY", json={"value": f"{VALUE} 2"})
    assert (changed.status_code, changed.json()["created_at"]) == (200, made.json()["created_at"])
    listed = await client.get("/v1/secrets")
    assert [set(each) for each in listed.json()["items"]] == [{"id", "name", "created_at", "updated_at"}]
    assert await core.tools.secrets.values(["KEY"]) == {"KEY": f"{VALUE} 2"}
    assert (await client.delete("/v1/secrets/KEY")).status_code == 204
    assert (await client.delete("/v1/secrets/KEY")).status_code == 404
    record = [json.loads(line) for line in (await client.get("/v1/audit")).text.splitlines()]
    assert [(each["route"], each["object"], each["result"]) for each in record] == [
        ("POST /v1/secrets", "KEY", 201),
        ("POST /v1/secrets", None, 409),
        ("PUT /v1/secrets/{id}", "KEY", 200),
        ("DELETE /v1/secrets/{id}", "KEY", 204),
        ("DELETE /v1/secrets/{id}", "KEY", 404),
    ]
    assert VALUE not in "".join(answer.text for answer in (made, again, changed, listed)) + json.dumps(record)


@for_each(
    "body",
    [
        {"name": "K Y", "value": VALUE},
        {"name": "KEY", "value": ""},
        {"name": "KEY", "value": [VALUE]},
        {"name": "KEY", "value": VALUE, "more": VALUE},
        {"value": VALUE},
        {"name": VALUE * 10, "value": VALUE * 1_000},
    ],
)
async def test_a_refused_body_is_not_repeated(client: httpx.AsyncClient, body: dict[str, object]):
    """An error names the field and not what was in it."""
    answer = await client.post("/v1/secrets", json=body)
    assert answer.status_code == 422
    assert VALUE not in answer.text


def test_the_command_reads_the_value_from_standard_input(monkeypatch: pytest.MonkeyPatch):
    """A pipe's value is sent without its line end, an empty one is refused, and no argument takes a value."""
    sent: list[object] = []

    def request(method: str, path: str, *, body: object = None) -> dict[str, str]:
        sent.append((method, path, body))
        return {"name": "KEY"}

    monkeypatch.setattr(cli, "request", request)
    done = CliRunner().invoke(commands, ["secrets", "set", "KEY"], input=f"{VALUE}\n")
    assert (done.exit_code, VALUE in done.output) == (0, False)
    assert sent == [("PUT", "/v1/secrets/KEY", {"value": VALUE})]
    assert CliRunner().invoke(commands, ["secrets", "set", "KEY"], input="").exit_code == 2
    assert CliRunner().invoke(commands, ["secrets", "set", "KEY", VALUE]).exit_code == 2
