"""Cache misses: which call read less than it should have, how much was expected, and why it was lost."""

from itertools import permutations
from typing import Any

from msgspec.structs import replace

from agent_core.agent.snapshot import freeze
from agent_core.agent.window import CacheMiss, PromptHistory, differing, missed, shortfall
from agent_core.agents import Snapshot, ToolSpec
from agent_core.controls import Caching, PromptCall
from agent_core.events import CacheMissed, ContextCompacted, MissCause, SnapshotFrozen
from agent_core.messages import UNKNOWN_USAGE, File, Message, Native, Part, Text, ToolResult, Usage
from tests.cases import for_each

CLAUDE = Caching(vendor="anthropic", least=512, short_s=300, long_s=3_600)
GPT = Caching(vendor="openai", least=1_024, short_s=1_800, long_s=43_200)
FREE = Caching(vendor="openai", least=1_024, short_s=300, long_s=300, exact=False)
BUDGETED = replace(CLAUDE, budgets={"minimal": 1_024, "high": 16_384}, room=64_000)
STRIPPING = replace(BUDGETED, strips=True)
LOOK = ToolSpec(name="look", description="Look.", parameters={"type": "object"})
SNAPSHOT = freeze(model="m", instructions="Be brief. " * 800, tools=(LOOK,))
SECOND = 1_000


def used(read: int | None = 0, short: int | None = 0, long: int | None = 0, plain: int | None = 3) -> Usage:
    return Usage(plain, 5, 0, read, short, long)


def asked(seconds: float = 0, usage: Usage = UNKNOWN_USAGE, snapshot: str = SNAPSHOT.hash, **controls: Any):
    model = controls.get("model", "claude")
    return PromptCall(
        time=int(seconds * SECOND),
        model=model,
        snapshot=snapshot,
        entries=3,
        controls={"model": model, **controls},
        usage=usage,
    )


def verdict(
    before: PromptCall | None,
    now: PromptCall,
    usage: Usage,
    *,
    caching: Caching = CLAUDE,
    rewritten: str | None = None,
    old: Snapshot = SNAPSHOT,
    new: Snapshot = SNAPSHOT,
    sent: tuple[Any, Any] = ("auto", "auto"),
    messages: tuple[Message, ...] = (),
) -> CacheMiss | None:
    history = PromptHistory(last=before, newest_call=now, rewritten=rewritten)
    short = shortfall(history, usage, caching, new, messages)
    return short and missed(7, short, history, sent, (old, new), caching, messages)


def cause(*given: Any, **more: Any) -> str | None:
    found = verdict(*given, **more)
    return found and found.fact.cause


WARM = asked(0, used(read=9_000, short=1_000))


def test_call_that_read_all_that_was_cached_is_no_miss():
    """Up to a few tokens and two percent may be missing."""
    assert verdict(WARM, asked(10), used(read=10_000, short=500)) is None
    assert verdict(WARM, asked(10), used(read=9_790, short=500)) is None
    assert verdict(WARM, asked(10), used(read=9_700, short=500)) == CacheMiss(
        CacheMissed(n=7, expected=10_000, read=9_700, cause="evicted")
    )


@for_each(
    "before, usage",
    [
        (None, used(read=0, short=9_000)),
        (asked(0, UNKNOWN_USAGE), used(read=0, short=9_000)),
        (asked(0, used(read=9_000, short=None)), used(read=0, short=9_000)),
        (WARM, used(read=None)),
        (asked(0, used(plain=400)), used(plain=900)),
        (asked(0, used(read=0, short=500)), used(read=0, short=900)),
    ],
)
def test_what_is_not_known_or_was_never_cached_is_no_miss(before: PromptCall | None, usage: Usage):
    """Without figures of both calls, and below what a model keeps at least, nothing is claimed."""
    assert verdict(before, asked(10), usage) is None


@for_each(
    "usage, seconds, caching, wanted",
    [
        (used(read=9_000, short=1_000), 299, CLAUDE, "evicted"),
        (used(read=9_000, short=1_000), 301, CLAUDE, "expired"),
        (used(read=9_000, long=1_000), 301, CLAUDE, "evicted"),
        (used(read=9_000, long=1_000), 3_601, CLAUDE, "expired"),
        (used(long=6_000, short=4_000), 301, CLAUDE, "expired"),
        (used(read=9_000, short=1_000), 1_799, GPT, "evicted"),
        (used(read=9_000, short=1_000), 1_801, GPT, "expired"),
    ],
)
def test_pause_longer_than_the_lifetime_of_the_entry_expired_it(usage: Usage, seconds: int, caching: Caching, wanted):
    """What was written last tells how long the end of the prompt is kept."""
    assert cause(asked(0, usage), asked(seconds), used(read=0, short=10_000), caching=caching) == wanted


def test_expiry_explains_a_miss_whatever_else_changed():
    """What was gone already is not blamed on a new snapshot or model."""
    assert cause(WARM, asked(999, model="other"), used()) == "expired"


def test_another_model_has_another_cache():
    """A change of model, a fallback's too, reads nothing of the other's cache."""
    found = verdict(WARM, asked(10, model="haiku"), used(short=10_000))
    assert found == CacheMiss(CacheMissed(n=7, expected=10_000, read=0, cause="model"), "claude -> haiku")


def test_snapshot_names_the_part_that_changed():
    """Of two snapshots the first part that differs is the cause; names, never texts, say what it is."""
    other = replace(LOOK, name="search")
    tools = freeze(model="m", instructions="Be long.", tools=(replace(LOOK, description="Peer."), other))
    system = freeze(model="m", instructions="Be secretly rude.", tools=(LOOK,), persona="A pirate.")
    cases: list[tuple[Snapshot, MissCause, str]] = [
        (tools, "tools", "~look +search"),
        (system, "system", "persona instructions"),
    ]
    for new, wanted, changed in cases:
        found = verdict(WARM, asked(10, snapshot=new.hash), used(short=10_000), new=new)
        assert found == CacheMiss(CacheMissed(n=7, expected=10_000, read=0, cause=wanted), changed)
    assert differing(tools, SNAPSHOT) == ("tools", "~look -search")


@for_each(
    "caching, before, now, sent, wanted, changed",
    [
        (CLAUDE, {"effort": "low"}, {"effort": "high"}, ("auto", "auto"), "prefix", "effort"),
        (GPT, {"effort": "low"}, {"effort": "high"}, ("auto", "auto"), "prefix", "effort"),
        (CLAUDE, {}, {"output_schema": {"type": "object"}}, ("auto", "auto"), "prefix", "output_schema"),
        (CLAUDE, {}, {"tool_choice": "required"}, ("auto", "required"), "prefix", "tool_choice"),
        (GPT, {}, {"tool_choice": "required"}, ("auto", "required"), "unknown", "tool_choice"),
        (CLAUDE, {"tool_choice": "none"}, {"tool_choice": "auto"}, ("auto", "auto"), "unknown", "tool_choice"),
        (CLAUDE, {"max_steps": 3}, {"max_steps": 9}, ("auto", "auto"), "evicted", ""),
    ],
)
def test_controls_that_are_part_of_the_prompt_explain_a_miss(caching, before, now, sent, wanted, changed):
    """Each vendor caches messages under other settings; a choice that may have been sent is no certain cause."""
    usage = used(read=9_000, short=1_000)
    found = verdict(asked(0, usage, **before), asked(10, **now), used(read=4_000), caching=caching, sent=sent)
    assert found
    assert (found.fact.cause, found.changed) == (wanted, changed)


@for_each("why, changed", [("snapshot", "reasoning"), ("answer", "a paused answer")])
def test_messages_that_changed_are_a_cause(why: str, changed: str):
    """Reasoning that was left out, and a paused answer that was given up, change earlier messages."""
    found = verdict(WARM, asked(10), used(read=4_000), rewritten=why)
    assert found == CacheMiss(CacheMissed(n=7, expected=10_000, read=4_000, cause="prefix"), changed)


def test_compaction_loses_its_own_part_on_purpose():
    """After a compaction only the snapshot is expected, roughly; one that was frozen again too is no miss."""
    new = freeze(model="m", instructions="Be long. " * 800, tools=(LOOK,))
    assert verdict(WARM, asked(10), used(read=1_600, short=900), rewritten="compaction") is None
    lost = verdict(WARM, asked(10), used(short=2_500), rewritten="compaction")
    assert lost
    assert lost.fact.cause == "evicted"
    assert 1_000 < lost.fact.expected < 2_000
    assert verdict(WARM, asked(10, snapshot=new.hash), used(short=2_500), rewritten="compaction", new=new) is None


def test_messages_that_were_compacted_are_not_expected_whatever_else_changed():
    """Nor where the prompt was another meanwhile, for a run that got no answer: the messages are new all the same."""
    compacted = ContextCompacted(kind="cut", from_seq=9, tokens_before=2, tokens_after=1)
    for bodies in permutations((SnapshotFrozen(hash="b", reason="run"), compacted)):
        history = PromptHistory()
        for body in bodies:
            history = history.with_body(body, 1, 0)
        assert history.rewritten == "compaction"


def test_cache_with_free_writes_promises_little():
    """Half of the prompt before, in steps of 128, is enough of it; less is reported."""
    before = asked(0, used(read=0, short=None, long=None, plain=4_000))
    assert verdict(before, asked(10), used(read=2_048, short=None), caching=FREE) is None
    found = verdict(before, asked(10), used(read=0, short=None), caching=FREE)
    assert found == CacheMiss(CacheMissed(n=7, expected=3_968, read=0, cause="evicted"))


def user(*parts: Part) -> Message:
    return Message("user", parts or (Text("Go on."),))


def answer(*parts: Part, model: str = "claude") -> Message:
    """Return an answer as the Messages API has it, with thinking if it says nothing."""
    kind = "text" if parts else "redacted_thinking"
    return Message("assistant", parts, Native(model, (f'{{"type":"{kind}","data":"', 0, '"}')))


def results(*parts: Part) -> Message:
    return Message("tool", (ToolResult("call_1", "done", parts),))


IMAGE = File("fil_1", "a.png", "image/png", 9)
PDF = File("fil_2", "a.pdf", "application/pdf", 9)


def after(
    caching: Caching, messages: tuple[Message, ...], *, read: int = 4_000, entries: int = 1, **controls: Any
) -> CacheMiss | None:
    """Judge a call whose window is *messages*, after one that had so many *entries* of them."""
    before = replace(asked(0, used(read=9_000, short=1_000), **controls), entries=entries)
    now = replace(asked(10, **controls), entries=len(messages))
    return verdict(before, now, used(read=read), caching=caching, messages=messages)


def why(found: CacheMiss | None) -> tuple[MissCause, str] | None:
    return found and (found.fact.cause, found.changed)


def test_thinking_that_the_api_strips_is_no_miss():
    """A new user message costs an older model its thinking, and what follows it; the snapshot is still expected."""
    messages = (user(), answer(), user())
    assert after(STRIPPING, messages, effort="high") is None
    assert why(after(STRIPPING, messages, effort="high", read=100)) == ("evicted", "")
    assert why(after(STRIPPING, messages, effort="none")) == ("evicted", "")
    assert why(after(BUDGETED, messages, effort="high")) == ("evicted", "")
    loop = (user(), answer(), results(Text("Found.")))
    assert why(after(STRIPPING, loop, effort="high")) == ("evicted", "")


@for_each(
    "first, thinks",
    [
        (answer(), True),
        (answer(Text("Yes.")), False),
        (answer(model="another"), False),
    ],
)
def test_loop_that_began_without_thinking_switches_it_off_and_on(first: Message, thinks: bool):
    """With a budget thinking is asked for only where the loop began with it: a change costs the messages."""
    loop = (user(), first, results(Text("Found.")))
    off = why(after(BUDGETED, loop, effort="high"))
    on = why(after(BUDGETED, (*loop, answer(Text("Done.")), user()), entries=3, effort="high"))
    assert off == on == (("evicted", "") if thinks else ("prefix", "thinking"))
    assert why(after(CLAUDE, loop, effort="high")) == ("evicted", "")


@for_each(
    "effort, before, now, wanted",
    [
        ("high", None, 4_000, ("prefix", "max_output_tokens")),
        ("high", 2_000, 4_000, ("prefix", "max_output_tokens")),
        ("high", 1_000, 2_000, ("evicted", "")),
        ("high", None, 40_000, ("evicted", "")),
        ("none", None, 4_000, ("evicted", "")),
        (None, None, 4_000, ("evicted", "")),
    ],
)
def test_room_of_an_answer_counts_where_the_budget_of_thinking_follows_it(effort, before, now, wanted):
    """A budget is at most half of the answer; another cap that leaves it as it was changes nothing."""
    usage = used(read=9_000, short=1_000)
    last, call = (asked(n * 10, effort=effort, max_output_tokens=room) for n, room in enumerate((before, now)))
    assert why(verdict(replace(last, usage=usage), call, used(read=4_000), caching=BUDGETED)) == wanted
    assert cause(replace(last, usage=usage), call, used(read=4_000), caching=CLAUDE) == "evicted"


@for_each(
    "new, wanted",
    [
        (user(Text("See:"), IMAGE), ("prefix", "an image")),
        (results(IMAGE), ("prefix", "an image")),
        (user(PDF), ("evicted", "")),
    ],
)
def test_new_image_costs_anthropics_messages(new: Message, wanted: tuple[MissCause, str]):
    """An image anywhere, in a tool's result too, is a cause; one that was there before is none."""
    assert why(after(CLAUDE, (user(), answer(Text("Yes.")), new))) == wanted
    assert why(after(CLAUDE, (user(IMAGE), answer(Text("Yes.")), user()))) == ("evicted", "")
    assert why(after(GPT, (user(), answer(Text("Yes.")), new))) == ("evicted", "")
