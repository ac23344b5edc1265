"""The clock comes with messages: at first, and where the day has changed or half an hour has passed; law 8."""

from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from agent_core.agent.snapshot import clock_text, is_zone, zone_for, zone_of
from agent_core.agents import AgentDefaults, Compaction, Limits
from agent_core.channels import Inbound
from agent_core.errors import InvalidInput
from agent_core.events import ContextAdded, StepStarted
from agent_core.messages import Text
from agent_core.store.store import Store
from agent_core.testing import FakeClock, say
from agent_core.testing.clock import START
from tests.agent_core.history import make_agent
from tests.agent_core.laws import check_log
from tests.agent_core.stage import ANN, Stage, restart, set_stage, texts
from tests.cases import for_each
from tests.conftest import MakeCore

BERLIN = AgentDefaults(clock="Europe/Berlin")
YES = [(say("Yes."),)] * 9
MINUTE = 60.0


async def clocks(stage: Stage) -> list[str]:
    return [body.text for body in await stage.said(ContextAdded) if body.source == "clock"]


async def test_the_time_comes_with_the_first_message_and_after_half_an_hour(make_core: MakeCore):
    """A note stands right before its message, in its first step; what was sent before stays as it was."""
    clock = FakeClock()
    stage = await set_stage(make_core, YES, clock=clock, defaults=BERLIN)
    for minutes in (0, 29, 1, 29):
        clock.advance(minutes * MINUTE)
        await stage.play(f"{minutes}")
    assert await clocks(stage) == [
        "Thursday, 2026-01-01, 01:00 (Europe/Berlin, UTC+01:00)",
        "Thursday, 2026-01-01, 01:30 (Europe/Berlin, UTC+01:00)",
    ]
    sent = [texts(request) for request in stage.provider.requests]
    assert [text for _, text in sent[0]] == ["[clock] Thursday, 2026-01-01, 01:00 (Europe/Berlin, UTC+01:00)", "0"]
    assert [(before, after) for before, after in pairwise(sent) if after[: len(before)] != before] == []
    check_log(await stage.log())


async def test_it_comes_again_on_another_day_of_its_zone(make_core: MakeCore):
    """Ten minutes later it is another day in Berlin, where it is not in UTC."""
    clock = FakeClock(START - 65 * 60_000)
    stage = await set_stage(make_core, YES, clock=clock, defaults=BERLIN)
    await stage.play("one")
    clock.advance(10 * MINUTE)
    await stage.play("two")
    assert [text[:20] for text in await clocks(stage)] == ["Wednesday, 2025-12-3", "Thursday, 2026-01-01"]


async def test_it_costs_no_step_and_no_transaction(make_core: MakeCore, monkeypatch: pytest.MonkeyPatch):
    """It is written with the message, and a run with it has one append, of its end, as any other has."""
    appends: list[int] = []
    append = Store.append

    def counted(self: Store, *args: Any, **options: Any) -> Any:
        appends.append(1)
        return append(self, *args, **options)

    monkeypatch.setattr(Store, "append", counted)
    stage = await set_stage(make_core, YES, defaults=BERLIN)
    run = await stage.play()
    opening = ["context.added", "message.received", "run.queued", "run.started", "step.started"]
    assert (await stage.types(run.id))[:5] == opening
    (step,) = await stage.said(StepStarted)
    assert (len(step.takes), len(appends)) == (2, 1)


async def test_a_restart_and_a_second_process_say_nothing_twice(make_core: MakeCore):
    """What the model knows is read from the log."""
    clock = FakeClock()
    stage = await set_stage(make_core, YES, clock=clock, defaults=BERLIN)
    await stage.play()
    again = await restart(make_core, stage, YES, clock=clock, defaults=BERLIN)
    await again.play()
    assert len(await clocks(again)) == 1


async def test_a_message_that_joins_or_waits_has_it_too(make_core: MakeCore):
    """Whatever becomes of a message, the time stands before it."""
    clock = FakeClock()
    stage = await set_stage(make_core, YES, clock=clock, defaults=BERLIN)
    first = await stage.send("one")
    clock.advance(31 * MINUTE)
    joined = await stage.send("two", overlap="steer")
    for run in (first, joined):
        await stage.done(run)
    facts = [fact for fact in await stage.log() if fact.type in ("context.added", "message.received")]
    assert [fact.type for fact in facts] == ["context.added", "message.received"] * 2


async def test_a_cut_window_has_the_time_again(make_core: MakeCore):
    """A compaction leaves the note out, so the next message has one."""
    few = Limits(max_context_messages=4)
    stage = await set_stage(make_core, YES, limits=few, compaction=Compaction(kind="cut"), defaults=BERLIN)
    for n in range(4):
        await stage.play(f"{n}")
    assert len(await clocks(stage)) == 2


@pytest.mark.parametrize("defaults", [AgentDefaults(), BERLIN], ids=["core", "agent"])
async def test_it_is_switched_off(make_core: MakeCore, defaults: AgentDefaults):
    """A core alone says nothing, and so does an agent that says `off`."""
    stage = await set_stage(make_core, YES, defaults=defaults)
    if defaults is BERLIN:
        await stage.core.agents.update("assistant", {"clock": "off"})
        stage.session = (await stage.core.open_session(agent="assistant", actor=ANN)).id
    await stage.play()
    assert await clocks(stage) == []


async def test_a_person_s_own_zone_goes_before_that_of_the_process(make_core: MakeCore):
    """Where a channel knows it; one that this machine does not know is UTC."""
    stage = await set_stage(make_core, YES, defaults=BERLIN, clock=FakeClock())
    inbound = Inbound(parts=(Text("Hi"),), actor=ANN, timezone="Asia/Kolkata")
    await stage.done((await stage.core.receive(stage.session, inbound)).run)
    assert await clocks(stage) == ["Thursday, 2026-01-01, 05:30 (Asia/Kolkata, UTC+05:30)"]
    assert clock_text(START, zone_of("Mars/Base")) == "Thursday, 2026-01-01, 00:00 (UTC, UTC+00:00)"


@for_each("name", ["localtime", "posixrules", "posix/Europe/Berlin", "right/UTC", "Mars/Base"])
def test_files_of_a_machine_are_no_zones(name: str):
    """Only the names of the IANA are: what else the folder of zones has differs from machine to machine."""
    assert not is_zone(name)
    assert is_zone("Europe/Berlin")


def test_whose_zone_it_is():
    """The agent's own, else the asker's, else that of the process; `off` of the process stays off."""
    plain = make_agent()
    own = replace(plain, definition=replace(plain.definition, clock="Asia/Tokyo"))
    assert zone_for(own, "Asia/Kolkata") == "Asia/Tokyo"
    assert zone_for(plain, "Asia/Kolkata") == "off"


async def test_a_zone_that_is_none_is_refused(make_core: MakeCore):
    """An agent names a zone by its IANA name."""
    core = await make_core()
    with pytest.raises(InvalidInput, match=r"clock.*Europe/Berlin"):
        await core.agents.update("assistant", {"clock": "CEST!"})
