"""Cache reads and writes are counted by the vendors' rules."""

import asyncio

from agent_core.testing import FakeClock
from agent_core.testing.models import Options
from agent_core.testing.scripted import fail, pause, say
from tests.agent_core.testing.models.asking import asking, user
from tests.cases import for_each

LONG = "word " * 2000  # about 2,500 tokens
TAIL = 3
FIVE = {"cache_control": {"type": "ephemeral"}}
HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}


def always(_):
    return [say("Yes.")]


def block(text=LONG, mark=None):
    return {"type": "text", "text": text, **(mark or {})}


def marked(*blocks, system=None, **fields):
    """Return a request of one message with these blocks."""
    more = {"system": system} if system else {}
    return {**user(list(blocks)), **more, **fields}


async def used(asker, body):
    """Ask, and return tokens: plain, read, written for 5 minutes, written for an hour."""
    reply = await asker.ask(body)
    assert reply.status == 200, reply.text
    usage = reply.json["usage"]
    created = usage["cache_creation"]
    assert usage["cache_creation_input_tokens"] == sum(created.values())
    return (
        usage["input_tokens"],
        usage["cache_read_input_tokens"],
        created["ephemeral_5m_input_tokens"],
        created["ephemeral_1h_input_tokens"],
    )


async def test_a_mark_writes_and_the_next_request_reads():
    """What is before a mark is written once and read from then on; what follows it is plain."""
    async with asking(always) as asker:
        plain, read, short, long = await used(asker, marked(block(mark=FIVE)))
        assert (plain, read, long) == (TAIL, 0, 0)
        assert short > 2000
        assert await used(asker, marked(block(mark=FIVE))) == (TAIL, short, 0, 0)
        plain, read, *_ = await used(asker, marked(block(mark=FIVE), block("more")))
        assert (plain > TAIL, read) == (True, short)


async def test_without_a_mark_nothing_is_cached():
    """On Anthropic a request without marks pays for everything, each time."""
    async with asking(always) as asker:
        for _ in range(2):
            plain, *rest = await used(asker, marked(block()))
            assert (plain > 2000, rest) == (True, [0, 0, 0])


async def test_a_small_prefix_is_not_cached():
    """Below the minimum a mark does nothing, and the minimum can be set."""
    async with asking(always) as asker:
        assert (await used(asker, marked(block("small", FIVE))))[1:] == (0, 0, 0)
    async with asking(always, options=Options(minimum=1)) as asker:
        assert (await used(asker, marked(block("small", FIVE))))[2] > 0


@for_each(
    "model, words, kept",
    [
        ("claude-opus-5-5", 500, True),
        ("claude-of-a-later-year", 500, False),
        ("claude-of-a-later-year", 1000, True),
        ("claude-haiku-4-5-20251001", 2000, False),
        ("claude-haiku-4-5", 4000, True),
    ],
)
async def test_each_model_has_a_minimum_of_its_own(model, words, kept):
    """A prefix that one model keeps is too small for another; of a model that is not known the usual one is taken."""
    async with asking(always) as asker:
        assert ((await used(asker, marked(block("word " * words, FIVE), model=model)))[2] > 0) == kept


async def test_entries_end():
    """An entry lives five minutes or an hour from its last use, on the clock."""
    clock = FakeClock()
    async with asking(always, clock=clock) as asker:
        for mark, minutes in ((FIVE, 5), (HOUR, 60)):
            body = marked(block(f"{minutes} {LONG}", mark))
            await used(asker, body)
            for _ in range(2):  # each read renews it
                clock.advance(minutes * 60 - 1)
                assert (await used(asker, body))[1] > 0
            clock.advance(minutes * 60)
            assert (await used(asker, body))[1] == 0


async def test_marks_of_both_lengths_are_billed_apart():
    """The prefix up to the last mark of an hour is written for an hour, the rest up to the last mark for 5 minutes."""
    async with asking(always) as asker:
        body = marked(block(mark=FIVE), system=[block("rules " * 1000, HOUR)])
        _, _, short, long = await used(asker, body)
        assert short > 0
        assert long > 0
        changed = marked(block(f"new {LONG}", FIVE), system=body["system"])
        assert (await used(asker, changed))[1::2] == (long, 0)


@for_each(
    "change, kept",
    [
        ({"tools": [{"name": "new", "input_schema": {"type": "object"}}]}, "nothing"),
        ({"model": "claude-haiku-5-5"}, "nothing"),
        ({"tool_choice": {"type": "none"}}, "system"),
        ({"thinking": {"type": "disabled"}}, "system"),
        ({"max_tokens": 7}, "everything"),
        ({"metadata": {"user_id": "u"}}, "everything"),
    ],
)
async def test_a_change_invalidates_what_follows_it(change, kept):
    """A change of tools or model loses all, of tool choice or thinking the messages, of other fields nothing."""
    async with asking(always) as asker:
        body = marked(block(mark=FIVE), system=[block(mark=FIVE)])
        _, _, written, _ = await used(asker, body)
        read = (await used(asker, {**body, **change}))[1]
    assert {"nothing": read == 0, "system": 0 < read < written, "everything": read == written}[kept]


async def test_a_mark_looks_back_twenty_positions():
    """An entry twenty positions before a mark, the mark's own included, is found; one more and it is not."""
    for more, found in ((19, True), (20, False)):
        async with asking(always) as asker:
            await used(asker, marked(block(mark=FIVE)))
            blocks = [block(f"part {n}") for n in range(more)]
            blocks[-1] |= FIVE
            assert ((await used(asker, marked(block(), *blocks)))[1] > 0) is found


async def test_many_results_are_one_position():
    """Calls that stand together count as one position, and so do their results."""
    ids = [f"toolu_{n}" for n in range(30)]
    calls = [{"type": "tool_use", "id": id_, "name": "now", "input": {}} for id_ in ids]
    results = [{"type": "tool_result", "tool_use_id": id_, "content": "noon"} for id_ in ids]
    async with asking(always) as asker:
        first = marked(block(mark=FIVE))
        _, _, written, _ = await used(asker, first)
        messages = [{"role": "user", "content": [block()]}, {"role": "assistant", "content": calls}]
        messages.append({"role": "user", "content": [*results[:-1], {**results[-1], **FIVE}]})
        assert (await used(asker, {**first, "messages": messages}))[1] == written


async def test_automatic_caching_marks_the_last_block():
    """A mark at the top of the request is one at its last block."""
    async with asking(always) as asker:
        body = {**user(LONG), **FIVE}
        written = (await used(asker, body))[2]
        body["messages"] += [{"role": "assistant", "content": "Yes."}, {"role": "user", "content": "And?"}]
        plain, read, short, _ = await used(asker, body)
    assert (plain, read, short > 0) == (TAIL, written, True)


async def test_an_entry_can_be_read_once_its_answer_has_begun():
    """Of two equal requests at the same time both write; a request that fails writes nothing."""
    event = asyncio.Event()
    answers = [[pause(event), say("a")], [say("b")], [fail("overloaded")], [say("c")]]
    async with asking(answers) as asker:
        body = marked(block(mark=FIVE))
        first = asyncio.create_task(used(asker, body))
        await asker.fake.reached(1)
        assert (await used(asker, body))[1] == 0
        event.set()
        assert (await first)[1] == 0
        other = marked(block(f"other {LONG}", FIVE))
        assert (await asker.ask(other)).status == 529
        assert (await used(asker, other))[1] == 0


async def test_a_cache_can_be_warmed():
    """A request for no tokens writes the cache, says nothing, and takes no answer of the script."""
    async with asking([[say("Yes.")]]) as asker:
        body = marked(block(mark=FIVE))
        warmed = (await asker.ask({**body, "max_tokens": 0})).json
        assert (warmed["content"], warmed["stop_reason"]) == ([], "max_tokens")
        assert (await used(asker, body))[1] == warmed["usage"]["cache_creation_input_tokens"] > 0


@for_each("wire", ["responses", "chat"])
async def test_newer_models_bill_what_they_write(wire):
    """From GPT 5.6 on a prefix is written and billed, read to its exact end, and forgotten after half an hour."""
    clock = FakeClock()
    async with asking(always, clock=clock) as asker:
        body = {**user(LONG, wire), "model": "gpt-5.6-sol"}
        first, second = [tokens_of(await asker.ask(body, wire)) for _ in range(2)]
        assert first == {"total": first["total"], "read": 0, "written": first["total"] - TAIL}
        assert second == {"total": first["total"], "read": first["written"], "written": 0}
        clock.advance(1800)
        assert tokens_of(await asker.ask(body, wire)) == first


async def test_explicit_breakpoints_are_kept():
    """With explicit breakpoints only what is before them is written."""
    part = {"type": "input_text", "text": LONG, "prompt_cache_breakpoint": {"mode": "explicit"}}
    body = {**user([part], "responses"), "prompt_cache_options": {"mode": "explicit"}}
    bare = {**user(LONG, "responses"), "prompt_cache_options": {"mode": "explicit"}}
    async with asking(always) as asker:
        written = tokens_of(await asker.ask(body, "responses"))["written"]
        body["input"].append({"role": "user", "content": "And?"})
        after = tokens_of(await asker.ask(body, "responses"))
        assert (after["read"], after["written"], written > 0) == (written, 0, True)
        assert tokens_of(await asker.ask(bare, "responses"))["written"] == 0


async def test_another_key_is_another_cache():
    """What was written under one cache key is not read under another."""
    async with asking(always) as asker:
        body = {**user(LONG, "responses"), "prompt_cache_key": "a"}
        await asker.ask(body, "responses")
        assert tokens_of(await asker.ask(body, "responses"))["read"] > 0
        assert tokens_of(await asker.ask({**body, "prompt_cache_key": "b"}, "responses"))["read"] == 0


@for_each("wire, model", [("responses", "gpt-5.4"), ("chat", "llama")])
async def test_older_models_read_in_steps(wire, model):
    """Older models and compatible servers read the common prefix in steps of 128 tokens and bill no writes."""
    async with asking(always) as asker:
        body = {**user(LONG, wire), "model": model}
        assert tokens_of(await asker.ask(body, wire))["read"] == 0
        body["messages" if wire == "chat" else "input"].append({"role": "user", "content": "And?"})
        second = tokens_of(await asker.ask(body, wire))
    assert second["read"] > 2000
    assert (second["read"] % 128, second["written"]) == (0, 0)


def tokens_of(reply):
    usage = reply.json["usage"]
    total = usage.get("input_tokens", usage.get("prompt_tokens"))
    details = usage.get("input_tokens_details") or usage["prompt_tokens_details"]
    return {"total": total, "read": details["cached_tokens"], "written": details["cache_write_tokens"]}
