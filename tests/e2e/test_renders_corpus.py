"""All charts of the corpus on one page: each plain one is drawn with its own numbers, each other by the server."""

import asyncio
import math
import re
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from playwright.async_api import Browser

from agent_core.charts.draw import Drawer
from agent_core.charts.reduce import reduced
from agent_core.charts.spec import checked
from agent_core.charts.values import PlainChart
from tests.agent_core.charts.specs import corpus
from tests.e2e.plain_charts import MARKS
from tests.e2e.shown import Rendered, opened

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.whole]
READ = """async () => {
    const frame = () => new Promise(requestAnimationFrame);
    const figures = [...document.querySelector("parley-chat").shadowRoot.querySelectorAll("figure.drawn")];
    const read = async figure => {
        figure.scrollIntoView();
        await frame();
        await frame(); // what is near is seen at the end of a frame, after the first of these
        const table = [...figure.querySelectorAll("button")].find(each => each.textContent === "Show data");
        table?.click();
        figure.querySelector("button.more")?.click();
        const chart = figure.querySelector(".chart");
        const seen = each => {
            const {fill, stroke} = getComputedStyle(each);
            const paint = each.matches(".line") ? stroke : fill;
            const asked = {opacityProperty: true, visibilityProperty: true};
            return each.checkVisibility(asked) && paint !== "none" && !/(, |\\/ )0\\)$/.test(paint);
        };
        const drawn = [...figure.querySelectorAll("svg :is(.bar, .slice, .point, .line, .area)")];
        const readings = [];
        const count = new Set([...figure.querySelectorAll("[data-at]")].map(each => each.dataset.at)).size;
        for (let at = 0; at < count; at += 1) {
            chart.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true}));
            readings.push([...figure.querySelectorAll(".tip span")].map(each => each.lastChild.textContent));
        }
        return {
            name: figure.getAttribute("aria-label"),
            classes: [...figure.querySelectorAll("svg *")].map(each => "." + (each.getAttribute("class") ?? "")),
            unseen: drawn.filter(each => !seen(each)).map(each => each.outerHTML),
            drawn: drawn.length,
            boxes: [...figure.querySelectorAll("svg .bar")].map(each => each.getBBox()).map(
                ({x, y, width, height}) => ({x, y, width, height})),
            image: figure.querySelector(".picture") !== null,
            rows: [...figure.querySelectorAll("tbody tr")].map(row => [...row.cells].map(each => each.innerText)),
            readings,
        };
    };
    const all = [];
    for (const figure of figures) all.push(await read(figure));
    return all;
}"""
IMAGES = """() => {
    const places = [...document.querySelector("parley-chat").shadowRoot.querySelectorAll(".picture")];
    return places.every(each => each.querySelector("img")?.complete) ? places.length : null;
}"""


def shown_as(name: str, spec: dict[str, Any], plain: PlainChart | None) -> Rendered:
    payload = {"spec": spec} if plain is None else {"spec": spec, "plain": msgspec.to_builtins(plain)}
    return Rendered("chart", payload, name)


async def test_every_chart_of_the_corpus_is_drawn_with_its_numbers(browser: Browser):
    """What is read of each plain chart, with the keyboard and as data, are the numbers that were computed for it.

    All marks are seen, and bars are as long as their values.
    """
    specs = {each.name: checked(each.spec) for each in corpus()}
    charts = {name: reduced(spec) for name, spec in specs.items()}
    drawer = Drawer()
    drawn: list[str] = []
    turn = asyncio.Semaphore(4)  # a page asks again where many wait; here none is to
    context, shown = await opened(browser, viewport={"width": 760, "height": 900})

    async def draw(id: str, payload: Mapping[str, Any], dark: bool) -> bytes:
        drawn.append(id)
        async with turn:
            return await drawer.svg(payload["spec"])

    shown.draw = draw
    try:
        await shown.show(*(shown_as(name, specs[name], plain) for name, plain in charts.items()))
        await shown.figures.nth(len(charts) - 1).wait_for(state="attached")
        found = {each["name"]: each for each in await shown.page.evaluate(READ)}
        pictures = await (await shown.page.wait_for_function(IMAGES)).json_value()
        shown.check()
    finally:
        await context.close()
        await drawer.close()
    assert pictures == len(drawn) == sum(plain is None for plain in charts.values())
    assert list(found) == list(charts)
    for name, plain in charts.items():
        assert found[name]["image"] == (plain is None)
        if plain is not None:
            check(found[name], plain)


def check(found: dict[str, Any], plain: PlainChart) -> None:
    """Check that what was *found* on the page is *plain*."""
    assert found["drawn"]
    assert found["unseen"] == []
    marks = sum(each.startswith(MARKS[plain.type]) for each in found["classes"])
    if plain.type == "scatter":
        points = [point for each in plain.series for point in each.points]
        assert marks == len(points)
        assert same([row[-2:] for row in found["rows"]], points)
        return
    values = list(zip(*(each.values for each in plain.series), strict=True))
    there = [[each for each in row if each is not None] for row in values]
    if plain.type == "pie":
        there = [[each for each in row if each > 0] for row in there]
        assert marks == len([row for row in there if row])
        there = [row for row in there if row]
    elif plain.type == "bar":
        assert marks == sum(map(len, there))
        lengths = [each["width" if plain.horizontal else "height"] for each in found["boxes"]]
        sizes = [abs(value) for each in plain.series for value in each.values if value is not None]
        scale = max(lengths) / max(sizes)
        assert lengths == pytest.approx([each * scale for each in sizes], abs=0.5), plain
    assert same(found["readings"], there), plain
    assert [row[0] for row in found["rows"]] == list(plain.categories)
    assert same(
        [[each for each in row[1:] if each] for row in found["rows"]],
        [[each for each in row if each is not None] for row in values],
    )


def same(texts: Any, numbers: Any) -> bool:
    """Return whether *texts*, as a page writes numbers, are *numbers*."""
    read = [[float(re.sub(r" \(.*|,", "", each)) for each in row] for row in texts]
    return len(read) == len(numbers) and all(
        len(one) == len(other)
        and all(math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-9) for a, b in zip(one, other, strict=True))
        for one, other in zip(read, numbers, strict=True)
    )
