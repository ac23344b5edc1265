"""Figures of a call that runs again, many at once, and a run that begins while the last one is still shown."""

from dataclasses import replace
from typing import Any

import pytest

from channels.ledger import LEASE, Ledger
from channels.slack.figures import ChartPorts
from channels.slack.outbox import StreamRecipient
from channels.slack.pace import UPLOADS
from channels.spec import ConversationView, RunView
from tests.channels.slack.answers import Open
from tests.channels.slack.outbound.drawings import NATIVE, PICTURE, CountingCharts, OneColour, drawing
from tests.channels.slack.outbound.test_figures import kinds

OTHER = {"spec": {**PICTURE["spec"], "mark": "line"}}


@pytest.mark.parametrize("second", [OTHER, NATIVE], ids=["picture", "native"])
async def test_a_call_that_runs_again_after_a_crash_shows_what_it_shows_then(showing: Open, second: dict[str, Any]):
    """Under the same id it may show something else: no picture of the first attempt is shown, nor its form kept."""
    first, again = drawing(("chart", PICTURE)), drawing(("chart", second))
    whole, shown = await showing(), await showing()
    whole.charts = shown.charts = ChartPorts(OneColour())
    last = await whole.live(first)
    assert await shown.live(first, at=last or 0) is None
    calls = shown.stand_in.called
    assert calls("files.completeUploadExternal")
    shown.clock.advance(LEASE / 1000 + 1)
    assert await shown.live(again, late=True) is not None
    uploaded = [call.answer["file_id"] for call in calls("files.getUploadURLExternal") if call.answer]
    images = [block["slack_file"]["id"] for each in shown.answers for block in each.blocks if block["type"] == "image"]
    assert images == ([] if second is NATIVE else uploaded[-1:])
    assert images != uploaded[:1]
    assert kinds(shown).count("data_visualization") == (second is NATIVE)


async def test_few_files_are_made_and_sent_at_once(showing: Open):
    """Of a dozen pictures of one answer no more are drawn and sent at once than a process may have in memory."""
    shown = await showing()
    drawer = CountingCharts()
    shown.charts = ChartPorts(drawer)
    assert await shown.live(drawing(*[("chart", PICTURE)] * 3 * UPLOADS), late=True)
    assert kinds(shown).count("image") > UPLOADS
    assert drawer.most == UPLOADS


async def test_a_stream_is_for_the_person_who_asked_last(showing: Open):
    """A run that begins while an earlier one is still shown streams to the person of the new one."""
    shown = await showing()
    database = shown.open_database()
    ledger = Ledger(database, shown.clock, "slack")
    place = await ledger.claim_session(shown.session)
    assert place is not None
    recipient = StreamRecipient(shown.thread, ledger, place)
    recipient.note(ConversationView(runs=(RunView("run_1", "running"),)))
    assert await recipient.ids() == ("UANN", "T0001")
    bob = replace(shown.thread, user="UBOB", user_team="T0002")
    await ledger.want(shown.session, bob.address, bob.data())
    recipient.note(ConversationView(runs=(RunView("run_1", "running"), RunView("run_2"))))
    assert await recipient.ids() == ("UANN", "T0001")
    recipient.note(ConversationView(runs=(RunView("run_1", "completed"), RunView("run_2", "running"))))
    assert await recipient.ids() == ("UBOB", "T0002")
    await database.close()
