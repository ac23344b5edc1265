"""Chat Completions as compatible servers speak it."""

from agent_core.testing.models import Options, Quirks
from agent_core.testing.scripted import call, raw_call, say, think
from tests.agent_core.testing.models.asking import asking, user

ANSWER = [think("hm"), say("Hi"), raw_call("one", '{"a": 1}', cut=2), call("two", b=2)]


async def stream(quirks, **fields):
    async with asking([ANSWER], options=Options(quirks=quirks)) as asker:
        return await asker.stream({**user("hi", "chat"), **fields}, "chat")


async def calls(quirks):
    """Return the deltas of calls, one after the other."""
    chunks = (await stream(quirks)).events
    return [delta for chunk in chunks for delta in chunk["choices"][0]["delta"].get("tool_calls", [])]


async def test_openai_numbers_calls():
    """Without quirks a call has its index in each delta, and its id and name in the first alone."""
    deltas = await calls(Quirks())
    assert [delta["index"] for delta in deltas] == [0, 0, 0, 1, 1]
    assert ["id" in delta for delta in deltas] == [True, False, False, True, False]
    assert ["name" in delta["function"] for delta in deltas] == [True, False, False, True, False]


async def test_an_index_may_be_missing_or_the_same():
    """Some servers leave the index out, others give every call the same one."""
    assert not any("index" in delta for delta in await calls(Quirks(index="none")))
    assert {delta["index"] for delta in await calls(Quirks(index="zero"))} == {0}


async def test_ids_may_be_repeated_or_empty():
    """Some servers repeat id and name in each delta, others send empty ids."""
    repeated = await calls(Quirks(repeat=True))
    assert len({delta["id"] for delta in repeated}) == 2
    assert [delta["function"]["name"] for delta in repeated] == ["one"] * 3 + ["two"] * 2
    assert [bool(delta["id"]) for delta in await calls(Quirks(empty_ids=True))] == [True, False, False, True, False]


async def test_arguments_may_come_in_one_lump():
    """Some servers send a call in one delta."""
    assert [delta["function"]["arguments"] for delta in await calls(Quirks(lump=True))] == ['{"a": 1}', '{"b": 2}']


async def test_the_reason_may_be_wrong():
    """Some servers say `stop` though there are calls."""
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in (await stream(Quirks(stop=True))).events]
    assert reasons[-1] == "stop"


async def test_reasoning_has_two_names():
    """Reasoning is in `reasoning_content` or in `reasoning`."""
    for name in ("reasoning_content", "reasoning"):
        deltas = [chunk["choices"][0]["delta"] for chunk in (await stream(Quirks(reasoning=name))).events]
        assert [delta[name] for delta in deltas if name in delta] == ["hm"]


async def test_usage_comes_as_asked_in_each_chunk_or_never():
    """Usage is in the last chunk when it was asked for; some servers send it in each, others never."""
    asked = {"stream_options": {"include_usage": True}}
    assert not any(chunk.get("usage") for chunk in (await stream(Quirks())).events)
    last = [bool(chunk["usage"]) for chunk in (await stream(Quirks(), **asked)).events]
    assert (last[-1], any(last[:-1])) == (True, False)
    assert [chunk for chunk in (await stream(Quirks(usage="each"), **asked)).events if not chunk["usage"]] == []
    assert not any(chunk.get("usage") for chunk in (await stream(Quirks(usage="never"), **asked)).events)


async def test_the_last_line_may_be_missing():
    """Some servers end without `[DONE]`."""
    assert (await stream(Quirks())).text.endswith("data: [DONE]\n\n")
    assert "[DONE]" not in (await stream(Quirks(done=False))).text


async def test_padding_can_be_declined():
    """Deltas are padded unless the request says otherwise."""
    assert "obfuscation" in (await stream(Quirks())).text
    assert "obfuscation" not in (await stream(Quirks(), stream_options={"include_obfuscation": False})).text
