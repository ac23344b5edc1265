"""The work of the drawing process: turns Vega-Lite into SVG and PNG.

It is loaded by its path in a confined process, so it imports nothing of Parley. A job is JSON
`{form: png|svg|check, spec, scale, dark}`, its result the drawing.
"""

import json
import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

MAX_JOB = 4_000_000
MAX_DRAWING = 16_000_000
PIXELS = 12_000_000
"""The most that is drawn: 4,000 x 3,000 px take 48 MB as a picture in memory."""
_VEGA_LITE = "6.4"
_VIEW: dict[str, Any] = {
    "continuousWidth": 480,
    "continuousHeight": 280,
    "discreteWidth": {"step": 32},
    "discreteHeight": {"step": 32},
}
_FOREIGN = re.compile(r'="\s*url\((?!#)[^"]*"', re.IGNORECASE)
"""A paint from an address, which rows or an expression may make: an SVG on a page loads nothing."""
_WARM_UP = {
    "data": {"values": [{"a": "x", "b": 1}]},
    "mark": "bar",
    "title": "t",
    "encoding": {"x": {"field": "a", "type": "nominal"}, "y": {"field": "b", "type": "quantitative"}},
}


FONTS = ("/usr/share/fonts", "/usr/local/share/fonts")
"""Where the fonts of a system are: they draw what those of the package do not have."""


def imported() -> tuple[str, ...]:
    """Import what draws, and return the folders that it reads."""
    os.environ["FONTCONFIG_FILE"] = str(Path(__file__).with_name("fonts.conf"))
    import_module("vl_convert")  # after the bounds: it allocates as soon as it is imported
    return FONTS


def prepared(readable: Sequence[str] = ()) -> Callable[[bytes], tuple[bool, bytes]]:
    """Return what draws a job, with the fonts in the folders *readable*, which it opens as it draws.

    It has drawn something: all else that it needs of files is in memory then.
    """
    renderer = Renderer(readable)
    renderer.pixels(*renderer.compiled({"form": "png", "spec": _WARM_UP, "scale": 1.0, "dark": False}))
    return renderer.take


class Renderer:
    """Draws one job after the other."""

    def __init__(self, fonts: Sequence[str] = ()) -> None:
        import vl_convert  # noqa: PLC0415 - after the bounds: it allocates as soon as it is imported

        self._library = vl_convert
        for folder in fonts:
            vl_convert.register_font_directory(folder)

    def take(self, message: bytes) -> tuple[bool, bytes]:
        """Return whether the job in *message* is done, and the drawing or the error."""
        try:
            job = json.loads(message)
            svg, scale = self.compiled(job)
        except Exception as error:  # noqa: BLE001 - what a chart can raise is the renderer's business
            return False, str(error).encode("utf-8", "replace")[:4000]
        match job["form"]:
            case "png":  # an error in here may leave locks of the renderer poisoned, so it ends the process
                body = self.pixels(svg, scale)
            case "svg":
                body = svg.encode()
            case _:
                body = b""
        if len(body) > MAX_DRAWING:
            return False, b"the drawing has too many marks; aggregate the data, or draw fewer rows"
        return True, body

    def compiled(self, job: dict[str, Any]) -> tuple[str, float]:
        """Return the chart of *job* as SVG, and the scale at which it is drawn."""
        config = look(dark=job["dark"], opaque=job["form"] == "png")
        svg = self._library.vegalite_to_svg(job["spec"], vl_version=_VEGA_LITE, config=config, allowed_base_urls=[])
        return _FOREIGN.sub('="none"', svg), fitting(svg, job["scale"])

    def pixels(self, svg: str, scale: float) -> bytes:
        """Return *svg* as PNG."""
        return self._library.svg_to_png(svg, scale=scale)


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours of a drawing, those of the page (`styles.css` and `drawn.css` of the widget)."""

    text: str
    muted: str
    line: str
    paper: str
    series: tuple[str, ...]
    ramp: tuple[str, str]


LIGHT = Palette(
    text="#1c1d22",
    muted="#656874",
    line="#e4e4ea",
    paper="white",
    series=("#3b5bdb", "#e0700a", "#14a387", "#8f1d58", "#0b7fa3", "#8b5cf6", "#6f5300", "#868b94"),
    ramp=("#e3e9fd", "#2b44a8"),
)
DARK = Palette(
    text="#ececf1",
    muted="#9a9cab",
    line="#32333d",
    paper="#17181d",
    series=("#6f94ff", "#f59a32", "#86e8c6", "#ec4a8b", "#3fbfe0", "#c39bff", "#ffe37a", "#8a909c"),
    ramp=("#262d47", "#9db5ff"),
)


def look(*, dark: bool, opaque: bool) -> dict[str, Any]:
    """Return the configuration that a chart may override; a drawing for a page is on the page's own background."""
    of = DARK if dark else LIGHT
    first, ramp = of.series[0], list(of.ramp)
    guide = {"labelColor": of.muted, "titleColor": of.muted, "labelFontSize": 12, "titleFontSize": 12}
    guide |= {"titleFontWeight": "normal"}
    return {
        "background": of.paper if opaque else "transparent",
        "padding": 12,
        "view": {**_VIEW, "stroke": of.line},
        "mark": {"color": first},
        "range": {"category": list(of.series), "heatmap": ramp, "ramp": ramp, "ordinal": ramp},
        "title": {"color": of.text, "subtitleColor": of.muted, "fontSize": 14, "subtitleFontSize": 12, "offset": 10},
        "style": {"guide-label": {"fill": of.muted}, "guide-title": {"fill": of.muted}},
        "axis": {"domainColor": of.line, "gridColor": of.line, "tickColor": of.line, **guide},
        "legend": guide,
        "header": guide,
        "line": {"strokeWidth": 2},
        "text": {"color": of.text, "fontSize": 12},
        "rule": {"color": of.text},
    }


def fitting(svg: str, scale: float) -> float:
    """Return *scale*, or the one of at least 1 at which *svg* is as large as may be; raise ValueError if there is none.

    Steps and facets make large drawings out of small numbers, so what counts is what came out.
    """
    sides = [re.search(rf'<svg[^>]*? {side}="([\d.]+)"', svg[:2000]) for side in ("width", "height")]
    width, height = (float(each[1]) if each else 0.0 for each in sides)
    fits = min(scale, math.sqrt(PIXELS / max(1.0, width * height)))
    if fits < min(scale, 1.0):
        raise ValueError(
            f"it would be {width:.0f} x {height:.0f} px, which is too large; "
            "draw fewer categories or facets, or a smaller width, height or step"
        )
    return fits
