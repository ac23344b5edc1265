"""The simulation agrees with recorded traffic to the token.

The figures, and the order and the marks of the requests, are those of recordings of the real APIs in the test suite of
pydantic-ai (its cassettes of 2026); the requests are written by hand here, and the tokens of their positions given.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from agent_core.testing.models.caching import Bill, Caches, ModelPrompt, Position
from tests.cases import for_each

pytestmark = pytest.mark.whole

START = 1_000_000
SHORT, LONG = {"type": "ephemeral", "ttl": "5m"}, {"type": "ephemeral", "ttl": "1h"}
Counts = Mapping[str, int]


def ask(caches: Caches, prompt: ModelPrompt, counts: Counts, *, at: float = 0.0) -> Bill:
    """Send *prompt*, its positions by path having so many tokens, *at* seconds after the start; it is answered."""

    def count(position: Position) -> int:
        return counts[position.path]

    priced = caches.price(prompt, START + int(at * 1000), count=count)
    caches.write(priced)
    return priced.bill


def said(role: str, text: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text, **more}]}


def claude(model: str, *messages: dict[str, Any], **more: Any) -> ModelPrompt:
    return ModelPrompt("messages", model, {"model": model, "messages": list(messages), **more})


def test_a_mark_on_a_trailing_system_message():
    """Opus 4.8, the same request twice, with a mark on the system message at its end: 1,590 and 2."""
    asked = claude("claude-opus-4-8", said("user", "Long."), said("system", "Be brief.", cache_control=SHORT))
    caches, counts = Caches(tail=2), {"messages.0.content.0": 1_580, "messages.1.content.0": 10}
    assert ask(caches, asked, counts) == Bill(plain=2, write_short=1_590)
    assert ask(caches, asked, counts, at=5) == Bill(plain=2, read=1_590)


def test_automatic_marks_of_two_exchanges():
    """Sonnet 4.5 with the automatic mark: 1,111 and 3; the next exchange reads 1,111 and writes 418."""
    first = claude("claude-sonnet-4-5", said("user", "What?"), system="Help.", cache_control=SHORT)
    more = (said("user", "What?"), said("assistant", "This."), said("user", "And?"))
    second = claude("claude-sonnet-4-5", *more, system="Help.", cache_control=SHORT)
    counts = {"system.0": 11, "messages.0.content.0": 1_100, "messages.1.content.0": 406, "messages.2.content.0": 12}
    caches = Caches()
    ask(caches, first, counts)
    assert ask(caches, first, counts, at=10) == Bill(plain=3, read=1_111)
    assert ask(caches, second, counts, at=20) == Bill(plain=3, read=1_111, write_short=418)


@for_each("automatic", [True, False])
def test_a_conversation_with_tools_of_the_server(automatic):
    """Sonnet 4.6: 8,845 are read, then 9,116, 219 more are written, and 4 stay; by either way of marking."""
    counts = {
        "tools.0": 8_000,
        "system.0": 45,
        **{f"messages.{n}.content.0": tokens for n, tokens in enumerate((800, 71, 200, 119, 100))},
    }
    caches = Caches(tail=4)

    def upto(many: int) -> ModelPrompt:
        texts = [said("user" if n % 2 == 0 else "assistant", f"{n}") for n in range(many)]
        marked: dict[str, Any] = {"cache_control": SHORT} if automatic else {}
        if not automatic:
            texts[-1]["content"][0]["cache_control"] = SHORT
        return claude("claude-sonnet-4-6", *texts, system="Help.", tools=[{"name": "run"}], **marked)

    ask(caches, upto(1), counts)
    assert ask(caches, upto(3), counts, at=30) == Bill(plain=4, read=8_845, write_short=271)
    assert ask(caches, upto(5), counts, at=60) == Bill(plain=4, read=9_116, write_short=219)


@for_each("wire", ["responses", "chat"])
def test_a_breakpoint_within_a_message(wire):
    """GPT 5.6: of 4,020 tokens the 4,012 up to the breakpoint on the message's first part are written, then read."""
    kind = "input_text" if wire == "responses" else "text"
    parts = [
        {"type": kind, "text": "A long catalogue.", "prompt_cache_breakpoint": {"mode": "explicit"}},
        {"type": kind, "text": "Reply."},
    ]
    member = "input" if wire == "responses" else "messages"
    body = {member: [{"role": "user", "content": parts}], "prompt_cache_options": {"mode": "explicit", "ttl": "30m"}}
    asked = ModelPrompt(wire, "gpt-5.6-sol", {"model": "gpt-5.6-sol", "prompt_cache_key": "e2e", **body})
    counts = {f"{member}.0.content.0": 4_012, f"{member}.0.content.1": 8}
    caches = Caches(tail=0)
    assert ask(caches, asked, counts) == Bill(plain=8, write_short=4_012)
    assert ask(caches, asked, counts, at=3) == Bill(plain=8, read=4_012)
    assert ask(caches, asked, counts, at=3 + 1_799) == Bill(plain=8, read=4_012)
    assert ask(caches, asked, counts, at=3 + 1_799 + 1_800) == Bill(plain=8, write_short=4_012)


@for_each(
    "asked, counts",
    [
        (
            claude("claude-sonnet-4-5", said("user", "What?"), tools=[{"name": "find"}], cache_control=LONG),
            {"tools.0": 900, "messages.0.content.0": 123},
        ),
        (
            ModelPrompt("responses", "gpt-5.6-sol", {"input": [{"role": "user", "content": "What?"}]}),
            {"input.0": 1_023},
        ),
        (ModelPrompt("chat", "gpt-5.5", {"messages": [{"role": "user", "content": "What?"}]}), {"messages.0": 1_023}),
    ],
)
def test_below_the_minimum_nothing_is_kept(asked, counts):
    """A prompt of fewer tokens than a cache keeps is neither written nor read, however often it is sent."""
    caches = Caches()
    bills = [ask(caches, asked, counts, at=n) for n in range(3)]
    assert bills == [Bill(plain=1_026)] * 3
