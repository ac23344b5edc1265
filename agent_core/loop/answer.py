"""AnswerState: what the model has answered so far."""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from agent_core import events as e
from agent_core.messages import Part, Reasoning, text_of


class AnswerState(msgspec.Struct, frozen=True):
    """The last answer: its *text*, continuations joined, and why it ended (*stop*), None while a step is open.

    *continuations* counts answers in a row that the output limit cut, *reminders* answers in a row that had no content
    (*is_empty*: the last one), and *completed* whole answers since a step consumed a person's message. *results* counts
    the calls of the run that are done.
    """

    text: str = ""
    stop: e.Stop | None = None
    continuations: int = 0
    is_empty: bool = False
    reminders: int = 0
    completed: int = 0
    results: int = 0

    def opened(self, *, is_new: bool, has_message: bool) -> "AnswerState":
        """Return the state as an attempt starts: of a *new* step or not, which consumed a person's message or not."""
        continues = not is_new or self.stop in ("length", "continue")
        return replace(
            self,
            text=self.text if continues else "",
            stop=None,
            completed=0 if has_message else self.completed,
        )

    def closed(self, stop: e.Stop, parts: Sequence[Part]) -> "AnswerState":
        """Return the state after a message completed."""
        is_empty = stop == "done" and all(isinstance(part, Reasoning) for part in parts)
        return AnswerState(
            text=self.text + text_of(tuple(parts)),
            stop=stop,
            continuations=self.continuations + 1 if stop == "length" else 0,
            is_empty=is_empty,
            reminders=self.reminders + 1 if is_empty else 0,
            completed=self.completed + (stop == "done" and not is_empty),
            results=self.results,
        )

    def with_result(self) -> "AnswerState":
        """Return the state after one more call was done."""
        return replace(self, results=self.results + 1)
