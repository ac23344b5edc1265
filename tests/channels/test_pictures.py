"""What people read of what the model did not get."""

from dataclasses import replace

from agent_core.events import ContentLeftOut, RunCompleted, RunStarted
from agent_core.messages import Usage
from channels.slack.picture import picture
from channels.text import UNSEEN, end_of
from channels.view import Segment, cut
from tests.channels.logs import Emitter, fold, golden


def test_people_read_that_a_picture_was_not_seen():
    """A terminal and Slack say so of a run that came with a picture, once it has ended, and of no other."""
    body = fold(golden("unseen"))
    assert end_of(body.runs[0]) == f"({UNSEEN})"
    assert picture(cut(body, Segment())).notice == UNSEEN
    assert not fold(golden("plain")).runs[0].unseen


def test_people_read_what_a_provider_refused():
    """A terminal and Slack name the files, and say so of anything else, of the run that went on without it."""
    emit = Emitter()
    body = fold([emit(RunStarted(epoch=1)), emit(ContentLeftOut(from_seq=1, to_seq=1, code="content_refused"))])
    body = fold([emit(RunCompleted(stop_reason="end_turn", usage=Usage(*[0] * 6), cost=None))], body)
    assert "left out, since the model's provider refused it." in (end_of(body.runs[0]) or "")
    plain = fold(golden("plain"))
    body = replace(plain, runs=(replace(plain.runs[0], left_out=("a.pdf", "b\n.png")),))
    assert picture(cut(body, Segment())).notice.endswith("refused it: a.pdf, b .png.")
