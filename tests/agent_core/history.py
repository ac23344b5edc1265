"""Made-up histories: facts of a session without a store, for the pure folds."""

from collections.abc import Sequence
from typing import Any

import msgspec

from agent_core import events as e
from agent_core.agent.snapshot import freeze
from agent_core.agents import Agent, Controls, Definition, Limits, ToolSpec
from agent_core.events import Fact, FactBody
from agent_core.messages import Actor, Part, Text, ToolCall, Usage

ANN = Actor("ann", "user")
RUN = "run_1"
USAGE = Usage(3, 2, None, 0, 0, 0)


def history(*bodies: FactBody | tuple[str | None, FactBody], first: int = 1) -> list[Fact]:
    """Return *bodies* as facts of `run_1`, or of the run named beside a body, from seq *first* on."""
    facts: list[Fact] = []
    for seq, each in enumerate(bodies, first):
        run, body = each if isinstance(each, tuple) else (RUN, each)
        raw = msgspec.json.encode(body)
        facts.append(Fact(seq=seq, type=body.type, session="ses_1", run=run, parent_run=None, time=seq, raw=raw))
    return facts


def received(text: str = "Go", message: str = "msg_in") -> e.MessageReceived:
    return e.MessageReceived(message=message, actor=ANN, parts=(Text(text),))


def opened(text: str = "Go") -> list[FactBody]:
    """Return how every run begins: seqs 1 to 3."""
    return [received(text), e.RunQueued(), e.RunStarted(epoch=1)]


def started(n: int = 1, attempt: int = 1, takes: Sequence[int] = (), **fields: Any) -> e.StepStarted:
    return e.StepStarted(n=n, attempt=attempt, message=f"msg_{n}", takes=tuple(takes), snapshot="s", **fields)


def failed(n: int = 1, attempt: int = 1, *, code: str = "overloaded", retryable: bool = True, **fields: Any):
    return e.StepFailed(n=n, attempt=attempt, code=code, message="It did not work.", retryable=retryable, **fields)


def said(n: int, *parts: Part, stop: e.Stop = "done", partial: bool = False) -> e.MessageCompleted:
    return e.MessageCompleted(message=f"msg_{n}", role="assistant", parts=parts, stop=stop, partial=partial)


def closed(n: int = 1, usage: Usage = USAGE) -> e.StepCompleted:
    return e.StepCompleted(n=n, usage=usage, cost=None)


def wish(call: str, name: str = "look", **arguments: Any) -> ToolCall:
    return ToolCall(call, name, arguments)


def requested(wish: ToolCall, *, step: int = 1, index: int = 0) -> e.ToolRequested:
    return e.ToolRequested(call=wish.call, name=wish.name, arguments=wish.arguments, index=index, step=step)


def called(n: int, *wishes: ToolCall) -> list[FactBody]:
    """Return the end of a step that asked for *wishes*."""
    asked = [requested(each, step=n, index=index) for index, each in enumerate(wishes)]
    return [said(n, *wishes, stop="tools"), closed(n), *asked]


def ended(call: str, text: str = "fine", outcome: str = "done") -> e.ToolCompleted:
    return msgspec.convert(
        {"call": call, "outcome": outcome, "parts": [{"type": "text", "text": text}], "truncated": False},
        e.ToolCompleted,
    )


def make_agent(
    *tools: ToolSpec, limits: Limits | None = None, controls: Controls | None = None, overrides: Controls | None = None
) -> Agent:
    """Return an agent with *tools*, as a run uses it."""
    definition = Definition(
        name="a", instructions="", limits=limits or Limits(), controls=controls or Controls(), tools=()
    )
    return Agent(
        id="agt_1",
        version=1,
        definition=definition,
        snapshot=freeze(model="scripted", instructions="", tools=tools),
        tools={tool.name: tool for tool in tools},
        overrides=overrides or Controls(),
    )


def spec(name: str = "look", **fields: Any) -> ToolSpec:
    return ToolSpec(name=name, description=f"Use {name}.", parameters={"type": "object"}, **fields)
