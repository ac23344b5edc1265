"""When Slack refuses all blocks, an answer is shown as text, in as many messages as its updates need."""

from itertools import count

import pytest

from channels.slack.testing import InjectedFault
from tests.channels.slack.answers import Log, Open, Showing, words

pytestmark = pytest.mark.whole

NO_BLOCKS = (
    InjectedFault("invalid_blocks", on="chat.update", times=None),
    InjectedFault("refused", on="chat.startStream", times=None),
)
BROKEN = (
    InjectedFault("invalid_blocks", on="chat.update", times=None),
    InjectedFault("answer_lost", on="chat.appendStream", nth=2),
)
ANYWHERE = (
    *(InjectedFault("invalid_blocks", on=f"chat.{on}", times=None) for on in ("update", "postMessage", "startStream")),
    *(InjectedFault("invalid_blocks", on=f"chat.{on}", times=None) for on in ("appendStream", "stopStream")),
)
WAYS = {"posts": NO_BLOCKS, "a stream that broke": BROKEN, "nothing but text": ANYWHERE}


def long(pieces: int = 6) -> Log:
    """Eleven hundred words, and more than one update takes as text."""
    log = Log()
    log.ask("All of it")
    sentences = [f"Sentence number {n} is here & there.{chr(10) * 2 * (n % 9 == 8)} " for n in range(190)]
    size = -(-len(sentences) // pieces)
    log.say(*("".join(sentences[n : n + size]) for n in range(0, len(sentences), size)))
    log.end("".join(sentences))
    return log


def fault(shown: Showing, way: str) -> None:
    for each in WAYS[way]:
        shown.stand_in.fault(each)


def is_whole(shown: Showing, log: Log) -> bool:
    """Return whether each word is shown once and in order, and nothing streams."""
    return words(shown.text) == words(log.whole) and not any(each.streaming for each in shown.answers)


@pytest.mark.parametrize("way", WAYS)
async def test_what_one_update_cannot_take_goes_on_in_further_messages(showing: Open, way: str):
    """An answer of a thousand words whose blocks are always refused is shown as text, whole and in order."""
    shown, log = await showing(), long()
    fault(shown, way)
    assert await shown.live(log)
    assert is_whole(shown, log)
    assert len(shown.answers) > 1
    refused = {(call.answer or {}).get("error") for call in shown.stand_in.calls}
    assert "msg_too_long" not in refused


@pytest.mark.sqlite  # what dies is the same process on both
@pytest.mark.parametrize(
    ("way", "side"),
    [
        ("posts", "before"),
        ("a stream that broke", "after"),
        ("posts", "after"),
        ("a stream that broke", "before"),
    ],
)
async def test_killed_while_an_answer_is_divided(showing: Open, way: str, side):
    """A process that dies at any write while it does that leaves a thread that the next one completes."""
    for at in count(1):
        shown, log = await showing(), long(3)
        fault(shown, way)
        if not await shown.killed_and_taken_over(log, at, side):
            break
        assert is_whole(shown, log), (at, shown.text)
    assert at > 10
