"""What a message of Slack shows of an answer: in which order, and what is below it about its end."""

from dataclasses import replace

from channels.slack.picture import DrawnItem, Item, ToolTask, Words, as_sent, picture, tail
from channels.spec import ConversationView, RunView, ShownMessage
from tests.cases import for_each

Items = tuple[Item, ...]


@for_each(
    "reason, words",
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


@for_each(
    "run, words",
    [
        ({"status": "failed", "error": "Please ask again."}, "The answer above is incomplete. Please ask again."),
        (
            {"status": "completed", "reason": "max_steps"},
            "Ended: the most steps of one answer were taken, before the answer was complete.",
        ),
        ({"status": "completed", "reason": "max_tokens"}, "Ended: the answer was cut at its length limit."),
        ({"status": "completed", "reason": "end_turn"}, "Ended before the answer was complete."),
    ],
)
def test_an_answer_that_is_not_complete_says_so(run: dict[str, str], words: str):
    """Whatever ended a run, a person sees that the text above is a part of an answer."""
    message = ShownMessage("msg_1", role="assistant", run="run_1", border=True)
    ended = RunView("run_1", **run, cut=True)  # pyright: ignore[reportArgumentType]
    assert picture(ConversationView(recent=(message,), runs=(ended,), closed=True)).notice == words


TASK = ToolTask("call_1", "render chart", "complete")
CHART = DrawnItem("ren_1", ({"type": "image"},), "Orders", 0)
TABLE = DrawnItem("ren_2", ({"type": "data_table"},), "Orders", 0)
BEFORE, AFTER = Words("msg_1", "Here."), Words("msg_2", "That was it.")
GROWING = replace(AFTER, text="That", grows=True)


@for_each(
    "shown, wanted, expected",
    [
        ((), (BEFORE, CHART, AFTER), (BEFORE, CHART, AFTER)),
        ((BEFORE, CHART), (BEFORE, CHART, TABLE, AFTER), (BEFORE, CHART, TABLE, AFTER)),
        ((BEFORE, GROWING), (BEFORE, CHART, GROWING), (BEFORE, GROWING)),
        ((BEFORE, GROWING), (BEFORE, CHART, AFTER), (BEFORE, AFTER, CHART)),
        ((BEFORE, GROWING), (BEFORE, CHART, AFTER, TASK, TABLE), (BEFORE, AFTER, CHART, TASK, TABLE)),
        ((BEFORE, AFTER, CHART), (BEFORE, CHART, AFTER, TASK), (BEFORE, AFTER, CHART, TASK)),
    ],
)
def test_a_stream_shows_what_is_late_after_what_it_shows(shown: Items, wanted: Items, expected: Items):
    """What is in its place is sent there, a late picture after the text that was being written; chunks can show it."""
    ordered = as_sent(shown, wanted, streams=True)
    assert ordered == expected
    assert tail(shown, ordered) is not None


def test_what_a_stream_has_drawn_stays_and_an_update_changes_it():
    """A table whose form has changed stays while its message streams; afterwards an update is due."""
    plainer = replace(TABLE, step=1, blocks=({"type": "table"},))
    assert as_sent((BEFORE, TABLE), (BEFORE, plainer, AFTER), streams=True) == (BEFORE, TABLE, AFTER)
    assert as_sent((BEFORE, TABLE), (BEFORE, plainer, AFTER), streams=False) == (BEFORE, plainer, AFTER)
