"""Quotas: what people may use of an agent, and how long to wait when it is used up. Pure."""

import re
from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Literal

import msgspec

from agent_core.controls import USD
from agent_core.errors import InvalidInput, RateLimited
from agent_core.messages import Actor, Usage

MINUTE, DAY = 60_000, 86_400_000
"""The periods, in milliseconds."""
MAX_QUOTA = 10**15
NANO = 1_000_000_000
MAX_CHARGE = 1_000 * NANO
"""The most that one model call counts for, in billionths of a dollar: no server's counts make the sums overflow."""
DEFAULT_STREAMS = 16
"""Open streams of one visitor: tabs of a browser, and what each reads."""
NEVER = 3600
"""Seconds to wait for what no time frees: stored bytes, until some are deleted."""
Scope = Literal["visitor", "user", "address", "everyone"]
SCOPES: tuple[Scope, ...] = ("visitor", "user", "address", "everyone")


class Quota(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How much one may use of an agent; None sets no bound.

    Days and minutes end at the present moment. *cost_per_day* is US dollars as a decimal text; *stored_bytes* what is
    kept of runs that have ended. *open_streams* are those of visitors at one process, which counts them by itself.
    """

    messages_per_minute: int | None = None
    messages_per_day: int | None = None
    sessions_per_day: int | None = None
    tokens_per_day: int | None = None
    cost_per_day: str | None = None
    stored_bytes: int | None = None
    open_streams: int | None = None


class VisitorQuota(Quota, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The quota of each visitor: far more than a person types, far less than a script sends."""

    messages_per_minute: int | None = 20
    messages_per_day: int | None = 500
    sessions_per_day: int | None = 100
    tokens_per_day: int | None = 5_000_000
    cost_per_day: str | None = "20"
    stored_bytes: int | None = 100_000_000
    open_streams: int | None = DEFAULT_STREAMS


class AddressQuota(Quota, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The quota of all visitors from one network address together: an office or a school shares one."""

    messages_per_minute: int | None = 200
    messages_per_day: int | None = 10_000
    sessions_per_day: int | None = 2_000


class Quotas(msgspec.Struct, frozen=True, kw_only=True):
    """The quotas of an agent: of each *visitor*, each *user*, each *address* of visitors, and of them all together."""

    visitor: Quota = VisitorQuota()
    user: Quota = Quota()
    address: Quota = AddressQuota()
    everyone: Quota = Quota()


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a request comes from.

    *address* is the network address of a visitor; *is_anonymous*: no site says who they are. *is_operator*: an operator
    makes it, whichever actor it names; then no quota applies.
    """

    address: str | None = None
    is_operator: bool = False
    is_anonymous: bool = False


ANYWHERE = Origin()


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """What was used, in the present minute or day and in the one before; *cost* is in billionths of a dollar."""

    minute: int = 0
    minute_messages: int = 0
    minute_messages_before: int = 0
    day: int = 0
    messages: int = 0
    messages_before: int = 0
    sessions: int = 0
    sessions_before: int = 0
    tokens: int = 0
    tokens_before: int = 0
    cost: int = 0
    cost_before: int = 0
    stored: int = 0


class Spending(msgspec.Struct, frozen=True, kw_only=True):
    """What a transaction adds to what was used."""

    messages: int = 0
    sessions: int = 0
    tokens: int = 0
    cost: int = 0
    stored: int = 0

    def __bool__(self) -> bool:
        return self != NOTHING_SPENT


NOTHING_SPENT = Spending()


class Subject(msgspec.Struct, frozen=True):
    """Whose use is counted: *key* names an actor or an address without its name or number."""

    key: int
    scope: Scope
    quota: Quota


def key_of(scope: str, name: str) -> int:
    """Return the number, of 64 bits, under which *name* is counted: not the name, though a guess can be confirmed."""
    return int.from_bytes(blake2b(f"{scope}\0{name}".encode(), digest_size=8).digest(), signed=True)


def subjects(quotas: bytes | None, actor: Actor, origin: Origin) -> list[Subject]:
    """Return whose use a request counts towards, in the order of their keys; only those that have a bound.

    Operators and services have no quota. *quotas* is JSON of `Quotas`; None are the defaults.
    """
    if origin.is_operator or actor.kind not in ("visitor", "user"):
        return []
    stored_quotas = read(quotas)
    scope: Scope = "visitor" if actor.kind == "visitor" else "user"
    wanted: list[tuple[Scope, str, Quota]] = [
        (scope, actor.id, stored_quotas.visitor if scope == "visitor" else stored_quotas.user),
        ("everyone", "", stored_quotas.everyone),
    ]
    if origin.address is not None:
        wanted.append(("address", origin.address, stored_quotas.address))
    bounded = [Subject(key_of(scope, name), scope, quota) for scope, name, quota in wanted if _is_bound(quota)]
    return sorted(bounded, key=lambda each: each.key)


@lru_cache(maxsize=256)
def read(stored: bytes | None) -> Quotas:
    """Return the quotas in an agent's row; None are the defaults."""
    if stored is None:
        return Quotas()
    decoded: dict[str, dict[str, Any]] = msgspec.json.decode(stored)
    fields = Quota.__struct_fields__  # a newer version may have stored more
    quotas = {
        scope: Quota(**{name: value for name, value in decoded[scope].items() if name in fields}) for scope in SCOPES
    }
    return Quotas(**quotas)


def _is_bound(quota: Quota) -> bool:
    counted = (name for name in quota.__struct_fields__ if name != "open_streams")  # they are in no row
    return any(getattr(quota, name) is not None for name in counted)


def check(scope: Scope, quota: Quota) -> None:
    """Raise `InvalidInput` when *quota*, of `limits.<scope>`, has an invalid bound."""
    for name in quota.__struct_fields__:
        value = getattr(quota, name)
        path = f"limits.{scope}.{name}"
        if isinstance(value, int) and not 1 <= value <= MAX_QUOTA:
            raise InvalidInput(path, f"between 1 and {MAX_QUOTA}, or null for no bound.")
        if isinstance(value, str) and (not re.fullmatch(USD, value) or not Decimal(value)):
            raise InvalidInput(path, 'an amount above 0 as a decimal text, such as "2.50", or null for no bound.')


def tokens_of(usage: Usage | None) -> int:
    """Return the tokens of a model call, in and out; what is unknown counts as none."""
    if usage is None:
        return 0
    counts = (usage.input, usage.output, usage.cache_read, usage.cache_write_short, usage.cache_write_long)
    return sum(count or 0 for count in counts)


def nano_of(cost: str | None) -> int:
    """Return *cost*, a decimal text in dollars, in billionths; an unknown one counts as none."""
    return 0 if cost is None else int(Decimal(cost) * NANO)


def charge_of(cost: str | None) -> int:
    """Return what a model call at *cost* counts for, as `nano_of` does, up to `MAX_CHARGE`."""
    return min(nano_of(cost), MAX_CHARGE)


def refusal(subject: Subject, used: Used, spent: Spending, now: int) -> RateLimited | None:
    """Return why *spent* is too much for *subject*, whose use is *used*, *spent* included; None when it fits.

    Of several bounds the one that is to be waited for longest is named.
    """
    waits = [(wait, name) for name, wait in _waits(subject.quota, used, spent, now) if wait]
    if not waits:
        return None
    wait, name = max(waits)
    seconds = -(-wait // 1000)
    sentence = f"{_sentence(subject.scope, name, subject.quota)}; try again {_later(name, seconds)}."
    return RateLimited(sentence, seconds, limit=f"{subject.scope}.{name}")


def _waits(quota: Quota, used: Used, spent: Spending, now: int) -> Iterator[tuple[str, int]]:
    """Give each bound with the milliseconds until it has room for one more: 0 when it has."""
    minute, day = now % MINUTE, now % DAY
    if spent.messages:
        sent = used.minute_messages - spent.messages
        if (limit := quota.messages_per_minute) is not None:
            yield "messages_per_minute", wait_of(sent, used.minute_messages_before, minute, MINUTE, limit)
        if (limit := quota.messages_per_day) is not None:
            yield "messages_per_day", wait_of(used.messages - spent.messages, used.messages_before, day, DAY, limit)
    if spent.sessions and (limit := quota.sessions_per_day) is not None:
        yield "sessions_per_day", wait_of(used.sessions - spent.sessions, used.sessions_before, day, DAY, limit)
    if (limit := quota.tokens_per_day) is not None:
        yield "tokens_per_day", wait_of(used.tokens, used.tokens_before, day, DAY, limit)
    if quota.cost_per_day is not None:
        yield "cost_per_day", wait_of(used.cost, used.cost_before, day, DAY, nano_of(quota.cost_per_day))
    if quota.stored_bytes is not None:
        yield "stored_bytes", NEVER * 1000 if used.stored >= quota.stored_bytes else 0


def wait_of(used: int, before: int, elapsed: int, period: int, limit: int) -> int:
    """Return the milliseconds until one more fits under *limit* within a *period* that ends at the present moment.

    *used* counts since this period's fixed start, *elapsed* milliseconds ago, *before* in the one before it. Of the
    latter as much counts as lies within the last *period*, as if it were spread evenly.
    """
    over = (used + 1 - limit) * period + before * (period - elapsed)
    if over <= 0:
        return 0
    if used + 1 <= limit:
        return -(-over // before)
    return period - elapsed + -(-(used + 1 - limit) * period // used)


_WHO: dict[Scope, str] = {
    "visitor": "You have",
    "user": "You have",
    "address": "Your network address has",
    "everyone": "The people who use this assistant have",
}
_WHAT = {
    "messages_per_minute": "sent {limit} message{s} within a minute, as many as are allowed",
    "messages_per_day": "sent {limit} message{s} within a day, as many as are allowed",
    "sessions_per_day": "begun {limit} conversation{s} within a day, as many as are allowed",
    "tokens_per_day": "used as many tokens as are allowed within a day",
    "cost_per_day": "used up the budget of a day",
    "stored_bytes": "as much stored in conversations as is allowed ({limit} bytes)",
}


def _sentence(scope: Scope, name: str, quota: Quota) -> str:
    limit = getattr(quota, name)
    return f"{_WHO[scope]} {_WHAT[name].format(limit=limit, s='' if limit == 1 else 's')}"


def _later(name: str, seconds: int) -> str:
    """Say when to try again, in the unit that a person would use."""
    if name == "stored_bytes":
        return "when older conversations have been deleted"
    for unit, size in (("hour", 3600), ("minute", 60)):
        if seconds >= 2 * size:
            return f"in {-(-seconds // size)} {unit}s"
    return f"in {seconds} second{'' if seconds == 1 else 's'}"
