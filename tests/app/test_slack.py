"""Slack in the product: its settings, its routes, its commands, and a whole answer in the stand-in."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from structlog.testing import capture_logs

from agent_core.agents import Definition
from agent_core.charts.values import PlainChart, PlainSeries
from agent_core.errors import ConfigError
from agent_core.testing import ScriptedProvider, by_step, say
from app.cli.commands import slack_manifest
from app.compose import CHANNELS, serving_channels
from app.main import listen
from app.settings import Settings, load_settings
from channels.slack.serving import chart_links
from channels.slack.spec import SLACK
from channels.slack.testing import App, SlackStandIn
from tests.app.processes import PlainShell, Shell, start
from tests.cases import for_each
from tests.conftest import MakeCore
from tests.polling import PATIENCE

TOKEN, SECRET, APP_TOKEN = "SLACK_BOT_TOKEN", "SLACK_SIGNING_SECRET", "SLACK_APP_TOKEN"


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """A folder with agents."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agents").mkdir()
    return monkeypatch


@pytest.mark.parametrize(
    ("given", "named"),
    [({TOKEN: "xoxb-1"}, SECRET), ({SECRET: "s"}, TOKEN), ({APP_TOKEN: "xapp-1"}, TOKEN)],
)
def test_half_of_the_settings_is_none(bare, given, named):
    """With settings to send but not to receive, or the reverse, the start names what is missing."""
    for name, value in given.items():
        bare.setenv(name, value)
    with pytest.raises(ConfigError, match=named):
        load_settings()
    assert load_settings(serving=False)


@pytest.mark.parametrize("name", [TOKEN, SECRET, APP_TOKEN])
def test_what_is_wrong_is_named_and_not_shown(bare, name):
    """An invalid token is named by its setting, and not shown."""
    bare.setenv(name, "xoxb very-secret")
    with pytest.raises(ConfigError, match=name) as failed:
        load_settings()
    assert "very-secret" not in str(failed.value)


def test_socket_mode_alone_needs_its_token(bare):
    """`parley slack` without an app token says what to set."""
    with pytest.raises(ConfigError, match=APP_TOKEN):
        listen(load_settings(), channel="slack")


def test_the_manifest_is_for_the_settings_in_force(bare, capsys):
    """With a public address it is for requests, with an app token or neither for Socket Mode."""
    slack_manifest()
    assert json.loads(capsys.readouterr().out)["settings"]["socket_mode_enabled"] is True
    bare.setenv("PARLEY_PUBLIC_URL", "https://parley.example.com/")
    slack_manifest()
    made = json.loads(capsys.readouterr().out)["settings"]
    assert made["event_subscriptions"]["request_url"] == "https://parley.example.com/slack/events"
    bare.setenv(APP_TOKEN, "xapp-1")
    slack_manifest()
    assert json.loads(capsys.readouterr().out)["settings"]["socket_mode_enabled"] is True


@pytest.mark.parametrize("path", ["events", "interactivity", "commands"])
async def test_without_slack_there_is_nothing(client: httpx.AsyncClient, path):
    """Where Slack is not set up its routes are not there, and its name is in no description."""
    assert (await client.post(f"/slack/{path}", json={})).status_code == 404
    assert "/slack/" not in (await client.get("/openapi.json")).text


FIGURES = (
    ("Show me a sample table.", "data_table"),
    ("Draw me a sample bar chart.", "data_visualization"),
    ("Draw me a sample heatmap.", "image"),
)


@asynccontextmanager
async def standing_in(*, socket_mode: bool) -> AsyncIterator[tuple[SlackStandIn, dict[str, str]]]:
    """Give a Slack of this machine, and the settings with which Parley is in it."""
    stand_in = SlackStandIn(app=App(socket_mode=socket_mode), rates=None)
    async with stand_in.serving() as url:
        receiving = {APP_TOKEN: stand_in.app.app_token} if socket_mode else {SECRET: stand_in.app.signing_secret}
        yield stand_in, {"SLACK_API_URL": f"{url}api/", TOKEN: stand_in.team().bot_token, **receiving}


async def drawn(stand_in: SlackStandIn, question: str, kind: str) -> None:
    """Ask for a figure and return once the thread has a block of that *kind*, once, and its answer is complete."""
    team = stand_in.team()
    mention = await team.mentions("UBEN", "CDATA", question)

    def there() -> bool:
        kinds = [block["type"] for each in team.answers("CDATA", mention.ts) for block in each.blocks]
        session = team.session("CDATA", mention.ts)
        return kinds.count(kind) == 1 and session is not None and session.status == "active"

    await stand_in.until(there, timeout=PATIENCE)


async def answered(stand_in: SlackStandIn) -> None:
    """Mention the app and return once its answer is in the thread."""
    team = stand_in.team()
    mention = await team.mentions("UANN", "CGENERAL", "What is 6 * 7?")
    assert mention.acked

    def there() -> bool:
        answers = team.answers("CGENERAL", mention.ts)
        return bool(answers) and "42" in answers[-1].text and not answers[-1].streaming

    await stand_in.until(there, timeout=PATIENCE)
    assert len(team.answers("CGENERAL", mention.ts)) == 1


@pytest.mark.whole
async def test_a_server_answers_in_slack(shell: Shell, template: Path):
    """`parley serve` with a bot token and a signing secret answers a mention in its thread, once."""
    shell.migrated(template)
    async with standing_in(socket_mode=False) as (stand_in, settings), start(shell, **settings) as serving:
        stand_in.deliver_to(serving.url)
        await answered(stand_in)
        for question, kind in FIGURES:
            await drawn(stand_in, question, kind)
        command = await stand_in.team().command("UANN", "CGENERAL", "/parley")
        assert "your question" in command.deliveries[0].answer["text"]
        async with httpx.AsyncClient(base_url=serving.url, timeout=PATIENCE) as client:
            assert (await client.post("/slack/events", json={"type": "event_callback"})).status_code == 401
            assert "/slack/" not in (await client.get("/openapi.json")).text
        assert await serving.stop() == 0
        assert stand_in.team().bot_token not in await serving.rest()


async def test_a_start_says_that_no_agent_is_in_slack(make_core: MakeCore):
    """With no agent that has a place in Slack the log says what to write, and with one it does not."""
    async with standing_in(socket_mode=False) as (_, given):
        core = await make_core(ScriptedProvider(by_step((say("Hello."),))), channels=CHANNELS)
        settings = Settings(_env_file=None, **given)  # type: ignore[call-arg]
        for slack, logged in (({}, ["slack.no_agent"]), ({"default": True}, [])):
            definition = Definition(name="helper", instructions="Help.", channels={"slack": slack})
            await core.agents.sync_files([definition])
            with capture_logs() as lines:
                async with serving_channels(core, core._store.database, settings, socket=False, channels=(SLACK,)):
                    pass
            assert [line["event"] for line in lines if line["event"] == "slack.no_agent"] == logged


@for_each("backend, is_linked", [("local", False), ("quickchart", True)])
async def test_charts_are_linked_only_where_the_settings_say_so(backend: str, is_linked: bool):
    """Data of charts goes to the service of QUICKCHART_URL with CHART_BACKEND=quickchart, and never without it."""
    given = {"CHART_BACKEND": backend, "QUICKCHART_URL": "https://charts.example.com"}
    settings = Settings(_env_file=None, **given)  # type: ignore[call-arg]
    chart = PlainChart(type="scatter", categories=(), series=(PlainSeries("a", points=((1.0, 2.0),)),))
    async with chart_links(settings) as links:
        assert (links is not None) is is_linked
        if links is not None:
            assert str(await links.link(chart)).startswith("https://charts.example.com/chart?")


@pytest.mark.whole
async def test_a_server_on_sqlite_has_its_own_socket(shell: Shell, template: Path):
    """With an app token `parley serve` on SQLite uses Socket Mode: nothing has to reach it from outside."""
    shell.migrated(template)
    async with standing_in(socket_mode=True) as (stand_in, settings), start(shell, **settings) as serving:
        await stand_in.until(lambda: stand_in.sockets.open, timeout=PATIENCE)
        await answered(stand_in)
        async with httpx.AsyncClient(base_url=serving.url, timeout=PATIENCE) as client:
            assert (await client.post("/slack/events", json={})).status_code == 404


async def test_slack_alone_needs_no_server(plain_shell: PlainShell, template: Path):
    """`parley slack` receives, works and answers on its own, and ends at the first Ctrl-C."""
    plain_shell.migrated(template)
    async with standing_in(socket_mode=True) as (stand_in, settings):
        process = await plain_shell.start("slack", **settings)
        try:
            await stand_in.until(lambda: stand_in.sockets.open, timeout=PATIENCE)
            await answered(stand_in)
            process.send_signal(signal.SIGINT)
            _, err = await asyncio.wait_for(process.communicate(), PATIENCE)
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()
        assert (process.returncode, stand_in.sockets.open) == (0, [])
        assert not [token for name, token in settings.items() if "TOKEN" in name and token in err.decode()]


@pytest.mark.whole
async def test_a_stand_in_is_a_command(shell: Shell):
    """`parley slack simulate` serves a Slack to talk in, and prints the settings for it."""
    process = await shell.start("slack", "simulate", "--port", "0")
    try:
        assert process.stdout
        async with asyncio.timeout(PATIENCE):
            printed = (await process.stdout.readuntil(b"Events go to")).decode()
        assert "SLACK_API_URL=http://127.0.0.1:" in printed
        process.send_signal(signal.SIGINT)
        await asyncio.wait_for(process.communicate(), PATIENCE)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    assert process.returncode == 0
