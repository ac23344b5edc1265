"""The table of models: well-formed data, and what follows from it for effort and cost."""

import re
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import get_args

from agent_core.controls import Effort
from agent_core.messages import UNKNOWN_USAGE, Usage
from agent_core.providers.base import UNKNOWN, Model, Price, Thinking, cost, effort, find, table, uncached_cost
from tests.cases import for_each

ORDER = get_args(Effort)
MODELS = table().models
PRICES = [
    (name, price)
    for name, model in MODELS.items()
    for price in (model.price, model.above.price if model.above else None)
    if price is not None
]


def usage(input: int | None = 0, output: int | None = 0, **given: int | None) -> Usage:
    counts = {"reasoning": None, "cache_read": 0, "cache_write_short": 0, "cache_write_long": 0, **given}
    return Usage(input, output, **counts)


def test_the_table_has_a_day_and_its_defaults():
    """The data says of which day it is, and the model of each provider that is named by itself is in it, priced."""
    assert date(2026, 1, 1) < table().as_of < date(2100, 1, 1)
    assert set(table().defaults) == {"anthropic", "openai"}
    for provider, name in table().defaults.items():
        model = MODELS[f"{provider}:{name}"]
        assert model.price is not None
        assert model.ends is None or model.ends > table().as_of


@for_each("name", MODELS)
def test_a_model_is_well_formed(name):
    """Names have a provider and no day, limits are whole and possible, efforts are known and lowest first."""
    model = MODELS[name]
    assert re.fullmatch(r"(anthropic|openai):[a-z0-9.-]+", name)
    assert find(f"{name}-20260101") is find(f"{name}-2026-01-01") is model
    assert model.context is not None
    assert model.max_output is not None
    assert 1000 < model.max_output < model.context
    places = [ORDER.index(level) for level in model.efforts]
    assert places == sorted(set(places))
    assert model.efforts or model.thinking in ("none", "budget")
    assert isinstance(model.temperature, bool) or set(model.temperature) <= {"unset", *model.efforts}
    assert model.above is None or (model.price is not None and 0 < model.above.tokens < model.context)


def test_every_way_of_thinking_is_a_models():
    """The table has no way to ask for thinking that no model of Anthropic's takes, and OpenAI's take none of them."""
    asked = {model.thinking for name, model in MODELS.items() if name.startswith("anthropic:")}
    assert asked == set(get_args(Thinking)) - {"none"}
    assert {model.thinking for name, model in MODELS.items() if name.startswith("openai:")} == {"none"}


def shutdowns() -> Iterator[tuple[str, date]]:
    """Give OpenAI's models that end, and their days, as the docstring of the installed SDK tells them."""
    spec = find_spec("openai")
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).with_name("types").joinpath("shared", "chat_model.py").read_text("utf-8")
    for entry in source.partition("Deprecated values:")[2].split("\n- "):
        if day := re.search(r"shutdown\s+date:\s+(\S+)\. ", " ".join(entry.split())):
            yield from ((f"openai:{name}", date.fromisoformat(day[1])) for name in re.findall(r'"([^"]+)"', entry))


def test_openais_models_end_when_its_sdk_says():
    """The day on which a model of OpenAI ends is the one its SDK names, and a model about to end is in the table."""
    days = dict(shutdowns())
    assert days["openai:o3"] == date(2026, 12, 11)
    assert {name: model.ends for name, model in MODELS.items() if name.startswith("openai:")} == {
        name: days.get(name) for name in MODELS if name.startswith("openai:")
    }
    ending = {name for name, day in days.items() if day > table().as_of and "audio" not in name}
    assert {name for name in ending if find(name) is UNKNOWN} == set()


# Input, write of 5 (OpenAI: 30) minutes, of an hour, read, output; then the fewest tokens that a cache keeps.
LISTED = """
fable-5-2 mythos-5-2              | 8 10 16 0.20 40        | 512
fable-5-1 mythos-5-1              | 10 12.5 20 0.25 50     | 512
fable-5 mythos-5                  | 10 12.5 20 1 50        | 512
opus-5-5                          | 4 5 8 0.20 20          | 512
opus-5                            | 5 6.25 10 0.50 25      | 512
opus-4-8                          | 5 6.25 10 0.50 25      | 1024
opus-4-7                          | 5 6.25 10 0.50 25      | 2048
opus-4-6 opus-4-5                 | 5 6.25 10 0.50 25      | 4096
sonnet-5-5                        | 2 2.5 4 0.10 10        | 512
sonnet-5                          | 2 2.5 4 0.20 10        | 1024
sonnet-4-6 sonnet-4-5             | 3 3.75 6 0.30 15       | 1024
haiku-5-5                         | 0.10 0.125 0.20 0.01 0.50 | 512
haiku-4-5                         | 1 1.25 2 0.10 5        | 4096
gpt-6-astra                       | 10 12.5 - 1 50         | 1024
gpt-6.1-sol                       | 2 2.5 - 0.10 10        | 1024
gpt-6.1-terra                     | 1 1.25 - 0.05 5        | 1024
gpt-6-sol                         | 2 2.5 - 0.20 10        | 1024
gpt-6-luna                        | 0.10 0.125 - 0.01 0.50 | 1024
gpt-5.6-sol                       | 4 5 - 0.40 20          | 1024
gpt-5.6-terra                     | 2 2.5 - 0.20 12        | 1024
gpt-5.6-luna                      | 0.2 0.25 - 0.02 1.2    | 1024
gpt-5.5                           | 5 - - 0.5 30           | 1024
gpt-5.4                           | 2.5 - - 0.25 15        | 1024
gpt-5.4-mini                      | 0.75 - - 0.075 4.5     | 1024
"""
ROWS = [
    (f"openai:{name}" if name.startswith("gpt") else f"anthropic:claude-{name}", prices.split(), int(least))
    for names, prices, least in (line.split("|") for line in LISTED.strip().splitlines())
    for name in names.split()
]


@for_each("name, prices, least", ROWS)
def test_a_price_is_the_vendors(name, prices, least):
    """Every model that the vendors list has their prices, of long prompts too, and the least that its cache keeps."""
    model = MODELS[name]
    wanted = [None if each == "-" else Decimal(each) for each in prices]
    price = model.price
    assert price is not None
    assert [price.input, price.write_short, price.write_long, price.read, price.output] == wanted
    assert model.cacheable == least
    assert model.breakpoints == (price.write_short is not None)
    if name.startswith("openai:") and name != "openai:gpt-5.4-mini":
        assert model.above is not None
        long = model.above.price
        assert model.above.tokens == 272_000
        assert (long.input, long.output) == (2 * price.input, price.output * Decimal("1.5"))
        assert [long.read, long.write_short] == [each and 2 * each for each in (price.read, price.write_short)]


def test_haiku_has_two_tiers():
    """A prompt of more than 100,000 tokens costs five times as much on the small model, its answer too."""
    model = MODELS["anthropic:claude-haiku-5-5"]
    assert model.price is not None
    assert model.above is not None
    assert model.above.tokens == 100_000
    for field in Price.__struct_fields__:
        assert getattr(model.above.price, field) == 5 * getattr(model.price, field)


def test_a_price_has_its_day():
    """A price that changed says since when, which is before the day of the table."""
    days = [model.since for model in MODELS.values() if model.since is not None]
    assert days
    assert max(days) <= table().as_of
    assert [model for model in MODELS.values() if model.since if not model.price] == []


@for_each("name, price", PRICES)
def test_a_price_is_sane(name, price):
    """Reading a cache is cheaper than input, writing one no cheaper, and output is the dearest."""
    dearer = [each for each in (price.read, price.input, price.write_short, price.write_long) if each is not None]
    assert [(a, b) for a, b in pairwise(dearer) if a >= b] == [], name
    assert Decimal(0) < dearer[0]
    assert price.input < price.output < Decimal(1000)


@for_each("name", [name for name, model in MODELS.items() if model.above])
def test_a_long_prompt_costs_more(name):
    """The price of a long prompt is above the common one in every kind of token that the vendor bills."""
    model = MODELS[name]
    assert model.price is not None
    assert model.above is not None
    for field in Price.__struct_fields__:
        common, long = getattr(model.price, field), getattr(model.above.price, field)
        assert (common is None) == (long is None), field
        assert common is None or common < long, field


@for_each("name", ["", "openai", "openai:none", "openai-compatible:gpt-5.5", "gpt-5.5", "anthropic:x-1"])
def test_a_model_that_is_not_listed_is_unknown(name):
    """Nothing is supposed of a model that is not in the table, and its cost is unknown."""
    assert find(name) is UNKNOWN
    assert cost(name, usage(100, 100)) is None


COSTS = [
    ("anthropic:claude-sonnet-5-5", usage(1_000_000), "2"),
    ("anthropic:claude-sonnet-5-5", usage(0, 1_000_000), "10"),
    ("anthropic:claude-sonnet-5-5", usage(0, 0, cache_read=1_000_000), "0.1"),
    ("anthropic:claude-sonnet-5-5", usage(0, 0, cache_write_short=1_000_000), "2.5"),
    ("anthropic:claude-sonnet-5-5", usage(0, 0, cache_write_long=1_000_000), "4"),
    ("anthropic:claude-sonnet-5-5", usage(3, 1, reasoning=1_000), "0.000016"),
    ("anthropic:claude-sonnet-5-5-20261101", usage(1_000_000), "2"),
    ("anthropic:claude-sonnet-5-5", usage(), "0"),
    ("anthropic:claude-haiku-5-5", usage(100_000), "0.01"),
    ("anthropic:claude-haiku-5-5", usage(100_001), "0.0500005"),
    ("anthropic:claude-haiku-5-5", usage(1, 10, cache_read=60_000, cache_write_short=40_000), "0.0280255"),
    ("openai:gpt-6.1-sol", usage(200_000, 1_000, cache_read=72_000, cache_write_long=None), "0.4172"),
    ("openai:gpt-6.1-sol", usage(200_001, 1_000, cache_read=72_000, cache_write_long=None), "0.829404"),
    ("openai:gpt-5.5", usage(1_000_000, cache_write_short=None, cache_write_long=None), "10"),
    ("openai:gpt-5.5", usage(0, 0, cache_write_short=100_000, cache_write_long=None), None),
    ("openai:gpt-6.1-sol", usage(0, 0, cache_write_long=100_000), None),
    ("openai:gpt-6.2-sol", usage(0, 0, cache_write_long=100_000), "0.5"),
    ("anthropic:claude-sonnet-5-5", UNKNOWN_USAGE, None),
    ("anthropic:claude-sonnet-5-5", usage(None, 5), None),
    ("anthropic:claude-sonnet-5-5", usage(5, None), None),
    ("anthropic:claude-sonnet-5-5", usage(5, 5, cache_read=None), "0.00006"),
    ("anthropic:claude-sonnet-5-5", usage(5, 5, cache_write_short=None, cache_write_long=None), "0.00006"),
    ("openai:gpt-6.1-sol", usage(1000, 100, cache_read=500, cache_write_short=None, cache_write_long=None), "0.00305"),
    ("openai:gpt-6.1-sol", Usage(1000, 100, None, None, None, None), "0.003"),
    ("openai:gpt-6.2-astra", usage(5, 5), None),
    ("openai:gpt-4o-2024-11-20", usage(5, 5), "0.0000625"),
]


@for_each("name, used, usd", COSTS)
def test_what_a_call_costs(name, used, usd):
    """Each kind of token has its price, long prompts their own, thinking is output; what is unknown is no number."""
    assert cost(name, used) == usd


EFFORTS = [
    (("low", "medium", "high"), "medium", "medium"),
    (("low", "medium", "high"), "max", "high"),
    (("low", "medium", "high"), "minimal", "low"),
    (("low", "medium", "high"), "none", "low"),
    (("low", "high", "max"), "xhigh", "high"),
    (("low", "high", "max"), "medium", "low"),
    ((), "xhigh", "xhigh"),
]


@for_each("has, wish, level", EFFORTS)
def test_a_wish_becomes_the_nearest_effort(has, wish, level):
    """A model without the wished level takes the nearest below, or its lowest; an unknown one is asked as wished."""
    assert effort(Model(efforts=has), wish, ORDER) == level


def test_without_a_cache_the_whole_prompt_is_input():
    """The uncached cost charges tokens that a cache read or wrote as input, by the tier of the same prompt."""
    spent = usage(input=1000, output=100, cache_read=8000, cache_write_short=500, cache_write_long=500)
    assert cost("anthropic:claude-sonnet-5", spent) == "0.00785"
    assert uncached_cost("anthropic:claude-sonnet-5", spent) == "0.021"
    assert uncached_cost("anthropic:claude-haiku-5-5", usage(input=1, cache_read=100_000)) == "0.0500005"
    assert uncached_cost("anthropic:claude-sonnet-5", usage(input=None)) is None
    assert uncached_cost("compatible:llama", spent) is None
