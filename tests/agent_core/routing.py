"""Agents with many tools: a shop of sixty, and how a model calls one of them."""

from typing import Any

from agent_core.events import ToolCompleted
from agent_core.messages import text_of
from agent_core.providers.base import Request
from agent_core.testing import ScriptedProvider, call
from agent_core.tools.base import Tool
from agent_core.tools.functions import tool
from agent_core.tools.toolset import Scope
from tests.agent_core.laws import check_log
from tests.agent_core.scenes import ANN
from tests.agent_core.stage import Stage
from tests.conftest import MakeCore

NOUNS = ("order", "customer", "invoice", "parcel", "refund", "voucher", "review", "product", "cart", "supplier")


def shop_tool(name: str, effect: Any = "read") -> Tool:
    @tool(name=name, effect=effect)
    async def made(id: int = 0) -> str:
        """Do something in the shop."""
        return f"{name} {id} is fine"

    return made


SHOP = tuple(
    shop_tool(f"{verb}_{noun}", effect)
    for noun in NOUNS
    for verb, effect in (
        ("list", "read"),
        ("get", "read"),
        ("search", "read"),
        ("create", "write"),
        ("update", "write"),
        ("delete", "write"),
    )
)


def by_name(name: str, **arguments: Any):
    return call("call_tool", name=name, arguments=arguments)


def use(name: str):
    return call("use_resource", name=name)


class Growing:
    """A toolset that gets more tools while the process runs."""

    def __init__(self, *tools: Tool) -> None:
        self.known = {each.spec.name: each for each in tools}

    async def tools(self, _scope: Scope, /) -> dict[str, Tool]:
        return dict(self.known)


async def stage_of(make_core: MakeCore, *script: Any, tools: tuple[Tool, ...] = SHOP, **definition: Any) -> Stage:
    """Open a session of an agent with *tools*, sixty if none are given, and see to it that each step is scripted."""
    options = {name: definition.pop(name) for name in ("able",) if name in definition}
    if "names" in definition:
        definition["tools"] = definition.pop("names")
    provider = ScriptedProvider([*((each,) if not isinstance(each, tuple) else each for each in script)], **options)
    core = await make_core(provider, tools=tools, definition=definition)
    return Stage(core, provider, (await core.open_session(agent="assistant", actor=ANN)).id)


async def played(stage: Stage, **controls: Any) -> str:
    """See a run through; return its answer."""
    run = await stage.play(**controls)
    check_log(await stage.log())
    assert run.status == "completed", run.error
    return run.text


async def ends(stage: Stage) -> list[tuple[str, str]]:
    """Return outcome and text of each call, in the log's order."""
    return [(end.outcome, text_of(end.parts)) for end in await stage.said(ToolCompleted)]


def names(request: Request) -> list[str]:
    return [spec.name for spec in request.snapshot.tools]
