"""The stand-in, a core and all that is between them, over real sockets; answers are noted, or shown."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI

from agent_core.agents import Definition, Hook
from agent_core.core import Core
from agent_core.messages import text_of
from agent_core.objects import SessionObject
from agent_core.providers.base import Request
from agent_core.providers.demo import SPEAKER
from agent_core.testing import Answer, FakeClock, ScriptedProvider, say
from agent_core.tools.base import Tool
from app.serving.connections import Connections
from app.serving.readers import Readers
from app.serving.server import Server, config, listening, url_of
from channels.ledger import Ledger
from channels.slack.api import SlackApi, open_session
from channels.slack.cards import CardRows, Cards
from channels.slack.context import Shows
from channels.slack.pace import Pacer, Workspaces
from channels.slack.people import People
from channels.slack.receive import Receiver
from channels.slack.serving import Listener
from channels.slack.settings import SETTINGS, Slack, Thread
from channels.slack.testing import App, SimulatedWorkspace, SlackStandIn, StandInPage, Team
from channels.slack.threads import Threads
from tests.conftest import MakeCore

EVERYWHERE = Slack(default=True)
HASTY = 1_000.0
"""A part of Slack's rates so small that nothing waits."""


@dataclass
class Noted:
    """What was to be shown, in its order."""

    log: list[tuple[str, str]] = field(default_factory=list)
    threads: list[Thread] = field(default_factory=list)

    async def want(self, session: str, thread: Thread) -> None:
        self.log.append(("want", session))
        self.threads.append(thread)

    def show(self, session: str) -> None:
        self.log.append(("show", session))


@dataclass
class Rig:
    """Everything at work: *url* is where Slack's requests go."""

    stand_in: SlackStandIn
    core: Core
    model: ScriptedProvider
    clock: FakeClock
    shows: Noted
    listener: Listener
    receiver: Receiver
    people: People
    workspaces: Workspaces
    url: str = ""

    @property
    def team(self) -> Team:
        return self.stand_in.team()

    async def session(self, channel: str, root: str, team: str = "T0001") -> SessionObject | None:
        return await self.core.find_session(f"slack:-:{team}:{channel}:{root}")

    async def said(self, channel: str, root: str) -> list[str]:
        """Return what the people of a thread said to the agent."""
        session = await self.session(channel, root)
        assert session is not None
        found = (await self.core.messages(session.id)).items
        return [text_of(each.parts) for each in found if each.role == "user"]

    async def ended(self, channel: str, root: str) -> None:
        """Return once nothing is to be answered in a thread."""
        session = await self.session(channel, root)
        assert session is not None
        async for _ in self.core.follow(session.id, until_idle=True):
            pass

    def seen(self, n: int = -1) -> list[str]:
        """Return what the model was given with the *n*th call, without the instructions."""
        return texts(self.model.requests[n])


def texts(request: Request) -> list[str]:
    """Return what people and the model said, without the names of who said it."""
    return [SPEAKER.sub("", text_of(entry.message.parts), count=1) for entry in request.messages]


def in_slack(slack: Slack) -> dict[str, dict[str, Any]]:
    """Return the `channels` of an agent that is in Slack as *slack* says."""
    return {"slack": SETTINGS.stored(slack)}


@asynccontextmanager
async def rigged(
    make_core: MakeCore,
    *,
    slack: Slack = EVERYWHERE,
    agents: tuple[Definition, ...] = (),
    answer: Callable[[Request], Answer] = lambda _: [say("Done.")],
    socket: float | None = None,
    timeout: float = 30.0,
    clock: FakeClock | None = None,
    shown: bool = False,
    hasty: bool = False,
    tools: tuple[Tool, ...] = (),
    hooks: tuple[Hook, ...] = (),
    page: bool = False,
    public_url: str | None = None,
) -> AsyncIterator[Rig]:
    """Receive from Slack: by requests, or by a socket with *socket* seconds between its pings.

    With *shown* answers and cards are shown, at Slack's rates, or as fast as can be if it is *hasty*; with *page*
    the stand-in has its page.
    """
    clock = clock or FakeClock()
    model = ScriptedProvider(answer, clock=clock)
    definition, given = {"channels": in_slack(slack), "hooks": hooks}, {"tools": tools} if tools else {}
    core = await make_core(model, clock=clock, definition=definition, **given)
    for each in agents:
        await core.agents.create(each)
    stand_in = SlackStandIn(
        clock=clock,
        workspaces=[SimulatedWorkspace.example(), SimulatedWorkspace.example("T0002", "Globex")],
        rates="slack" if shown and not hasty else None,
        ack_within=60.0,
        app=App(socket_mode=socket is not None),
    )
    async with AsyncExitStack() as stack:
        routes = StandInPage(stand_in).routes() if page else ()
        url = f"{await stack.enter_async_context(stand_in.serving(routes=routes))}api/"
        session = await stack.enter_async_context(open_session())
        apis = [SlackApi(team.bot_token, session=session, base_url=url) for team in stand_in.teams.values()]
        pacer, people, shows = Pacer(clock, share=HASTY if hasty else 1.0), People(clock), Noted()
        workspaces = Workspaces(apis, pacer)
        places: Shows = shows
        resumed: Callable[[str], None] = shows.show
        news = asyncio.Event()
        if shown:
            share = pacer.use if not hasty else lambda _: None
            threads = Threads(
                core,
                Ledger(core._store.database, clock, "slack"),
                workspaces.space,
                clock,
                share=share,
                rested=news.set,
            )
            await threads.start(alone=True)
            stack.push_async_callback(threads.stop)
            places, resumed = threads, threads.resumed
        rows = CardRows(core._store.database, clock)
        cards = Cards(core, rows, workspaces, clock, news=news, resumed=resumed, public_url=public_url)
        if shown:
            await cards.start(alone=True)
            stack.push_async_callback(cards.stop)
        receiver = Receiver(core, places, people, clock, cards, timeout=timeout)
        stack.push_async_callback(receiver.close)
        listener = Listener(receiver, workspaces, signing_secret=stand_in.app.signing_secret, api_url=url)
        made = Rig(stand_in, core, model, clock, shows, listener, receiver, people, workspaces)
        if socket is None:
            made.url = await stack.enter_async_context(served(listener))
            stand_in.deliver_to(made.url)
        else:
            await stack.enter_async_context(listener.socket(stand_in.app.app_token, ping=socket))
            await stand_in.until(lambda: stand_in.sockets.open)
        yield made


@asynccontextmanager
async def served(listener: Listener) -> AsyncIterator[str]:
    """Serve the routes of *listener*, as they are served beside all others, and give the address."""
    app, up = FastAPI(), asyncio.Event()
    app.include_router(listener.router())
    with listening("127.0.0.1", 0) as sock:
        connections = Connections()
        server = Server(config(app, connections), readers=Readers(), connections=connections, started=up.set)
        serving = asyncio.create_task(server.serve(sockets=[sock]))
        await up.wait()
        try:
            yield url_of("127.0.0.1", sock)
        finally:
            server.should_exit = True
            await serving
