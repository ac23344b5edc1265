"""Scenes that a core plays to make golden logs: what people change, stop and decide."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from agent_core.agents import DeclaredTool, Hook
from agent_core.channels import Inbound, Overlap
from agent_core.core import Core
from agent_core.events import Event, Fact, RunWaiting, TextDelta, ToolStarted
from agent_core.messages import Actor, Text, ToolCall
from agent_core.runtime.segments import ToolOutput
from agent_core.testing import Answer, call, pause, say
from agent_core.tools.base import NewRender, Tool
from agent_core.tools.functions import tool
from tests.agent_core.asking import BOB, Till, asks, no, open_approvals, yes
from tests.agent_core.stage import ANN, Reader, Stage, is_a
from tests.golden.figures import BY_HAND, FIGURES

Script = Sequence[Answer]
Play = Callable[["Scene"], Awaitable[None]]
_START = datetime(2026, 1, 5, 9, tzinfo=UTC).timestamp()
_ID = re.compile(r"\b(agent|ses|msg|run|call|apr|ren)_[\w.-]+")
_HALF = is_a(TextDelta, text="lf")


class Scene:
    """A stage, a reader who follows it, and a tool that waits; messages have keys, which name their runs."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.runs: dict[str, str] = {}
        self.stage: Stage
        self.reader: Reader

    @property
    def tools(self) -> tuple[Tool, ...]:
        @tool(name="wait")
        async def wait() -> str:
            """Wait until the gate is opened."""
            await self.gate.wait()
            return "waited"

        @tool(name="survey")
        async def survey() -> NewRender:
            """Show how many drink what."""
            rows = [{"drink": "tea", "people": 3}, {"drink": "coffee", "people": 4}]
            return NewRender("tally_marks", {"rows": rows}, "tea: 3\ncoffee: 4", title="Who drinks what")

        @tool(name="figure")
        async def figure(name: str) -> NewRender:
            """Show the figure of this name."""
            return FIGURES[name]

        return wait, Till().tools()[0], survey, figure

    @property
    def core(self) -> Core:
        return self.stage.core

    async def send(self, key: str, overlap: Overlap = "queue", by: Actor = ANN) -> None:
        """Send a message that says its *key*."""
        inbound = Inbound(parts=(Text(key),), actor=by, key=key, overlap=overlap)
        self.runs[key] = (await self.core.receive(self.stage.session, inbound)).run

    async def answered(self, key: str) -> None:
        """Send a message and see its answer through."""
        await self.send(key)
        await self.done(key)

    async def done(self, key: str) -> None:
        await self.stage.done(self.runs[key])

    async def correct(self, key: str, text: str) -> None:
        await self.core.correct(self.stage.session, key, (Text(text),))

    async def retract(self, key: str) -> None:
        await self.core.retract(self.stage.session, key, by=ANN)

    async def reply(self, text: str) -> None:
        """Have an operator answer in the agent's place."""
        await self.core.replies.give(self.stage.session, text, by=Actor("operator:key_1", "service", "Meg"))

    async def stop(self) -> None:
        await self.core.stop_session(self.stage.session, by=ANN)


async def corrected_waiting(scene: Scene) -> None:
    """A message that joined a run and one in the queue are corrected before a step takes them."""
    await scene.send("one")
    await scene.reader.until(is_a(ToolStarted))
    await scene.send("two", "steer")
    await scene.correct("two", "two, better")
    await scene.send("three")
    await scene.correct("three", "three?")
    await scene.correct("three", "three, better")
    scene.gate.set()
    await scene.done("three")


async def corrected_taken(scene: Scene) -> None:
    """A message is corrected while it is answered, and again when it was."""
    await scene.send("one")
    await scene.reader.until(_HALF)
    await scene.correct("one", "one, better")
    scene.gate.set()
    await scene.done("one")
    await scene.correct("one", "one, best")
    await scene.answered("two")


async def deleted_waiting(scene: Scene) -> None:
    """A message that joined a run and one in the queue are deleted before a step takes them; a third goes on."""
    await scene.send("one")
    await scene.reader.until(is_a(ToolStarted))
    await scene.send("two", "steer")
    await scene.correct("two", "two, better")
    await scene.send("three")
    await scene.send("four")
    await scene.retract("two")
    await scene.retract("three")
    scene.gate.set()
    await scene.done("four")


async def deleted_taken(scene: Scene) -> None:
    """A message is deleted while its run goes on, another when it was answered."""
    await scene.send("one")
    await scene.reader.until(is_a(ToolStarted))
    await scene.retract("one")
    scene.gate.set()
    await scene.done("one")
    await scene.answered("two")
    await scene.retract("two")
    await scene.answered("three")


async def stopped_queue(scene: Scene) -> None:
    """A Stop clears what joined the running run and what is queued after it; then there is a new message."""
    await scene.send("one")
    await scene.reader.until(_HALF)
    await scene.send("two")
    await scene.send("three", "steer")
    await scene.send("four")
    await scene.stop()
    await scene.done("one")
    await scene.answered("five")


async def stopped_adopted(scene: Scene) -> None:
    """A run is cancelled and leaves what joined it to a new one, which a Stop finds in the queue."""
    await scene.send("one")
    await scene.reader.until(is_a(ToolStarted))
    await scene.send("two")
    await scene.send("three", "steer")
    await scene.core.cancel(scene.runs["one"], by=ANN)
    await scene.reader.until(_HALF)
    await scene.stop()
    await scene.done("two")


async def approved_edited(scene: Scene) -> None:
    """People are asked about two calls: one runs with corrected arguments, the other is denied."""
    await scene.send("one")
    await scene.reader.until(is_a(RunWaiting))
    first, second = await open_approvals(scene.stage)
    await scene.core.approvals.decide(no(second.id, reason="Not twice."))
    await scene.reader.until(nth_wait(2))
    await scene.core.approvals.decide(yes(first.id, arguments={"amount": 3}))
    await scene.done("one")


async def approved_quorum(scene: Scene) -> None:
    """Two people have to say yes; one of them does so twice."""
    await scene.send("one")
    await scene.reader.until(is_a(RunWaiting))
    (asked,) = await open_approvals(scene.stage)
    for who in (ANN, ANN, BOB):
        await scene.core.approvals.decide(yes(asked.id, who))
    await scene.done("one")


async def approval_cancelled(scene: Scene) -> None:
    """A user stops a run that waits for people; then there is a new message."""
    await scene.send("one")
    await scene.reader.until(is_a(RunWaiting))
    await scene.stop()
    await scene.answered("two")


async def used(scene: Scene) -> None:
    """A message has a tool used, which people approve first; its output is what the model answers."""
    inbound = Inbound(parts=(ToolCall("call_used", "pay", {"amount": 5}),), actor=ANN)
    scene.runs["one"] = (await scene.core.receive(scene.stage.session, inbound)).run
    await scene.reader.until(is_a(RunWaiting))
    (asked,) = await open_approvals(scene.stage)
    await scene.core.approvals.decide(yes(asked.id))
    await scene.done("one")
    await scene.answered("two")


async def blocked(scene: Scene) -> None:
    """A rule refuses a question before any model sees it; the next one is answered."""
    await scene.answered("forbidden")
    await scene.answered("two")


async def client_call(scene: Scene) -> None:
    """The client executes a call, and the run continues."""
    await scene.send("one")
    await scene.reader.until(is_a(RunWaiting))
    (waits,) = (await scene.core.run(scene.runs["one"])).pending
    await scene.core.submit(scene.runs["one"], [ToolOutput(call=waits.call, output={"place": "Bern"})])
    await scene.done("one")


async def replied(scene: Scene) -> None:
    """A person answers in the agent's place: while a tool works, when the agent is idle, and while it answers."""
    await scene.send("one")
    await scene.reader.until(is_a(ToolStarted))
    await scene.reply("At once.")
    scene.gate.set()
    await scene.done("one")
    await scene.reply("Later.")
    scene.gate.clear()
    await scene.send("two")
    await scene.reader.until(_HALF)
    await scene.reply("Meanwhile.")
    scene.gate.set()
    await scene.done("two")
    await scene.answered("three")


async def several(scene: Scene) -> None:
    """A second person writes, and from then on the model reads who wrote what."""
    await scene.answered("one")
    await scene.send("two", by=BOB)
    await scene.done("two")
    await scene.answered("three")


async def rendered(scene: Scene) -> None:
    """A tool shows something of a kind that no surface knows, and the model goes on from its text."""
    await scene.answered("one")


async def figures(scene: Scene) -> None:
    """A tool shows a table, plain charts, and what is not drawn as its kind says; the model writes a table by hand."""
    await scene.answered("one")


def nth_wait(n: int) -> Callable[[Event], bool]:
    """Return what tells the n-th `run.waiting` among the events that it is shown, from 1."""
    seen: set[int] = set()

    def wanted(event: Event) -> bool:
        if isinstance(event, Fact) and isinstance(event.body, RunWaiting):
            seen.add(event.seq)
        return len(seen) >= n

    return wanted


def scripts(scene: Scene) -> dict[Play, Script]:
    """Return the scenes, and what the model does in them."""
    waits, held = (call("wait"),), (say("Ha", "lf"), pause(scene.gate))
    return {
        corrected_waiting: [waits, (say("Two."),), (say("Three."),)],
        corrected_taken: [held, (say("One."),), (say("Two."),)],
        deleted_waiting: [waits, (say("One."),), (say("Four."),)],
        deleted_taken: [waits, (say("One."),), (say("Two."),), (say("Three."),)],
        stopped_queue: [held, (say("Five."),)],
        stopped_adopted: [waits, held],
        approved_edited: [(say("Paying."), call("pay", amount=5), call("pay", amount=6)), (say("Paid."),)],
        approved_quorum: [(call("pay", amount=5),), (say("Paid."),)],
        approval_cancelled: [(call("pay", amount=5),), (say("Two."),)],
        used: [(say("I see."),), (say("Two."),)],
        blocked: [(say("Two."),)],
        replied: [waits, (say("One."),), held, (say("Three."),)],
        several: [(say("One."),), (say("Two."),), (say("Three."),)],
        rendered: [(say("Let me see."), call("survey")), (say("Most drink coffee."),)],
        figures: [(say("Here they are."), *(call("figure", name=name) for name in FIGURES)), (say(BY_HAND),)],
        client_call: [(call("where"),), (say("You are in Bern."),)],
    }


HOOKS: dict[str, tuple[Hook, ...]] = {
    "approved_edited": (asks(edit=True, title="May it be paid?", detail="From the till."),),
    "approved_quorum": (asks(responders=["anyone"], quorum=2),),
    "approval_cancelled": (asks(),),
    "used": (asks(),),
    "blocked": (
        Hook(
            event="OnRunStart",
            type="rule",
            config={
                "conditions": [{"field": "text", "operator": "CONTAINS", "value": "forbidden"}],
                "reason": "That is not for me to say.",
            },
        ),
    ),
}
WHERE = DeclaredTool(
    name="where", kind="client", description="Where the person is.", parameters={"type": "object", "properties": {}}
)


NAMES = tuple(play.__name__ for play in scripts(Scene()))


def frames_of(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Return *events* as frames of a golden log: with ids by their order, and times, prices and digests of no day."""
    frames = [_frame(n, event) for n, event in enumerate(events)]
    names: dict[str, str] = {}

    def name(match: re.Match[str]) -> str:
        nth = 1 + sum(known.startswith(match[1]) for known in names)
        return names.setdefault(match[0], f"{match[1]}_{nth}")

    return json.loads(_ID.sub(name, json.dumps(frames)))


def _frame(n: int, event: Event) -> dict[str, Any]:
    moment = datetime.fromtimestamp(_START + (n + 1) / 1000, UTC)
    data = json.loads(event.raw)
    data |= {name: "sha256:5f2b7c" for name in ("snapshot", "hash") if name in data}
    place = {"session": event.session, "run": event.run, "parent_run": event.parent_run}
    shown = {"type": event.type, **place, "time": f"{moment:%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z", "data": data}
    return {"seq": event.seq, **shown} if isinstance(event, Fact) else shown


def line(frame: dict[str, Any]) -> str:
    return msgspec.json.encode(frame).decode()
