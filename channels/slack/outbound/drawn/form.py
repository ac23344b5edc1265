"""What Slack is sent for a table or a chart: one form of it, with what has to be uploaded first.

A render has several forms, the best first: a *ladder*. When Slack refuses one, the next is sent.

- `choose.Ladders(links=...).of(render)`: the ladder of a render, remembered; None for kinds that have none.
- `choose.choose(ladders, refused)`: a `ChosenForm` (render, step, form) for each render of one message, so that
  together they keep Slack's limits; `refused` has the first step that may still be sent, by the id of the render.
- `tables.data_table_form(render, table)`, `charts.native_form(render, chart)`: the best form of a table and of a chart.
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import Any

from agent_core import PlainChart, shorten
from channels.slack.web_api import limits

Json = dict[str, Any]

_STEM = 60  # characters of a file's name, before its ending
_WORDS = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class PngUpload:
    """A chart to draw from *spec*, Vega-Lite, and to upload without a channel: the image block names the file.

    *name* is the file's, *title* is above the picture, *alt* says what it shows.
    """

    spec: Json
    name: str
    title: str
    alt: str


@dataclass(frozen=True, slots=True)
class ChartLink:
    """A chart to be drawn by the service of `QUICKCHART_URL`: nothing is uploaded, the image block has its address."""

    chart: PlainChart
    title: str
    alt: str


@dataclass(frozen=True, slots=True)
class CsvUpload:
    """The whole table as a file to be shared in the thread; the blocks do not depend on it.

    *kind* and *payload* are the render's: `agent_core.charts.text.csv_of` makes the bytes of them. *rows* is how
    many rows the file has, and *scope* is the line that says which of them the message shows.
    """

    kind: str
    payload: Json
    name: str
    title: str
    rows: int
    scope: str


Upload = PngUpload | ChartLink | CsvUpload


@dataclass(frozen=True, slots=True)
class Form:
    """One form of a render: its *blocks*, the same in a few words as *text*, and what has to be there first.

    *text* is mrkdwn that is literal, for notifications and screen readers. For a `PngUpload` and a `ChartLink`
    *blocks* are those below the picture (`with_file` has them all); otherwise they are what is sent, and with a
    `CsvUpload` their last one says that the whole table is attached (`without_file` says otherwise).
    """

    blocks: tuple[Json, ...]
    text: str
    upload: Upload | None = None

    def with_file(self, file: str) -> tuple[Json, ...]:
        """Return the blocks to send, given the id of the uploaded *file*, or the address of a `ChartLink`."""
        match self.upload:
            case PngUpload(title=title, alt=alt):
                return (_image({"slack_file": {"id": file}}, title, alt), *self.blocks)
            case ChartLink(title=title, alt=alt):
                return (_image({"image_url": file}, title, alt), *self.blocks)
            case _:
                return self.blocks

    def without_file(self) -> tuple[Json, ...] | None:
        """Return the blocks to send when the upload is not possible; None when nothing can be shown without it."""
        match self.upload:
            case None:
                return self.blocks
            case CsvUpload(scope=text) if self.blocks:
                return (*self.blocks[:-1], note(f"{text}."))
            case CsvUpload():
                return ()
            case _:
                return None


def note(words: str) -> Json:
    """Return a line of small letters in which nothing is syntax."""
    element = {"type": "plain_text", "text": shorten(words, limits.CONTEXT_TEXT.value), "emoji": False}
    return {"type": "context", "elements": [element]}


def file_name(title: str, ending: str, otherwise: str) -> str:
    """Return the name of a file with *title*, in letters that every system takes; *otherwise* if it has none."""
    plain = unicodedata.normalize("NFKD", title[: 4 * _STEM]).encode("ascii", "ignore").decode().lower()
    stem = _WORDS.sub("-", plain).strip("-")[:_STEM].strip("-")
    return f"{stem or otherwise}.{ending}"


def _image(source: Json, title: str, alt: str) -> Json:
    block: Json = {"type": "image", **source, "alt_text": shorten(alt, limits.IMAGE_ALT.value) or "A chart."}
    if title:
        block["title"] = {"type": "plain_text", "text": shorten(title, limits.IMAGE_TITLE.value), "emoji": False}
    return block
