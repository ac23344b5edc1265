"""A shop over HTTP: an agent that pays once people say yes, or asks the page to do it, and those who may come."""

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from fastapi import FastAPI

from agent_core.agents import DeclaredTool, Hook
from agent_core.core import Core
from agent_core.messages import Actor
from agent_core.testing import Script, ScriptedProvider, by_step, call, say
from agent_core.tools.base import Tool
from app.serving.readers import Readers
from channels.web.identity import TokenSigner
from channels.web.visible import ShowTools
from tests.agent_core.asking import Till, asks
from tests.app.conftest import KEY, OneApp, caller
from tests.app.frames import Frame, frames
from tests.conftest import MakeCore

Open = Callable[..., Coroutine[Any, Any, "Shop"]]
PAYS = by_step((say("Paying."), call("pay", amount=5)), (say("Done."),))
WHERE = DeclaredTool(
    name="where",
    kind="client",
    description="Where the person is.",
    parameters={"type": "object", "properties": {"what": {"type": "string"}}},
)
LOOKS = by_step((call("where", what="home"), call("where", what="work")), (say("There."),))


@dataclass
class Shop:
    """A core whose agent is `assistant`, its application, and callers of it."""

    core: Core
    app: FastAPI
    tokens: TokenSigner
    agent: str
    till: Till
    operator: httpx.AsyncClient
    _stack: AsyncExitStack

    async def visitor(self, name: str = "ada", agent: str | None = None) -> httpx.AsyncClient:
        """Return a visitor called *name*."""
        token = self.tokens.visitor(Actor(id=name, kind="visitor"), agent=agent or self.agent).text
        return await self.caller(token)

    async def caller(self, key: str) -> httpx.AsyncClient:
        return await self._stack.enter_async_context(caller(self.app, key))


async def asked(visitor: httpx.AsyncClient) -> tuple[str, str]:
    """Let *visitor* ask for something; return the session's path and the run's, which waits or has ended."""
    path = f"/v1/sessions/{(await visitor.post('/v1/sessions', json={})).json()['id']}"
    run = (await visitor.post(f"{path}/messages", json={"text": "Pay"})).json()["run_id"]
    await visitor.get(f"/v1/runs/{run}/events")
    return path, f"/v1/runs/{run}"


async def open_one(client: httpx.AsyncClient, **query: str) -> dict[str, Any]:
    """Return the one open approval that *client* sees."""
    answer = await client.get("/v1/approvals", params={"status": "open", **query})
    (found,) = answer.json()["items"]
    return found


async def events(client: httpx.AsyncClient, path: str) -> list[Frame]:
    """Return the facts that *client* is given at *path*."""
    return [frame for frame in frames((await client.get(f"{path}/events?until=idle")).text) if frame.id]


@asynccontextmanager
async def shops(make_core: MakeCore, one_app: OneApp, tokens: TokenSigner) -> AsyncIterator[Open]:
    """Give what opens a shop: a *script*, *own* and *declared* tools, *show*, *overlap*, and an approval's *config*."""
    async with AsyncExitStack() as stack:

        async def build(
            script: Script = PAYS,
            *,
            own: tuple[Tool, ...] = (),
            declared: tuple[DeclaredTool, ...] = (),
            show: ShowTools = "names",
            overlap: str = "queue",
            hooks: tuple[Hook, ...] | None = None,
            clock: Any = None,
            **config: Any,
        ) -> Shop:
            till = Till()
            tools = (*till.tools(), *own)
            definition = {
                "hooks": (asks(**config),) if hooks is None else hooks,
                "tools": (*(tool.spec.name for tool in tools), *declared),
                "channels": {"web": {"show_tools": show, "overlap": overlap}},
            }
            core = await make_core(ScriptedProvider(script), tools=tools, definition=definition, clock=clock)
            app = one_app.around(core, Readers())
            agent = (await core.agents.get("assistant")).id
            operator = await stack.enter_async_context(caller(app, KEY))
            return Shop(core, app, tokens, agent, till, operator, stack)

        yield build
