"""The model table: limits, accepted options and prices of each model. The data is in models.toml, with its date."""

import re
import tomllib
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from agent_core.controls import Caching
from agent_core.messages import Usage

Thinking = Literal["none", "budget", "adaptive", "between_tools", "always"]
"""How thinking is requested from a model of Anthropic's."""
_MILLION = Decimal(1_000_000)
_NO_CACHE = {"cache_read": 0, "cache_write_short": 0, "cache_write_long": 0}
_DAY = re.compile(r"-(\d{8}|\d{4}-\d{2}-\d{2})$")


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """USD per million tokens; None where the vendor bills nothing of the kind."""

    input: Decimal
    output: Decimal
    read: Decimal | None = None
    write_short: Decimal | None = None
    write_long: Decimal | None = None


class Above(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The price of a prompt of more than *tokens* tokens."""

    tokens: int
    price: Price


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One model; *context*, *max_output* and *cacheable* (the fewest that a cache keeps) are tokens, None if unknown.

    *efforts* are lowest first. *breakpoints*: whether its cache is written where a request marks it. *strips*: whether
    its API leaves thinking out from before a new user message.

    *temperature* is whether one is accepted, or the efforts with which it is, `unset` when none is asked for.
    *structured* is whether its API enforces a JSON Schema on an answer, *tool_search* whether it loads tools that a
    search of the client's found. *vision* is whether it sees pictures.
    """

    context: int | None = None
    max_output: int | None = None
    cacheable: int | None = None
    temperature: bool | tuple[str, ...] = True
    thinking: Thinking = "none"
    efforts: tuple[str, ...] = ()
    structured: bool = False
    tool_search: bool = False
    breakpoints: bool = False
    strips: bool = False
    vision: bool = True
    ends: date | None = None
    since: date | None = None
    price: Price | None = None
    above: Above | None = None


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All models by `provider:name`, as of a day; *defaults* are the names used when only a provider is chosen."""

    as_of: date
    defaults: Mapping[str, str]
    models: Mapping[str, Model]


UNKNOWN = Model()


@cache
def table() -> Table:
    """Return the table that Parley ships."""
    text = files("agent_core.providers").joinpath("models.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), Table)


def find(name: str) -> Model:
    """Return what is known of *name*, `provider:model`; a dated id such as `…-20251101` is its model."""
    models = table().models
    return models.get(name) or models.get(_DAY.sub("", name), UNKNOWN)


Vision = bool | tuple[str, ...]
"""Whether the models of a server see pictures, or the names of those that do, `*` for any characters in them."""


def sees(listed: str, vision: Vision | None = None) -> bool:
    """Return whether the model *listed*, `provider:model`, sees pictures: as *vision* says, else as the table does."""
    match vision:
        case None:
            return find(listed).vision
        case bool():
            return vision
        case _:
            return any(fnmatchcase(listed.partition(":")[2], name) for name in vision)


def holds(model: Model) -> bool:
    """Return whether the API can enforce a schema on an answer; an unlisted model gets the schema, and may refuse."""
    return model.structured or model is UNKNOWN


def effort(model: Model, wanted: str, order: tuple[str, ...]) -> str:
    """Return the level of *model* nearest to *wanted*, preferably not above it; *order* has all levels."""
    if not model.efforts or wanted in model.efforts:
        return wanted
    below = [level for level in model.efforts if order.index(level) <= order.index(wanted)]
    return below[-1] if below else model.efforts[0]


def tempered(model: Model, level: str | None) -> bool:
    """Return whether *model* accepts a temperature with this *level* of effort; None: no effort is requested."""
    taken = model.temperature
    return taken if isinstance(taken, bool) else (level or "unset") in taken


def cost(name: str, usage: Usage) -> str | None:
    """Return what *usage* of *name* costs in USD, a decimal; None when a price, or its input or output, is unknown.

    A missing count of the cache is none: the input is what of the total was not counted apart, so that all of the
    prompt is in the bill. Azure, OpenRouter and OpenAI's older models do not count what they write to their caches.
    """
    model = find(name)
    if model.price is None or usage.input is None or usage.output is None:
        return None
    counts = [count or 0 for count in (usage.input, usage.cache_read, usage.cache_write_short, usage.cache_write_long)]
    price = model.above.price if model.above and sum(counts) > model.above.tokens else model.price
    total = usage.output * price.output
    for count, each in zip(counts, (price.input, price.read, price.write_short, price.write_long), strict=True):
        if count and each is None:
            return None
        total += count * (each or 0)
    return f"{(total / _MILLION).normalize():f}"


def uncached_cost(name: str, usage: Usage) -> str | None:
    """Return what *usage* of *name* would cost if its whole prompt were charged as input; None where `cost` is."""
    if cost(name, usage) is None:
        return None
    counts = (usage.input, usage.cache_read, usage.cache_write_short, usage.cache_write_long)
    return cost(name, replace(usage, input=sum(count or 0 for count in counts), **_NO_CACHE))


BUDGETS = {"minimal": 1_024, "low": 2_048, "medium": 8_192, "high": 16_384, "xhigh": 32_768, "max": 49_152}
"""Thinking of Claude's 4.5 generation is asked for in tokens: at least 1,024, and at most half of the answer."""
_MIN_CACHEABLE = 1_024
"""Tokens that a vendor keeps at least where the table does not say."""


def of_anthropic(model: Model) -> Caching:
    """Return how Claude's cache works: five minutes or an hour."""
    return Caching(
        vendor="anthropic",
        least=model.cacheable or _MIN_CACHEABLE,
        short_s=300,
        long_s=3_600,
        strips=model.strips,
        budgets=BUDGETS if model.thinking == "budget" else {},
        room=model.max_output or 0,
    )


def of_openai(model: Model) -> Caching:
    """Return how OpenAI's cache works: half an hour or twelve where writes are billed, else five minutes at least."""
    least = model.cacheable or _MIN_CACHEABLE
    if model.price is not None and model.price.write_short is not None:
        return Caching(vendor="openai", least=least, short_s=1_800, long_s=43_200)
    return Caching(vendor="openai", least=least, short_s=300, long_s=300, exact=False)


NO_KEY = "none"
"""A placeholder key for servers that want none: the SDKs require one."""
_KEY_HEADERS = ("Authorization", "X-Api-Key")


class Extras(NamedTuple):
    """*headers* and a *query* that go with every request; either may hold a secret.

    *ambient*: what an SDK finds in the environment goes too. It is meant for one server, which is not a named one.
    """

    headers: Mapping[str, str] = {}
    query: Mapping[str, str] = {}
    ambient: bool = True

    def cleared(self, client: Any) -> Any:
        """Return *client*, an SDK's, unless *ambient* without the headers that it found in the environment."""
        if not self.ambient:
            client._custom_headers = {}  # noqa: SLF001 - no option leaves them out, and a copy reads them again
            for name in ("organization", "project"):  # OpenAI's; of Anthropic's client one is a resource
                if name in vars(client):
                    setattr(client, name, None)
        return client

    def sent(self, omitted: Any, *, keyless: bool) -> dict[str, Any]:
        """Return the headers of a request, with *omitted* in the place of those that hold the key if *keyless*."""
        own = {name.lower() for name in self.headers}
        left_out = [name for name in _KEY_HEADERS if keyless and name.lower() not in own]
        return {**dict.fromkeys(left_out, omitted), **self.headers}

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return what no error may repeat."""
        return (*self.headers.values(), *self.query.values())


NO_EXTRAS = Extras()
