"""What a process knows of its models' tokens survives it: the log has what each call was counted as."""

import pytest

from agent_core.context.estimates import UNCALIBRATED
from agent_core.testing import say, usage
from tests.agent_core.stage import restart, set_stage
from tests.conftest import MakeCore

pytestmark = pytest.mark.whole


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
