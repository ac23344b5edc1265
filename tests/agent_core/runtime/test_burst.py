"""The burst gate: one request leads while a prefix is cold, and none waits for long or for nothing."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from agent_core.domain.messages import UNKNOWN_USAGE
from agent_core.providers.base import CallFailed, ModelTextDelta, Started, UsageReport
from agent_core.runtime.window import burst
from agent_core.runtime.window.burst import MAX_WAIT, BurstGate
from agent_core.testing import FakeClock

LIFE = 300_000
STARTED = [Started("msg", "model")]
BEGUN = [*STARTED, UsageReport(UNKNOWN_USAGE)]
FAILED = [CallFailed("overloaded", "No.", retryable=True)]


class Sender:
    """A request that goes through the gate; *is_lead* is whether it was sent while the prefix was cold."""

    def __init__(self, gate, prefix="p", **fields):
        self.gate, self.fields = gate, {"prefix": prefix, "life": LIFE, **fields}
        self.sent, self.answer = asyncio.Event(), asyncio.get_running_loop().create_future()
        self.lead = None
        self.task = asyncio.create_task(self._run())

    async def _run(self):
        async with self.gate.passing(**self.fields) as self.lead:
            self.sent.set()
            batch = await self.answer
            if self.lead:
                self.lead.began(batch)

    async def end(self, batch=BEGUN):
        self.answer.set_result(batch)
        await self.task

    async def cancel(self):
        self.task.cancel()
        await asyncio.wait([self.task])

    @property
    def state(self):
        if not self.sent.is_set():
            return "waits"
        return "leads" if self.lead else "reads"


@pytest.fixture
async def clock():
    return FakeClock()


async def senders(gate, n=3, **fields):
    """Return *n* requests that came one after the other."""
    found = [Sender(gate, **fields) for _ in range(n)]
    await settled()
    return found


async def settled():
    for _ in range(8):
        await asyncio.sleep(0)


def states(found):
    return [each.state for each in found]


async def test_the_others_wait_for_the_first_event_of_one(clock):
    """One request is sent; once its answer begins the others are, and read what it wrote."""
    gate = BurstGate(clock)
    found = await senders(gate)
    assert states(found) == ["leads", "waits", "waits"]
    await found[0].end()
    await settled()
    assert states(found) == ["leads", "reads", "reads"]
    assert gate.waits == 2
    assert clock.sleepers == 0
    for each in found[1:]:
        await each.end()


async def test_a_start_alone_is_no_answer(clock):
    """A provider that only took a request has not read its prompt: the others wait for the first token."""
    found = await senders(BurstGate(clock))
    lead = found[0].lead
    assert lead
    assert lead.began(STARTED) is lead
    await settled()
    assert states(found) == ["leads", "waits", "waits"]
    assert lead.began([*STARTED, *FAILED]) is lead
    assert lead.began([ModelTextDelta(0, "Yes")]) is None
    await settled()
    assert states(found) == ["leads", "reads", "reads"]
    for each in found:
        await each.end()


@pytest.mark.parametrize("how", ["failed", "cancelled"])
async def test_the_next_one_leads_when_a_leader_ends_without_an_answer(clock, how):
    """A leader that fails or is stopped is replaced at once, and the others go on waiting."""
    found = await senders(BurstGate(clock))
    await (found[0].end(FAILED) if how == "failed" else found[0].cancel())
    await settled()
    assert states(found[1:]) == ["leads", "waits"]
    await found[1].end()
    await settled()
    assert states(found[1:]) == ["leads", "reads"]
    await found[2].cancel()


async def test_a_wait_is_bounded(clock):
    """Each goes after three seconds of its own, and whichever answer begins first ends the burst."""
    gate = BurstGate(clock)
    found = await senders(gate, 2)
    clock.advance(MAX_WAIT / 2)
    found += await senders(gate, 1)
    clock.advance(MAX_WAIT / 2)
    await settled()
    assert states(found) == ["leads", "leads", "waits"]
    await found[1].end()
    await settled()
    assert states(found) == ["leads", "leads", "reads"]
    await found[0].end(FAILED)
    assert states(await senders(gate, 1)) == ["reads"]


async def test_a_cancelled_wait_leaves_no_trace(clock):
    """One that is stopped while it waits is not waited for, whether or not it was just chosen to lead."""
    gate = BurstGate(clock)
    found = await senders(gate, 4)
    await found[1].cancel()
    found[0].task.cancel()
    found[2].task.cancel()  # in the same moment in which it is promoted
    await asyncio.wait([found[0].task, found[2].task])
    await settled()
    assert states(found[3:]) == ["leads"]
    await found[3].cancel()
    assert (gate._bursts, clock.sleepers) == ({}, 0)


async def test_a_promoted_waiter_that_is_cancelled_passes_the_lead_on(clock):
    """One that was chosen to lead and is stopped before it does leaves the lead to the next."""
    gate = BurstGate(clock)
    found = await senders(gate)
    gate._bursts["p"].promote()
    found[1].task.cancel()
    await settled()
    assert states(found) == ["leads", "waits", "leads"]
    await found[0].end(FAILED)
    await found[2].end(FAILED)
    assert gate._bursts == {}


async def test_a_prefix_is_warm_for_its_lifetime_after_its_last_use(clock):
    """Uses renew a prefix; once it has not been used for its lifetime, one request leads again."""
    gate = BurstGate(clock)
    (first,) = await senders(gate, 1)
    await first.end()
    for seconds, expected in ((299, ["reads"] * 2), (299, ["reads"] * 2), (300, ["leads", "waits"])):
        clock.advance(seconds)
        found = await senders(gate, 2)
        assert states(found) == expected
        for each in found:
            await each.cancel()


async def test_what_the_log_knows_counts(clock):
    """A prefix that a session used before this process began is warm for it and for others; a stale use is not."""
    gate, now = BurstGate(clock), clock.now()
    assert states(await senders(gate, used=now - LIFE + 1000)) == ["reads"] * 3
    assert states(await senders(gate, 1)) == ["reads"]
    assert states(await senders(gate, prefix="other", used=now - LIFE)) == ["leads", "waits", "waits"]


async def test_memory_is_bounded(clock, monkeypatch):
    """Only so many prefixes are remembered as warm, the most recently used ones; a cold one leaves nothing."""
    monkeypatch.setattr(burst, "_WARM", 2)
    gate = BurstGate(clock)
    for prefix in ("a", "b", "a", "c"):
        (sender,) = await senders(gate, 1, prefix=prefix)
        await sender.end()
    assert set(gate._warm) == {"a", "c"}
    (sender,) = await senders(gate, 1, prefix="d")
    await sender.end(FAILED)
    assert (set(gate._warm), gate._bursts) == ({"a", "c"}, {})


async def test_prefixes_do_not_wait_for_each_other(clock):
    """Requests with different prefixes lead side by side."""
    gate = BurstGate(clock)
    async with AsyncExitStack() as stack:
        leads = [await stack.enter_async_context(gate.passing(prefix, LIFE)) for prefix in ("a", "b")]
    assert all(leads)
