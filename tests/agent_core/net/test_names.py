"""Names that change their address, and lookups that fail: the guarded fetch goes by the answer that it checked."""

import asyncio
import socket

import pytest

from agent_core.net.exchange import SystemResolver
from agent_core.net.fetch import Bounds, Fetch, FetchFailed, FetchRefused, FetchTimedOut
from agent_core.testing import FakeClock
from tests.agent_core.net.stage import PUBLIC, Names, Roads, moved, ok, serving
from tests.cases import for_each


@for_each("then", ["127.0.0.1", "169.254.169.254", "::1", "10.0.0.1"])
async def test_an_answer_that_changes_after_the_check(then):
    """A name is looked up once: what a second lookup would say does not matter."""
    names, roads = Names(site_example=[[PUBLIC], [then]]), Roads()
    fetch = Fetch(resolve=names, dial=roads)
    async with serving() as site:
        assert (await fetch(site.url())).status == 200
    assert (names.asked, roads.taken) == (["site.example"], [PUBLIC])
    await fetch.close()


async def test_an_answer_that_changes_between_requests():
    """A new connection means a new lookup, and a new check."""
    names, roads = Names(site_example=[[PUBLIC], ["127.0.0.1"]]), Roads()
    fetch = Fetch(resolve=names, dial=roads)
    async with serving() as site:
        site.answers["/"] = ok(b"", "Connection: close")
        await fetch(site.url())
        with pytest.raises(FetchRefused):
            await fetch(site.url())
        assert (len(site.requests), site.connections) == (1, 1)
    assert (len(names.asked), roads.taken) == (2, [PUBLIC])
    await fetch.close()


async def test_an_answer_that_changes_on_a_redirect():
    """A site that sends a request back to itself, under an address of the inside by now, is refused."""
    names, roads = Names(site_example=[[PUBLIC], ["10.0.0.1"]]), Roads()
    fetch = Fetch(resolve=names, dial=roads)
    async with serving() as site:
        site.answers["/"] = moved("/again")
        with pytest.raises(FetchRefused):
            await fetch(site.url())
        assert [request.path for request in site.requests] == ["/"]
    assert roads.taken == [PUBLIC]
    await fetch.close()


async def test_a_refusal_is_not_remembered():
    """A name that was refused is looked up again the next time."""
    fetch = Fetch(resolve=Names(site_example=[["10.0.0.1"], [PUBLIC]]), dial=Roads())
    async with serving() as site:
        with pytest.raises(FetchRefused):
            await fetch(site.url())
        assert (await fetch(site.url())).status == 200
    await fetch.close()


async def test_many_at_once_are_checked_each():
    """Requests at the same time do not borrow one another's lookups: each connection has its own."""
    names, roads = Names(site_example=[[PUBLIC], ["127.0.0.1"]] * 10 + [["127.0.0.1"]]), Roads()
    fetch = Fetch(resolve=names, dial=roads)
    async with serving() as site:
        site.answers["/"] = ok(b"", "Connection: close")
        found = await asyncio.gather(*(fetch(site.url()) for _ in range(20)), return_exceptions=True)
        assert sum(isinstance(each, FetchRefused) for each in found) == 10
        assert len(site.requests) == 10
    assert roads.taken == [PUBLIC] * 10
    await fetch.close()


@for_each("error", [OSError("x"), socket.gaierror(8, "x"), TimeoutError(), UnicodeError("label too long"), None])
async def test_a_lookup_that_fails(error):
    """A name without an address is an error that says so, whatever the resolver raises."""

    async def resolve(host, port):
        if error is not None:
            raise error
        return []

    roads = Roads()
    fetch = Fetch(resolve=resolve, dial=roads)
    with pytest.raises(FetchFailed, match=r"`site\.example:80` cannot be reached: it") as failed:
        await fetch("http://site.example/")
    assert not isinstance(failed.value, FetchRefused)
    assert roads.taken == []
    await fetch.close()


async def test_a_lookup_that_hangs():
    """A name server that does not answer costs the time of one answer, and no more."""

    async def resolve(host, port):
        await asyncio.Event().wait()
        return [PUBLIC]

    clock = FakeClock()
    fetch = Fetch(resolve=resolve, clock=clock)
    asking = asyncio.create_task(fetch("http://site.example/", bounds=Bounds(seconds=9, first_byte=4)))
    await clock.slept(2)
    clock.advance(4)
    with pytest.raises(FetchTimedOut, match=r"`site\.example:80` did not answer within 4 s"):
        await asking
    await fetch.close()


async def test_the_machines_own_resolver():
    """The machine's resolver gives each address once, and says when there is none."""
    resolve = SystemResolver()
    found = await resolve("localhost", 80)
    assert set(found) <= {"127.0.0.1", "::1"}
    assert len(found) == len(set(found))
    with pytest.raises(OSError):  # noqa: PT011 - what a resolver says differs
        await resolve("127.0.0.1.5", 80)
    resolve.close()
