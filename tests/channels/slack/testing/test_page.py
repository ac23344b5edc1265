"""The stand-in's page in a real browser: write, watch an answer stream in, press buttons, stop, arm a fault."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from agent_core.testing import FakeClock
from channels.slack.testing import SlackStandIn, Team
from tests.channels.slack.outbound.drawings import png
from tests.channels.slack.testing.conftest import calling, notified, standing
from tests.channels.slack.testing.listener import ScriptedListener
from tests.channels.slack.testing.refusals import Slack
from tests.channels.slack.testing.test_uploads import send
from tests.e2e.browser import PATIENCE, chromium, photograph

# One browser for all: what a test has of its own runs in the event loop that they share too.
pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module"), pytest.mark.whole]

ANN: Any = {"recipient_user_id": "UANN", "recipient_team_id": "T0001"}
HOSTILE = "<img src=x onerror=\"document.title='owned'\"> [click](javascript:alert(1)) <!channel>"
REPORT = """Revenue grew by **18 %** over the quarter, mostly in the _north_:

| Region | Revenue | Change |
| --- | ---: | ---: |
| North | 1,200.50 | +31 % |
| South | 900.00 | +4 % |

1. Orders from *new* customers doubled.
2. `orders.refunded` fell for the third month.

```sql
select region, sum(amount) from orders group by region
```
"""
FEEDBACK = {
    "type": "context_actions",
    "elements": [
        {
            "type": "feedback_buttons",
            "action_id": "feedback",
            "positive_button": {"text": {"type": "plain_text", "text": "Good answer"}, "value": "run-1:up"},
            "negative_button": {"text": {"type": "plain_text", "text": "Bad answer"}, "value": "run-1:down"},
        }
    ],
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def stand_in(clock: FakeClock) -> AsyncIterator[SlackStandIn]:
    async with standing(clock) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def slack(stand_in: SlackStandIn) -> AsyncIterator[Slack]:
    async with calling(stand_in) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def listener(stand_in: SlackStandIn) -> AsyncIterator[ScriptedListener]:
    async with notified(stand_in) as listening:
        yield listening


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser, stand_in: SlackStandIn, listener: ScriptedListener) -> AsyncIterator[Page]:
    """The page, and a check at the end that it sent no other requests and logged no errors."""
    context = await browser.new_context(viewport={"width": 1360, "height": 820})
    context.set_default_timeout(PATIENCE)
    asked, complaints = [], []
    context.on("request", lambda request: asked.append(request.url))
    context.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    context.on("weberror", lambda error: complaints.append(str(error.error)))
    made = await context.new_page()
    await made.goto(f"{stand_in.base_url}#team=T0001&user=UANN&channel=CDATA")
    yield made
    await context.close()
    assert [url for url in asked if not url.startswith(stand_in.base_url)] == []
    assert complaints == []


async def picture(page: Page, name: str) -> None:
    await photograph(page, f"slack-{name}")


def task(name: str, title: str, status: str, **more: str) -> dict[str, object]:
    return {"type": "task_update", "id": name, "title": title, "status": status, **more}


async def test_an_answer_is_watched_as_it_streams_and_rated(
    page: Page, stand_in: SlackStandIn, team: Team, slack: Slack, listener: ScriptedListener
):
    """A person writes to the app, sees status, tasks and text as they come, and presses a feedback button."""
    await page.get_by_label("Message to the channel").fill("@parley How did the quarter go?")
    await page.get_by_label("Message to the channel").press("Enter")
    await stand_in.until(lambda: len(listener.events) == 2)
    root = listener.events[0]["ts"]
    assert "<@UPARLEY> How did" in listener.events[0]["text"]

    tasks = [task("s", "Read the schema", "complete", output="12 tables"), task("q", "Query orders", "in_progress")]
    ts = str((await slack.chat_startStream(channel="CDATA", thread_ts=root, chunks=tasks, **ANN))["ts"])
    half = REPORT[: REPORT.index("1. ")]
    await slack.chat_appendStream(channel="CDATA", ts=ts, markdown_text=half)
    thread = page.get_by_label("Thread")
    await expect(thread.locator("table td").first).to_have_text("North")
    await expect(thread.locator(".task")).to_have_count(2)
    await expect(thread.locator(".pill")).to_have_text("Working…")
    await expect(thread.get_by_role("button", name="Stop")).to_be_visible()
    await picture(page, "1-streaming")

    await slack.chat_appendStream(
        channel="CDATA", ts=ts, chunks=[task("q", "Query orders", "complete", output="42 rows")]
    )
    await slack.chat_stopStream(channel="CDATA", ts=ts, markdown_text=REPORT[len(half) :], blocks=[FEEDBACK])
    await slack.agents_sessions_rename(channel_id="CDATA", thread_ts=root, title="How the quarter went")
    await expect(thread.locator(".head b")).to_have_text("How the quarter went")
    await expect(thread.locator("pre").last).to_contain_text("select region")
    await expect(thread.locator('.task[data-status="complete"]')).to_have_count(2)
    await picture(page, "2-answered")

    await thread.get_by_role("button", name="Good answer").click()
    await stand_in.until(lambda: any(each.path == "/slack/interactivity" for each in listener.received))
    assert listener.received[-1].payload["actions"][0]["value"] == "run-1:up"


async def test_stop_stops_and_a_hostile_text_stays_text(
    page: Page, stand_in: SlackStandIn, team: Team, slack: Slack, listener: ScriptedListener
):
    """Stop ends the stream in front of the person's eyes; markup of a model is shown, never carried out."""
    root = (await team.mentions("UANN", "CDATA", "Go on for ever")).ts
    ts = str((await slack.chat_startStream(channel="CDATA", thread_ts=root, markdown_text=HOSTILE, **ANN))["ts"])
    await page.locator(".replies").click()
    thread = page.get_by_label("Thread")
    await thread.get_by_role("button", name="Stop").click()
    await stand_in.until(lambda: "agent_session_stopped" in [each["type"] for each in listener.events])
    assert listener.events[-1]["streaming_message_ts"] == [ts]
    await slack.agents_sessions_setStatus(channel_id="CDATA", thread_ts=root, status="active")
    await expect(thread.locator(".pill")).to_have_text("Active")
    await expect(thread.get_by_role("button", name="Stop")).to_have_count(0)
    await expect(thread.locator(".caret")).to_have_count(0)
    await expect(thread.locator(".badge.ended")).to_have_text("stopped")
    await expect(thread.locator(".msg").last).to_contain_text("onerror")
    assert await thread.locator("img").count() == 0
    assert await thread.locator("a").count() == 0
    assert "owned" not in await page.title()
    await picture(page, "3-stopped")


async def test_a_fault_is_armed_on_the_page(page: Page, stand_in: SlackStandIn, slack: Slack):
    """The switches of the page let the next call fail, and the log shows it."""
    await page.get_by_role("button", name="Faults & log").click()
    lab = page.get_by_label("Faults and log")
    await lab.get_by_label("Fault", exact=True).select_option("refused")
    await lab.get_by_label("On", exact=True).fill("chat.postMessage")
    await lab.get_by_role("button", name="Arm").click()
    await stand_in.until(lambda: stand_in.faults.armed)
    root = await stand_in.team("T0001").says("UBEN", "CDATA", "What is new?")
    with pytest.raises(Exception, match="unknown_method"):
        await slack.chat_postMessage(channel="CDATA", thread_ts=root.ts, text="Nothing")
    await expect(lab).to_contain_text("unknown_method")
    await picture(page, "4-faults")


async def test_a_modal_is_used(
    page: Page, stand_in: SlackStandIn, team: Team, slack: Slack, listener: ScriptedListener
):
    """A shortcut opens a form that the person fills in."""
    await team.says("UBEN", "CDATA", "Look at this")
    await page.locator(".msg").hover()
    await page.get_by_role("button", name="Ask about this").click()
    await stand_in.until(lambda: listener.received[-1].payload.get("type") == "message_action")
    words = {"type": "plain_text", "text": "Ask"}
    element = {"type": "plain_text_input", "action_id": "text", "multiline": True}
    asked = {"type": "input", "block_id": "q", "label": words | {"text": "Your question"}, "element": element}
    view = {"type": "modal", "title": words, "submit": words, "blocks": [asked]}
    await slack.views_open(trigger_id=listener.received[-1].payload["trigger_id"], view=view)
    await page.get_by_label("Your question").fill("Why?")
    await picture(page, "5-modal")
    await page.locator("dialog").get_by_role("button", name="Ask").click()
    await stand_in.until(lambda: listener.received[-1].payload.get("type") == "view_submission")
    assert listener.received[-1].payload["view"]["state"]["values"]["q"]["text"]["value"] == "Why?"
    await expect(page.locator("dialog")).not_to_be_visible()


async def test_the_page_stays_when_another_person_acts(page: Page, stand_in: SlackStandIn):
    """Another person is shown the same channel, or their own conversation with the app; the ids are there to copy."""
    workspace = stand_in.team().workspace
    channel = next(each for each in workspace.channels.values() if each.kind == "channel" and each.name != "general")
    ann, other = [each for each in sorted(channel.members) if not workspace.users[each].bot][:2]
    await page.goto(f"{stand_in.base_url}#team=T0001&user={ann}&channel={channel.id}")
    await page.reload()
    ids = page.locator("#ids button")
    await expect(ids).to_have_text(["team T0001", f"channel {channel.id}", f"user {ann}"])
    await page.get_by_label("Acting as").select_option(other)
    await expect(ids).to_have_text(["team T0001", f"channel {channel.id}", f"user {other}"])
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await ids.nth(1).click()
    await expect(ids.nth(1)).to_have_text("channel copied")
    assert await page.evaluate("navigator.clipboard.readText()") == channel.id
    await picture(page, "ids")
    own = workspace.im(other).id
    await page.goto(f"{stand_in.base_url}#team=T0001&user={other}&channel={own}")
    await page.reload()
    await page.get_by_label("Acting as").select_option(ann)
    await expect(ids.nth(1)).to_have_text(f"channel {workspace.im(ann).id}")


async def test_a_table_a_chart_and_a_picture_are_looked_at(
    page: Page, stand_in: SlackStandIn, team: Team, slack: Slack, listener: ScriptedListener
):
    """A table and a chart are drawn by the page, an uploaded picture is shown as it is, a file by its name."""
    root = (await team.mentions("UANN", "CDATA", "Orders, please")).ts
    file = await send(slack, "orders.png", png(320, 180))
    await slack.files_completeUploadExternal(files=[{"id": file, "title": "Orders"}])
    cells = [[{"type": "raw_text", "text": text} for text in row] for row in (("Region", "Sum"), ("North", "1,200"))]
    data = [{"label": "Jan", "value": 12}, {"label": "Feb", "value": 14}]
    bars = {"type": "bar", "series": [{"name": "2026", "data": data}], "axis_config": {"categories": ["Jan", "Feb"]}}
    blocks = [
        {"type": "markdown", "text": "Here they are:"},
        {"type": "data_table", "caption": "Orders", "rows": cells},
        {"type": "data_visualization", "title": "Orders by month", "chart": bars},
        {
            "type": "image",
            "slack_file": {"id": file},
            "alt_text": "Orders by day",
            "title": {"type": "plain_text", "text": "By day"},
        },
    ]
    await slack.chat_postMessage(channel="CDATA", thread_ts=root, text="x", blocks=blocks)
    table = await send(slack, "orders.csv", b"a,b")
    await slack.files_completeUploadExternal(
        files=[{"id": table, "title": "Orders"}], channel_id="CDATA", thread_ts=root
    )
    await page.locator(".replies").click()
    thread = page.get_by_label("Thread")
    shown = thread.get_by_role("img", name="Orders by day")
    await expect(shown).to_be_visible()
    assert await shown.evaluate("image => image.decode().then(() => image.naturalWidth)") == 320
    await expect(thread.locator("svg rect")).to_have_count(2)
    await expect(thread.locator("table td").first).to_have_text("North")
    await expect(thread.get_by_text("orders.csv, 3 bytes")).to_be_visible()
    await picture(page, "7-drawn")
