"""Everything that a process needs to serve Slack, built from its settings."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Literal, Protocol

import structlog
from fastapi import APIRouter
from pydantic import SecretStr

from agent_core import Clock, Core, Fetch, QuickChart, SystemClock
from channels.base import Records
from channels.ledger import Ledger
from channels.slack.cards.cards import Cards
from channels.slack.cards.rows import CardRows
from channels.slack.inbound.listen import Listener
from channels.slack.inbound.people import People
from channels.slack.inbound.receive import Receiver
from channels.slack.outbound.figures import ChartPorts
from channels.slack.outbound.threads import Threads
from channels.slack.settings import IN_SLACK, is_in_slack
from channels.slack.web_api.client import SlackApi, open_session
from channels.slack.web_api.failures import SlackFailure
from channels.slack.web_api.pace import Pacer
from channels.slack.web_api.workspaces import Workspaces

AGAIN = 15.0
"""Seconds between two attempts to ask Slack for our own identity."""
NO_AGENT = f"no agent is in Slack: put `{IN_SLACK}`, or the channels in which it answers, into an agent's file"
_log = structlog.get_logger("parley.slack")


class SlackProcess(Protocol):
    """What Slack reads of the settings of the process; without a *slack_bot_token* it is not served."""

    @property
    def slack_bot_token(self) -> SecretStr | None: ...
    @property
    def slack_signing_secret(self) -> SecretStr | None: ...
    @property
    def slack_app_token(self) -> SecretStr | None: ...
    @property
    def slack_api_url(self) -> str: ...
    @property
    def chart_backend(self) -> Literal["local", "quickchart"]: ...
    @property
    def quickchart_url(self) -> str: ...
    @property
    def postgres(self) -> str | None:
        """The database that several processes share, None when this process is alone on its own."""
        ...

    @property
    def public_url(self) -> str | None:
        """The address that others reach this server by, None when it is not known."""
        ...


@asynccontextmanager
async def running_slack(
    core: Core, records: Records, settings: SlackProcess, *, socket: bool, clock: Clock | None = None
) -> AsyncGenerator[APIRouter]:
    """Serve Slack while the block lasts, and give the routes for its requests; with *socket* use Socket Mode too.

    *records* keeps the delivery ledger and the rows of the cards.
    """
    clock, url = clock or SystemClock(), f"{settings.slack_api_url}/"
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(open_session())
        api = SlackApi(_secret_value(settings.slack_bot_token) or "", session=session, base_url=url)
        pacer = Pacer(clock)
        workspaces = Workspaces([api], pacer)
        ledger, news = Ledger(records, clock, "slack"), asyncio.Event()
        charts = ChartPorts(core.drawer, await stack.enter_async_context(chart_links(settings)))
        threads = Threads(core, ledger, workspaces.space, clock, share=pacer.use, rested=news.set, charts=charts)
        rows = CardRows(records, clock)
        cards = Cards(core, rows, workspaces, clock, news=news, resumed=threads.resumed, public_url=settings.public_url)
        receiver = Receiver(core, threads, People(clock), clock, cards)
        listener = Listener(
            receiver, workspaces, signing_secret=_secret_value(settings.slack_signing_secret), api_url=url
        )
        await threads.start(alone=settings.postgres is None)
        stack.push_async_callback(threads.stop)
        await cards.start(alone=settings.postgres is None)
        stack.push_async_callback(cards.stop)
        stack.push_async_callback(receiver.close)
        await stack.enter_async_context(_identifying(workspaces, clock))
        if not any(is_in_slack(agent.definition) for agent in await core.agents.all()):
            _log.warning("slack.no_agent", remedy=NO_AGENT)
        if socket and (token := _secret_value(settings.slack_app_token)):
            await stack.enter_async_context(listener.socket(token))
        yield listener.router()


@asynccontextmanager
async def chart_links(settings: SlackProcess) -> AsyncGenerator[QuickChart | None]:
    """Give what links to pictures of charts, if the settings say so: their data goes to a third party then."""
    if settings.chart_backend != "quickchart":
        yield None
        return
    fetch = Fetch()
    try:
        yield QuickChart(settings.quickchart_url, fetch)
    finally:
        await fetch.close()


@asynccontextmanager
async def _identifying(workspaces: Workspaces, clock: Clock) -> AsyncGenerator[None]:
    """Ask Slack for our own identity, so that a wrong token is logged at the start and not with the first message."""
    identifying = asyncio.create_task(_identify(workspaces, clock))
    try:
        yield
    finally:
        identifying.cancel()
        await asyncio.wait((identifying,))


async def _identify(workspaces: Workspaces, clock: Clock) -> None:
    """Retry until Slack answers; handling a message could not wait that long."""
    logged: str | None = None
    while True:
        try:
            await workspaces.identify()
        except SlackFailure as error:
            if str(error) != logged:
                logged = str(error)
                _log.error("slack.not_met", error=logged)
            await clock.sleep(AGAIN)
        else:
            return


def _secret_value(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()
