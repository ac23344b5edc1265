"""A toy channel: it records what it was asked to show, and refuses on request."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

from agent_core.channels import Inbound
from agent_core.events import Event
from agent_core.messages import Actor, Text
from agent_core.objects import Decider, Decision
from agent_core.testing import Level
from channels.spec import ConversationView, MessageLimits, NotShown, Ref, Stop


@dataclass(frozen=True)
class ToyMessage:
    """One thing that the channel was asked to show: *ref* and the text, and whether the message was closed."""

    verb: str
    ref: Ref
    text: str
    closed: bool
    body: ConversationView


class Toy:
    """A place whose payloads are dictionaries and whose messages are numbered."""

    def __init__(self, limits: MessageLimits | None = None) -> None:
        self.limits = limits or MessageLimits(edit_every=1.0)
        self.shown: list[ToyMessage] = []
        self.refusals: deque[NotShown] = deque()
        self.address: str | None = None
        self._level = Level()
        self._posts = 0

    @property
    def now(self) -> dict[Ref, str]:
        """What the place shows."""
        return {each.ref: each.text for each in self.shown}

    async def times(self, n: int) -> None:
        """Return once *n* posts and edits were asked for."""
        await self._level.reached(n)

    def parse(self, payload: dict[str, Any], /) -> Inbound | Decision | Stop | None:
        actor = Actor(payload["from"], "user")
        match payload:
            case {"text": str(text)}:
                return Inbound(parts=(Text(text),), actor=actor, key=payload.get("id"))
            case {"button": "stop"}:
                return Stop(actor)
            case {"button": "approve", "approval": approval}:
                return Decision(approval=approval, by=Decider(actor=actor), approved=True, surface="toy")
            case _:
                return None

    async def post(self, address: str, body: ConversationView) -> Ref:
        self.address = address
        self._maybe_refuse()
        self._posts += 1
        return self._note("post", Ref(f"m{self._posts}"), body)

    async def edit(self, ref: Ref, body: ConversationView) -> None:
        self._maybe_refuse()
        self._note("edit", ref, body)

    def _maybe_refuse(self) -> None:
        if self.refusals:
            self._level.set(self._level.value + 1)
            raise self.refusals.popleft()

    def _note(self, verb: str, ref: Ref, body: ConversationView) -> Ref:
        lines = [said.text for said in body.recent if said.role == "assistant"]
        self.shown.append(ToyMessage(verb, ref, "\n".join(lines), body.closed, body))
        self._level.set(self._level.value + 1)
        return ref


class Feed:
    """A port whose events a test pushes; the end is `end`."""

    def __init__(self) -> None:
        self._batches: asyncio.Queue[list[Event] | Exception | None] = asyncio.Queue()
        self.after: int | None = None

    def push(self, *events: Event) -> None:
        self._batches.put_nowait(list(events))

    def end(self, error: Exception | None = None) -> None:
        self._batches.put_nowait(error)

    async def follow(self, session: str, *, after: int = 0) -> AsyncGenerator[list[Event]]:
        self.after = after
        while batch := await self._batches.get():
            if isinstance(batch, Exception):
                raise batch
            yield batch
