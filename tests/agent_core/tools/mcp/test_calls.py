"""Calls of MCP tools over HTTP, in both eras: results, progress, questions, cancellation, failures."""

import asyncio
import base64
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from agent_core.ids import new_id
from agent_core.mcp import questions
from agent_core.mcp.questions import MAX_HELD_SECONDS
from agent_core.messages import Actor
from agent_core.servers import McpServer
from agent_core.testing import FakeClock
from agent_core.testing.mcp import FakeCall, FakeMcp, FakeProtocolError, FakeTool, sample_tools
from agent_core.testing.mcp.script import PIXEL
from agent_core.tools.base import Elicitation, ElicitationAnswer, Outcome, ToolError
from tests.agent_core.tools.mcp.stage import McpCaller, client_tasks, server_of, staged, texts
from tests.polling import until

RED = {"colour": "red"}


@pytest.fixture(params=["modern", "legacy"])
async def fake(request: pytest.FixtureRequest) -> AsyncIterator[FakeMcp]:
    async with FakeMcp(sample_tools(), era=request.param) as fake:
        yield fake


@pytest.fixture
async def stage(fake: FakeMcp) -> AsyncIterator[McpCaller]:
    async with staged(fake.host) as stage:
        yield stage


async def test_text_structured_content_failures_and_protocol_errors(fake: FakeMcp, stage: McpCaller) -> None:
    """Text structured content failures and protocol errors."""
    server = server_of(fake)
    assert texts(await stage.call(server, "echo", text="hi")) == ["hi"]
    assert texts(await stage.call(server, "get_order", text="7")) == ['{"id": "7", "status": "shipped"}']
    assert await stage.call(server, "fail") == ToolError("the paint is out")
    missing = await stage.call(server, "nope")
    assert missing == ToolError("The MCP server `fake` answered with the error -32602: Unknown tool: nope.")
    assert not fake.asked_for("tools/list")


@pytest.mark.parametrize("code", [-32000, -32001])
async def test_a_servers_error_with_a_code_of_the_sdk_is_its_own(fake: FakeMcp, stage: McpCaller, code: int) -> None:
    """An error with the code that the SDK has for a lost connection or a late answer keeps the server's words."""

    def refuse(_call: FakeCall) -> str:
        raise FakeProtocolError(code, "no such customer")

    fake.tools.append(FakeTool("refuse", answer=refuse))
    server = server_of(fake)
    assert await stage.call(server, "refuse", repeatable=False) == ToolError(
        f"The MCP server `fake` answered with the error {code}: no such customer."
    )
    assert texts(await stage.call(server, "echo", text="on")) == ["on"]
    assert len(fake.asked_for("initialize")) <= 1


@pytest.mark.parametrize(
    "answer",
    [
        {"text": "<p>Sign in", "content_type": "text/html"},
        {"text": "done", "content_type": "text/plain"},
        {"status": 302, "headers": {"Location": "https://login.example/"}},
        {"status": 202},
        {"text": '{"jsonrpc": "2.0", "id"', "content_type": "application/json"},
        {"text": f"{'[' * 100_000}{']' * 100_000}", "content_type": "application/json"},
        {"text": "data: {broken\n\n", "content_type": "text/event-stream"},
        {"status": 404, "text": "<h1>Gone", "content_type": "text/html"},
        {"status": 408, "text": "<h1>Late", "content_type": "text/html"},
    ],
    ids=["html", "text", "redirect", "accepted", "json", "deep", "sse", "404", "408"],
)
async def test_a_write_whose_answer_cannot_be_read_is_made_once(
    fake: FakeMcp, stage: McpCaller, answer: dict[str, Any]
) -> None:
    """Whether it was carried out is not known then, and the model reads so."""
    server = server_of(fake)
    await stage.call(server, "echo", text="opened")
    fake.answered = lambda: web.Response(**answer)
    outcome = await stage.call(server, "echo", text="once", repeatable=False)
    assert isinstance(outcome, ToolError)
    assert outcome.unknown
    assert re.search(r"`fake` gave an answer that cannot be read|HTTP 40[48]", outcome.message)
    assert len(fake.asked_for("tools/call")) == 2


@pytest.mark.parametrize("code", [-32600, -32601, -32022])
async def test_a_write_that_ends_with_an_error_of_the_server_is_made_once(
    fake: FakeMcp, stage: McpCaller, code: int
) -> None:
    """Such a code may stand for a session that the server does not know, and as well for what the tool itself did."""

    def refuse(_call: FakeCall) -> str:
        raise FakeProtocolError(code, "no such request")

    fake.tools.append(FakeTool("refuse", answer=refuse))
    server = server_of(fake)
    await stage.call(server, "echo", text="opened")
    outcome = await stage.call(server, "refuse", repeatable=False)
    assert outcome == ToolError(f"The MCP server `fake` answered with the error {code}: no such request.")
    assert len(fake.asked_for("tools/call")) == 2
    assert texts(await stage.call(server, "echo", text="on")) == ["on"]


async def test_an_image_is_a_file_with_its_own_type(fake: FakeMcp, stage: McpCaller) -> None:
    """An image is a file with its own type."""
    outcome = await stage.call(server_of(fake), "pixel")
    assert texts(outcome) == ["a pixel", "[File `pixel-1.png`: image/png, 70 bytes.]"]
    [(file, data)] = stage.kept
    assert (file.mime, data) == ("image/png", base64.b64decode(PIXEL))


async def test_progress_is_shown(fake: FakeMcp, stage: McpCaller) -> None:
    """Progress is shown."""
    assert texts(await stage.call(server_of(fake), "wait", seconds=0)) == ["waited 0 s"]
    assert stage.shown == ["1 of 2: half of it"]


async def test_a_question_is_answered_by_a_later_call_of_another_process(fake: FakeMcp, stage: McpCaller) -> None:
    """A question is answered by a later call of another process."""
    server = server_of(fake)
    asked = await stage.call(server, "paint")
    assert isinstance(asked, Elicitation)
    assert (asked.title, asked.schema["properties"].keys()) == ("fake asks: Which colour?", RED.keys())
    await until(lambda: fake.streams <= fake.sessions)
    async with staged(fake.host) as later:
        yes, no = (ElicitationAnswer(ok, RED if ok else {}, asked.state) for ok in (True, False))
        assert texts(await later.call(server, "paint", answer=yes)) == ["painted red"]
        [declined] = texts(await later.call(server, "paint", answer=no))
        assert "decline" in declined


async def test_questions_come_one_after_the_other(fake: FakeMcp, stage: McpCaller) -> None:
    """Questions come one after the other."""

    async def twice(call: FakeCall) -> str:
        first = await call.ask("First?", _form("a"))
        second = await call.ask("Second?", _form("b"))
        return f"{first['content']} {second['content']}"

    fake.tools.append(FakeTool("twice", answer=twice))
    server, state, titles = server_of(fake), ElicitationAnswer(True), list[str]()
    while isinstance(asked := await stage.call(server, "twice", answer=state), Elicitation):
        titles.append(asked.title)
        [field] = asked.schema["properties"]
        state = ElicitationAnswer(True, {field: len(titles)}, asked.state)
    assert (titles, texts(asked)) == (["fake asks: First?", "fake asks: Second?"], ["{'a': 1} {'b': 2}"])


@pytest.mark.parametrize(
    "items",
    [{"type": "string", "enum": ["ham", "egg"]}, {"anyOf": [{"const": "ham", "title": "Ham"}, {"const": "egg"}]}],
    ids=["names", "titles"],
)
async def test_several_choices_are_asked_and_answered(fake: FakeMcp, stage: McpCaller, items: dict[str, Any]) -> None:
    """A list of choices is a field of the form, with its bounds; the server gets the list."""
    several = {"type": "array", "title": "Food", "minItems": 1, "maxItems": 2, "items": items}

    async def order(call: FakeCall) -> str:
        schema = {"type": "object", "properties": {"food": several}, "required": ["food"]}
        return str((await call.ask("What?", schema))["content"])

    fake.tools.append(FakeTool("order", answer=order))
    asked = await stage.call(server_of(fake), "order")
    assert isinstance(asked, Elicitation)
    assert asked.schema["properties"] == {"food": several}
    answer = ElicitationAnswer(True, {"food": ["egg", "ham"]}, asked.state)
    assert texts(await stage.call(server_of(fake), "order", answer=answer)) == ["{'food': ['egg', 'ham']}"]


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"mode": "url", "message": "Go", "url": "https://x.example", "elicitationId": "1"}, "web address"),
        ({"mode": "form", "message": "Go", "requestedSchema": {"type": "object", "properties": {"a": {
            "type": "array", "items": {"type": "string"}}}}}, "more than plain fields and choices from a list"),
        ({"mode": "form", "message": "Go", "requestedSchema": {"type": "object", "properties": {"a\u200b": {
            "type": "string"}}}}, "do not see"),
        ({"mode": "form", "message": "x" * 5000, "requestedSchema": {"type": "object", "properties": {}}}, "too long"),
    ],
)  # fmt: skip
async def test_what_no_form_can_ask_is_declined_and_said(
    fake: FakeMcp, stage: McpCaller, params: dict[str, Any], said: str
) -> None:
    """What no form can ask is declined and said."""

    async def ask(call: FakeCall) -> str:
        return (await call.question(params))["action"]

    fake.tools.append(FakeTool("ask", answer=ask))
    answer, note = texts(await stage.call(server_of(fake), "ask"))
    assert answer == "decline"
    assert said in note


async def test_a_cancelled_caller_cancels_the_request(fake: FakeMcp, stage: McpCaller) -> None:
    """A cancelled caller cancels the request."""
    server = server_of(fake)
    await stage.call(server, "echo", text="opened")
    call = asyncio.create_task(stage.call(server, "wait", seconds=60))
    await until(lambda: bool(stage.shown))
    call.cancel()
    await asyncio.wait((call,))
    assert call.cancelled()
    await until(lambda: fake.protocol.cancelled == ["tools/call"])
    assert texts(await stage.call(server, "echo", text="on")) == ["on"]


@pytest.mark.whole
async def test_twenty_calls_side_by_side(fake: FakeMcp, stage: McpCaller) -> None:
    """Twenty calls side by side."""
    together, here = asyncio.Event(), list[int]()

    async def meet(call: FakeCall) -> str:
        here.append(call.arguments["n"])
        if len(here) == 20:
            together.set()
        await together.wait()
        return f"{call.arguments['n']} {call.headers['x-parley-context-n']}"

    fake.tools.append(FakeTool("meet", answer=meet))
    server = server_of(fake)
    calls = [stage.call(server, "meet", headers={"X-Parley-Context-N": str(n)}, n=n) for n in range(20)]
    said = [texts(each) for each in await asyncio.gather(*calls)]
    assert said == [[f"{n} {n}"] for n in range(20)]
    assert len(fake.asked_for("initialize")) <= 1


async def test_the_connection_that_breaks_in_mid_call_breaks_no_other(fake: FakeMcp, stage: McpCaller) -> None:
    """The connection that breaks in mid call breaks no other."""
    went = asyncio.Event()

    async def die(call: FakeCall) -> str:
        call.die()
        return ""

    async def wait(_call: FakeCall) -> str:
        await went.wait()
        return "still here"

    fake.tools.extend([FakeTool("die", answer=die), FakeTool("stay", answer=wait)])
    server = server_of(fake)
    stays = asyncio.create_task(stage.call(server, "stay"))
    read, write = [await stage.call(server, "die", repeatable=each) for each in (True, False)]
    assert isinstance(read, ToolError)
    assert isinstance(write, ToolError)
    assert (read.unknown, write.unknown) == (False, True)
    assert "`fake` cannot be reached" in read.message
    went.set()
    assert texts(await stays) == ["still here"]


async def test_an_answer_without_a_bound_is_cut_off(fake: FakeMcp, stage: McpCaller) -> None:
    """An answer without a bound is cut off."""
    fake.tools.append(FakeTool("huge", answer=lambda _call: "x" * 4_500_000))
    outcome = await stage.call(server_of(fake), "huge")
    assert isinstance(outcome, ToolError)
    assert "larger than 4 MB" in outcome.message


@pytest.mark.parametrize(
    "result",
    [{"content": "no list"}, {"content": [{"type": "hologram"}]}, {"content": [{"type": "image", "data": 7}]}, {}],
)
async def test_a_lying_result_is_a_failure_that_names_the_server(
    fake: FakeMcp, stage: McpCaller, result: dict[str, Any]
) -> None:
    """A lying result is a failure that names the server."""
    fake.tools.append(FakeTool("lie", answer=lambda _call: result))
    outcome = await stage.call(server_of(fake), "lie")
    assert isinstance(outcome, ToolError)
    assert "The MCP server `fake` answered what the protocol does not allow" in outcome.message


@pytest.mark.whole
async def test_two_hundred_calls_leave_nothing(fake: FakeMcp, stage: McpCaller) -> None:
    """Two hundred calls leave nothing."""
    server = server_of(fake)
    await stage.call(server, "echo", text="0")
    before = len(client_tasks())
    for n in range(200):
        assert texts(await stage.call(server, "echo", text=str(n))) == [str(n)]
    await until(lambda: len(client_tasks()) <= before)
    assert fake.sessions <= 1


def _form(field: str) -> dict[str, Any]:
    return {"type": "object", "properties": {field: {"type": "integer"}}, "required": [field]}


@pytest.fixture
async def legacy() -> AsyncIterator[FakeMcp]:
    async with FakeMcp(sample_tools(), era="legacy") as fake:
        yield fake


async def _painted(stage: McpCaller, server: McpServer, asked: Outcome, *, accepted: bool = True) -> Outcome:
    assert isinstance(asked, Elicitation)
    answer = ElicitationAnswer(accepted, RED if accepted else {}, asked.state)
    return await stage.call(server, "paint", repeatable=False, answer=answer)


@pytest.mark.parametrize(("accepted", "said"), [(True, "painted red"), (False, "decline")])
async def test_a_legacy_call_that_may_have_written_waits_for_its_answer(
    legacy: FakeMcp, *, accepted: bool, said: str
) -> None:
    """The call itself goes on with the answer: the server sees it once."""
    async with staged(legacy.host) as stage:
        asked = await stage.call(server_of(legacy), "paint", repeatable=False)
        [text] = texts(await _painted(stage, server_of(legacy), asked, accepted=accepted))
        assert said in text
        assert len(legacy.asked_for("tools/call")) == 1


async def test_a_legacy_call_that_waits_may_ask_again_and_show_progress(legacy: FakeMcp) -> None:
    """Each question is the person's, and what comes after the first is shown to who resumed it."""

    async def twice(call: FakeCall) -> str:
        first = await call.ask("First?", _form("a"))
        await call.progress(1, 2, "half of it")
        return f"{first['content']} {(await call.ask('Second?', _form('b')))['content']}"

    legacy.tools.append(FakeTool("twice", answer=twice))
    async with staged(legacy.host) as stage:
        server, state, titles = server_of(legacy), None, list[str]()
        while isinstance(asked := await stage.call(server, "twice", repeatable=False, answer=state), Elicitation):
            titles.append(asked.title)
            [field] = asked.schema["properties"]
            state = ElicitationAnswer(True, {field: len(titles)}, asked.state)
        assert (titles, texts(asked)) == (["fake asks: First?", "fake asks: Second?"], ["{'a': 1} {'b': 2}"])
        assert stage.shown == ["1 of 2: half of it"]
        assert len(legacy.asked_for("tools/call")) == 1


async def test_the_end_of_a_legacy_call_that_another_process_resumes_is_unknown(legacy: FakeMcp) -> None:
    """It may have written, so it is not made again."""
    async with staged(legacy.host) as stage:
        asked = await stage.call(server_of(legacy), "paint", repeatable=False)
        async with staged(legacy.host) as other:
            outcome = await _painted(other, server_of(legacy), asked)
        assert isinstance(outcome, ToolError)
        assert outcome.unknown
        assert len(legacy.asked_for("tools/call")) == 1


async def test_a_legacy_call_waits_a_bounded_time(legacy: FakeMcp) -> None:
    """After that the question is declined, and who answers later reads what came of it."""
    clock = FakeClock()
    async with staged(legacy.host) as stage:
        context = replace(stage.context(), clock=clock)
        server = server_of(legacy)
        asked = await stage.connections.call(server, "paint", {}, context, {}, repeatable=False)
        await until(lambda: bool(clock.sleepers))
        clock.advance(MAX_HELD_SECONDS)
        await until(lambda: legacy.streams <= legacy.sessions)
        said, note = texts(await _painted(stage, server, asked))
        assert "decline" in said
        assert "waits 15 minutes" in note


@pytest.mark.parametrize("asked_by_then", [True, False])
async def test_an_old_form_answers_no_later_question(legacy: FakeMcp, *, asked_by_then: bool) -> None:
    """A question that the person never saw is their next form, also when it reads like the one that was declined."""
    clock, go, declined = FakeClock(), asyncio.Event(), asyncio.Event()

    async def twice(call: FakeCall) -> str:
        first = await call.ask("Delete it?", _form("sure"))
        declined.set()
        await go.wait()
        second = await call.ask("Delete it?", _form("sure"))
        return f"{first['action']} {second['action']} {second.get('content')}"

    legacy.tools.append(FakeTool("twice", answer=twice))
    async with staged(legacy.host) as stage:
        context, server = replace(stage.context(), clock=clock), server_of(legacy)

        async def resumed(asked: Outcome, sure: int) -> Outcome:
            assert isinstance(asked, Elicitation)
            answer = ElicitationAnswer(True, {"sure": sure}, asked.state)
            return await stage.call(server, "twice", repeatable=False, answer=answer)

        first = await stage.connections.call(server, "twice", {}, context, {}, repeatable=False)
        await until(lambda: bool(clock.sleepers))
        clock.advance(MAX_HELD_SECONDS)
        await declined.wait()
        if asked_by_then:
            go.set()
            await until(lambda: bool(clock.sleepers))
        late = asyncio.create_task(resumed(first, 1))
        if not asked_by_then:
            await asyncio.wait((late,), timeout=0)
            go.set()
        second = await late
        assert isinstance(second, Elicitation)
        said = texts(await resumed(second, 2))[0]
        assert said == "decline accept {'sure': 2}"
        assert len(legacy.asked_for("tools/call")) == 1


async def test_one_person_cannot_take_all_the_places(legacy: FakeMcp, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over their bound a person's question is declined, and another's waits."""
    monkeypatch.setattr(questions, "MAX_OF_ACTOR", 1)
    async with staged(legacy.host) as stage:
        server = server_of(legacy)
        bob = replace(stage.context(), call="call_3", actor=Actor("bob", "user", "Bob"))
        asked = await stage.call(server, "paint", repeatable=False)
        more = replace(stage.context(), call="call_2")
        said, note = texts(await stage.connections.call(server, "paint", {}, more, {}, repeatable=False))
        assert ("decline" in said, "3 of this person's" in note) == (True, True)
        other = await stage.connections.call(server, "paint", {}, bob, {}, repeatable=False)
        assert isinstance(other, Elicitation)
        assert texts(await _painted(stage, server, asked)) == ["painted red"]


async def test_made_up_visitors_cannot_take_all_the_places(legacy: FakeMcp, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anonymous visitors share some places; beyond them one more is declined, while others' questions wait."""
    monkeypatch.setattr(questions, "MAX_OF_ANONYMOUS", 2)
    async with staged(legacy.host) as stage:
        server = server_of(legacy)

        async def called(n: int, actor: str) -> Outcome:
            context = replace(stage.context(), call=f"call_{n}", actor=Actor(actor, "visitor"))
            return await stage.connections.call(server, "paint", {}, context, {}, repeatable=False)

        for n in range(2):
            assert isinstance(await called(n, new_id("anonymous")), Elicitation)
        said, note = texts(await called(2, new_id("anonymous")))
        assert ("decline" in said, "of anonymous visitors" in note) == (True, True)
        assert isinstance(await called(3, "ada"), Elicitation)


async def test_only_so_many_legacy_calls_wait(legacy: FakeMcp, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is declined; one that has ended makes room."""
    monkeypatch.setattr(questions, "MAX_HELD", 1)
    async with staged(legacy.host) as stage:
        server, context = server_of(legacy), replace(stage.context(), call="call_2")
        asked = await stage.call(server, "paint", repeatable=False)
        said, note = texts(await stage.connections.call(server, "paint", {}, context, {}, repeatable=False))
        assert "decline" in said
        assert "its calls wait for answers" in note
        assert texts(await _painted(stage, server, asked)) == ["painted red"]
