"""The tally: what is counted of the facts that a process commits."""

import msgspec

from agent_core.domain import events as e
from agent_core.domain.events import Fact, FactBody
from agent_core.tally import Tally
from agent_core.testing import FakeClock


def facts(*bodies: FactBody) -> list[Fact]:
    return [
        Fact(
            seq=seq,
            type=body.type,
            session="ses_1",
            run="run_1",
            parent_run=None,
            time=5,
            raw=msgspec.json.encode(body),
        )
        for seq, body in enumerate(bodies, 1)
    ]


def step(attempt: int) -> e.StepStarted:
    return e.StepStarted(n=1, attempt=attempt, message="msg_1", takes=(), snapshot="s")


def test_a_try_counts_as_one_more_only_after_one_that_failed():
    """A process that takes a run up asks its model anew: that is no retry of a model that failed."""
    tally = Tally(FakeClock())
    tally.facts(facts(e.RunStarted(epoch=1), step(1), e.RunResumed(epoch=2, cause="crashed"), step(2)))
    assert tally.retries.total() == 0
    tally.facts(facts(e.StepFailed(n=1, attempt=2, code="network", message="", retryable=True), step(3)))
    assert tally.retries.total() == 1
    tally.facts(facts(e.RunResumed(epoch=3, cause="crashed"), step(4)))
    assert tally.retries.total() == 1
