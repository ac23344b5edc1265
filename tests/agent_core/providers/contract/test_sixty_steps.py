"""Sixty steps with thinking under the enforced prefix check: a cut, new snapshots, a repair, and a check that bites."""

from typing import Any

import pytest

from agent_core.agents import Compaction, Limits
from agent_core.channels import Inbound
from agent_core.events import ContextCompacted, RunFailed, SnapshotFrozen, StepCompleted, StepFailed, StepStarted
from agent_core.messages import Message, Text, explanation
from agent_core.providers.base import Encode, Files
from agent_core.testing import call, fail, say, think
from agent_core.testing.models import ModelCall
from agent_core.testing.models.asked import Redacted, redacted
from agent_core.testing.scripted import Think
from tests.agent_core.laws import check_log
from tests.agent_core.providers.contract.telling import TOOLS, thoughts
from tests.agent_core.providers.contract.wires import MESSAGES, RESPONSES, ConnectedProvider
from tests.agent_core.providers.stale import STALE_TEXTS
from tests.agent_core.scenes import Hurried
from tests.agent_core.stage import ANN

pytestmark = pytest.mark.whole

STEPS = 10
CUT: dict[str, Any] = {"limits": Limits(50), "compaction": Compaction(kind="cut")}
STALE = "stale_reasoning"


def thoughtful(asked: ModelCall) -> list[Any]:
    """Think in every step, call tools in most, answer in the tenth."""
    n = asked.step
    thought = redacted() if n == 4 else think(f"{asked.text}, ", f"step {n}.")
    if n == STEPS - 1:
        return [thought, say(f"{asked.text} is done.")]
    calls = [call("look", what=f"{asked.text} {n}"), *([call("list_all")] if n % 3 == 0 else [])]
    return [thought, *([say("Next.")] if n % 2 else []), *([think("And more.")] if n == 5 else []), *calls]


async def test_sixty_steps_never_break_the_prefix_of_thinking(scene):
    """Six runs of ten thinking steps, with cuts, another model and other instructions between, are never refused."""
    stage = await scene(MESSAGES, thoughtful, tools=TOOLS, **CUT)
    await stage.play("One")
    await stage.play("Two")
    await stage.play("Three", model=MESSAGES.full_other)
    await stage.play("Four")
    inbound = Inbound(parts=(Text("Five"),), actor=ANN, instructions="Be wordy.")
    await stage.done((await stage.core.receive(stage.session, inbound)).run)
    await stage.play("Six")
    assert await stage.said(StepFailed) == []
    assert len(await stage.said(StepCompleted)) == stage.line.models.calls == 6 * STEPS
    assert len(await stage.said(ContextCompacted)) >= 1
    assert [frozen.reason for frozen in await stage.said(SnapshotFrozen)].count("run") == 4
    check_log(await stage.log())
    replayed = [thoughts(asked) for asked in stage.line.models.asked]
    assert max(replayed) > STEPS, "thinking is replayed over runs"
    assert replayed[2 * STEPS] == 0, "none from before the new model"


async def test_thinking_from_before_a_cut_never_comes_back(scene):
    """The first request after a cut has no thinking, and each later one only what came since."""
    stage = await scene(MESSAGES, thoughtful, tools=TOOLS, **CUT)
    for text in ("One", "Two", "Three", "Four"):
        await stage.play(text)
    bodies = [fact.body for fact in await stage.log()]
    cuts = [place for place, body in enumerate(bodies) if isinstance(body, ContextCompacted)]
    step = sum(isinstance(body, StepStarted) for body in bodies[: cuts[-1]])
    later = stage.line.models.asked[step : step + 4]
    made = [sum(isinstance(item, Think | Redacted) for item in thoughtful(asked)) for asked in later]
    assert [thoughts(asked) for asked in later] == [sum(made[:n]) for n in range(4)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("wire", [MESSAGES, RESPONSES], ids=lambda wire: wire.name)
async def test_a_refusal_of_thinking_is_repaired_once_and_the_session_continues(scene, wire):
    """When a provider refuses earlier thinking it is left out permanently, the log says so, and sixty steps go well."""
    refused = []

    def script(asked: ModelCall) -> list[Any]:
        if (asked.text, asked.step) == ("Three", 4) and not refused:
            refused.append(asked)
            return [fail(STALE)]
        return thoughtful(asked)

    stage = await scene(wire, script, tools=TOOLS, clock=Hurried(), limits=Limits(None))
    runs = [await stage.play(text) for text in ("One", "Two", "Three", "Four", "Five", "Six")]
    assert {run.status for run in runs} == {"completed"}
    assert len(await stage.said(StepCompleted)) == 6 * STEPS
    assert [failed.code for failed in await stage.said(StepFailed)] == [STALE]
    assert [frozen.reason for frozen in await stage.said(SnapshotFrozen)] == ["opened", "repair"]
    asked = stage.line.models.asked
    place = asked.index(refused[0])
    assert thoughts(asked[place]) > 0
    assert [thoughts(each) for each in asked[place + 1 : place + 3]] == [0, 1]
    check_log(await stage.log())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("text", STALE_TEXTS)
async def test_a_session_outlives_every_refusal_of_thinking(scene, text):
    """In whatever words thinking is refused, it is left out from there on, and this run and the next one go well."""
    refused = []

    def script(asked: ModelCall) -> list[Any]:
        if asked.step == 2 and not refused:
            refused.append(asked)
            return [fail(STALE, message=text)]
        return thoughtful(asked)

    stage = await scene(MESSAGES, script, tools=TOOLS, clock=Hurried())
    runs = [await stage.play(text) for text in ("One", "Two")]
    assert {run.status for run in runs} == {"completed"}
    assert [failed.code for failed in await stage.said(StepFailed)] == [STALE]
    place = stage.line.models.asked.index(refused[0])
    assert [thoughts(each) for each in stage.line.models.asked[place : place + 2]] == [2, 0]


@pytest.mark.parametrize("wire", [MESSAGES, RESPONSES], ids=lambda wire: wire.name)
async def test_a_second_refusal_in_the_same_step_fails_the_run(scene, wire):
    """A provider that refuses the repaired request too ends the run, and the person gets an honest message."""
    stage = await scene(
        wire, lambda asked: thoughtful(asked) if (asked.text, asked.step) != ("One", 2) else [fail(STALE)], tools=TOOLS
    )
    assert (await stage.play("One")).status == "failed"
    (failed,) = await stage.said(RunFailed)
    assert failed.message == explanation(STALE)
    assert [failure.code for failure in await stage.said(StepFailed)] == [STALE] * 2
    assert (await stage.play("Two")).status == "completed"


class Forgetful:
    """A provider whose encoder writes the history differently for each request."""

    def __init__(self, provider: ConnectedProvider) -> None:
        self._provider, self.name, self._n = provider, provider.name, 0
        self.accepts, self.able, self.stream = provider.accepts, provider.able, provider.stream

    def encoder(self, model: str) -> Encode:
        encode, self._n = self._provider.encoder(model), self._n + 1
        n = self._n

        def changed(message: Message, files: Files) -> bytes:
            return encode(message, files).replace(b"is fine", b"is fine (%d)" % n)

        return changed


async def test_the_check_bites(scene):
    """History that is written differently is refused with the vendor's 400: the sixty steps above prove something."""
    stage = await scene(MESSAGES, thoughtful, tools=TOOLS, wrap=Forgetful)
    run = await stage.play("One")
    failures = await stage.said(StepFailed)
    assert {failure.code for failure in failures} == {STALE}
    assert "bound to a different conversation" in failures[0].message
    assert len(failures) >= 4
    assert run.status == "completed", "every one is repaired"
