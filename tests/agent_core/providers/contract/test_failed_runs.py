"""Every error of the official servers in a conversation: what the person sees, and what the operator reads."""

import pytest

from agent_core.agent.strategy import MAX_RETRIES
from agent_core.events import MessageCompleted, RunFailed, StepFailed
from agent_core.messages import CONTENT_REFUSED, FILE_REFUSED, KINDS, explanation
from agent_core.providers.failing import _REMEDIES, RETRYABLE
from agent_core.testing import FakeClock, fail, say
from tests.agent_core.laws import check_log
from tests.agent_core.providers.contract.wires import CHAT, KEY, WIRES, Wire
from tests.agent_core.stage import asleep

pytestmark = pytest.mark.sampled(3)

STALE = "stale_reasoning"

# What only words call a file's fault is none in a conversation without a file, see `test_laws_refusals`.
NOT_OF_CHAT = (STALE, FILE_REFUSED)

CASES = [(wire, kind, False) for wire in WIRES for kind in KINDS if not (wire is CHAT and kind in NOT_OF_CHAT)]
CASES += [(wire, kind, True) for wire in WIRES for kind in sorted(RETRYABLE - {"network"})]
SECRET = frozenset({"auth", "quota"})
"""Kinds whose errors may repeat the key: they are tried on every wire, the others on one of them in turn."""


def marks(wire: Wire, kind: str) -> tuple[pytest.MarkDecorator, ...]:
    """Return what leaves a kind on a wire to whole runs: a stale reasoning has but two wires."""
    wires = [each for each in WIRES if not (each is CHAT and kind in NOT_OF_CHAT)]
    is_in = kind in SECRET or wire is wires[sorted(KINDS).index(kind) % len(wires)]
    return () if is_in else (pytest.mark.whole,)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("wire", "kind", "began"),
    [
        pytest.param(
            *(wire, kind, began),
            marks=marks(wire, kind),
            id=f"{wire.name} {kind} {'in the stream' if began else 'at once'}",
        )
        for wire, kind, began in CASES
    ],
)
async def test_a_failed_run_explains_itself_to_person_and_operator(kind, began, scene, wire):
    """A run that fails shows the person no internals, the operator the remedy, and neither the key."""
    clock = FakeClock()
    stage = await scene(wire, lambda asked: [*([say("Half an ans")] if began else []), fail(kind)], clock=clock)
    run = await stage.send("Go")
    if kind in RETRYABLE:
        for _ in range(MAX_RETRIES):
            await asleep(clock, 3)
            clock.advance(20)
    assert (await stage.done(run)).status == "failed"
    (end,) = await stage.said(RunFailed)
    assert end.message == explanation(kind)
    assert end.code == ("context_overflow" if kind == "context_overflow" else "provider_error")
    assert end.retryable == (kind in RETRYABLE)
    assert end.detail is not None
    assert _REMEDIES[kind] in end.detail
    assert f"`{wire.name}`" in end.detail
    tries = MAX_RETRIES + 1 if kind in RETRYABLE else 2 if kind in (STALE, CONTENT_REFUSED) else 1
    assert [failed.code for failed in await stage.said(StepFailed)] == [kind] * tries
    assert stage.line.models.calls == tries
    facts = await stage.log()
    assert not any(KEY.encode() in fact.raw for fact in facts)
    # What was read before the last try broke stays, marked as partial.
    assert [
        message for message in await stage.said(MessageCompleted) if not (message.partial or not message.parts)
    ] == []
    check_log(facts)


@pytest.mark.parametrize("kind", ["quota", "invalid", "context_overflow"])
async def test_the_session_lives_on_after_an_error(kind, scene, wire):
    """After a failed run the same session answers the next message, and the model reads both questions."""
    answers = iter([[fail(kind)], [say("Here again.")]])
    stage = await scene(wire, lambda asked: next(answers))
    assert (await stage.play("One")).status == "failed"
    assert (await stage.play("Two")).status == "completed"
    assert b"One" in b"".join(stage.requests[1])


async def test_a_run_completes_after_retries(scene, wire):
    """Three failures of different kinds in a row do not end a run whose next attempt succeeds."""
    clock = FakeClock()
    answers = iter([[fail("overloaded")], [fail("network")], [say("Ha"), fail("error")], [say("Through.")]])
    stage = await scene(wire, lambda asked: next(answers), clock=clock)
    run = await stage.send("Go")
    for _ in range(3):
        await asleep(clock, 3)
        clock.advance(20)
    assert (await stage.done(run)).status == "completed"
    assert [failed.code for failed in await stage.said(StepFailed)] == ["overloaded", "network", "error"]
