"""docs/conversations.md against the product: its examples run in order, and its numbers are the code's."""

import re
import shlex
from pathlib import Path

import httpx

from agent_core.runtime import services
from agent_core.store.listing import MAX_OF_ONE

PAGE = (Path(__file__).parents[2] / "docs" / "conversations.md").read_text("utf-8")
BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
CURLS = [shlex.split(line) for block in BLOCKS for line in re.sub(r"\\\n", " ", block).splitlines()]


async def test_the_examples_run(client: httpx.AsyncClient):
    """The lists answer, the reply is said, and then a search for its words finds the conversation."""
    session = (await client.post("/v1/sessions", json={"agent": "assistant", "actor": "ann"})).json()["id"]
    by_activity, search, reply, messages = CURLS
    listed = await client.get(by_activity[2].removeprefix("localhost:8000"))
    assert [each["id"] for each in listed.json()["items"]] == [session]
    assert (await client.get(search[2].removeprefix("localhost:8000"))).json()["items"] == []
    path = reply[2].removeprefix("localhost:8000").replace("$SESSION", session)
    answer = await client.post(path, content=reply[-1], headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["actor"]["name"]) == (201, "Meg")
    said = await client.get(messages[2].removeprefix("localhost:8000").replace("$SESSION", session))
    assert [each["actor"]["name"] for each in said.json()["items"]] == ["Meg"]
    found = (await client.get("/v1/sessions?q=parcel%20ann")).json()["items"]
    assert [each["id"] for each in found] == [session]


def test_the_numbers_are_the_codes():
    """The bounds of a search that the page names are those of the code."""
    for number in (services.MAX_SESSIONS, services.MAX_FACTS, MAX_OF_ONE):
        assert f"{number:,}" in PAGE
