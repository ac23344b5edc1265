"""What tests of approvals say again and again: an agent that asks people, and people who answer."""

from typing import Any

from agent_core.agents import Hook, ToolSpec
from agent_core.messages import Actor
from agent_core.objects import ApprovalObject, Decider, Decision
from agent_core.tools.base import CallContext, Outcome, Pending, Tool
from agent_core.tools.functions import tool
from tests.agent_core.stage import ANN, Stage

BOB, EVE = Actor("bob", "user", "Bob"), Actor("eve", "user", "Eve")
OPERATOR = Decider(actor=Actor("ops", "service"), is_operator=True)


def asks(matcher: str | None = "pay", **config: Any) -> Hook:
    """Return a hook that asks people before the tools that *matcher* names run."""
    return Hook(event="PreToolUse", type="approval", matcher=matcher, config=config)


def yes(approval: str, by: Actor | Decider = ANN, **options: Any) -> Decision:
    return _vote(approval, by, approved=True, **options)


def no(approval: str, by: Actor | Decider = ANN, **options: Any) -> Decision:
    return _vote(approval, by, approved=False, **options)


def _vote(approval: str, by: Actor | Decider, *, approved: bool, **options: Any) -> Decision:
    decider = by if isinstance(by, Decider) else Decider(actor=by, is_present=True)
    return Decision(**{"approval": approval, "by": decider, "approved": approved, "surface": "api", **options})


class AskClient:
    """A tool that the client answers: the run waits for it."""

    spec = ToolSpec(name="ask", description="Ask the client.", parameters={"type": "object"})

    async def call(self, arguments: dict[str, object], context: CallContext) -> Outcome:
        return Pending("client")


class Till:
    """A tool that matters: *paid* is what the world remembers of it, *contexts* are those of its calls."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.contexts: list[CallContext] = []

    def tools(self) -> tuple[Tool, ...]:
        @tool(effect="write", idempotent=False)
        async def pay(amount: int, context: CallContext) -> str:
            """Pay."""
            self.paid.append(amount)
            self.contexts.append(context)
            return f"Paid {amount} as {context.call[:5]}"

        @tool(concurrency_safe=True)
        async def look(what: str) -> str:
            """Look something up."""
            return f"{what} is fine"

        return pay, look


async def open_approvals(stage: Stage) -> list[ApprovalObject]:
    """Return the open questions, oldest first."""
    return list((await stage.core.approvals.list(status="open")).items)
