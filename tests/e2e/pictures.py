"""The pictures of the documentation: `python -m tests.e2e.pictures docs/pictures` makes them.

Each is a conversation of the widget with one render, in a real Chromium, light or dark, wide or on a phone.
"""

import asyncio
import base64
import math
import struct
import sys
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from playwright.async_api import Browser, ViewportSize

from agent_core.charts.draw import Drawer
from agent_core.charts.made import columns_of, made_chart, made_table
from agent_core.providers.demo import figures_asked, presented
from tests.e2e.browser import chromium
from tests.e2e.shown import DOCUMENT, Rendered, opened

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep")
FIT = """() => {
    document.body.style.margin = 0;
    const chat = document.querySelector("parley-chat");
    chat.style.setProperty("--parley-radius", "0px");
    chat.style.setProperty("--parley-frame", "0");
    const log = chat.shadowRoot.querySelector(".log");
    return Math.ceil([...log.children].at(-1).getBoundingClientRect().bottom
        - log.firstElementChild.getBoundingClientRect().top + 36 - log.clientHeight);
}"""
"""Let the widget fill the page; return how many pixels are missing to show the whole conversation."""
PIXELS = """async png => {
    const image = Object.assign(new Image(), {src: `data:image/png;base64,${png}`});
    await image.decode();
    const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d");
    canvas.drawImage(image, 0, 0);
    const {data, width, height} = canvas.getImageData(0, 0, image.width, image.height);
    let text = "";
    for (let at = 0; at < data.length; at += 8190) text += String.fromCharCode(...data.subarray(at, at + 8190));
    return [width, height, btoa(text)];
}"""
WIDE = ViewportSize(width=700, height=480)
PHONE = ViewportSize(width=375, height=720)


@dataclass(frozen=True)
class PicturePlan:
    """One picture: what is asked, answered and shown, and how."""

    name: str
    asked: str
    said: str
    render: Rendered
    dark: bool = False
    phone: bool = False


def chart(title: str, type: str, **more: Any) -> Rendered:
    return Rendered("chart", {"spec": {}, "plain": {"type": type, "categories": [], **more}}, title)


def series(**values: Sequence[float]) -> list[dict[str, Any]]:
    return [{"name": name.replace("_", " "), "values": each} for name, each in values.items()]


COLUMNS = [
    {"key": "customer", "label": "Customer"},
    {"key": "since", "label": "Since", "format": "date"},
    {"key": "orders", "label": "Orders", "format": "integer"},
    {"key": "revenue", "label": "Revenue", "format": "currency:EUR"},
    {"key": "growth", "label": "Growth", "format": "percent"},
]
CUSTOMERS = (
    ("Alder & Sons", "2021-03-14", 1204, 88412.5, 0.18),
    ("Birch Books", "2023-07-01", 312, 19877.25, -0.042),
    ("Cedar Coffee", "2019-11-30", 2750, 140093.0, 0.315),
    ("Dogwood Dental", "2024-01-09", 96, 7420.8, 0.02),
    ("Elm Electric", "2022-05-17", 640, 51260.4, 0.094),
    ("Fir Fitness", "2020-02-29", 1888, 97310.0, -0.11),
)
ROWS = [dict(zip(("customer", "since", "orders", "revenue", "growth"), each, strict=True)) for each in CUSTOMERS]
TABLE = Rendered("table", {"columns": COLUMNS, "rows": ROWS}, "Customers in the third quarter")
QUARTERS = ["2025 Q3", "2025 Q4", "2026 Q1", "2026 Q2", "2026 Q3"]
BARS = {"Web": [42, 51, 48, 63, 71], "Shops": [30, 38, 26, 29, 33], "Partners": [12, 15, 19, 18, 24]}
BAR = chart("Orders by channel", "bar", categories=QUARTERS, y="thousands", series=series(**BARS))
STACKED = chart("Orders by channel", "bar", categories=QUARTERS, y="thousands", stacked=True, series=series(**BARS))
LINES = {
    "This_year": [31, 34, 33, 41, 46, 44, 52, 58, 61],
    "Last_year": [28, 27, 30, 32, 35, 37, 36, 40, 43],
}
LINE = chart("Visitors per month", "line", categories=MONTHS, y="thousands", series=series(**LINES))
WORDS = ("Search", "Newsletter", "Social", "Direct", "Other")
PIE = chart("Where orders come from", "pie", categories=WORDS, series=series(orders=[412, 268, 141, 120, 37]))
SPREAD = {
    "Espresso": [[1 + n * 0.6, 2.1 + (n * 7 % 5) * 0.3 + n * 0.1] for n in range(16)],
    "Filter": [[3 + n * 0.7, 3.2 + (n * 11 % 7) * 0.35 + n * 0.22] for n in range(16)],
}
DOTS = [{"name": name, "points": points} for name, points in SPREAD.items()]
SCATTER = chart("Rating by price", "scatter", series=DOTS, x="price in EUR", y="rating")
DAYS = {"Mon": 31, "Tue": 44, "Wed": 38, "Thu": 52, "Fri": 61}
WAITS = [{"day": day, "minutes": base * 0.5 + (n * n * 7 + base) % 23} for day, base in DAYS.items() for n in range(24)]
BOXES = Rendered(
    "chart",
    {
        "spec": {
            "width": 480,
            "height": 220,
            "data": {"values": WAITS},
            "mark": "boxplot",
            "encoding": {
                "x": {"field": "day", "type": "nominal", "sort": list(DAYS), "axis": {"labelAngle": 0}},
                "y": {"field": "minutes", "type": "quantitative"},
            },
        }
    },
    "Waiting time by day",
)


def sample(name: str, asked: str) -> PicturePlan:
    """Return what the demonstration shows when it is *asked* for a sample, as the server keeps it."""
    ((tool, given),) = figures_asked(asked)
    title = given["title"]
    if tool == "render_table":
        made = made_table(given["rows"], columns_of(given["columns"]), title)
    else:
        made = made_chart(given["vega_lite_spec"], title)
    payload = msgspec.to_builtins(made.render.payload)
    return PicturePlan(name, asked, presented(tool, given), Rendered(made.render.kind, payload, title))


SCENES = (
    sample("sample-table", "Show me a sample table."),
    sample("sample-chart", "Draw me a sample bar chart."),
    PicturePlan("table-light", "Who are our best customers?", "Here are the six largest, by name:", TABLE),
    PicturePlan("table-dark", "Who are our best customers?", "Here are the six largest, by name:", TABLE, dark=True),
    PicturePlan("bar-light", "Orders by channel, as a chart?", "The web shop grows fastest:", BAR),
    PicturePlan("bar-dark", "Orders by channel, stacked?", "Together they have never been higher:", STACKED, dark=True),
    PicturePlan("line-light", "How many visitors do we have?", "More than last year in every month:", LINE),
    PicturePlan("pie-dark", "Where do orders come from?", "Most come from search:", PIE, dark=True),
    PicturePlan("scatter-light", "Do better coffees cost more?", "A little:", SCATTER),
    PicturePlan("drawing-dark", "How long do people wait?", "Longest on Fridays:", BOXES, dark=True),
    PicturePlan("phone-light", "Orders by channel, as a chart?", "The web shop grows fastest:", BAR, phone=True),
    PicturePlan("phone-dark", "Who are our best customers?", "Here are the largest:", TABLE, dark=True, phone=True),
)


async def small(browser: Browser, png: bytes) -> bytes:
    """Return *png* with at most 256 colours: the commonest, and for each other the nearest of them."""
    page = await browser.new_page()
    width, height, pixels = await page.evaluate(PIXELS, base64.b64encode(png).decode())
    await page.close()
    raw = base64.b64decode(pixels)
    colours = [raw[at : at + 3] for at in range(0, len(raw), 4)]
    kept = [colour for colour, _ in Counter(colours).most_common(256)]
    places = {colour: at for at, colour in enumerate(kept)}
    for colour in set(colours) - set(kept):
        places[colour] = min(range(len(kept)), key=lambda at, to=colour: math.dist(kept[at], to))
    rows = (bytes([0, *(places[each] for each in colours[at : at + width])]) for at in range(0, len(colours), width))
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", b"".join(kept)),
        (b"IDAT", zlib.compress(b"".join(rows), 9)),
        (b"IEND", b""),
    )
    packed = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


async def make(folder: Path) -> None:
    """Draw every scene into *folder*."""
    drawer = Drawer()

    async def draw(id: str, payload: Mapping[str, Any], dark: bool) -> bytes:
        return await drawer.svg(payload["spec"], dark=dark)

    async with chromium() as browser:
        for scene in SCENES:
            size = {"viewport": PHONE if scene.phone else WIDE, "device_scale_factor": 1.5}
            context, shown = await opened(browser, color_scheme="dark" if scene.dark else "light", **size)
            shown.draw, shown.asked, shown.document = draw, scene.asked, DOCUMENT.replace("{attributes}", "")
            await shown.show(scene.render, said=scene.said)
            await shown.figures.locator("svg text, img, tbody").first.wait_for()
            await shown.settled()
            missing = await shown.page.evaluate(FIT)
            if not scene.phone:
                await shown.page.set_viewport_size(ViewportSize(width=WIDE["width"], height=WIDE["height"] + missing))
            await shown.settled()
            taken = await shown.page.screenshot()
            shown.check()
            (folder / f"{scene.name}.png").write_bytes(await small(browser, taken))
            await context.close()
    await drawer.close()


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    asyncio.run(make(place))
