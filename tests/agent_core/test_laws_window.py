"""Laws 8 and 9 of the design, by example: the window only grows, and what it holds is named in the log."""

import asyncio
from itertools import pairwise

from agent_core.agent.frames import STOPPED_NOTE
from agent_core.agent.strategy import backoff
from agent_core.agents import Controls, Limits
from agent_core.channels import Inbound
from agent_core.events import MessageCompleted, MessageReceived, SnapshotFrozen, StepStarted, ToolStarted
from agent_core.messages import Message, Reasoning, Text
from agent_core.testing import FakeClock, call, fail, finish, pause, raw_call, refuse, say, think
from agent_core.tools.functions import tool
from tests.agent_core.laws import check_log
from tests.agent_core.stage import ANN, Stage, asleep, is_a, set_stage, texts
from tests.conftest import MakeCore


@tool(concurrency_safe=True)
async def look(n: int = 0) -> str:
    """Look."""
    return f"{n} is fine"


async def test_law_8_the_window_of_a_prefix_is_a_prefix_of_the_window(make_core: MakeCore):
    """Over a long session each request's tools, system and messages begin, byte by byte, with the request before."""
    stopped, steered = asyncio.Event(), asyncio.Event()
    script = [
        (think("Two things."), say("Looking."), call("look", n=1), call("look", n=2)),
        (say("Both fine."),),
        (say("A long "), finish("length")),
        (say("answer."),),
        (say("Half an ans"), pause(stopped)),
        (pause(steered), raw_call("look", '{"n": ')),
        (call("unknown"),),
        (say("And "), fail("network", retry_after=0.0)),
        (say("Seen."),),
        (refuse(),),
        (),
        (),
        (call("look", n=3),),
        (call("look", n=4),),
        (say("The end."),),
    ]
    stage = await set_stage(make_core, script, tools=[look])
    await stage.play("one")
    await stage.play("two")
    run = await stage.send("three")
    await stage.asked(5)
    assert (await stage.stop(run)).status == "cancelled"
    run = await stage.send("four")
    await stage.asked(6)
    await stage.send("and five", overlap="steer")
    steered.set()
    assert (await stage.done(run)).text == "Seen."
    for text in ("six", "seven"):
        await stage.play(text)
    await stage.play("eight", max_steps=2)
    check_log(await stage.log())
    prefixes = stage.provider.prefixes
    assert len(prefixes) == len(script)
    assert [(before, after) for before, after in pairwise(prefixes) if not after.startswith(before)] == []
    assert len(set(prefixes)) == len(prefixes) - 1, "all but the try that failed saw more than the one before"


async def test_law_8_a_new_snapshot_may_change_the_prefix(make_core: MakeCore):
    """A run with instructions of its own freezes another snapshot, and the next run the session's own again."""
    stage = await set_stage(make_core, lambda _: (think("Hm."), say("Yes.")))
    await stage.play("one")
    inbound = Inbound(parts=(Text("two"),), actor=ANN, instructions="Be rude.")
    await stage.done((await stage.core.receive(stage.session, inbound)).run)
    await stage.play("three")
    await stage.play("four")
    first, second, third, fourth = stage.provider.requests
    assert [request.snapshot.instructions for request in (first, second, third)] == [
        "Be brief.",
        "Be rude.",
        "Be brief.",
    ]
    assert len({frozen.hash for frozen in await stage.said(SnapshotFrozen)}) == 2
    assert len(await stage.said(SnapshotFrozen)) == 3
    assert [_thoughts(request) for request in (first, second, third, fourth)] == [0, 0, 0, 1]
    assert stage.provider.prefixes[3].startswith(stage.provider.prefixes[2])
    named = [step.snapshot for step in await stage.said(StepStarted)]
    assert named == [request.snapshot.hash for request in stage.provider.requests]


async def test_law_8_what_a_step_may_do_is_not_in_the_prefix(make_core: MakeCore):
    """Tool choice and caps change from step to step and run to run without touching the prefix."""
    stage = await set_stage(make_core, lambda _: (say("Yes."),), tools=[look])
    await stage.play("one")
    await stage.play("two", max_steps=1)
    await stage.play("three", tool_choice="none")
    choices = [request.controls.tool_choice for request in stage.provider.requests]
    assert choices == ["auto", "none", "none"]
    assert [
        (before, after) for before, after in pairwise(stage.provider.prefixes) if not after.startswith(before)
    ] == []
    controls = [step.controls for step in await stage.said(StepStarted)]
    assert all(controls), "every run names its controls with its first step"


async def test_law_8_a_changed_agent_does_not_reach_an_old_session(make_core: MakeCore):
    """A session keeps the snapshot of the agent's version it was opened with; a new session has the new one."""
    stage = await set_stage(make_core, lambda _: (say("Yes."),))
    await stage.play("one")
    await stage.core.agents.update("assistant", {"instructions": "Be long."})
    await stage.play("two")
    assert stage.provider.prefixes[1].startswith(stage.provider.prefixes[0])
    fresh = await stage.core.open_session(agent="assistant", actor=ANN)
    await Stage(stage.core, stage.provider, fresh.id).play("one")
    assert stage.provider.requests[2].snapshot.instructions == "Be long."


async def test_law_8_a_stopped_answer_is_seen_as_its_text_and_a_note(make_core: MakeCore):
    """The model later sees an answer that was stopped as its text only, with a note."""
    never = asyncio.Event()
    stage = await set_stage(make_core, [(think("Hm."), say("Half a"), pause(never)), (say("Sorry."),)])
    async with stage.reader() as reader:
        run = await stage.send("one")
        await reader.until(lambda event: event.type == "text.delta")
    await stage.stop(run)
    await stage.play("two")
    assert texts(stage.provider.requests[1])[1:] == [
        ("assistant", "Half a"),
        ("user", STOPPED_NOTE),
        ("user", "two"),
    ]
    assert _thoughts(stage.provider.requests[1]) == 0


def _thoughts(request) -> int:
    return sum(isinstance(part, Reasoning) for entry in request.messages for part in entry.message.parts)


async def takes(stage: Stage) -> list[tuple[int, int, list[str]]]:
    """Return of each step its number, its attempt and the texts that it took."""
    facts = await stage.log()
    return [
        (fact.body.n, fact.body.attempt, [_said(facts[seq - 1].body) for seq in fact.body.takes])
        for fact in facts
        if isinstance(fact.body, StepStarted)
    ]


def _said(body) -> str:
    return body.text if hasattr(body, "text") else body.parts[0].text


async def test_law_9_a_steered_message_enters_with_the_step_that_takes_it(make_core: MakeCore):
    """A message that arrives while the model answers is not in that request, but in the one whose step names it."""
    asked, may_end = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        asked.set()
        await may_end.wait()
        return "waited"

    stage = await set_stage(make_core, [(call("wait"),), (say("Both."),)], tools=[wait])
    run = await stage.send("one")
    await stage.until(is_a(ToolStarted))
    await stage.send("two", overlap="steer")
    assert len(await stage.said(MessageReceived)) == 2
    may_end.set()
    await stage.done(run)
    assert await takes(stage) == [(1, 1, ["one"]), (2, 1, ["two"])]
    assert [role for role, _ in texts(stage.provider.requests[1])] == ["user", "assistant", "tool", "user"]
    assert texts(stage.provider.requests[1])[-1] == ("user", "two")


async def test_law_9_a_repeated_attempt_names_only_what_came_since(make_core: MakeCore):
    """A try that is repeated takes the messages that came since the first one, and no message twice."""
    clock, news = FakeClock(), asyncio.Event()
    stage = await set_stage(make_core, [(pause(news), fail()), (say("Both."),)], clock=clock)
    run = await stage.send("one")
    await stage.asked(1)
    await stage.send("two", overlap="steer")
    news.set()
    await asleep(clock, 3)
    clock.advance(backoff(run, 1, longer=True))
    assert (await stage.done(run)).text == "Both."
    assert await takes(stage) == [(1, 1, ["one"]), (1, 2, ["two"])]
    assert texts(stage.provider.requests[1]) == [("user", "one"), ("user", "two")]


async def test_law_9_a_queued_message_is_not_seen_before_its_run(make_core: MakeCore):
    """A queued message is in the log at once, and in no request of the run before its own."""
    may_end = asyncio.Event()
    stage = await set_stage(make_core, [(pause(may_end), call("look")), (say("One."),), (say("Two."),)], tools=[look])
    first = await stage.send("one")
    await stage.asked(1)
    second = await stage.send("two")
    may_end.set()
    await stage.done(first)
    await stage.done(second)
    assert "two" not in str(texts(stage.provider.requests[1]))
    assert texts(stage.provider.requests[2])[-1] == ("user", "two")
    assert await takes(stage) == [(1, 1, ["one"]), (2, 1, []), (1, 1, ["two"])]


async def test_law_9_imported_messages_are_named_too(make_core: MakeCore):
    """Messages that a run brings along are in the log, and its first step names them with the message itself."""
    stage = await set_stage(make_core, [(say("Yes."),)])
    history = (_message("user", "Are you there?"), _message("assistant", "I am."))
    inbound = Inbound(parts=(Text("Good."),), actor=ANN, history=history)
    await stage.done((await stage.core.receive(stage.session, inbound)).run)
    assert await takes(stage) == [(1, 1, ["Are you there?", "I am.", "Good."])]
    assert texts(stage.provider.requests[0]) == [
        ("user", "Are you there?"),
        ("assistant", "I am."),
        ("user", "Good."),
    ]


def _message(role, text: str):
    return Message(role, (Text(text),))


async def test_law_9_nothing_enters_but_what_a_step_names(make_core: MakeCore):
    """Of two cut and continued answers every request holds exactly what the steps so far have named, and no more."""
    script = [(say("a"), finish("length")), (say("b"), finish("length")), (say("c"),), (say("d"),)]
    stage = await set_stage(make_core, script, limits=Limits(max_context_messages=None), controls=Controls(max_steps=9))
    await stage.play("one")
    await stage.play("two")
    named: list[str] = []
    steps = await takes(stage)
    for request, (_, _, taken) in zip(stage.provider.requests, steps, strict=True):
        named += taken
        notes = [text.removeprefix("[note] ") for role, text in texts(request) if role == "user"]
        assert notes == named
    assert len(await stage.said(MessageCompleted)) == 4
