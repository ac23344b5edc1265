"""Quotas: what fits into a period that ends at the present moment, and how long to wait for room."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_core.errors import InvalidInput
from agent_core.messages import Actor
from agent_core.quotas import (
    DAY,
    MINUTE,
    AddressQuota,
    Origin,
    Quota,
    Quotas,
    Spending,
    Subject,
    Used,
    VisitorQuota,
    check,
    key_of,
    read,
    refusal,
    subjects,
    wait_of,
)
from tests.cases import for_each

ADA = Actor("ada", "visitor")
HERE = Origin(address="203.0.113.7")


def fits(used: int, before: int, elapsed: int, most: int) -> bool:
    """Whether one more fits, counted in exact numbers."""
    return (used + 1) * MINUTE + before * (MINUTE - elapsed) <= most * MINUTE


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, MINUTE - 1), st.integers(1, 50))
def test_the_wait_ends_when_one_more_fits(used: int, before: int, elapsed: int, most: int):
    """The wait is zero exactly when one more fits; after it one more fits, and a moment earlier none does."""
    wait = wait_of(used, before, elapsed, MINUTE, most)
    assert (wait == 0) == fits(used, before, elapsed, most)

    def fits_after(later: int) -> bool:
        periods, then = divmod(elapsed + later, MINUTE)
        now, past = ((used, before), (0, used), (0, 0))[min(periods, 2)]
        return fits(now, past, then, most)

    assert fits_after(wait)
    assert wait == 0 or not fits_after(wait - 1)


@for_each(
    "name, used, spent",
    [
        ("messages_per_minute", Used(minute_messages=4), Spending(messages=1)),
        ("messages_per_day", Used(messages=4), Spending(messages=1)),
        ("sessions_per_day", Used(sessions=4), Spending(sessions=1)),
        ("tokens_per_day", Used(tokens=3), Spending(messages=1)),
        ("stored_bytes", Used(stored=3), Spending(messages=1)),
    ],
)
def test_each_bound_refuses_what_is_above_it(name: str, used: Used, spent: Spending):
    """A bound of three refuses the fourth with its own name, a sentence and a time; a bound of four lets it by."""

    def refused(most: int):
        quota = msgspec.convert({name: most}, Quota)
        return refusal(Subject(1, "visitor", quota), used, spent, now=10 * DAY)

    error = refused(3)
    assert error is not None
    assert (error.limit, error.code) == (f"visitor.{name}", "rate_limited")
    assert error.retry_after >= 1
    assert str(error).startswith("You have ")
    assert "; try again " in str(error)
    assert refused(4) is None


def test_money_is_counted_in_billionths():
    """A budget of one cent is used up by ten tenths of a cent, and not by nine."""
    subject = Subject(1, "everyone", Quota(cost_per_day="0.01"))
    assert refusal(subject, Used(cost=9_000_000), Spending(messages=1), 0) is None
    error = refusal(subject, Used(cost=10_000_000), Spending(messages=1), 0)
    assert error is not None
    assert "budget of a day" in str(error)
    assert "0.01" not in str(error), "what is paid is the operator's business"


def test_the_longest_wait_is_named():
    """Of two bounds that are reached the one that takes longer is said, so that one retry is enough."""
    subject = Subject(1, "user", Quota(messages_per_minute=1, messages_per_day=1))
    error = refusal(subject, Used(minute_messages=2, messages=2), Spending(messages=1), now=0)
    assert error is not None
    assert error.limit == "user.messages_per_day"
    assert str(error).endswith("try again in 48 hours.")


def test_operators_have_no_quota():
    """Operators, services and agents are charged nothing, also in the name of a visitor."""
    everything = msgspec.json.encode(Quotas(user=Quota(messages_per_day=1), everyone=Quota(messages_per_day=1)))
    for actor, origin in ((ADA, Origin(is_operator=True)), (Actor("x", "service"), HERE), (Actor("y", "agent"), HERE)):
        assert subjects(everything, actor, origin) == []
    assert {each.scope for each in subjects(everything, ADA, HERE)} == {"visitor", "address", "everyone"}
    assert {each.scope for each in subjects(everything, Actor("ann", "user"), Origin())} == {"user", "everyone"}


def test_visitors_have_generous_defaults_and_others_none():
    """An agent that says nothing bounds its visitors and their addresses, and no one else."""
    assert {each.scope for each in subjects(None, ADA, HERE)} == {"visitor", "address"}
    assert subjects(None, Actor("ann", "user"), Origin()) == []
    assert read(None) == Quotas(visitor=VisitorQuota(), address=AddressQuota())


def test_quotas_of_a_newer_version_are_read():
    """A field that this version does not know is ignored: both serve during a deploy."""
    later = msgspec.to_builtins(Quotas())
    later["visitor"]["images_per_day"] = 3
    assert read(msgspec.json.encode(later)).visitor.messages_per_minute == 20


@given(st.text(max_size=30), st.text(max_size=30))
def test_a_key_fits_the_column_and_tells_scopes_apart(one: str, other: str):
    """A key is a signed number of 64 bits; an actor and an address of the same name are two."""
    assert -(2**63) <= key_of("visitor", one) < 2**63
    assert (key_of("visitor", one) == key_of("visitor", other)) == (one == other)
    assert key_of("visitor", one) != key_of("address", one)


@for_each(
    "quota", [Quota(messages_per_day=0), Quota(stored_bytes=-1), Quota(cost_per_day="0"), Quota(cost_per_day="1e3")]
)
def test_a_bound_is_a_positive_amount(quota: Quota):
    """A bound of nothing, or one that is no amount, is refused with its path."""
    with pytest.raises(InvalidInput, match=r"limits\.visitor\."):
        check("visitor", quota)
