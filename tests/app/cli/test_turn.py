"""A question that comes while the person types: whose the keys are."""

import asyncio

import pytest

from agent_core.testing import ScriptedProvider, by_step, call, pause, say
from tests.app.cli.seats import DOWN, ESC, PASTED, PAYS, paying, seated
from tests.polling import until


@pytest.mark.sampled(2)
@pytest.mark.parametrize("keys", ["y not tomorrow?", "\r", "always\r", PASTED, "n\r"], ids=repr)
async def test_what_is_typed_when_a_question_comes_decides_nothing(make_core, keys):
    """A question leaves the keys to a message that was begun before it: its letters and Enter are no decision."""
    gate = asyncio.Event()
    steps = by_step((pause(gate), call("pay", amount=5)), (say("Paid."),))
    core, till = await paying(make_core, ScriptedProvider(steps))
    async with seated(core) as seat:
        seat.press("go\r")
        await until(lambda: seat.area.is_working)
        seat.press("stop, do not pay anything")
        await until(lambda: bool(seat.area.message.text))
        gate.set()
        await seat.shows("Tab: decide")
        await seat.waits()
        question = seat.area.question
        seat.press(keys)
        if keys.endswith("\r"):
            await seat.shows("(queued: ")
        else:
            await until(lambda: seat.area.message.text.startswith("stop, do not pay anythingy"))
        await seat.waits()
        assert seat.area.question is question is not None
        assert not seat.area.is_picking
        seat.press("\t")
        await until(lambda: seat.area.is_picking)
        await seat.waits()
        seat.press("n")
        await seat.shows("denied by Ann")
    assert till.paid == []


async def test_a_line_begun_before_a_question_is_no_vote(make_core):
    """A line "y" whose first letter was typed before the question is a message, as everything in that line is."""
    gate = asyncio.Event()
    steps = by_step((pause(gate), call("pay", amount=5)), (say("Paid."),))
    core, till = await paying(make_core, ScriptedProvider(steps))
    async with seated(core) as seat:
        seat.press("go\r")
        await until(lambda: seat.area.is_working)
        seat.press("y")
        await until(lambda: seat.area.message.text == "y")
        gate.set()
        await seat.shows("Tab: decide")
        seat.press("\r")
        await seat.shows("(queued: ")
    assert till.paid == []


@pytest.mark.parametrize("keys", ["yes", f"{DOWN}\ry", PASTED], ids=repr)
async def test_keys_that_came_too_early_decide_nothing(make_core, keys):
    """Keys that come as soon as the list has them were meant for something else: letters begin a message."""
    core, till = await paying(make_core, ScriptedProvider(PAYS))
    async with seated(core) as seat:
        seat.press("Pay\r")
        await seat.shows("Tab: decide")
        assert not seat.area.is_picking
        seat.clock.advance(1.0)
        seat.area.app.invalidate()
        await until(lambda: seat.area.is_picking)
        seat.press(keys)
        await until(lambda: seat.area.message.text.startswith("y"))
        assert seat.area.question is not None
        assert not seat.area.is_picking
    assert till.paid == []


async def test_a_paste_into_a_list_begins_a_message(make_core):
    """What is pasted while the list has the keys is a draft, and decides nothing however long the list was there."""
    core, till = await paying(make_core, ScriptedProvider(PAYS))
    async with seated(core) as seat:
        seat.press("Pay\r")
        await seat.is_asked()
        seat.press(PASTED)
        await until(lambda: seat.area.message.text == "y\na\n")
        assert not seat.area.is_picking
    assert till.paid == []


async def test_commands_work_while_a_question_is_open(make_core):
    """`/sessions` lists conversations over an open question, which is there again after it."""
    core, till = await paying(make_core, ScriptedProvider(PAYS))
    async with seated(core) as seat:
        seat.press("Pay\r")
        await seat.is_asked()
        seat.press(ESC)
        await until(lambda: not seat.area.is_picking)
        seat.press("/sessions\r")
        await until(lambda: seat.area.asked_for is not None)
        seat.press(ESC)
        await until(lambda: seat.area.asked_for is None)
        seat.press("\t")
        await until(lambda: seat.area.is_picking)
        await seat.waits()
        seat.press("y")
        await seat.shows("Paid.")
    assert till.paid == [5]
