"""The `tool_context` that tools get with what is typed in the chat."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from agent_core import Actor, Event, Inbound, Page, Receipt, RunObject, SessionObject
from app.cli.chat.ports import Port
from app.cli.chat.slash import BRIEF
from app.cli.json_option import json_object
from app.settings import Settings
from channels.text import one_line

OPTION, SETTING = "--tool-context", "PARLEY_DEMO_TOOL_CONTEXT"


@dataclass(frozen=True, slots=True)
class ContextOption:
    """The *tool_context* of each message, and which option or setting it is *by*; it may hold secrets."""

    tool_context: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)
    by: str = OPTION

    @property
    def greeting(self) -> str:
        """What a conversation begins with: the names of what the tools are given, never the values."""
        names = ", ".join(f"`{one_line(name)}`" for name in self.tool_context)
        return f"{BRIEF}\n(the tools get {names} from {self.by})" if names else BRIEF


def context_option(option: str | None, settings: Settings) -> ContextOption:
    """Return what *option* gives, a JSON object, else what the demo page of this machine's server gives its tools.

    A server that PARLEY_URL names has a demo page of its own, of which the settings here say nothing.
    """
    if option is not None:
        return ContextOption(json_object(OPTION, option, """write one JSON object, such as '{"customer": "C-1"}'."""))
    if settings.url is not None:
        return ContextOption()
    return ContextOption(settings.demo_tool_context or {}, SETTING)


class ContextPort:
    """A port that sends each message with a *tool_context*, which replaces the agent's own."""

    def __init__(self, port: Port, tool_context: dict[str, Any]) -> None:
        self._port, self._tool_context = port, tool_context
        self.approvals, self.agents = port.approvals, port.agents

    async def receive(self, session: str, inbound: Inbound) -> Receipt:
        """Post a message."""
        controls = replace(inbound.controls, tool_context=self._tool_context)
        return await self._port.receive(session, replace(inbound, controls=controls))

    async def open_session(self, *, agent: str, actor: Actor) -> SessionObject:
        return await self._port.open_session(agent=agent, actor=actor)

    async def session(self, id: str) -> SessionObject:
        return await self._port.session(id)

    async def sessions(self, *, actor: str, limit: int) -> Page[SessionObject]:
        return await self._port.sessions(actor=actor, limit=limit)

    async def cancel(self, run: str, *, by: Actor) -> RunObject:
        return await self._port.cancel(run, by=by)

    def follow(self, session: str, *, after: int = 0) -> AsyncGenerator[list[Event]]:
        return self._port.follow(session, after=after)

    def follow_run(self, run: str, *, after: int = 0) -> AsyncGenerator[list[Event]]:
        return self._port.follow_run(run, after=after)
