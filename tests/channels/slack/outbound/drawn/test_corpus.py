"""The charts of the suite in Slack: each plain one is Slack's own block or there is a reason, others are pictures."""

from typing import Any

import msgspec

from agent_core.charts.reduce import reduced
from agent_core.charts.spec import checked
from channels.slack.charts import NotNative, ladder_of, native
from channels.slack.tables import MESSAGE, PngUpload
from channels.slack.testing.blocks import check
from channels.spec import ShownRender
from tests.agent_core.charts.specs import ChartSpec, corpus
from tests.cases import for_each

REASONS = ("more than Slack takes", "no scatter chart", "has a gap")


def shown(each: ChartSpec) -> tuple[ShownRender, Any]:
    """Return the render of a chart as the tool makes it, and its plain chart."""
    spec = checked(each.spec)
    plain = reduced(spec)
    payload = {"spec": spec, **({"plain": msgspec.to_builtins(plain)} if plain is not None else {})}
    return ShownRender("ren_1", "chart", payload, "text", each.name), plain


@for_each("each", corpus())
def test_a_chart_has_its_form(each: ChartSpec):
    """A chart that reduces is native within Slack's limits; each step down is a message that Slack takes."""
    render, plain = shown(each)
    ladder = ladder_of(render)
    assert ladder is not None
    best = ladder.best(MESSAGE)
    found = None if plain is None else native(plain, each.name, render.payload["spec"])
    if found is None or isinstance(found, NotNative):
        assert found is None or any(reason in found.reason for reason in REASONS)
        assert isinstance(best.form.upload, PngUpload)
    else:
        assert best.form.blocks[0]["type"] == "data_visualization"
    for step in range(ladder.last + 1):
        assert check(list(ladder.best(MESSAGE, step).form.with_file("F1"))) == []
