"""The fake models as the vendors' own SDKs read them: an outside check that the wires are right."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import openai
import pytest

from agent_core.net.exchange import trusted
from agent_core.testing.models import FakeModels, native
from agent_core.testing.scripted import call, fail, finish, refuse, say, think, usage
from tests.cases import for_each

pytestmark = pytest.mark.whole

ANSWER = [think("They want ", "a sum."), say("12 * 7", " is…"), call("calculate", expression="12 * 7"), call("now")]
HELLO = [{"role": "user", "content": "Hello"}]
CLAUDE = {"model": "claude-opus-5-5", "max_tokens": 100, "messages": HELLO}
GPT = {"model": "gpt-6.1-sol", "input": HELLO, "reasoning": {"summary": "auto"}}
CHAT = {"model": "llama", "messages": HELLO}


@asynccontextmanager
async def clients(*answers, **options) -> AsyncIterator[Any]:
    """Serve *answers* to one client of each SDK."""
    by_claude, by_gpt = anthropic.DefaultAsyncHttpxClient, openai.DefaultAsyncHttpxClient
    known = {"api_key": "key", "max_retries": 0}
    async with (
        FakeModels(answers, **options) as fake,
        anthropic.AsyncAnthropic(base_url=fake.url, http_client=by_claude(verify=trusted()), **known) as claude,
        openai.AsyncOpenAI(base_url=f"{fake.url}/v1", http_client=by_gpt(verify=trusted()), **known) as gpt,
    ):
        yield fake, claude, gpt


async def test_anthropics_sdk_reads_a_stream():
    """Anthropic's typed stream gives thinking with a signature, text and calls, and the counts of tokens."""
    async with clients(ANSWER) as (_, claude, _gpt), claude.messages.stream(**CLAUDE) as stream:
        events = [event.type async for event in stream]
        message = await stream.get_final_message()
    thinking, text, first, second = message.content
    assert (thinking.thinking, bool(thinking.signature), text.text) == ("They want a sum.", True, "12 * 7 is…")
    assert (first.name, first.input, second.name, second.input) == ("calculate", {"expression": "12 * 7"}, "now", {})
    assert first.id != second.id
    assert message.stop_reason == "tool_use"
    assert message.usage.input_tokens > 0
    assert message.usage.output_tokens > message.usage.output_tokens_details.thinking_tokens > 0
    assert (events[0], events[-1]) == ("message_start", "message_stop")


async def test_openais_sdk_reads_a_stream_of_responses():
    """OpenAI's typed stream gives reasoning, text and calls, numbers its events without a gap, and ends completed."""
    async with clients(ANSWER) as (_, _claude, gpt), gpt.responses.stream(**GPT) as stream:
        events = [event async for event in stream]
        response = await stream.get_final_response()
    reasoning, message, first, second = response.output
    assert reasoning.summary[0].text == "They want a sum."
    assert reasoning.encrypted_content
    assert (response.output_text, message.type) == ("12 * 7 is…", "message")
    assert (first.name, first.arguments, second.arguments) == ("calculate", '{"expression": "12 * 7"}', "{}")
    numbers = [event.sequence_number for event in events if not event.type.startswith("response.output_text.delta")]
    assert numbers == sorted(numbers)
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens


async def test_only_finished_reasoning_can_be_sent_back():
    """The encrypted content of a reasoning item that is just added is not that of the item that is done."""
    async with clients([think("hm")]) as (_, _claude, gpt):
        events = [event async for event in await gpt.responses.create(**GPT, stream=True)]
    added = next(event.item for event in events if event.type == "response.output_item.added")
    done = next(event.item for event in events if event.type == "response.output_item.done")
    assert added.id == done.id
    assert added.encrypted_content != done.encrypted_content


async def test_openais_sdk_reads_a_stream_of_chunks():
    """OpenAI's typed stream of Chat Completions gives text and calls, and the usage that was asked for."""
    asked = {**CHAT, "stream_options": {"include_usage": True}}
    async with clients(ANSWER) as (_, _claude, gpt), gpt.chat.completions.stream(**asked) as stream:
        chunks = [event.chunk async for event in stream if event.type == "chunk"]
        completion = await stream.get_final_completion()
    message = completion.choices[0].message
    assert message.content == "12 * 7 is…"
    assert message.reasoning_content == "They want a sum."
    assert [tool.function.arguments for tool in message.tool_calls] == ['{"expression": "12 * 7"}', "{}"]
    assert completion.choices[0].finish_reason == "tool_calls"
    assert (chunks[-1].choices, chunks[-1].usage.completion_tokens > 0) == ([], True)


async def test_a_whole_answer_says_what_its_stream_says():
    """An answer in one piece holds what the stream holds, on every wire."""
    async with clients(*[ANSWER] * 6) as (_, claude, gpt):
        async with claude.messages.stream(**CLAUDE) as stream:
            message = await stream.get_final_message()
        whole = await claude.messages.create(**CLAUDE)
        assert [block.type for block in whole.content] == [block.type for block in message.content]
        assert (whole.stop_reason, whole.usage) == (message.stop_reason, message.usage)
        async with gpt.responses.stream(**GPT) as stream:
            response = await stream.get_final_response()
        whole = await gpt.responses.create(**GPT)
        assert (whole.output_text, whole.usage) == (response.output_text, response.usage)
        async with gpt.chat.completions.stream(**CHAT, stream_options={"include_usage": True}) as stream:
            completion = await stream.get_final_completion()
        whole = await gpt.chat.completions.create(**CHAT)
        assert whole.choices[0].message.content == completion.choices[0].message.content
        assert whole.usage == completion.usage


@for_each(
    "ending, claude_says, gpt_says, chat_says",
    [
        ((), "end_turn", "completed", "stop"),
        ((finish("length"),), "max_tokens", "max_output_tokens", "length"),
        ((finish("continue"),), "pause_turn", "completed", "stop"),
        ((finish("refused"),), "refusal", "content_filter", "content_filter"),
        ((refuse("No."),), "refusal", "completed", "stop"),
        ((call("now"),), "tool_use", "completed", "tool_calls"),
    ],
)
async def test_each_end_has_its_counterpart(ending, claude_says, gpt_says, chat_says):
    """Every end that a script can have is sent in each vendor's own format."""
    async with clients(*[[say("Well,"), *ending]] * 3) as (_, claude, gpt):
        message = await claude.messages.create(**CLAUDE)
        response = await gpt.responses.create(**GPT)
        completion = await gpt.chat.completions.create(**CHAT)
    incomplete = response.incomplete_details
    assert message.stop_reason == claude_says
    assert (incomplete.reason if incomplete else response.status) == gpt_says
    assert completion.choices[0].finish_reason == chat_says


async def test_a_refusal_has_its_text():
    """What a model says when it refuses stands where the vendor puts it."""
    async with clients(*[[refuse("Not that.")]] * 3) as (_, claude, gpt):
        assert (await claude.messages.create(**CLAUDE)).stop_details.explanation == "Not that."
        assert (await gpt.responses.create(**GPT)).output[0].content[0].refusal == "Not that."
        assert (await gpt.chat.completions.create(**CHAT)).choices[0].message.refusal == "Not that."


async def test_a_script_can_say_what_was_used():
    """Tokens that a script gives stand in for those that are counted; the others stay."""
    async with clients(*[[say("x"), usage(input=7, cache_read=5, output=3)]] * 3) as (_, claude, gpt):
        claudes = (await claude.messages.create(**CLAUDE)).usage
        gpts = (await gpt.responses.create(**GPT)).usage
        chats = (await gpt.chat.completions.create(**CHAT)).usage
    assert (claudes.input_tokens, claudes.cache_read_input_tokens, claudes.output_tokens) == (7, 5, 3)
    assert (gpts.input_tokens, gpts.input_tokens_details.cached_tokens, gpts.output_tokens) == (12, 5, 3)
    assert (chats.prompt_tokens, chats.prompt_tokens_details.cached_tokens, chats.completion_tokens) == (12, 5, 3)


async def test_a_servers_own_tool_comes_whole():
    """A native block is sent as it is, and an answer that was paused after it can be sent back."""
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
    async with clients([native(search), finish("continue")], [say("Found.")]) as (_, claude, _gpt):
        paused = await claude.messages.create(**CLAUDE)
        assert paused.stop_reason == "pause_turn"
        block = paused.content[0].model_dump(exclude_none=True)
        assert block == search
        again = {**CLAUDE, "messages": [*HELLO, {"role": "assistant", "content": [block]}]}
        assert (await claude.messages.create(**again)).content[0].text == "Found."


@for_each(
    "kind, claude_raises, gpt_raises",
    [
        ("overloaded", anthropic.InternalServerError, openai.InternalServerError),
        ("rate_limited", anthropic.RateLimitError, openai.RateLimitError),
        ("context_overflow", anthropic.BadRequestError, openai.BadRequestError),
        ("quota", anthropic.BadRequestError, openai.RateLimitError),
        ("auth", anthropic.AuthenticationError, openai.AuthenticationError),
        ("misconfigured", anthropic.NotFoundError, openai.NotFoundError),
        ("invalid", anthropic.BadRequestError, openai.BadRequestError),
        ("error", anthropic.InternalServerError, openai.InternalServerError),
        ("stale_reasoning", anthropic.BadRequestError, openai.BadRequestError),
        ("network", anthropic.APIConnectionError, openai.APIConnectionError),
    ],
)
async def test_failures_are_the_sdks_own_errors(kind, claude_raises, gpt_raises):
    """Each kind of failure raises, in the vendor's SDK, the error that the vendor's own answer would."""
    async with clients(*[[fail(kind)]] * 3) as (_, claude, gpt):
        with pytest.raises(claude_raises):
            await claude.messages.create(**CLAUDE)
        with pytest.raises(gpt_raises):
            await gpt.responses.create(**GPT)
        with pytest.raises(gpt_raises):
            await gpt.chat.completions.create(**CHAT)


async def test_the_models_are_listed_for_both():
    """Both SDKs read the list of models, and one that is not in it is not found."""
    async with clients() as (_, claude, gpt):
        listed = [model.id async for model in claude.models.list()]
        assert listed == [model.id async for model in gpt.models.list()]
        assert (await claude.models.retrieve(listed[0])).max_input_tokens
        with pytest.raises(openai.NotFoundError):
            await gpt.models.retrieve("none")


async def test_tokens_can_be_counted():
    """The count of a request's tokens is what the same request is billed."""
    async with clients([say("Hi.")]) as (_, claude, _gpt):
        counted = await claude.messages.count_tokens(model=CLAUDE["model"], messages=HELLO)
        assert counted.input_tokens == (await claude.messages.create(**CLAUDE)).usage.input_tokens
