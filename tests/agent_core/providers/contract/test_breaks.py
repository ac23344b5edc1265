"""Connections that stall, break and are closed: the loop gets the failure in time, and nothing stays open."""

import asyncio
from contextlib import aclosing

import pytest

from agent_core.providers.base import ModelTextDelta
from agent_core.testing import cut, fail, flat, pause, say
from agent_core.testing.models import raw, stall
from tests.agent_core.providers.contract import written as w
from tests.agent_core.providers.contract.received import received
from tests.agent_core.providers.contract.wires import MESSAGES, RESPONSES, collect
from tests.polling import PATIENCE, until

pytestmark = pytest.mark.sampled(3)


async def test_a_slow_first_byte_is_waited_for(dial, wire):
    """A model that takes long to its first byte is waited for, up to the limit of silence."""
    speak = asyncio.Event()
    line = await dial(wire, [[pause(speak), say("Here.")]])
    async with asyncio.timeout(PATIENCE):
        asking = asyncio.create_task(line.receive())
        await line.models.reached(1)
        speak.set()
        assert (await asking).parts == (("text", "Here."),)


@pytest.mark.parametrize("before", [[], [say("Half an ans")]], ids=["before the answer", "within it"])
async def test_silence_beyond_the_limit_is_a_broken_connection(before, dial, wire):
    """A server that falls silent is given up after the limit, and the call may be tried again."""
    line = await dial(wire, [[*before, stall()]], idle=0.4)
    async with asyncio.timeout(PATIENCE):
        found = await line.receive()
        await until(lambda: line.models.open == 0)
    assert found.end == "network"
    assert found.failure is not None
    assert found.failure.retryable
    assert "silent" in found.failure.message


async def test_a_connection_that_closes_without_an_answer_is_a_failure(ask):
    """A server that hangs up at once is a failure of the network."""
    assert (await ask([fail("network")])).end == "network"


async def test_a_server_that_is_not_there_is_a_failure(wire, dial):
    """A refused connection is a failure of the network, not an exception."""
    line = await dial(wire, [])
    gone = wire.provider("http://127.0.0.1:1")
    try:
        found = received(await collect(gone.stream(wire.request(gone))))
    finally:
        await gone.close()
    assert found.end == "network"
    assert line.models.calls == 0


async def test_an_answer_is_over_with_its_last_event(dial, wire):
    """A server that keeps the connection open after the end of its answer delays no run, and is disconnected."""
    ends = {MESSAGES: w.messages(*w.text_block(0, "Hi")), RESPONSES: w.responses(*w.text_item(0, "Hi"))}
    line = await dial(wire, [[raw(ends.get(wire) or w.chat({"content": "Hi"})), stall()]], idle=60.0)
    async with asyncio.timeout(PATIENCE):
        found = await line.receive()
        await until(lambda: line.models.open == 0)
    assert (found.parts, found.end) == ((("text", "Hi"),), "done")


async def test_letting_go_in_mid_stream_ends_the_model_call(dial, wire):
    """When a run is stopped the server notices at once: it does not generate an answer that is discarded."""
    line = await dial(wire, [[say("One "), stall()]])
    async with asyncio.timeout(PATIENCE):
        async with aclosing(line.provider.stream(wire.request(line.provider))) as stream:
            async for batch in stream:
                if any(isinstance(delta, ModelTextDelta) for delta in batch):
                    break
            assert line.models.open == 1
        await until(lambda: line.models.open == 0)


async def test_letting_go_before_the_first_byte_ends_the_model_call(dial, wire):
    """A stop while the model has said nothing yet reaches the server as well."""
    line = await dial(wire, [[stall()]])
    asking = asyncio.create_task(line.deltas())
    async with asyncio.timeout(PATIENCE):
        await line.models.reached(1)
        asking.cancel()
        await asyncio.wait([asking])
        await until(lambda: line.models.open == 0)
    assert asking.cancelled()


async def test_a_connection_serves_answer_after_answer(dial, wire):
    """After whole, cut and failed answers the next call is answered, as if nothing had been."""
    answers = [[say("one")], [say("x"), cut()], [fail("overloaded")], [say("x"), fail("error")], [say("two")]]
    line = await dial(wire, answers)
    ends = [(await line.receive()).end for _ in answers]
    assert ends == ["done", "network", "overloaded", "error", "done"]


@pytest.mark.sampled(1)
async def test_many_calls_at_once_do_not_mix(dial, wire):
    """Streams that run side by side on one client each get their own answer."""
    line = await dial(wire, lambda asked: [say(f"{asked.step}", " deltas "), flat(200, text="x")])
    answers = await asyncio.gather(*(line.receive() for _ in range(20)))
    assert {answer.parts for answer in answers} == {(("text", "0 deltas " + "x" * 200),)}
    assert line.models.calls == 20
