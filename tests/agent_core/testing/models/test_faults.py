"""What goes wrong on a wire, over plain HTTP: errors, cuts, stalls, pieces, silence."""

import asyncio
import json

import aiohttp
import pytest

from agent_core.testing import FakeClock, scripted
from agent_core.testing.models import FakeModels, Options, raw, split, stall, status
from agent_core.testing.scripted import bug, call, cut, fail, flat, pause, say, think, together
from tests.agent_core.testing.models.asking import PATHS, WIRES, asking, streaming, user
from tests.polling import PATIENCE, until

pytestmark = pytest.mark.parametrize("wire", WIRES)

LAST = {"messages": "message_stop", "responses": "response.completed", "chat": "[DONE]"}


async def test_a_limit_says_when_to_come_again(wire):
    """A rate limit has the wait that the script gives, none if it gives none, and the request's name."""
    async with asking([[fail("rate_limited", retry_after=2)], [fail("rate_limited")]]) as asker:
        first, second = await asker.stream("hi", wire), await asker.ask("hi", wire)
    assert (first.status, first.headers["retry-after"]) == (429, "2")
    assert (second.status, "retry-after" in second.headers) == (429, False)
    assert first.headers["request-id" if wire == "messages" else "x-request-id"].startswith("req_")


async def test_the_script_may_word_a_failure(wire):
    """A failure has the vendor's own text unless the script has one."""
    async with asking([[fail("error", message="Look here.")], [fail("error")]]) as asker:
        assert (await asker.stream("hi", wire)).said == "Look here."
        assert "scripted" not in (await asker.stream("hi", wire)).said


async def test_a_failure_in_mid_stream_is_an_event(wire):
    """After the first token a failure comes within the stream, which then ends in order but without its last event."""
    async with asking([[say("a"), fail("overloaded")]] * 2) as asker:
        streamed, whole = await asker.stream("hi", wire), await asker.ask("hi", wire)
    assert streamed.status == 200
    error = streamed.events[-1]
    assert "error" in (error["type"] if wire != "chat" else error)
    assert LAST[wire] not in streamed.text
    assert whole.status == (529 if wire == "messages" else 503)


async def test_a_cut_stream_ends_without_a_word(wire):
    """A cut ends the stream in order, and its last event never comes."""
    async with asking([[say("a"), cut()]]) as asker:
        reply = await asker.stream("hi", wire)
    assert (reply.status, LAST[wire] in reply.text, '"a"' in reply.text) == (200, False, True)


async def test_a_broken_connection_is_broken(wire):
    """A network failure closes the connection: before an answer, in the middle of one, and in place of a whole one."""
    async with asking([[fail("network")], [say("a"), fail("network")], [say("a"), cut()]]) as asker:
        with pytest.raises(aiohttp.ClientConnectionError):
            await asker.stream("hi", wire)
        with pytest.raises(aiohttp.ClientPayloadError):
            await asker.stream("hi", wire)
        with pytest.raises(aiohttp.ClientConnectionError):
            await asker.ask("hi", wire)


async def test_a_stalled_stream_ends_when_its_client_leaves(wire):
    """A stall sends nothing more and keeps the stream open until the client goes."""
    async with asking([[say("a"), stall()]]) as asker:
        async with asker.post({**user("hi", wire), "stream": True}, wire) as response:
            assert b'"a"' in await response.content.readuntil(b'"a"')
            assert asker.fake.open == 1
        await until(lambda: not asker.fake.open)


@pytest.mark.parametrize("size", [1, 7, 4096])
async def test_a_stream_in_pieces_has_the_same_bytes(wire, size):
    """However small the pieces of a stream are, together they are the stream."""
    answer = [think("hm"), say("Grüße, ", "世界"), call("now")]
    async with asking([answer, [split(size), *answer]]) as asker:
        whole, pieces = await asker.stream("hi", wire), await asker.stream("hi", wire)
    assert len(whole.events) == len(pieces.events)
    assert [event.keys() for event in whole.events] == [event.keys() for event in pieces.events]


async def test_a_server_can_split_all_its_streams(wire):
    """With the option `split` each piece of a stream is a write of its own."""
    async with streaming([[say("Hello")]], wire, options=Options(split=64)) as response:
        chunks = [data async for data, _ in response.content.iter_chunks()]
    assert max(map(len, chunks)) == 64
    assert json.dumps("Hello") in b"".join(chunks).decode()


async def test_any_http_answer_can_be_given(wire):
    """A status, a body and headers of the script's own stand in for the wire's."""
    async with asking([[status(502, "<html>Bad gateway</html>", {"x-proxy": "1"})]]) as asker:
        reply = await asker.stream("hi", wire)
    assert (reply.status, reply.text, reply.headers["x-proxy"]) == (502, "<html>Bad gateway</html>", "1")


async def test_raw_bytes_are_a_stream_of_their_own(wire):
    """An answer of raw bytes alone is just these bytes; among other items they stand where they are put."""
    async with asking([[raw(b"data: {}\n\n")], [say("a"), raw(b": note\n\n"), say("b")]]) as asker:
        assert (await asker.stream("hi", wire)).text == "data: {}\n\n"
        mixed = (await asker.stream("hi", wire)).text
    assert mixed.index('"a"') < mixed.index(": note\n\n") < mixed.index('"b"')


async def test_a_bug_is_a_servers_error(wire):
    """A server that breaks says 500 and no JSON."""
    async with asking([[bug()]]) as asker:
        reply = await asker.stream("hi", wire)
    assert (reply.status, reply.text) == (500, "Internal Server Error")


async def test_a_slow_first_byte_is_slow(wire):
    """A sleep before the first item holds back the answer itself, on the clock."""
    clock = FakeClock()
    async with asking([[scripted.sleep(30), say("a")]], clock=clock) as asker:
        waiting = asyncio.create_task(asker.stream("hi", wire))
        assert await clock.advance_to_next() == 30
        assert (await waiting).status == 200


async def test_a_pause_waits_for_its_event(wire):
    """What is before a pause is sent, what follows it waits."""
    event = asyncio.Event()
    async with streaming([[say("a"), pause(event), say("b")]], wire) as response:
        await response.content.readuntil(b'"a"')
        event.set()
        assert b'"b"' in await response.content.read()


async def test_a_rate_paces_deltas_on_the_clock(wire):
    """At a rate of two there is half a second between deltas, and an answer of its own rate has that."""
    clock = FakeClock()
    async with asking([[say("a", "b", "c")], [flat(3, rate=4)]], rate=2, clock=clock) as asker:
        for gap in (0.5, 0.25):
            waiting = asyncio.create_task(asker.stream("hi", wire))
            assert [await clock.advance_to_next() for _ in range(3)] == [gap] * 3
            while not waiting.done():
                await clock.advance_to_next() if clock.sleepers else await asyncio.sleep(0)
            assert (await waiting).status == 200


async def test_a_real_rate_sends_everything(wire):
    """On the machine's clock a paced answer is as whole as any other."""
    async with asking([[flat(50, text="x")], [flat(50, text="x")]], rate=1000) as asker:
        paced = await asker.stream("hi", wire)
        async with asyncio.timeout(PATIENCE):
            assert len(paced.events) == len((await asker.stream("hi", wire)).events)
    assert LAST[wire] in paced.text


async def test_what_comes_together_is_one_write(wire):
    """Items that come together are one chunk of the stream."""
    async with streaming([[together(say("a", "b"), call("now"))]], wire) as response:
        first, _ = await anext(response.content.iter_chunks())
        await response.read()
    assert [each for each in (b'"a"', b'"b"', b'"now"') if each not in first] == []


async def test_requests_are_remembered(wire):
    """The server knows what it was asked: the wire, the model, the newest text, the step, the bytes and the headers."""
    async with asking([[say("a")]]) as asker:
        await asker.stream("hi", wire)
        await asker.fake.reached(1)
        asked = asker.fake.asked[0]
    assert (asked.wire, asked.text, asked.step, asked.body["stream"]) == (wire, "hi", 0, True)
    assert json.loads(asked.raw) == asked.body
    assert asked.headers["authorization"] == "Bearer key"


async def test_a_script_that_is_over_says_so(wire):
    """A model call without an answer gets an error that names what is missing."""
    async with asking([]) as asker:
        reply = await asker.stream("hi", wire)
    assert (reply.status, "add one" in reply.said) == (400, True)


async def test_nothing_is_remembered_for_benches(wire):
    """With all three switches off the answer is the same and no request is kept."""
    async with asking([[say("a")]], record=False, check=False, cache=False) as asker:
        reply = await asker.stream("hi", wire)
        assert (asker.fake.asked, asker.fake.calls) == ([], 1)
    assert LAST[wire] in reply.text


async def test_the_server_ends_at_once(wire):
    """A server that ends breaks the streams that still run, and waits for none."""
    async with asyncio.timeout(PATIENCE), aiohttp.ClientSession() as http:
        async with FakeModels([[say("a"), stall()]]) as fake:
            body = {**user("hi", wire), "stream": True}
            headers = {"authorization": "Bearer key", "anthropic-version": "2026-10-21"}
            response = await http.post(fake.url + PATHS[wire], json=body, headers=headers)
            await response.content.readuntil(b'"a"')
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.read()
    assert fake.open == 0
