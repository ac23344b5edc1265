"""Drawings as SVG, for pages: what a chart says is text in them, and nothing in them runs or loads."""

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import pytest_asyncio

from agent_core.charts.draw import Drawer, DrawingFailed
from agent_core.charts.spec import checked
from agent_core.errors import InvalidInput
from tests.agent_core.charts.drawings import bar, opened

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.whole]
EVIL = "https://evil.example/x"
TEXTS = (
    "<script>alert(1)</script>",
    f'</text><image href="{EVIL}"/><text>',
    f"<foreignObject><iframe src='{EVIL}'/></foreignObject>",
    f'" onload="alert(1)" style="background:url({EVIL})',
    f"]]><style>@import url({EVIL});</style>",
    f"javascript:alert(1) {EVIL}",
    "&lt;script&gt;&#x3c;svg onload=alert(1)&#x3e;",
)
HARMFUL = frozenset(
    {"script", "foreignObject", "style", "image", "iframe", "a", "use", "animate", "set", "object", "embed"}
)


def hostile() -> Iterator[dict[str, Any]]:
    """Give charts with hostile text in every place that a specification has for one."""
    for text in TEXTS:
        rows = [{"week": text, "orders": 1, "url": EVIL, "href": EVIL}, {"week": "W", "orders": 2}]
        data = {"values": rows}
        hue = {"field": "week", "type": "nominal"}
        yield bar(data=data)
        yield bar(title=text)
        yield bar(title={"text": text, "font": text, "color": text})
        yield bar(data=data, mark={"type": "text"}, encoding={"text": hue, "color": hue, "tooltip": hue})
        yield bar(data=data, encoding={**bar()["encoding"], "color": hue, "description": hue, "url": hue})
        yield bar(background=text, name=text, description=text)
        yield bar(mark={"type": "bar", "color": text, "fill": f"url({EVIL})", "description": text})
        yield bar(config={"font": text, "axis": {"labelFont": f"x;src:url({EVIL})"}, "background": f"url({EVIL})"})
        yield bar(mark={"type": "point", "shape": text})
        yield bar(mark={"type": "bar", "fill": {"expr": f"'ur' + 'l({EVIL})'"}})
        yield bar(data={"values": [{"week": f"url({EVIL})", "orders": 1}]}, encoding={"fill": {**hue, "scale": None}})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def drawer() -> AsyncIterator[Drawer]:
    async with opened(seconds=60) as made:
        yield made


async def test_a_drawing_for_a_page_is_inert(drawer: Drawer):
    """Hostile charts that pass the checks are drawn without scripts, links, styles, handlers and addresses."""
    drawn = 0
    for spec in hostile():
        try:
            svg = await drawer.svg(checked(spec))
        except (InvalidInput, DrawingFailed):
            continue
        drawn += 1
        root = ET.fromstring(svg)  # noqa: S314 - drawn here
        assert b"<!" not in svg
        for node in root.iter():
            assert node.tag.rpartition("}")[2] not in HARMFUL, spec
            for name, value in node.attrib.items():
                local = name.rpartition("}")[2]
                assert local not in {"href", "src"}, spec
                assert not local.startswith("on"), spec
                if local not in {"aria-label", "aria-roledescription"}:
                    assert not re.search(r"@import|javascript:|url\((?!#)", value), (name, value)
    assert drawn >= len(TEXTS)


@pytest.mark.parametrize("dark", [False, True])
async def test_a_drawing_for_a_page_has_no_ground(drawer: Drawer, dark: bool):
    """It takes the page's own background, and names its size."""
    root = ET.fromstring(await drawer.svg(checked(bar()), dark=dark))  # noqa: S314 - drawn here
    assert float(root.attrib["width"]) > 0 < float(root.attrib["height"])
    assert [node.attrib.get("fill") for node in root.iter() if node.tag.endswith("rect")] == []
