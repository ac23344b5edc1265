"""Tables and charts in a real browser under the strictest policy: sorted, copied, saved, read by keyboard, inert."""

import asyncio
import csv
import io
import re
import struct
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, expect

from tests.e2e.plain_charts import BAR, CHARTS, MARKS, PIXEL
from tests.e2e.shown import ASKED, HOST, REVOKED, Rendered, RendersPage, nothing, opened

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    "javascript:alert(1)",
    "</text></svg><svg onload=alert(1)>",
    "{{constructor.constructor('alert(1)')()}}",
    "=cmd|' /C calc'!A0",
    "\u202egnp.exe",
    '"><iframe src=//evil.example>',
)
COLUMNS = [
    {"key": "r", "label": "Region"},
    {"key": "o", "label": "Orders", "format": "integer"},
    {"key": "v", "label": "Revenue", "format": "currency:EUR"},
    {"key": "d", "label": "Since", "format": "date"},
]
ROWS = [
    {"r": "North", "o": 1200, "v": 10432.5, "d": "2026-02-01"},
    {"r": "=South", "o": 90, "v": -3.25, "d": "2025-12-31"},
    {"r": "East, far", "o": None, "v": 7, "d": "2026-01-05"},
]
TABLE = Rendered("table", {"columns": COLUMNS, "rows": ROWS}, "Orders by region")


def chart(plain: Mapping[str, Any], title: str | None = "A chart") -> Rendered:
    return Rendered("chart", {"spec": {}, "plain": dict(plain)}, title)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def place(browser: Browser) -> AsyncIterator[RendersPage]:
    context, shown = await opened(browser, viewport={"width": 760, "height": 700}, color_scheme="light")
    await context.grant_permissions(["clipboard-read", "clipboard-write"], origin=HOST)
    yield shown
    await context.close()


@pytest_asyncio.fixture(loop_scope="session")
async def shown(place: RendersPage) -> AsyncIterator[RendersPage]:
    """The page, which complains of nothing in the whole test."""
    place.complaints.clear()
    place.requests.clear()
    place.draw = nothing
    yield place
    place.check()


async def cells(place: Locator) -> list[list[str]]:
    """Return the texts of the rows of the table in *place*."""
    script = "figure => [...figure.querySelectorAll('tbody tr')].map(row => [...row.cells].map(each => each.innerText))"
    return await place.evaluate(script)


async def download(shown: RendersPage, button: str) -> tuple[str, bytes]:
    """Press *button*; return the name and the content of the file that it saves."""
    async with shown.page.expect_download() as waiting:
        await shown.figures.get_by_role("button", name=button).click()
    saved = await waiting.value
    return saved.suggested_filename, await asyncio.to_thread(Path(await saved.path()).read_bytes)


async def test_a_table_is_sorted_by_its_headings(shown: RendersPage):
    """A heading sorts by the value, up, down and not at all; what is empty stays last, and the order is announced."""
    await shown.show(TABLE)
    figure, status = shown.figures, shown.figures.get_by_role("status")
    assert not any("charts" in each for each in shown.requests)
    assert [row[1:] for row in await cells(figure)] == [
        ["1,200", "€10,432.50", "Feb 1, 2026"],
        ["90", "-€3.25", "Dec 31, 2025"],
        ["", "€7.00", "Jan 5, 2026"],
    ]
    heading = figure.get_by_role("columnheader", name="Orders")
    for sort, said, first in (
        ("ascending", "Sorted by Orders, ascending", ["90", "1,200", ""]),
        ("descending", "Sorted by Orders, descending", ["1,200", "90", ""]),
        (None, "In the original order", ["1,200", "90", ""]),
    ):
        await heading.get_by_role("button").press("Enter")
        assert await heading.get_attribute("aria-sort") == sort
        await expect(status).to_have_text(said)
        assert [row[1] for row in await cells(figure)] == first
    await figure.get_by_role("button", name="Since").click()
    await figure.get_by_role("button", name="Revenue").click()
    await expect(figure.locator("[aria-sort]")).to_have_count(1)
    await expect(figure.get_by_role("columnheader", name="Revenue")).to_have_css("text-align", "end")


@pytest.mark.whole
async def test_a_table_is_copied_and_saved_in_the_order_in_which_it_is_shown(shown: RendersPage):
    """Copy gives cells to programs of tables, CSV a file; in neither is a text taken for a formula."""
    await shown.show(TABLE)
    await shown.figures.get_by_role("button", name="Orders").click()
    await shown.figures.get_by_role("button", name="Copy").click()
    await expect(shown.figures.get_by_role("status")).to_have_text("Copied")
    copied = await shown.page.evaluate(
        """async () => {
            const [item] = await navigator.clipboard.read();
            const text = async type => (await item.getType(type)).text();
            return [await text("text/plain"), await text("text/html")];
        }"""
    )
    assert copied[0].splitlines()[:2] == ["Region\tOrders\tRevenue\tSince", "'=South\t90\t-3.25\t2025-12-31"]
    assert "East, far" in copied[1]
    assert "<td" in copied[1]
    name, content = await download(shown, "Download as CSV")
    assert name == "Orders-by-region.csv"
    assert content.startswith(b"\xef\xbb\xbf")
    rows = list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline="")))
    assert rows[1:] == [
        ["'=South", "90", "-3.25", "2025-12-31"],
        ["North", "1200", "10432.5", "2026-02-01"],
        ["East, far", "", "7", "2026-01-05"],
    ]


@pytest.mark.whole
async def test_a_long_wide_table_is_read_with_the_keyboard(shown: RendersPage):
    """Of 500 rows 50 are drawn at first; heading and first column stay in sight; the arrow keys scroll."""
    columns = [{"key": f"k{n}", "label": f"Column {n}"} for n in range(12)]
    rows = [{f"k{n}": f"{at}-{n}" for n in range(12)} for at in range(500)]
    await shown.show(Rendered("table", {"columns": columns, "rows": rows}))
    await expect(shown.figures.locator("tbody tr")).to_have_count(50)
    region = shown.figures.get_by_role("region", name="Table")
    await shown.figures.get_by_role("button", name="Show all 500 rows").click()
    await expect(shown.figures.locator("tbody tr")).to_have_count(500)
    await expect(region).to_be_focused()
    await shown.page.keyboard.press("End")
    last = shown.figures.get_by_role("cell", name="499-11")
    for _ in range(100):  # how far one stroke scrolls is the browser's: strokes that come fast count together
        await shown.page.keyboard.press("ArrowRight")
        if await last.evaluate(
            "cell => cell.getBoundingClientRect().left < cell.closest('[role=region]').getBoundingClientRect().right"
        ):
            break
    await expect(last).to_be_in_viewport()
    places = await region.evaluate(
        """box => {
            const at = each => box.querySelector(each).getBoundingClientRect();
            const place = box.getBoundingClientRect();
            return [at("thead th").top - place.top, at("tbody tr:last-child th").left - place.left, box.scrollLeft];
        }"""
    )
    assert [abs(each) <= 2 for each in places[:2]] == [True, True]
    assert places[2] > 100
    assert await overflow(shown) <= 0


async def overflow(shown: RendersPage) -> int:
    return await shown.page.evaluate("document.scrollingElement.scrollWidth - innerWidth")


@pytest.mark.whole
async def test_each_plain_chart_is_drawn_and_its_data_shown(shown: RendersPage):
    """A chart is an SVG with a description; its data is a table of the same numbers, for everyone."""
    await shown.show(*map(chart, CHARTS.values()))
    await shown.figures.nth(len(CHARTS) - 1).wait_for(state="attached")
    for n, (name, plain) in enumerate(CHARTS.items()):
        figure = shown.figures.nth(n)
        await figure.scroll_into_view_if_needed()
        await figure.locator(f"svg {MARKS[plain['type']]}").first.wait_for(state="attached")
        label = await figure.get_by_role("img").get_attribute("aria-label") or ""
        assert not [text for text in ("A chart. ", *(each["name"] for each in plain["series"])) if text not in label]
        await figure.get_by_role("button", name="Show data").click()
        assert numbers(await cells(figure)) == numbers_of(plain), name


def numbers(rows: list[list[str]]) -> list[list[float | None]]:
    """Return the numbers of *rows*, without their headings."""
    return [[float(each.replace(",", "")) if each else None for each in row[1:]] for row in rows]


def numbers_of(plain: Mapping[str, Any]) -> list[list[float | None]]:
    if plain["type"] == "scatter":
        points = [point for each in plain["series"] for point in each["points"]]
        return points if len(plain["series"]) > 1 else [point[1:] for point in points]
    return [list(row) for row in zip(*(each["values"] for each in plain["series"]), strict=True)]


@pytest.mark.whole
async def test_the_values_of_a_chart_are_read_with_the_keyboard_and_by_pointing(shown: RendersPage):
    """Arrow keys go from category to category, shown and announced; Escape leaves; pointing shows the same."""
    await shown.show(chart(BAR))
    keys, status = (
        shown.figures.get_by_role("group", name="Arrow keys read the values"),
        shown.figures.get_by_role("status"),
    )
    await keys.focus()
    tip = shown.figures.locator(".tip")
    for key, said in (
        ("ArrowRight", "Mon: Tea 12, Coffee 8"),
        ("ArrowRight", "Tue: Tea 19.5"),
        ("End", "Wed: Tea -3, Coffee 6"),
        ("ArrowLeft", "Tue: Tea 19.5"),
        ("Home", "Mon: Tea 12, Coffee 8"),
    ):
        await keys.press(key)
        await expect(status).to_have_text(said)
        await expect(tip).to_contain_text(said[:3])
    await keys.press("Escape")
    await expect(tip).to_be_hidden()
    await shown.figures.locator(".hit").nth(2).hover()
    assert (await tip.inner_text()).split() == ["Wed", "Tea", "-3", "Coffee", "6"]


@pytest.mark.whole
async def test_the_legend_hides_a_series_and_brings_it_back(shown: RendersPage):
    """A series that is hidden is neither drawn nor read; of a pie it is a slice, and the others share the whole."""
    await shown.show(chart(BAR), chart(CHARTS["pie"]))
    bars, pie = shown.figures.first, shown.figures.last
    key = bars.get_by_role("button", name="Tea")
    await expect(bars.locator(".bar")).to_have_count(5)
    await key.click()
    assert await key.get_attribute("aria-pressed") == "false"
    await expect(bars.locator(".bar")).to_have_count(2)
    await key.click()
    await expect(bars.locator(".bar")).to_have_count(5)
    await pie.get_by_role("button", name="Mon").click()
    await expect(pie.get_by_role("button", name="Tue")).to_have_text("Tue60%")
    await expect(pie.locator(".slice")).to_have_count(2)


@pytest.mark.whole
async def test_a_chart_is_saved_as_a_picture_and_as_csv(shown: RendersPage):
    """PNG is the drawing in double size with title and legend; CSV its numbers."""
    await shown.show(chart(BAR, "Weekly: orders / day"))
    await shown.figures.locator(".bar").first.wait_for()
    name, content = await download(shown, "Download as PNG")
    assert name == "Weekly-orders-day.png"
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", content[16:24])
    box = await shown.figures.locator("svg").bounding_box()
    assert box
    assert width == round(box["width"]) * 2
    assert height > box["height"] * 2 + 60
    _, text = await download(shown, "Download as CSV")
    assert list(csv.reader(io.StringIO(text.decode("utf-8-sig"))))[1] == ["Mon", "12", "8"]


@pytest.mark.whole
async def test_other_charts_are_the_servers_drawing(shown: RendersPage):
    """A chart that is not plain is a picture with the text as its description, dark on a dark page, gone with it."""
    asked: list[tuple[str, bool]] = []

    async def draw(id: str, payload: Mapping[str, Any], dark: bool) -> bytes:
        asked.append((id, dark))
        return PIXEL

    shown.draw = draw
    spec = {"mark": "boxplot", "data": {"values": [{"a": 1, "b": "x"}, {"a": 2.5, "b": None}]}}
    await shown.show(Rendered("chart", {"spec": spec}, "Spread", "a: from 1 to 2.5"))
    image = shown.figures.get_by_role("img")
    await expect(image).to_have_attribute("alt", "Spread. a: from 1 to 2.5")
    for is_dark, theme in ((True, "auto"), (False, "auto"), (False, "dark")):
        url = await image.get_attribute("src") or ""
        await shown.page.emulate_media(color_scheme="dark" if is_dark else "light")
        await shown.page.evaluate(f"document.querySelector('parley-chat').setAttribute('theme', '{theme}')")
        await expect(image).not_to_have_attribute("src", url)
    assert [dark for _, dark in asked] == [False, True] * 2
    await shown.figures.get_by_role("button", name="Show data").click()
    assert await cells(shown.figures) == [["1", "x"], ["2.5", ""]]
    assert (await download(shown, "Download as PNG"))[1] == PIXEL
    url = await image.get_attribute("src")
    await shown.page.evaluate(REVOKED)
    await shown.page.evaluate("document.querySelector('parley-chat').remove()")
    await shown.page.wait_for_function("url => revoked.includes(url)", arg=url)


@pytest.mark.whole
async def test_a_chart_that_cannot_be_drawn_is_its_text(shown: RendersPage):
    """The server's failure shows the text and a button, which tries again."""
    await shown.show(Rendered("chart", {"spec": {"mark": "boxplot"}}, "Spread", "a: from 1 to 2.5"))
    await expect(shown.figures.locator("pre")).to_have_text("a: from 1 to 2.5")
    await shown.complained("503")

    async def draw(id: str, payload: Mapping[str, Any], dark: bool) -> bytes:
        return PIXEL

    shown.draw = draw
    await shown.figures.get_by_role("button", name="Try again").click()
    await shown.figures.get_by_role("img").wait_for()


@pytest.mark.whole
async def test_what_a_renderer_cannot_read_is_its_text(shown: RendersPage):
    """Any tool may show any payload: one that is neither table nor chart stays the text that came with it."""
    odd = ({"rows": 1}, {"columns": [{"key": 1}], "rows": []}, {"plain": {"type": "bar"}}, {})
    renders = [Rendered(kind, dict(payload), None, f"text {kind}") for kind in ("table", "chart") for payload in odd]
    await shown.show(*renders, TABLE)
    await shown.figures.first.wait_for()
    assert await shown.page.locator("pre.render").all_inner_texts() == [each.text for each in renders]


@pytest.mark.whole
async def test_without_the_second_script_the_text_is_shown(shown: RendersPage):
    """Where the script that draws cannot be loaded, people read the text."""
    await shown.page.route("**/parley-renders.js*", lambda route: route.abort())
    await shown.show(TABLE)
    await expect(shown.page.locator("pre.render")).to_have_text(TABLE.text)
    await expect(shown.figures).to_have_count(0)
    await shown.page.unroute("**/parley-renders.js*")
    await shown.complained("ERR_FAILED")


@pytest.mark.whole
async def test_a_second_script_that_was_changed_is_not_run(shown: RendersPage):
    """The script knows the hash of what it loads: one with other content does not run, and people read the text."""
    evil = "globalThis.ran = true; export const show = () => undefined;"
    served = {"body": evil, "content_type": "text/javascript", "headers": {"Access-Control-Allow-Origin": "*"}}
    await shown.page.route("**/parley-renders.js*", lambda route: route.fulfill(**served))
    async with shown.page.expect_request("**/parley-renders.js*"):
        await shown.show(TABLE)
    await expect(shown.page.locator("pre.render")).to_have_text(TABLE.text)
    await shown.complained("integrity")
    assert await shown.page.evaluate("globalThis.ran") is None
    await shown.page.unroute("**/parley-renders.js*")


@pytest.mark.whole
async def test_hostile_cells_and_labels_are_text(shown: RendersPage):
    """Markup in cells, labels, titles and units is text; nothing is loaded, nothing runs, no policy is violated."""
    columns = [{"key": text, "label": text, "format": text} for text in HOSTILE]
    table = {"columns": columns, "rows": [{text: text for text in HOSTILE}, {text: {text: [text]} for text in HOSTILE}]}
    evil = HOSTILE[0]
    series = [{"name": text, "values": [1] * len(HOSTILE)} for text in HOSTILE]
    plain = {"type": "line", "categories": HOSTILE, "series": series, "x": evil, "y": evil, "title": evil}
    pie = {**plain, "type": "pie", "series": series[:1]}
    await shown.show(Rendered("table", table, evil), chart(plain, evil), chart(pie, evil))
    await shown.figures.last.locator(".slice").first.wait_for()
    for figure in (shown.figures.nth(1), shown.figures.nth(2)):
        await figure.get_by_role("button", name="Show data").click()
        await figure.locator(".chart").press("ArrowRight")
    found = await shown.page.evaluate(
        """() => {
            const all = [...document.querySelector("parley-chat").shadowRoot.querySelectorAll("figure.drawn *")];
            const attributes = all.flatMap(each => [...each.attributes].map(each => each.name));
            return [all.map(each => each.localName), attributes.filter(each => /^on|^href|^src/.test(each))];
        }"""
    )
    assert set(found[0]).isdisjoint({"img", "script", "iframe", "a", "foreignObject", "style", "use", "image"})
    assert found[1] == []
    for text in HOSTILE:
        assert text in await shown.figures.first.locator("tbody").inner_text()
    asked = {each.partition("?")[0] for each in shown.requests}
    scripts = {each for each in asked if re.fullmatch(r"/widget/parley-[a-z]+\.js", each)}
    assert asked - scripts == {"/page", *ASKED}


@pytest.mark.whole
async def test_tables_that_a_model_writes_keep_their_words_whole(shown: RendersPage):
    """A table of markdown scrolls sideways in its own box, under a heading that stays, and breaks no word."""
    heads = " | ".join(f"Heading{n}withoutabreak" for n in range(9))
    rows = "\n".join("| " + " | ".join(f"Cell{n}withoutabreak{at}" for n in range(9)) + " |" for at in range(40))
    await shown.show(said=f"| {heads} |\n|{'---|' * 9}\n{rows}")
    box = shown.page.locator(".text .table")
    assert await box.evaluate("each => each.scrollWidth > each.clientWidth && each.scrollHeight > each.clientHeight")
    assert await overflow(shown) <= 0
    lines = await box.locator("td").first.evaluate(
        """cell => {
            const range = document.createRange();
            range.selectNodeContents(cell);
            return range.getClientRects().length;
        }"""
    )
    assert lines == 1
    await expect(box.locator("thead th").first).to_have_css("position", "sticky")


@pytest.mark.whole
@pytest.mark.parametrize(("direction", "dark"), [("ltr", False), ("rtl", True)])
async def test_a_phone_shows_everything_in_its_width(shown: RendersPage, direction: str, dark: bool):
    """On 360 pixels, also from right to left, nothing is wider than the page but what scrolls in its box."""
    await shown.page.set_viewport_size({"width": 360, "height": 700})
    await shown.page.emulate_media(color_scheme="dark" if dark else "light")
    document, shown.document = shown.document, shown.document.replace('lang="en"', f'lang="en" dir="{direction}"')
    await shown.show(TABLE, *map(chart, CHARTS.values()))
    await shown.figures.last.locator(".point").first.wait_for(state="attached")
    wide = await shown.page.evaluate(
        """() => {
            const parts = document.querySelector("parley-chat").shadowRoot.querySelectorAll(".drawn, .chart, .legend");
            const places = [...parts].map(each => each.getBoundingClientRect());
            return places.filter(({left, right}) => left < 0 || right > innerWidth).length;
        }"""
    )
    assert (wide, await overflow(shown)) == (0, 0)
    edges = shown.figures.first.locator(".edges")
    await expect(edges).to_have_class("edges more-after")
    await edges.scroll_into_view_if_needed()
    await shown.picture(f"renders-phone-{direction}")
    await edges.locator(".table").evaluate(
        "(box, to) => box.scrollTo({left: to * 9999})", 1 if direction == "ltr" else -1
    )
    await expect(edges).to_have_class("edges more-before")
    await shown.picture(f"renders-phone-{direction}-scrolled")
    shown.document = document
    await shown.page.set_viewport_size({"width": 760, "height": 700})
    await shown.page.emulate_media(color_scheme="light")
