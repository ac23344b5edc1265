"""Renders that are odd, large or broken in a real browser under the strictest policy, with Trusted Types."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.e2e.shown import REVOKED, Rendered, Shown, opened

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
ROWS = "figure => [...figure.querySelectorAll('tbody tr')].map(row => [...row.cells].map(each => each.innerText))"


@pytest_asyncio.fixture(loop_scope="session")
async def shown(browser: Browser) -> AsyncIterator[Shown]:
    """A page, which complains of nothing in the whole test."""
    context, shown = await opened(browser, viewport={"width": 760, "height": 700})
    yield shown
    shown.check()
    await context.close()


async def test_a_picture_that_is_none_keeps_no_memory(shown: Shown):
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


async def test_odd_columns_and_large_tables_are_drawn(shown: Shown):
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
