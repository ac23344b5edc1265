"""Pictures that people sent, and what they read of them."""

from channels.plain import UNSEEN, end_of
from channels.segments import Segment, cut
from channels.slack.outbound.picture import picture
from tests.channels.logs import fold, golden


def test_people_read_that_a_picture_was_not_seen():
    """A terminal and Slack say so of a run that came with a picture, once it has ended, and of no other."""
    body = fold(golden("unseen"))
    assert end_of(body.runs[0]) == f"({UNSEEN})"
    assert picture(cut(body, Segment())).notice == UNSEEN
    assert not fold(golden("plain")).runs[0].unseen
