"""StepState: the newest model call of a run, over all its attempts."""

from typing import Any

import msgspec
from msgspec.structs import replace

from agent_core import events as e
from agent_core.controls import Defaults, Override, merged

TOOLS_WITHHELD, CHOICE_IGNORED, CONTROLS_REFUSED = "tools_withheld", "choice_ignored", "controls_refused"
EMPTY_ANSWER = "empty_answer"
ASKED_AGAIN = frozenset({TOOLS_WITHHELD, CHOICE_IGNORED, EMPTY_ANSWER})
"""Failures after which a note asks the model for what it should have answered, at once."""
UNCOUNTED = ASKED_AGAIN | {CONTROLS_REFUSED, "stale_reasoning"}
"""Failures that have a remedy of their own and use up none of a step's retries."""


class StepState(msgspec.Struct, frozen=True):
    """The newest model call: step *n*, its attempts and failures, and the controls of this step and the next.

    *is_open* from the start of the step to its completed message, over all attempts. *paused*: it continues an answer
    that its provider paused, so that nothing new may go with it. *failures* counts those in a row of the model that it
    asks, *failure* is the newest; *remedied* are the codes of its failures that were `UNCOUNTED`. *shown*: some output
    of one of its attempts was shown. *reasoning_dropped*: earlier reasoning is left out, because the model refused it.
    *refusing_model* is one whose API refused the controls, so that it reads them in notes. *next_override* holds for
    the next step alone, *defaults* for the rest of the run.
    """

    n: int = 0
    attempt: int = 0
    message: str = ""
    is_open: bool = False
    paused: bool = False
    failures: int = 0
    failure: e.StepFailed | None = None
    remedied: tuple[str, ...] = ()
    displayed: bool = False
    reasoning_dropped: bool = False
    refusing_model: str | None = None
    controls: dict[str, Any] | None = None
    next_override: Override | None = None
    defaults: Defaults | None = None

    def is_answered_by(self, body: e.MessageCompleted) -> bool:
        """Return whether *body* is what the model said in this step; any other completed message was imported."""
        return self.is_open and body.message == self.message

    @property
    def model(self) -> str | None:
        """Return the model that the step asks."""
        return (self.controls or {}).get("model")

    def started(self, body: e.StepStarted, previous: e.Stop | None) -> "StepState":
        """Return the state after a step, or an attempt of it, started; *previous* is why the last answer stopped."""
        is_new = body.n != self.n
        switched = body.controls is not None and body.controls.get("model", self.model) != self.model
        resumes = previous == "continue" if is_new else self.paused
        keeps_override = not is_new or previous == "continue"
        return replace(
            self,
            n=body.n,
            attempt=body.attempt,
            message=body.message,
            is_open=True,
            paused=resumes and not switched,
            failures=0 if is_new or switched else self.failures,
            failure=None,
            remedied=() if is_new else self.remedied,
            displayed=self.displayed and not is_new,
            reasoning_dropped=self.reasoning_dropped and not is_new,
            controls=body.controls or self.controls,
            next_override=self.next_override if keeps_override else None,
        )

    def failed(self, body: e.StepFailed) -> "StepState":
        """Return the state after an attempt failed."""
        is_counted = body.code not in UNCOUNTED
        return replace(
            self,
            failures=self.failures + is_counted,
            failure=body,
            remedied=self.remedied if is_counted else (*self.remedied, body.code),
            refusing_model=self.model if body.code == CONTROLS_REFUSED else self.refusing_model,
            displayed=self.displayed or body.partial,
        )

    def without_failures(self) -> "StepState":
        """Return the state after an attempt succeeded."""
        return replace(self, failures=0, failure=None) if self.failures or self.failure else self

    def with_changes(self, body: e.ControlsChanged) -> "StepState":
        """Return the state after a resume changed the controls."""
        defaults = merged(body.defaults, self.defaults) if body.defaults else self.defaults
        return replace(self, next_override=body.next or self.next_override, defaults=defaults)
