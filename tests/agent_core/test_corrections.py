"""Corrections and deletions: what a person changes about what they said reaches the model once, where it is of use."""

import asyncio

import pytest

from agent_core.agent.frames import CORRECTION
from agent_core.channels import Inbound
from agent_core.errors import IdempotencyMismatch, InvalidInput, NotFound
from agent_core.events import (
    ContextAdded,
    MessageCorrected,
    MessageReceived,
    RunQueued,
    RunStarted,
    StepStarted,
    ToolStarted,
)
from agent_core.messages import Text, text_of
from agent_core.store import log, reading
from agent_core.testing import call, pause, say
from agent_core.tools.base import Tool
from agent_core.tools.functions import tool
from tests.agent_core.laws import check_log
from tests.agent_core.stage import ANN, Stage, is_a, set_stage, texts
from tests.conftest import MakeCore


class WaitingTool:
    """A tool that waits, and tells when it does."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()

    @property
    def tool(self) -> Tool:
        @tool(name="wait")
        async def wait() -> str:
            """Wait."""
            await self.opened.wait()
            return "waited"

        return wait


async def send(stage: Stage, text: str, key: str, **options) -> str:
    inbound = Inbound(parts=(Text(text),), actor=ANN, key=key, **options)
    return (await stage.core.receive(stage.session, inbound)).run


async def correct(stage: Stage, message: str, text: str, key: str | None = None) -> int:
    return await stage.core.correct(stage.session, message, (Text(text),), key=key)


async def retract(stage: Stage, message: str, key: str | None = None) -> int:
    return await stage.core.retract(stage.session, message, by=ANN, key=key)


def said(stage: Stage, n: int) -> list[str]:
    """Return what people said in the n-th request, from 1."""
    return [text for role, text in texts(stage.provider.requests[n - 1]) if role == "user"]


async def checked(stage: Stage) -> None:
    """Fail unless the log keeps the rules, and a window rebuilt from it is the one that grew."""
    check_log(await stage.log())
    store, homes = stage.core._store, stage.core._cache
    loaded = await store.read(reading.load, stage.session)
    grown, rebuilt = (await homes.get(stage.session)).window.preview([]), (await homes._built(loaded)).window
    grown.apply(await store.read(log.facts_between, loaded.session.session_key, 0))
    assert [entry.message for entry in grown.entries] == [entry.message for entry in rebuilt.entries]


async def held(make_core: MakeCore, *answers) -> tuple[Stage, WaitingTool]:
    """Return a stage whose first run has taken the message `k1`, and waits in a tool."""
    gate = WaitingTool()
    stage = await set_stage(make_core, [(call("wait"),), *answers], tools=[gate.tool])
    await send(stage, "one", "k1")
    await stage.until(is_a(ToolStarted))
    return stage, gate


async def test_a_queued_message_is_answered_as_it_was_corrected(make_core: MakeCore):
    """What no step has taken is replaced: the model sees the last text alone, in its place."""
    stage, gate = await held(make_core, (say("One."),), (say("Two."),))
    second = await send(stage, "two", "k2")
    await correct(stage, "k2", "too")
    await correct(stage, "k2", "2")
    gate.opened.set()
    await stage.done(second)
    assert said(stage, 2) == ["one"]
    assert said(stage, 3) == ["one", "2"]
    assert len(stage.provider.requests) == 3
    await checked(stage)


async def test_a_steered_message_is_taken_as_it_was_corrected(make_core: MakeCore):
    """A message that joined a run and waits for its next step is replaced too."""
    stage, gate = await held(make_core, (say("Both."),))
    run = await send(stage, "two", "k2", overlap="steer")
    await correct(stage, "k2", "three")
    gate.opened.set()
    assert (await stage.done(run)).text == "Both."
    assert said(stage, 2) == ["one", "three"]
    await checked(stage)


async def test_a_correction_of_what_the_model_has_seen_is_news(make_core: MakeCore):
    """A run that has taken a message hears in its next step what it says now, and answers after that."""
    answering = asyncio.Event()
    stage = await set_stage(make_core, [(say("One"), pause(answering)), (say("Ten."),)])
    run = await send(stage, "one", "k1")
    await stage.asked(1)
    seq = await correct(stage, "k1", "ten")
    answering.set()
    assert (await stage.done(run)).text == "Ten."
    assert said(stage, 2) == ["one", f"{CORRECTION}\n\nten"]
    steps = await stage.said(StepStarted)
    assert [step.takes for step in steps] == [(3,), (seq,)]
    assert stage.provider.prefixes[1].startswith(stage.provider.prefixes[0])
    assert (await stage.log())[seq - 1].run == run
    await checked(stage)


async def test_a_correction_after_the_end_waits_for_the_next_run(make_core: MakeCore):
    """Correcting an answered message starts nothing; the next run tells of it before its own message, once."""
    stage = await set_stage(make_core, [(say("One."),), (say("Two."),), (say("Three."),)])
    first = await send(stage, "one", "k1")
    await stage.done(first)
    seq = await correct(stage, "k1", "ten")
    runs = await stage.core.runs(session=stage.session)
    assert [run.id for run in runs.items] == [first]
    assert (await stage.log())[seq - 1].run is None
    await stage.play("two")
    assert said(stage, 2) == ["one", f"{CORRECTION}\n\nten", "two"]
    await stage.play("three")
    assert said(stage, 3) == [*said(stage, 2), "three"]
    assert [body.notes for body in await stage.said(RunStarted)] == [(), (seq,), ()]
    await checked(stage)


async def test_a_correction_that_no_step_took_goes_to_the_next_run(make_core: MakeCore):
    """When the run is stopped before it hears of a correction the next one does; the stopped question stays unasked."""
    stage, _ = await held(make_core, (say("Two."),))
    (first,) = (await stage.core.runs(session=stage.session)).items
    await correct(stage, "k1", "ten")
    assert (await stage.stop(first.id)).status == "cancelled"
    assert len((await stage.core.runs(session=stage.session)).items) == 1
    await stage.play("two")
    assert said(stage, 2)[-2:] == [f"{CORRECTION}\n\nten", "two"]
    await checked(stage)


async def test_a_correction_goes_along_with_an_adopted_message(make_core: MakeCore):
    """A steered message whose run is stopped opens the next one as it was corrected, before the stop and after it."""
    stage, _ = await held(make_core, (say("Four."),))
    (first,) = (await stage.core.runs(session=stage.session)).items
    await send(stage, "two", "k2", overlap="steer")
    seq = await correct(stage, "k2", "three")
    await stage.stop(first.id)
    adopting = (await stage.log())[-1].run
    assert [body.inputs for body in await stage.said(RunQueued)] == [(), (seq - 1, seq)]
    assert (await stage.done(str(adopting))).text == "Four."
    assert said(stage, 2)[-1] == "three"
    await correct(stage, "k2", "four")
    assert (await stage.log())[-1].run is None, "the run that took it has ended"
    await checked(stage)


async def test_an_edit_is_taken_once(make_core: MakeCore):
    """The same key corrects once, whatever it says the second time; a text that is the same already writes nothing."""
    stage = await set_stage(make_core, [(say("One."),)])
    await stage.done(await send(stage, "one", "k1"))
    seq = await correct(stage, "k1", "ten", "edit1")
    assert await correct(stage, "k1", "other", "edit1") == seq
    assert await correct(stage, "k1", "ten", "edit2") == seq
    assert len(await stage.said(MessageCorrected)) == 1
    with pytest.raises(IdempotencyMismatch):
        await retract(stage, "k1", "edit1")
    with pytest.raises(InvalidInput):
        await stage.core.correct(stage.session, "k1", ())


async def test_a_message_is_found_by_its_id_too(make_core: MakeCore):
    """Without a key the message itself is named; an unknown one, or another session's, is not found."""
    stage = await set_stage(make_core, [(say("One."),)])
    await stage.play("one")
    (received,) = await stage.said(MessageReceived)
    await correct(stage, received.message, "ten")
    assert (await stage.said(MessageCorrected))[0].message == received.message
    other = await stage.core.open_session(agent="assistant", actor=ANN)
    for name in ("k9", received.message):
        with pytest.raises(NotFound):
            await stage.core.correct(other.id, name, (Text("ten"),))


async def test_a_queued_message_that_is_deleted_is_never_asked(make_core: MakeCore):
    """The run of a deleted message is cancelled when it has nothing else to answer; what else waits goes on."""
    stage, gate = await held(make_core, (say("One."),), (say("Three."),))
    second = await send(stage, "two", "k2")
    third = await send(stage, "three", "k3")
    await correct(stage, "k2", "2")
    await retract(stage, "k2")
    assert (await stage.core.run(second)).status == "cancelled"
    gate.opened.set()
    await stage.done(third)
    assert said(stage, 3) == ["one", "three"]
    assert len(stage.provider.requests) == 3
    await checked(stage)


async def test_a_steered_message_that_is_deleted_asks_for_no_step(make_core: MakeCore):
    """What joined a run and was deleted before a step took it is not sent, and opens no next run after a stop."""
    stage, gate = await held(make_core, (say("One."),))
    run = await send(stage, "two", "k2", overlap="steer")
    await correct(stage, "k2", "2")
    await retract(stage, "k2")
    gate.opened.set()
    assert (await stage.done(run)).text == "One."
    assert said(stage, 2) == ["one"]
    assert len((await stage.core.runs(session=stage.session)).items) == 1
    await checked(stage)


async def test_the_deletion_of_a_message_that_the_model_has_seen_adds_a_note(make_core: MakeCore):
    """The open run gets the note in its next step; it names who deleted what, and causes no step of its own."""
    stage, gate = await held(make_core, (say("One."),), (say("Two."),))
    first = (await stage.log())[-1].run
    await retract(stage, "k1")
    gate.opened.set()
    await stage.done(str(first))
    note = '[note] ann has deleted the message that begins "one". Treat it as withdrawn.'
    assert said(stage, 2) == ["one", note]
    await checked(stage)


async def test_a_deletion_after_the_end_waits_for_the_next_run(make_core: MakeCore):
    """Deleting an answered message starts nothing; the next run tells of it, and no more of its correction."""
    stage = await set_stage(make_core, [(say("One."),), (say("Two."),)])
    await stage.done(await send(stage, "one", "k1"))
    await correct(stage, "k1", "ten")
    seq = await retract(stage, "k1", "gone")
    assert await retract(stage, "k1", "gone") == seq
    assert await retract(stage, "k1", "again") > 0
    await stage.play("two")
    assert [text.partition(".")[0] for text in said(stage, 2)] == [
        "one",
        '[note] ann has deleted the message that begins "ten"',
        "two",
    ]
    assert len(await stage.said(ContextAdded)) == 1
    await checked(stage)


async def test_an_edit_after_a_deletion_comes_too_late(make_core: MakeCore):
    """Events that arrive out of order bring no deleted message back."""
    stage, gate = await held(make_core, (say("One."),))
    second = await send(stage, "two", "k2")
    seq = await retract(stage, "k2")
    assert await correct(stage, "k2", "2", "late") == seq
    gate.opened.set()
    first = (await stage.core.runs(session=stage.session)).items[-1]
    await stage.done(first.id)
    assert (await stage.core.run(second)).status == "cancelled"
    assert [body.parts for body in await stage.said(MessageCorrected)] == [()]


async def test_an_older_correction_does_not_undo_a_newer_one(make_core: MakeCore):
    """Corrections that come in another order than they were made in leave the message as the last one made it."""
    gate = WaitingTool()
    stage = await set_stage(make_core, [(call("wait"),), (say("One."),), (say("Two."),)], tools=[gate.tool])
    await send(stage, "first", "m1")
    run = await send(stage, "as it was", "m2")
    for order, text in ((20, "as it is"), (10, "as it became first"), (20, "again the same")):
        await stage.core.correct(stage.session, "m2", (Text(text),), key=f"{order} {text}", order=order)
    assert [text_of(body.parts) for body in await stage.said(MessageCorrected)] == ["as it is"]
    await stage.core.correct(stage.session, "m2", (Text("as it ends"),), order=30)
    gate.opened.set()
    await stage.done(run)
    assert [text_of(body.parts) for body in await stage.said(MessageCorrected)] == ["as it is", "as it ends"]
    check_log(await stage.log())
