"""Real models from end to end: the server as a process, the vendors' SDKs, and the vendors' wires on a socket."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent_core.messages import explanation
from agent_core.providers.base import table
from agent_core.testing import call, fail, pause, say
from agent_core.testing.models import FakeModels, ModelCall, status
from tests.app.frames import frames
from tests.app.processes import Serving, Shell, start
from tests.polling import PATIENCE

# It looks like no vendor's key, so that only who knows it can take it out.
KEY = "Zebra.7731/quagga+okapi"
KEYS = (KEY, "sk-abcdef12/SECRETRESTOFKEY+more==", "sk-abcdef12:SECRETREST99", "my-very-secret-key-998877")


def refusals(echo: str) -> list[list]:
    """Return the answers that repeat *echo*: before the stream, and within it."""
    said = json.dumps({"error": {"type": "authentication_error", "message": f"The key {echo} is not known."}})
    return [[status(401, said)], [say("Well, "), fail("auth", message=f"No more for {echo}.")]]


# By number: a message is kept, and must not hold the key itself.
ECHOES = [echo for key in KEYS for echo in (key, key[:-4])]
ANSWERS = {f"fail {n}-{m}": answer for n, echo in enumerate(ECHOES) for m, answer in enumerate(refusals(echo))}


def play(read: asyncio.Event, asked: ModelCall) -> list[Any]:
    """Use a tool and answer once the asker reads, or fail as the message asks."""
    if asked.text in ANSWERS:
        return ANSWERS[asked.text]
    first = [pause(read), say("Let me see."), call("calculate", expression="6 * 7")]
    return [say("It is ", "42.")] if asked.step else first


@dataclass(frozen=True)
class ProviderCase:
    """One provider: what is set for it, and the model that answers then."""

    model: str
    env: dict[str, str]


CASES = {
    "anthropic": ProviderCase(
        f"anthropic:{table().defaults['anthropic']}", {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "{url}"}
    ),
    "openai": ProviderCase(
        f"openai:{table().defaults['openai']}", {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "{url}/v1"}
    ),
    "openai-compatible": ProviderCase(
        "openai-compatible:qwen3",
        {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "{url}/v1", "PARLEY_MODEL": "openai-compatible:qwen3"},
    ),
}


@pytest.fixture
def case(request) -> ProviderCase:
    return CASES[request.param]


@pytest.fixture
def read() -> asyncio.Event:
    """Cleared while a person has asked who does not read the events of the run yet."""
    read = asyncio.Event()
    read.set()
    return read


@pytest.fixture
async def models(read: asyncio.Event) -> AsyncIterator[FakeModels]:
    async with FakeModels(partial(play, read)) as models:
        yield models


@pytest.fixture
def key() -> str:
    return KEY


def keys_of_cases() -> Iterator[Any]:
    """Each key with one provider, and each provider with its first key; the others are for whole runs."""
    for n, case in enumerate(CASES):
        for m, key in enumerate(KEYS):
            yield pytest.param(case, key, marks=() if m in {0, n + 1} else pytest.mark.whole, id=f"{case}-{m}")


@pytest.fixture
async def serving(
    shell: Shell, template: Path, models: FakeModels, case: ProviderCase, key: str
) -> AsyncIterator[Serving]:
    env = {name: value.replace(KEY, key).format(url=models.url) for name, value in case.env.items()}
    async with start(shell.migrated(template), **env) as serving:
        yield serving


class DemoVisitor:
    """A visitor of the demo page."""

    def __init__(self, http: httpx.AsyncClient, session: str, read: asyncio.Event) -> None:
        self._http, self._read, self.path = http, read, f"/v1/sessions/{session}"

    async def ask(self, text: str) -> tuple[str, list]:
        """Say *text*; return the run and its events."""
        self._read.clear()
        run = (await self._http.post(f"{self.path}/messages", json={"text": text})).json()["run_id"]
        async with self._http.stream("GET", f"/v1/runs/{run}/events") as events:
            self._read.set()
            return run, frames((await events.aread()).decode())


@pytest.fixture
async def person(serving: Serving, read: asyncio.Event) -> AsyncIterator[DemoVisitor]:
    async with httpx.AsyncClient(base_url=serving.url, timeout=PATIENCE) as http:
        token = (await http.get("/widget-demo/token")).json()["token"]
        http.headers["Authorization"] = f"Bearer {token}"
        session = (await http.post("/v1/sessions", json={})).json()
        yield DemoVisitor(http, session["id"], read)


@pytest.fixture
async def operator(serving: Serving) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {serving.key}"}
    async with httpx.AsyncClient(base_url=serving.url, headers=headers, timeout=PATIENCE) as http:
        yield http


@pytest.mark.sampled(1)
@pytest.mark.parametrize("case", CASES, indirect=True)
async def test_a_person_is_answered_by_the_model(
    serving: Serving, person: DemoVisitor, operator, models, case: ProviderCase
):
    """With a key alone the page names the model, and an answer with a tool call streams; the bill is the operator's."""
    assert f"Model:   {case.model}" in serving.printed
    assert f"Answers come from {case.model}." in (await operator.get("/widget-demo")).text
    run, seen = await person.ask("What is 6 * 7?")
    events = [frame.event for frame in seen]
    assert {"tool.requested", "tool.completed", "text.delta"} <= set(events)
    assert events[-1] == "run.completed"
    found = (await operator.get(f"/v1/runs/{run}")).json()
    assert (found["output"]["text"], found["steps"], models.calls) == ("It is 42.", 2, 2)
    assert found["usage"]["input"] > 0
    assert found["usage"]["output"] > 0
    assert (found["cost"] is None) == case.model.startswith("openai-compatible")
    result = next(each for each in frames(await events_of(operator, person)) if each.event == "tool.completed")
    assert result.data["parts"] == [{"type": "text", "text": "42"}]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("case", "key"), [*keys_of_cases()], indirect=["case"])
async def test_a_key_is_shown_nowhere(serving: Serving, person: DemoVisitor, operator, shell: Shell, key: str):
    """A provider that echoes the key in its error, at once or in mid-stream, is not repeated anywhere."""
    await person.ask("What is 6 * 7?")
    first = 2 * KEYS.index(key)
    for text in (f"fail {n}-{m}" for n in (first, first + 1) for m in (1, 0, 0)):
        run, seen = await person.ask(text)
        assert (seen[-1].event, seen[-1].data["message"]) == ("run.failed", explanation("auth"))
        error = (await operator.get(f"/v1/runs/{run}")).json()["error"]
        assert error["message"] == explanation("auth")
        assert "[secret]" in error["detail"]
    shown = json.loads(await shell.said("runs", "show", run))
    assert shown["error"]["detail"] == error["detail"]
    whole = await events_of(operator, person)
    assert whole.count("[secret]") >= 4
    printed = serving.printed + await serving.rest()
    kept = [path.read_bytes() for path in shell.data.rglob("*") if path.is_file()]
    assert kept
    for held in (whole.encode(), printed.encode(), *kept):
        assert key[:-4].encode() not in held
    left = {key[n : n + 6] for n in range(len(key) - 5)} - {"secret"}
    assert not [piece for piece in left if piece in whole + printed]


async def events_of(operator: httpx.AsyncClient, person: DemoVisitor) -> str:
    return (await operator.get(f"{person.path}/events?until=idle")).text


@pytest.mark.whole
async def test_ollama_needs_no_key(shell: Shell, template: Path, models: FakeModels):
    """A base URL and a model's name are enough for a compatible server."""
    env = {"OPENAI_BASE_URL": f"{models.url}/v1", "PARLEY_MODEL": "openai-compatible:qwen3"}
    async with start(shell.migrated(template), **env) as serving:
        code, out, _ = await shell.run("chat", "What is 6 * 7?")
        assert (code, out.endswith("It is 42.\n")) == (0, True)
        assert "openai-compatible:qwen3" in serving.printed


async def test_a_conversation_goes_on_without_a_server(shell: Shell, models: FakeModels):
    """`parley chat` asks the model by itself while no server runs."""
    env = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": models.url}
    code, out, err = await shell.run("chat", "What is 6 * 7?", **env)
    assert (code, out.endswith("It is 42.\n")) == (0, True)
    assert KEY not in out + err


async def test_a_model_without_its_key_ends_the_start(shell: Shell):
    """The one line names the setting, what is missing and the remedy."""
    line = await shell.refused("serve", PARLEY_MODEL="anthropic:claude-opus-5-5", OPENAI_API_KEY=KEY)
    assert "PARLEY_MODEL: `anthropic:claude-opus-5-5` needs ANTHROPIC_API_KEY" in line
    assert KEY not in line
