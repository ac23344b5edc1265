"""`parley cost`: what a session cost as a table, as JSON and as a picture."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from agent_core.renders.vega.lint import checked
from app.cli.cost import described
from app.cli.cost_chart import MAX_BARS, chart_of
from tests.app.processes import Serving
from tests.polling import PATIENCE

USAGE = {
    "input": 3,
    "output": 250,
    "reasoning": 0,
    "cache_read": 12_345,
    "cache_write_short": 1_200,
    "cache_write_long": 0,
}


def one(**fields: Any) -> dict[str, Any]:
    return {
        "run": "run_1",
        "n": 1,
        "attempt": 1,
        "kind": "step",
        "asked_at": "2026-11-23T08:05:11.000Z",
        "model": "anthropic:claude-opus-5",
        "usage": USAGE,
        "billed": "0.0125",
        "ideal": "0.0105",
        "uncached": "0.07",
        "causes": {"expired": "0.0025", "not_marked": "-0.0005"},
        **fields,
    }


def cost(*calls: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "session": "ses_1",
        "billed": "0.0125",
        "ideal": "0.0105",
        "uncached": "0.07",
        "causes": {"expired": "0.0025", "not_marked": "-0.0005"},
        "unknown": 0,
        "unpriced": [],
        "apart": 0,
        "apart_billed": "0",
        "calls": list(calls),
        **fields,
    }


def test_the_table_is_aligned_and_explained():
    """Numbers stand under each other, each call has its causes, and the sums say what they mean."""
    lines = described(cost(one(), one(n=12, attempt=2, causes={}, billed="0.0105")))
    titles = "TIME (UTC)      STEP  MODEL                    UNCACHED    READ  WRITTEN  LONG  OUTPUT   BILLED    IDEAL"
    counts = "anthropic:claude-opus-5         3  12,345    1,200     0     250"
    assert lines == [
        f"{titles}  BECAUSE",
        f"11-23 08:05:11     1  {counts}  $0.0125  $0.0105  expired +0.0025, not_marked -0.0005",
        f"11-23 08:05:11  12.2  {counts}  $0.0105  $0.0105",
        "",
        "2 model calls: billed $0.0125, ideal $0.0105, without a cache $0.0700.",
        "Billed more than the ideal: $0.0020 (19.0%). The causes:",
        "  expired     +0.0025  the pause was longer than the cache keeps what was sent",
        "  not_marked  -0.0005  the request was not marked for the cache",
    ]


def test_what_is_not_known_is_said():
    """Unknown tokens and prices are question marks with a reason; they are in no sum, and the text says so."""
    unknown = one(billed=None, ideal=None, uncached=None, causes={}, usage=dict.fromkeys(USAGE), model="demo:\x1b[1m")
    child, summary = one(kind="child", ideal=None, causes={}), one(kind="summary", n=0, causes={})
    lines = described(cost(unknown, child, summary, unknown=1, unpriced=["demo:\x1b[1m"], apart=1, apart_billed="0.01"))
    assert lines[1].split()[4:] == [*"?????", "?", "?", "tokens", "or", "price", "unknown"]
    assert lines[2].endswith("a child run: not replayed")
    assert lines[3].endswith("wrote a summary")
    assert lines[-2].startswith("1 call in no sum: tokens or price are not known (no price: demo:")
    assert lines[-1] == "1 call of child runs in no sum; billed: $0.01."
    assert "\x1b" not in "".join(lines)
    assert described(cost()) == ["No model has answered in this session yet: it has cost nothing."]
    assert described(cost(one(causes={}), causes={}))[-1] == "No cache could have made it cheaper."


def test_the_picture_has_a_bar_per_call_or_per_group():
    """Its bars add up to what was billed, and it is a chart that Parley draws, however many calls there were."""
    for many in (1, MAX_BARS, 3 * MAX_BARS + 1):
        spec = chart_of(cost(*[one()] * many))
        assert spec is not None
        values = spec["data"]["values"]
        assert len({value["call"] for value in values}) <= MAX_BARS
        assert round(sum(value["usd"] for value in values), 9) == round(0.0125 * many, 9)
        assert checked(spec)
    assert chart_of(cost(one(ideal=None))) is None


@pytest.mark.whole
async def test_the_command_asks_the_running_server(serving: Serving, tmp_path):
    """The demonstration has no price: its calls are listed, nothing is drawn, and an unknown session is one line."""
    headers = {"Authorization": f"Bearer {serving.key}"}
    async with httpx.AsyncClient(base_url=serving.url, headers=headers, timeout=PATIENCE) as client:
        session = (await client.post("/v1/agents/assistant/runs", json={"input": "Hello"})).json()["session"]
    said, data, undrawn, refused, sums, agents, undated = await asyncio.gather(
        serving.shell.said("cost", session),
        serving.shell.said("cost", session, "--json"),
        serving.shell.refused("cost", session, "--png", str(tmp_path / "cost.png")),
        serving.shell.refused("cost", "ses_none"),
        serving.shell.said("cost", "--by", "agent"),
        serving.shell.said("cost", "--by", "agent", "--json"),
        serving.shell.refused("cost", "--from", "soon"),
    )
    assert "tokens or price unknown" in said
    assert json.loads(data)["session"] == session
    assert "leave --png out" in undrawn
    assert "ses_none" in refused
    assert not (tmp_path / "cost.png").exists()
    heading, *rows = sums.splitlines()
    assert heading.split()[:3] == ["AGENT", "RUNS", "CALLS"]
    assert [each.split()[0] for each in rows] == ["assistant"]
    assert "without a price" in rows[0]
    assert json.loads(agents)["name"] == "assistant"
    assert "`from`" in undated
