"""Refreezing: when a conversation takes up the newest version of its agent, and when it must not."""

import asyncio

import pytest
import structlog

from agent_core.agents import Controls, DeclaredTool, Definition, Limits
from agent_core.channels import Context, Inbound
from agent_core.errors import InvalidInput, NotFound, SessionBusy, SessionClosed
from agent_core.events import ContextCompacted, SnapshotFrozen, StepStarted, ToolCompleted
from agent_core.messages import Reasoning, Text
from agent_core.runtime.segments import ToolOutput
from agent_core.store import catalog, sessions
from agent_core.testing import FakeClock, ScriptedProvider, call, pause, say, think
from agent_core.tools.functions import tool
from tests.agent_core.laws import check_log
from tests.agent_core.scenes import ANN
from tests.agent_core.stage import Stage, asleep, restart, set_stage
from tests.conftest import MakeCore

PAUSE = 1800.0


@tool
async def look() -> str:
    """Look something up."""
    return "It is fine."


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def stage(make_core: MakeCore, clock: FakeClock) -> Stage:
    """A session of an agent whose model thinks; one message of it is answered."""
    stage = await set_stage(make_core, lambda _: (think("Hm."), say("Yes.")), clock=clock)
    await stage.play("one")
    return stage


async def reasons(stage: Stage) -> list[str]:
    """Return why the prompt was frozen, each time."""
    check_log(await stage.log())
    return [frozen.reason for frozen in await stage.said(SnapshotFrozen)]


def thoughts(stage: Stage, n: int) -> int:
    """Return how many parts of reasoning request *n* had, from 0."""
    entries = stage.provider.requests[n].messages
    return sum(isinstance(part, Reasoning) for entry in entries for part in entry.message.parts)


async def edit(stage: Stage, instructions: str = "Be long.") -> None:
    await stage.core.agents.update("assistant", {"instructions": instructions})


def instructions(stage: Stage) -> list[str]:
    return [request.snapshot.instructions for request in stage.provider.requests]


async def row(stage: Stage) -> sessions.SessionRef:
    return await stage.core._store.read(sessions.find, stage.session)


async def test_after_a_pause_a_session_takes_up_the_newest_version(stage: Stage, clock: FakeClock):
    """An edit holds for the first message after the pause, as one fact before it; a shorter pause changes nothing."""
    await edit(stage)
    clock.advance(PAUSE - 1)
    assert (await stage.play("two")).agent_version == 1
    clock.advance(PAUSE)
    run = await stage.play("three")
    await stage.play("four")
    assert run.agent_version == 2
    assert instructions(stage) == ["Be brief.", "Be brief.", "Be long.", "Be long."]
    assert await reasons(stage) == ["opened", "idle"]
    facts = await stage.log()
    (at,) = [place for place, fact in enumerate(facts) if getattr(fact.body, "reason", "") == "idle"]
    assert (facts[at].run, facts[at + 1].type, facts[at + 1].run) == (None, "message.received", run.id)
    assert [thoughts(stage, n) for n in range(4)] == [0, 1, 0, 1], "thinking from before the new prompt is left out"
    assert stage.provider.prefixes[3].startswith(stage.provider.prefixes[2])


async def test_every_step_names_the_snapshot_that_it_was_asked_with(stage: Stage, clock: FakeClock):
    """`step.started.snapshot` is the hash of the prompt, the one that the log froze last and the row has."""
    await edit(stage)
    clock.advance(PAUSE)
    await stage.play("two")
    hashes = [step.snapshot for step in await stage.said(StepStarted)]
    assert hashes == [request.snapshot.hash for request in stage.provider.requests]
    assert hashes == [frozen.hash for frozen in await stage.said(SnapshotFrozen)]
    held = await row(stage)
    assert (held.agent_version, held.snapshot, held.prefix) == (2, hashes[1], hashes[1])


async def test_the_first_step_is_announced_with_the_message(stage: Stage, clock: FakeClock):
    """Also a message that changes the prompt is one transaction up to the first step of its run."""
    await edit(stage)
    clock.advance(PAUSE)
    run = await stage.send("two")
    assert (await stage.types(run))[:4] == ["message.received", "run.queued", "run.started", "step.started"]
    await stage.done(run)


async def test_an_equal_prompt_keeps_thinking(stage: Stage, clock: FakeClock):
    """A version that differs in its limits alone is taken up without a fact; so is a pause without any edit."""
    clock.advance(PAUSE)
    assert (await stage.play("two")).agent_version == 1
    await stage.core.agents.update("assistant", {"limits": {"max_context_messages": 50}, "hooks": []})
    clock.advance(PAUSE)
    assert (await stage.play("three")).agent_version == 2
    assert (await row(stage)).agent_version == 2
    assert await reasons(stage) == ["opened"]
    assert [thoughts(stage, n) for n in range(3)] == [0, 1, 2]
    prefixes = stage.provider.prefixes
    assert prefixes[2].startswith(prefixes[1])
    assert prefixes[1].startswith(prefixes[0])


async def test_hooks_of_the_newest_version_hold_after_the_pause(make_core: MakeCore, clock: FakeClock):
    """A hook that was added while a conversation rested rules on the calls of its next run."""
    script = [(call("look"),), (say("Fine."),), (call("look"),), (say("I may not."),)]
    stage = await set_stage(make_core, script, tools=[look], clock=clock)
    await stage.play("one")
    await stage.core.agents.update("assistant", {"hooks": [{"event": "PreToolUse", "type": "rule", "config": DENY}]})
    clock.advance(PAUSE)
    await stage.play("two")
    assert [done.outcome for done in await stage.said(ToolCompleted)] == ["done", "denied"]
    assert await reasons(stage) == ["opened"]


DENY = {
    "conditions": [{"field": "tool", "operator": "EQUALS", "value": "look"}],
    "decision": "deny",
    "reason": "No.",
}


async def test_an_agent_may_say_how_long_a_pause_is(make_core: MakeCore, clock: FakeClock):
    """`idle_refreeze_s` of the agent goes before the default of the process; 0 is every message."""
    stage = await set_stage(make_core, lambda _: (say("Yes."),), clock=clock)
    await stage.core.agents.update("assistant", {"idle_refreeze_s": 60})
    clock.advance(PAUSE)
    await stage.play("one")
    await stage.core.agents.update("assistant", {"idle_refreeze_s": 0, "instructions": "Be long."})
    clock.advance(60)
    await stage.play("two")
    await edit(stage, "Be loud.")
    await stage.play("three")
    assert instructions(stage) == ["Be brief.", "Be long.", "Be loud."]


async def test_a_compaction_lets_the_next_run_have_the_newest_version(make_core: MakeCore, clock: FakeClock):
    """After the window was cut an edit holds from the next run on, not in the middle of the one that was cut."""
    script = [(say("One."),), (say("Two."),), (call("look"),), (say("Three."),), (say("Four."),), (say("Five."),)]
    limits = Limits(max_context_messages=4)
    stage = await set_stage(make_core, script, tools=[look], clock=clock, limits=limits)
    await stage.play("one")
    await stage.play("two")
    await edit(stage)
    run = await stage.play("three")
    assert await stage.said(ContextCompacted, run.id)
    await stage.play("four")
    await stage.play("five")
    assert instructions(stage) == ["Be brief."] * 4 + ["Be long."] * 2
    assert await reasons(stage) == ["opened", "compaction"]


async def test_an_edit_long_after_a_compaction_waits(make_core: MakeCore, clock: FakeClock):
    """Once a run began after a compaction its prompt is cached again: a later edit does not change it."""
    limits = Limits(max_context_messages=8)
    stage = await set_stage(make_core, lambda _: (say("Yes."),), clock=clock, limits=limits)
    for n in range(6):
        await stage.play(f"m{n}")
    compactions = await stage.said(ContextCompacted)
    await edit(stage)
    await stage.play("after")
    assert len(await stage.said(ContextCompacted)) == len(compactions) == 1
    assert instructions(stage)[-1] == "Be brief."
    assert await reasons(stage) == ["opened"]


async def test_notes_do_not_keep_a_prompt_warm(stage: Stage, clock: FakeClock):
    """The pause is the one between calls: what is noted meanwhile leaves the cache as cold as it is."""
    await edit(stage)
    clock.advance(PAUSE - 1)
    await stage.core.add_context(stage.session, [Context(text="Bob left.", source="note")])
    clock.advance(1)
    assert (await stage.play("two")).agent_version == 2
    assert await reasons(stage) == ["opened", "idle"]


async def test_after_a_compaction_an_unchanged_agent_costs_no_statement(
    make_core: MakeCore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
):
    """Where the prompt may change but does not, the agent is not read again for every message."""
    limits = Limits(max_context_messages=2)
    stage = await set_stage(make_core, lambda _: (say("Yes."),), clock=clock, limits=limits)
    for text in ("one", "two", "three"):
        await stage.play(text)
    reads: list[str] = []
    find = catalog.find

    def noted(connection, name, *rest):
        reads.append(name)
        return find(connection, name, *rest)

    monkeypatch.setattr(catalog, "find", noted)
    await stage.play("four")
    await stage.play("five")
    assert reads == []
    await edit(stage)
    reads.clear()
    await stage.play("six")
    assert instructions(stage)[-2:] == ["Be brief.", "Be long."]
    assert len(reads) == 1


async def test_an_operator_may_ask_for_it(stage: Stage):
    """A refreeze that is asked for needs no pause; with an unchanged agent it changes nothing."""
    await stage.core.refreeze_session(stage.session)
    await edit(stage)
    before = await stage.core.session(stage.session)
    assert await stage.core.refreeze_session(stage.session) == before
    await stage.core.refreeze_session(stage.session)
    assert (await stage.play("two")).agent_version == 2
    assert instructions(stage) == ["Be brief.", "Be long."]
    assert await reasons(stage) == ["opened", "asked"]


async def test_a_refreeze_that_cannot_be_is_refused(make_core: MakeCore, clock: FakeClock):
    """No prompt changes under a run, or in a closed session; an unknown session is not found."""
    go = asyncio.Event()
    stage = await set_stage(make_core, [(pause(go), say("Yes."))], clock=clock)
    run = await stage.send("one")
    with pytest.raises(SessionBusy, match="before you refreeze it"):
        await stage.core.refreeze_session(stage.session)
    go.set()
    await stage.done(run)
    await stage.core.close_session(stage.session)
    with pytest.raises(SessionClosed):
        await stage.core.refreeze_session(stage.session)
    with pytest.raises(NotFound):
        await stage.core.refreeze_session("ses_unknown")
    assert await reasons(stage) == ["opened"]


async def test_a_session_that_waits_is_not_idle(make_core: MakeCore, clock: FakeClock):
    """A message to a session whose run has waited for long joins that run, with the prompt that it began with."""
    pick = DeclaredTool(name="pick", kind="client", description="Pick.", parameters={"type": "object"})
    script = [(call("pick"),), (say("Picked."),), (say("Two."),)]
    stage = await set_stage(make_core, script, declared=[pick], clock=clock)
    run = await stage.play("one")
    await edit(stage)
    clock.advance(PAUSE * 2)
    queued = await stage.send("two")
    await stage.core.submit(run.id, [ToolOutput(call=run.pending[0].call, output="a")])
    assert (await stage.done(queued)).agent_version == 1
    assert instructions(stage) == ["Be brief."] * 3
    clock.advance(PAUSE)
    assert await reasons(stage) == ["opened"]


async def test_a_prompt_of_a_run_stays_its_own(stage: Stage, clock: FakeClock):
    """After a pause a run with instructions of its own has them; the next has those of the newest version."""
    await edit(stage)
    clock.advance(PAUSE)
    inbound = Inbound(parts=(Text("two"),), actor=ANN, instructions="Be rude.")
    await stage.done((await stage.core.receive(stage.session, inbound)).run)
    await stage.play("three")
    assert instructions(stage) == ["Be brief.", "Be rude.", "Be long."]
    assert await reasons(stage) == ["opened", "idle", "run", "run"]


async def test_a_run_s_prompt_in_force_is_no_edit(stage: Stage, clock: FakeClock):
    """After a run with instructions of its own, a pause and an edit of limits alone leave the session's prompt."""
    inbound = Inbound(parts=(Text("two"),), actor=ANN, instructions="Be rude.")
    await stage.done((await stage.core.receive(stage.session, inbound)).run)
    await stage.core.agents.update("assistant", {"limits": {"max_context_messages": 50}})
    clock.advance(PAUSE)
    await stage.core.refreeze_session(stage.session)
    assert (await stage.play("three")).agent_version == 2
    assert instructions(stage) == ["Be brief.", "Be rude.", "Be brief."]
    assert await reasons(stage) == ["opened", "run", "run"]


async def test_a_session_survives_a_tool_that_is_gone(make_core: MakeCore, clock: FakeClock):
    """Where the newest version cannot run the session keeps its own, and the log of the process says why, once."""
    stage = await set_stage(make_core, lambda _: (say("Yes."),), tools=[look], clock=clock)
    await stage.play("one")
    await edit(stage)
    stage = await restart(make_core, stage, lambda _: (say("Yes."),), clock=clock)
    with structlog.testing.capture_logs() as lines:
        for text in ("two", "three"):
            clock.advance(PAUSE)
            assert (await stage.play(text)).text == "Yes."
    assert instructions(stage) == ["Be brief."] * 2
    (line,) = [line for line in lines if line["event"] == "session.not_refrozen"]
    assert "`look`" in line["error"]
    with pytest.raises(InvalidInput, match="`look`"):
        await stage.core.refreeze_session(stage.session)
    assert await reasons(stage) == ["opened"]


async def test_a_session_survives_a_model_that_no_provider_serves(make_core: MakeCore, clock: FakeClock):
    """A newest version whose provider is not configured here leaves the session its own model."""
    other = ScriptedProvider(lambda _: (say("Other."),), name="other")
    first = ScriptedProvider(lambda _: (say("Yes."),))
    core = await make_core(first, clock=clock)
    core._providers["other"] = other  # type: ignore[index] - the mapping that the core was built with
    stage = Stage(core, first, (await core.open_session(agent="assistant", actor=ANN)).id)
    await core.agents.update("assistant", {"model": "other"})
    del core._providers["other"]  # type: ignore[attr-defined]
    clock.advance(PAUSE)
    assert (await stage.play("one")).text == "Yes."
    assert await reasons(stage) == ["opened"]


async def test_a_fork_keeps_the_snapshot_of_its_source(stage: Stage, clock: FakeClock):
    """A copy of a conversation begins with its source's version, and takes up a newer one by itself."""
    await edit(stage)
    fork = Stage(stage.core, stage.provider, (await stage.core.fork_session(stage.session)).id)
    assert (await fork.play("two")).agent_version == 1
    assert stage.provider.prefixes[1].startswith(stage.provider.prefixes[0])
    clock.advance(PAUSE)
    assert (await fork.play("three")).agent_version == 2
    assert (await row(stage)).agent_version == 1


async def test_a_restart_changes_no_prompt(stage: Stage, clock: FakeClock, make_core: MakeCore):
    """What a session took up is in its rows and its log: another process builds the same prompt and window of it."""
    await edit(stage)
    clock.advance(PAUSE)
    await stage.play("two")
    prefix = stage.provider.prefixes[-1]
    stage = await restart(make_core, stage, lambda _: (say("Yes."),), clock=clock)
    assert (await stage.play("three")).agent_version == 2
    assert stage.provider.prefixes[0].startswith(prefix)


async def test_another_process_was_active_meanwhile(stage: Stage, clock: FakeClock, make_core: MakeCore):
    """A session that rested here but not elsewhere is not idle, and what it took up elsewhere holds here."""
    other = Stage(await make_core(ScriptedProvider(lambda _: (say("Other."),)), clock=clock), stage.provider, "")
    other.session = stage.session
    await edit(stage)
    clock.advance(PAUSE - 1)
    await asleep(clock, 4)  # the sweep and the heartbeat of both: neither takes the other for dead
    assert (await other.play("two")).agent_version == 1
    clock.advance(1)
    await asleep(clock, 4)
    assert (await stage.play("three")).agent_version == 1
    clock.advance(PAUSE)
    await asleep(clock, 4)
    assert (await other.play("four")).agent_version == 2
    assert (await stage.play("five")).agent_version == 2
    assert instructions(stage) == ["Be brief.", "Be brief.", "Be long."]
    assert await reasons(stage) == ["opened", "idle"]


async def test_a_repeated_key_is_answered_after_an_edit(make_core: MakeCore, clock: FakeClock):
    """A message that was received is not refused later because the newest version could not take it."""
    stage = await set_stage(make_core, lambda _: (say("Yes."),), tools=[look], clock=clock)
    wanted = Inbound(parts=(Text("one"),), actor=ANN, key="k", digest=b"d", controls=Controls(active_tools=("look",)))
    first = await stage.core.receive(stage.session, wanted)
    await stage.done(first.run)
    await stage.core.agents.update("assistant", {"tools": []})
    clock.advance(PAUSE)
    assert (await stage.core.receive(stage.session, wanted)).run == first.run
    other = Inbound(parts=(Text("two"),), actor=ANN, controls=Controls(active_tools=("look",)))
    with pytest.raises(InvalidInput, match="`look`"):
        await stage.core.receive(stage.session, other)


async def test_agents_of_the_same_name_are_not_mixed_up(stage: Stage, clock: FakeClock):
    """A session follows its agent by id: another that takes over the name changes nothing."""
    await stage.core.agents.update("assistant", {"name": "renamed"})
    await stage.core.agents.create(Definition(name="assistant", instructions="Be another."))
    clock.advance(PAUSE)
    assert (await stage.play("two")).agent_version == 2
    assert instructions(stage) == ["Be brief."] * 2
    assert await reasons(stage) == ["opened"]
