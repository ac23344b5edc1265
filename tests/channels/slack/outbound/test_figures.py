"""Tables and charts in a thread: in their places, in the best form that Slack takes, each file there once."""

import threading
from typing import Any

import pytest
from structlog.testing import capture_logs

from agent_core import events as e
from agent_core.messages import Text
from channels.slack import figures as figures_module
from channels.slack.charts import choose
from channels.slack.figures import EARLY, ChartPorts
from channels.slack.outbox import WAIT
from channels.slack.testing import InjectedFault
from channels.spec import ShownRender
from tests.channels.slack.answers import ANN, Open, Showing, words
from tests.channels.slack.outbound.drawings import (
    AFTER,
    BEFORE,
    LONG,
    NATIVE,
    PICTURE,
    TABLE,
    Linking,
    OneColour,
    RefusingCharts,
    drawing,
    figures,
    view_of,
)

pytestmark = pytest.mark.sampled(2)

CHART = ShownRender("ren_1", "chart", PICTURE, "text of ren_1", "Orders")
BOTH = pytest.mark.parametrize("late", [False, True], ids=["stream", "post"])


def kinds(shown: Showing) -> list[str]:
    """Return the types of the blocks of the answer that it shows."""
    (answer,) = [each for each in shown.answers if not each.files]
    return [block["type"] for block in answer.blocks]


def files(shown: Showing) -> list[str]:
    """Return the names of the files in the thread."""
    return [file["name"] for each in shown.answers for file in each.files]


def is_whole(shown: Showing) -> bool:
    """Return whether both texts are there once, and nothing streams."""
    (answer,) = [each for each in shown.answers if not each.files]
    said = " ".join(block["text"] for block in answer.blocks if block["type"] == "markdown")
    return words(said) == words(f"{BEFORE} {AFTER}") and not answer.streaming


@BOTH
async def test_a_table_and_a_chart_are_blocks_in_their_places(showing: Open, late: bool):
    """Between the texts stand a data_table and a data_visualization, each once."""
    shown = await showing()
    assert await shown.live(drawing(("table", TABLE), ("chart", NATIVE)), late=late)
    assert is_whole(shown)
    between = kinds(shown)[kinds(shown).index("markdown") + 1 :]
    assert [kind for kind in between if kind != "task_card"][:3] == ["data_table", "data_visualization", "markdown"]
    assert "North" in shown.text


async def test_forms_are_made_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch):
    """The forms of a message are made in a thread, and only when it shows something else than before."""
    made_here: list[bool] = []

    def choosing(*given: Any) -> Any:
        made_here.append(threading.current_thread() is threading.main_thread())
        return choose(*given)

    monkeypatch.setattr(figures_module, "choose", choosing)
    one, two = (ShownRender(f"ren_{n}", "table", TABLE, f"text {n}", "Orders") for n in (1, 2))
    thread = figures()
    first = await thread.items(view_of(one))
    assert await thread.items(view_of(one)) == first
    assert made_here == [False]
    assert list(await thread.items(view_of(one, two))) == ["ren_1", "ren_2"]
    assert made_here == [False, False]
    other = ShownRender("ren_1", "table", LONG, "text", "Orders")
    assert await thread.items(view_of(other)) != first
    assert made_here == [False, False, False]


@BOTH
async def test_a_chart_that_slack_cannot_draw_is_an_image(showing: Open, late: bool):
    """It is drawn here, uploaded without a channel and shown by one image block."""
    shown = await showing()
    shown.charts = ChartPorts(OneColour())
    assert await shown.live(drawing(("chart", PICTURE)), late=late)
    assert is_whole(shown)
    assert kinds(shown).count("image") == 1
    assert files(shown) == []
    (upload,) = shown.stand_in.called("upload")
    assert upload.arguments["authorization"] is False
    (done,) = shown.stand_in.called("files.completeUploadExternal")
    assert "channel_id" not in done.arguments


HERE, NOWHERE = ChartPorts(OneColour()), ChartPorts()


WHOLE = pytest.mark.whole


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("late", "points"),
    [(False, True), (True, False), pytest.param(False, False, marks=WHOLE), pytest.param(True, True, marks=WHOLE)],
)
@pytest.mark.parametrize(
    ("render", "charts", "refused", "expected", "shared"),
    [
        (("chart", NATIVE), HERE, ["data_visualization"], "image", []),
        (("chart", NATIVE), HERE, ["data_visualization", "image"], "data_table", []),
        (("chart", NATIVE), NOWHERE, ["data_visualization"], "data_table", []),
    ],
)
async def test_a_refused_form_is_followed_by_the_next(
    showing: Open,
    *,
    late: bool,
    points: bool,
    render: Any,
    charts: Any,
    refused: Any,
    expected: str,
    shared: Any,
):
    """Whichever blocks Slack refuses, with a pointer or without, the next plainer form comes; the texts stay."""
    shown = await showing()
    shown.charts = charts
    for kind in refused:
        shown.stand_in.fault(InjectedFault("invalid_blocks", block=kind, points=points, times=None))
    assert await shown.live(drawing(render), late=late)
    (answer,) = [each for each in shown.answers if not each.files]
    assert not answer.streaming
    assert {*refused}.isdisjoint(kinds(shown))
    assert expected in kinds(shown)
    said = [word for block in answer.blocks if block["type"] == "markdown" for word in words(block["text"])]
    assert said[:3] == words(BEFORE)
    assert said[-5:] == words(AFTER)
    assert files(shown) == shared


@BOTH
async def test_in_the_end_the_text_is_shown(showing: Open, late: bool):
    """Where Slack takes no block of a render at all, its text is shown between the others."""
    shown = await showing()
    for kind in ("data_table", "table", "rich_text", "section", "header"):
        shown.stand_in.fault(InjectedFault("invalid_blocks", block=kind, times=None))
    assert await shown.live(
        drawing(("table", TABLE | {"columns": [{"key": "region", "label": "x" * 9_000}]})), late=late
    )
    assert "text of ren_1" in shown.text


async def test_a_refused_form_of_one_render_leaves_the_others(showing: Open):
    """Of two tables in a message only the refused one becomes plainer."""
    shown = await showing()
    shown.stand_in.fault(InjectedFault("invalid_blocks", block="data_visualization", times=None))
    assert await shown.live(drawing(("table", TABLE), ("chart", NATIVE)), late=True)
    assert kinds(shown).count("data_table") == 2
    assert is_whole(shown)


async def test_text_does_not_wait_for_a_picture(showing: Open):
    """A picture that is late comes after the text that was sent meanwhile; all of that text is there before it."""
    shown = await showing()
    slow = OneColour(waits=True)
    shown.charts = ChartPorts(slow)
    said = words(f"{BEFORE} {AFTER}")

    def is_said() -> bool:
        if [word for word in words(shown.text) if word in said][-1:] == ["asked"]:
            slow.allowed.set()
        return False

    shown.stand_in.fault(InjectedFault("refused", on="chat.appendStream", when=is_said))
    shown.stand_in.fault(InjectedFault("refused", on="chat.stopStream", when=is_said))
    assert await shown.live(drawing(("chart", PICTURE)))
    assert is_whole(shown)
    assert kinds(shown).count("image") == 1
    assert shown.stand_in.called("chat.appendStream")


def is_right(shown: Showing, images: int, names: list[str]) -> bool:
    """Return whether the texts are there once, with as many images and just these files, each once."""
    return is_whole(shown) and kinds(shown).count("image") == images and files(shown) == names


WRONG = (
    *(
        # Each call and each kind of fault, and of their pairs every second.
        pytest.param(fault, marks=WHOLE if (call + kind) % 2 else ())
        for call, on in enumerate(("files.getUploadURLExternal", "upload", "files.completeUploadExternal"))
        for kind, fault in enumerate(
            (
                InjectedFault("server_error", on=on),
                InjectedFault("answer_lost", on=on),
                InjectedFault("request_lost", on=on, times=2),
                InjectedFault("ratelimited", on=on, seconds=3),
            )
        )
    ),
    InjectedFault("server_error", on="files.completeUploadExternal", effect=True),
    InjectedFault("server_error", on="files.completeUploadExternal", effect=True, nth=2),
    InjectedFault("answer_lost", on="files.completeUploadExternal", nth=2),
    InjectedFault("refused", on="files.completeUploadExternal", code="internal_error"),
)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("fault", WRONG, ids=lambda each: f"{each.kind}{each.nth}-{each.on}")
@pytest.mark.parametrize("processing", [0, pytest.param(3_000, marks=WHOLE)])
async def test_each_fault_of_an_upload_leaves_one_picture_and_one_file(
    showing: Open, fault: InjectedFault, processing: int
):
    """Calls that fail, that are limited or whose answers are lost: the picture and the file are there once."""
    shown = await showing()
    shown.charts = ChartPorts(OneColour())
    shown.stand_in.team().workspace.processing = processing
    armed = shown.stand_in.fault(fault)
    assert await shown.live(drawing(("chart", PICTURE), ("table", LONG)))
    shown.clock.advance(processing / 1000)
    assert armed.struck
    assert is_right(shown, 1, ["orders.csv"]), (kinds(shown), files(shown))


async def test_a_picture_that_is_processed_is_shown_a_little_later(showing: Open):
    """Slack refuses a file that it still processes; the block is tried again by the clock, and the rest is there."""
    shown = await showing()
    shown.charts = ChartPorts(OneColour())
    shown.stand_in.team().workspace.processing = 4_000
    assert await shown.live(drawing(("chart", PICTURE)))
    refusals = [call for call in shown.stand_in.calls if (call.answer or {}).get("error") == "invalid_blocks"]
    assert 0 < len(refusals) < EARLY
    assert is_right(shown, 1, [])


async def test_a_picture_that_is_processed_for_long_is_its_data(showing: Open):
    """Slack refuses a file that it processes; after a few attempts the chart is the table of its data."""
    shown = await showing()
    shown.charts = ChartPorts(OneColour())
    shown.stand_in.team().workspace.processing = 60_000
    assert await shown.live(drawing(("chart", PICTURE)))
    assert "data_table" in kinds(shown)
    assert is_right(shown, 0, [])


@pytest.mark.parametrize("code", ["file_uploads_disabled", "storage_limit_reached", "file_type_not_allowed"])
async def test_without_uploads_charts_are_tables(showing: Open, code: str):
    """Where Slack takes no files a chart is shown as its data, and a long table does not promise a file."""
    shown = await showing()
    shown.charts = ChartPorts(OneColour())
    shown.stand_in.fault(InjectedFault("refused", on="files.getUploadURLExternal", code=code, times=None))
    assert await shown.live(drawing(("chart", PICTURE), ("table", LONG)))
    assert kinds(shown).count("data_table") == 2
    assert (kinds(shown).count("image"), files(shown)) == (0, [])
    assert "attached" not in shown.text
    assert is_whole(shown)


async def test_without_the_scope_the_remedy_is_logged_and_nothing_is_drawn(showing: Open):
    """The missing scope is named once; a chart of the next ten minutes is not even drawn."""
    shown = await showing()
    drawer = OneColour()
    shown.charts = ChartPorts(drawer)
    workspace = shown.stand_in.team().workspace
    workspace.scopes -= {"files:write"}
    shown.space = shown.workspace()
    with capture_logs() as logs:
        assert await shown.live(drawing(("chart", PICTURE)))
    (logged,) = [each for each in logs if each["event"] == "slack.unauthorised"]
    assert "files:write" in logged["remedy"]
    assert (kinds(shown).count("image"), is_whole(shown)) == (0, True)
    assert len(drawer.drawn) == 1
    other = await showing()
    other.charts, other.space = shown.charts, shown.space
    assert not shown.space.can_upload(shown.clock.now())
    shown.clock.advance(601)
    assert shown.space.can_upload(shown.clock.now())


async def test_a_chart_that_cannot_be_drawn_is_shown_as_its_data(showing: Open):
    """What the drawer refuses is not uploaded."""
    shown = await showing()
    shown.charts = ChartPorts(RefusingCharts())
    assert await shown.live(drawing(("chart", PICTURE)))
    assert kinds(shown).count("data_table") == 1
    assert shown.stand_in.called("files.getUploadURLExternal") == []


@BOTH
async def test_a_linked_chart_is_an_image_with_an_address(showing: Open, late: bool):
    """With the service of QUICKCHART_URL a plain chart that is not Slack's own is linked; nothing is uploaded."""
    shown = await showing()
    shown.charts = ChartPorts(OneColour(), Linking())
    shown.stand_in.fault(InjectedFault("invalid_blocks", block="data_visualization", times=None))
    assert await shown.live(drawing(("chart", NATIVE)), late=late)
    (answer,) = shown.answers
    (image,) = [block for block in answer.blocks if block["type"] == "image"]
    assert image["image_url"] == "https://charts.example.com/2"
    assert shown.stand_in.called("files.getUploadURLExternal") == []


async def test_a_file_in_the_thread_is_not_taken_for_an_answer(showing: Open):
    """When the start of a stream is uncertain, a file that was shared meanwhile is not the message."""
    shown = await showing()
    shown.stand_in.fault(InjectedFault("server_error", on="chat.startStream", effect=False))
    space = shown.workspace()
    shown.clock.advance(1)
    file, url = await space.api.upload_url("a.csv", 3)
    await space.api.put_bytes(url, b"a,b")
    await space.api.complete_upload(file, "a", channel="CGENERAL", thread_ts=shown.thread.root)
    assert await shown.live(drawing(("table", TABLE)))
    assert is_right(shown, 0, ["a.csv"])


async def test_many_renders_keep_the_limits_of_a_message(showing: Open):
    """Five charts and three tables in one answer: two native charts, the others as pictures or tables, all shown."""
    shown = await showing()
    shown.charts = ChartPorts(OneColour())
    renders = [("chart", NATIVE)] * 5 + [("table", TABLE)] * 3
    assert await shown.live(drawing(*renders))
    assert is_right(shown, 3, [])
    assert kinds(shown).count("data_visualization") == 2
    assert kinds(shown).count("data_table") == 3


async def test_a_render_in_an_answer_of_several_messages(showing: Open):
    """An answer that is divided by its length has its table once, in the message whose text it follows."""
    shown = await showing()
    log = drawing(("table", TABLE))
    tail = "".join(f"Sentence {n} of the rest.\n\n" for n in range(800))
    log.batches.pop()
    log.say(*(tail[n : n + 2_000] for n in range(0, len(tail), 2_000)), message="msg_3")
    log.end(f"{AFTER}{tail}", "msg_3")
    assert await shown.live(log)
    assert len(shown.answers) > 2
    found = [[block["type"] for block in each.blocks].count("data_table") for each in shown.answers]
    assert found == [1] + [0] * (len(found) - 1)
    assert words(shown.text)[-4:] == ["799", "of", "the", "rest"]


async def test_a_stop_does_not_wait_for_a_picture(showing: Open):
    """A run that is stopped while a picture is drawn ends its message at once; the picture comes by an update."""
    shown = await showing()
    slow = OneColour(waits=True)
    shown.charts = ChartPorts(slow)
    log = drawing(("chart", PICTURE))
    log.batches.pop()
    kept = e.MessageCompleted(message="msg_3", role="assistant", parts=(Text(AFTER),), stop="done", partial=True)
    log.add(kept, e.RunCancelled(by=ANN, reason=None))
    started = shown.clock.now()

    def is_stopped() -> bool:
        slow.allowed.set()
        return False

    shown.stand_in.fault(InjectedFault("refused", on="chat.stopStream", when=is_stopped))
    assert await shown.live(log)
    (stop,) = shown.stand_in.called("chat.stopStream")
    assert stop.at - started < 1000 * WAIT
    assert is_right(shown, 1, [])
    assert "Stopped." in shown.text
