"""What a message of Slack says below an answer about its end."""

import pytest

from channels.base import ConversationView, RunView, ShownMessage
from channels.slack.outbound.picture import picture


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("end_turn", ""),
        ("max_steps", "Ended: the most steps of one answer were taken."),
        ("max_tokens", "Ended: the answer was cut at its length limit."),
        ("budget", "Ended: budget."),
    ],
)
def test_the_reason_of_an_end_is_a_sentence(reason: str, words: str):
    """Each early end has its words below the answer; a regular one has none."""
    message = ShownMessage("msg_1", role="assistant", run="run_1", border=True)
    body = ConversationView(recent=(message,), runs=(RunView("run_1", "completed", reason=reason),), closed=True)
    assert picture(body).notice == words
