"""The golden log of figures as each surface draws it; with PARLEY_GOLDEN=write its drawings are written again."""

import json
import os
import re
from typing import Any

from agent_core.charts.made import columns_of, made_chart, made_table
from agent_core.charts.text import csv_of
from agent_core.charts.values import table_of
from agent_core.providers.demo import figures_asked
from agent_core.testing import FakeClock
from app.cli.chat.live import painted
from channels.delivery import Delivery, NullOutbox
from channels.slack.blocks import payloads
from channels.slack.charts import Ladders, choose
from channels.slack.testing.blocks import check
from channels.spec import ConversationView, ShownRender
from channels.terminal import ADDRESS, Terminal
from channels.text import drawn
from channels.view import Segment, cut
from tests.agent_core.stage import ANN
from tests.cases import for_each
from tests.channels.logs import GOLDEN, fold, golden
from tests.channels.toy import Feed
from tests.golden.figures import BY_HAND

WIDTH = 80
CODES = re.compile(r"\x1b\[\d+m")


def shown() -> ConversationView:
    """Return what a message of a channel shows of the log."""
    return cut(fold(golden("figures")), Segment())


def renders() -> list[ShownRender]:
    return [each for said in shown().recent for call in said.calls for each in call.renders]


async def on_terminal() -> str:
    """Return what a terminal prints into a pipe."""
    said: list[str] = []
    terminal = Terminal(ANN, write=said.append, note=lambda _: None, live=False, width=WIDTH)
    feed = Feed()
    feed.push(*golden("figures"))
    feed.end()
    await Delivery(feed, NullOutbox(terminal, ADDRESS), FakeClock(), session="ses_1").run()
    return "".join(said)


async def in_slack() -> str:
    """Return the blocks and the upload of each figure that Slack draws, best form first."""
    ladders = Ladders()
    found: list[Any] = []
    for each in renders():
        ladder = ladders.of(each)
        if ladder is not None:
            (chosen,) = choose([ladder], {})
            upload = chosen.form.upload
            found.append(
                {
                    "render": each.id,
                    "blocks": chosen.form.blocks,
                    "text": chosen.form.text,
                    "upload": None if upload is None else type(upload).__name__,
                }
            )
    return json.dumps(found, ensure_ascii=False, indent=1) + "\n"


async def as_files() -> str:
    """Return the CSV of each figure that has one."""
    files = {each.title: csv_of(each.kind, each.payload) for each in renders()}
    lines = {title: content.decode().split("\r\n") for title, content in files.items() if content is not None}
    return json.dumps(lines, indent=1) + "\n"


SURFACES = {"terminal.txt": on_terminal, "slack.json": in_slack, "csv.json": as_files}


@for_each("surface", SURFACES)
async def test_a_surface_draws_the_figures_as_it_did(surface: str):
    """Each surface draws each figure of the log, as its kept drawing shows."""
    path, text = GOLDEN / f"figures.{surface}", await SURFACES[surface]()
    if os.environ.get("PARLEY_GOLDEN") == "write":
        path.write_bytes(text.encode())
    assert text == path.read_bytes().decode()


async def test_a_table_by_hand_is_a_table_in_each_channel():
    """A table of Markdown is aligned in a terminal, and in Slack the Markdown of which it makes one."""
    printed = await on_terminal()
    assert "City              Orders\n" in printed
    assert "Bo & <b>Sons</b>      80\n" in printed
    [message] = payloads(BY_HAND)
    assert [(each["type"], each["text"]) for each in message.blocks] == [("markdown", BY_HAND)]
    assert check(list(message.blocks)) == []


def test_the_page_on_renders_shows_what_a_terminal_draws():
    """The drawings in the documentation are those of the demonstration, in the 80 cells that a pipe has."""
    page = (GOLDEN.parents[1] / "docs/renders.md").read_text("utf-8")
    for asked in ("Show me a sample table.", "Draw me a sample bar chart."):
        ((tool, arguments),) = figures_asked(asked)
        if tool == "render_table":
            made = made_table(arguments["rows"], columns_of(arguments["columns"]), arguments["title"])
        else:
            made = made_chart(arguments["vega_lite_spec"], arguments["title"])
        render = ShownRender("ren_1", made.render.kind, made.render.payload, made.render.text, made.render.title)
        shown = page.partition(f'$ parley chat "{asked}"\n')[2].partition("```")[0].partition("\n$ ")[0]
        assert shown.strip()
        assert drawn([render], WIDTH).strip().startswith(shown.strip())


def test_each_surface_has_its_own_forms():
    """Slack and a file have the table and the charts, and everything else is its text on every surface."""
    ladders, by_title = Ladders(), {each.title: each for each in renders()}
    texts = {str(title) for title, each in by_title.items() if ladders.of(each) is None}
    assert texts == {"Who drinks what", "A broken table"}
    assert {title for title, each in by_title.items() if csv_of(each.kind, each.payload) is None} == texts
    assert drawn([by_title[title] for title in sorted(texts)], WIDTH) == (
        "\nA broken table\nNo table.\n\nWho drinks what\ntea: 3\n"
    )
    orders = by_title["Orders of February"]
    assert table_of(orders.payload) is not None
    assert [amount for amount in ("€1,234.50", "-€3.00", "€0.10") if amount not in drawn([orders], WIDTH)] == []


@for_each("width", [20, 40, 80, 200])
def test_colours_change_no_word(width: int):
    """Without its colours a drawing is the text of a terminal without them, and nothing else in it is obeyed."""
    figures = renders()
    assert CODES.sub("", painted(figures, width)) == drawn(figures, width)
    assert "\x1b" not in drawn(figures, width)


def test_each_series_has_its_colour():
    """Bars of the first series are cyan, those of the second yellow; headings are bold and rules dim."""
    stack = next(each for each in renders() if each.title == "Orders by month and region")
    lines = painted([stack], WIDTH).splitlines()[1:]
    assert lines[0] == "\x1b[1mOrders by month and region\x1b[22m"
    assert lines[5].startswith("\x1b[2m-----")
    assert re.fullmatch(r"Jan    EU         12  \x1b\[36m█+.?\x1b\[39m", lines[6])
    assert re.fullmatch(r"       US          5  \x1b\[33m█+.?\x1b\[39m", lines[7])
    assert lines[8] == "       total      17"


def test_a_long_table_says_where_the_rest_is():
    """A terminal shows the first rows, and how to get all of them."""
    rows = [{"n": n} for n in range(500)]
    text = drawn([ShownRender("ren_9", "table", {"columns": ["n"], "rows": rows}, "")], WIDTH)
    assert text.splitlines()[-2:] == ["39", "… and 460 more rows (all of it: GET /v1/renders/ren_9.csv)"]
