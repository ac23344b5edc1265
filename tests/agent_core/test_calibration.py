"""What a process knows of its models' tokens: counted by servers that may be wrong, and read again from the log."""

import pytest

from agent_core import Compaction, ContextCompacted
from agent_core.context.estimates import UNCALIBRATED
from agent_core.providers.base import Request
from agent_core.testing import say, usage
from agent_core.testing.script import Answer
from tests.agent_core.stage import restart, set_stage
from tests.agent_core.test_compacting import ENDLESS, SUMMARY, answering, within
from tests.conftest import MakeCore


@pytest.mark.whole
async def test_a_restart_calibrates_by_the_last_call_of_the_log(make_core: MakeCore):
    """Before a new process asks the model its estimates have the ratio that the one before it measured."""
    stage = await set_stage(make_core, [(say("Yes."), usage(input=4_000, output=5))])
    await stage.play("word " * 4_000)
    measured = stage.core._segments.compactor.calibration("scripted")
    assert (measured.calls, round(measured.ratio)) == (1, 5)
    again = await restart(make_core, stage, [(say("Yes."),)])
    compactor = again.core._segments.compactor
    assert compactor.calibration("scripted") == UNCALIBRATED
    await again.play()  # of this call no usage comes
    known = compactor.calibration("scripted")
    assert (known.ratio, known.error) == (measured.ratio, UNCALIBRATED.error)


@pytest.mark.parametrize("policy", [SUMMARY, Compaction(kind="cut")], ids=["summary", "cut"])
@pytest.mark.parametrize("count", [0, 12, 300])
async def test_an_overflow_is_repaired_whatever_the_server_counts(make_core: MakeCore, count: int, policy: Compaction):
    """A server that counts nothing, too little or only what is new makes no conversation end at its limit."""

    def script(request: Request) -> Answer:
        return (usage(input=count, output=5), *answering()(request))

    stage = await set_stage(make_core, within(9_000, script), limits=ENDLESS, compaction=policy)
    for n in range(12):
        run = await stage.play(f"m{n} {'word ' * 300}")
        assert run.status == "completed", (n, run.error)
    assert await stage.said(ContextCompacted)
    assert stage.core._segments.compactor.calibration("scripted").ratio < 7
