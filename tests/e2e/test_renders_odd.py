"""Renders that are odd, large or broken in a real browser under the strictest policy, with Trusted Types."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.e2e.shown import REVOKED, Rendered, RendersPage, opened

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.whole]
OVER = """box => [...box.querySelectorAll("tr > :first-child")].filter(cell => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    return range.getBoundingClientRect().right > cell.getBoundingClientRect().right;
}).map(cell => cell.textContent)"""
"""Which cells of the first column reach over the next one."""
ROWS = "figure => [...figure.querySelectorAll('tbody tr')].map(row => [...row.cells].map(each => each.innerText))"


@pytest_asyncio.fixture(loop_scope="session")
async def shown(browser: Browser) -> AsyncIterator[RendersPage]:
    """A page, which complains of nothing in the whole test."""
    context, shown = await opened(browser, viewport={"width": 760, "height": 700})
    yield shown
    shown.check()
    await context.close()


async def test_a_picture_that_is_none_keeps_no_memory(shown: RendersPage):
    """The address of a drawing that the browser cannot read is given back at once."""

    async def draw(id: str, payload: Mapping[str, Any], dark: bool) -> bytes:
        return b"no picture"

    shown.draw = draw
    await shown.show(Rendered("chart", {"spec": {"mark": "boxplot"}}, "Spread"))
    await shown.figures.get_by_role("alert").wait_for()
    await shown.page.evaluate(REVOKED)
    await shown.figures.get_by_role("button", name="Try again").click()
    # A function: an expression that does not hold at once is evaluated again by the page, whose policy forbids it.
    await shown.page.wait_for_function("() => created.length === 1 && revoked.includes(created[0])")


async def test_odd_columns_and_large_tables_are_drawn(shown: RendersPage):
    """A column may be called as JavaScript calls its own; of 50,000 rows a part is drawn, and all are saved."""
    keys = ("constructor", "__proto__", "toString", "a")
    columns = [{"key": key, "label": key, "format": key} for key in keys]
    odd = Rendered("table", {"columns": columns, "rows": [{"a": 1}, {"__proto__": 5}]})
    names = Rendered("chart", {"plain": {"type": "bar", "categories": [{"toString": 1}], "series": [{"values": [1]}]}})
    long = Rendered("table", {"columns": [columns[3]], "rows": [{"a": n} for n in range(50_000)]})
    await shown.show(odd, names, long)
    await shown.figures.nth(1).wait_for()
    assert await shown.figures.first.evaluate(ROWS) == [["", "", "", "1"], ["", "5", "", ""]]
    assert await shown.page.locator("pre.render").all_inner_texts() == ["the text of it"]
    await shown.figures.last.get_by_role("button", name="Show 1,000 more rows").click()
    await expect(shown.figures.last.locator("tbody tr")).to_have_count(1_050)


async def test_the_first_column_of_a_phone_stays_in_its_place(shown: RendersPage):
    """Names and numbers that have no room beside the other columns are broken, and reach over none of them."""
    await shown.page.set_viewport_size({"width": 375, "height": 700})
    names = ["Alder, Birch and Sons Ltd.", "12345678901234567890", "W" * 28, "W" * 400, "Oslo"]
    keys = ("name", "city", "orders", "revenue", "growth")
    columns = [{"key": key, "label": key} for key in keys]
    rows = [{**dict.fromkeys(keys, 1_000_000), "name": name} for name in names]
    for label in ("name", "A heading of some length indeed"):
        columns[0]["label"] = label
        by_hand = "\n".join(f"| {name} | a | b |" for name in (label, "---", *names)).replace(
            "--- | a | b", "---|---|---"
        )
        await shown.show(
            Rendered("table", {"columns": columns, "rows": rows}),
            Rendered("table", {"columns": columns, "rows": rows[:2]}),
            said=by_hand,
        )
        for at in (0, 1):
            await shown.figures.nth(at).wait_for()
            assert await shown.figures.nth(at).evaluate(OVER) == [], at
            wide = await shown.figures.nth(at).locator("tbody th").first.evaluate("cell => cell.offsetWidth")
            assert 100 < wide <= 170
        for width in (375, 760):
            await shown.page.set_viewport_size({"width": width, "height": 700})
            assert await shown.page.locator(".text .table").evaluate(OVER) == []
        await shown.page.set_viewport_size({"width": 375, "height": 700})
    await shown.page.set_viewport_size({"width": 760, "height": 700})
