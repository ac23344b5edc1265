"""An answer without a word, in Slack: it is said, with what to do."""

import pytest

from channels.slack.picture import BLANK
from tests.channels.slack.rig import rigged

LONG = 60.0


@pytest.mark.parametrize("channel", ["CGENERAL", "CDATA"])
async def test_a_blank_answer_is_said(make_core, channel: str):
    """A model that answers nothing, asked again, leaves no silence, streaming or not."""
    async with rigged(make_core, answer=lambda _: [], shown=True, hasty=True) as rig:
        (await rig.workspaces.space("T0001")).without_streams = {"CDATA"}
        root = (await rig.team.mentions("UANN", channel, "Hello?")).ts
        await rig.stand_in.until(lambda: rig.team.answers(channel, root), timeout=LONG)
        (said,) = rig.team.answers(channel, root)
        assert said.text == BLANK
        assert not said.streaming
