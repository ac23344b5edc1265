"""Sources of an answer, over HTTP: the objects, the stream, a fork, and what a visitor gets of them."""

from typing import Any

import httpx
import msgspec

from agent_core.messages import Citation
from agent_core.providers.base import ModelCitation
from agent_core.testing import say
from tests.app.frames import frames

QUOTED = Citation(start=3, end=8, text="Rain.", title="Oslo", url="https://a.example")
NAMED = Citation(title="Notes", source="s3://inside/notes", index=1)
SCRIPT: Any = (say("It rains."), ModelCitation(0, QUOTED), ModelCitation(0, NAMED))
PART = {"type": "text", "text": "It rains.", "citations": msgspec.to_builtins([QUOTED, NAMED])}


async def test_citations_are_in_every_reading_of_an_answer(
    client: httpx.AsyncClient, visitor: httpx.AsyncClient, model
):
    """The run, the messages, the stream and a fork have the sources of a text as they were given."""
    model.provider._script = lambda _: SCRIPT
    path = f"/v1/sessions/{(await visitor.post('/v1/sessions', json={})).json()['id']}"
    run = (await client.post(f"{path}/messages", json={"text": "Rain?"})).json()["run_id"]
    await client.get(f"/v1/runs/{run}/events")
    fork = (await client.post(f"{path}/fork")).json()["id"]
    for each in (path, f"/v1/sessions/{fork}"):
        assert await said(client, each) == [PART]
    output = (await client.get(f"/v1/runs/{run}")).json()["output"]
    assert (output["text"], output["parts"]) == ("It rains.", [PART])
    seen = {**PART, "citations": msgspec.to_builtins([QUOTED, Citation()])}
    assert await said(visitor, path) == [seen]


async def said(client: httpx.AsyncClient, path: str) -> list[dict[str, Any]]:
    """Return the parts of the newest answer, which the list of messages and the stream agree on."""
    listed = (await client.get(f"{path}/messages")).json()["items"][-1]["parts"]
    stream = frames((await client.get(f"{path}/events?until=idle")).text)
    assert [each.data["parts"] for each in stream if each.event == "message.completed"] == [listed]
    return listed
