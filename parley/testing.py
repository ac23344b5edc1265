"""Test the agents of a project without a model: a script says what a model would, all the rest is real.

    from parley.testing import call, open_project, say


    async def test_it_looks_the_order_up():
        script = [[call("lookup_order", order="A-1001")], [say("It is on its way.")]]
        async with open_project(".", script) as project:
            reply = await project.ask("Where is A-1001?", tool_context={"customer": "C-1"})
        assert reply.calls[0].outcome == "done"
        assert reply.text == "It is on its way."

A script has one answer for each time that the model is asked; an answer is a list of what it says and which tools it
calls, see `agent_core.testing.scripted`. Tests are coroutines: install `pytest-asyncio`, and set `asyncio_mode = auto`.
"""

from agent_core.testing import (
    Answer,
    Script,
    ScriptedProvider,
    ScriptExhausted,
    by_step,
    call,
    cut,
    fail,
    finish,
    pause,
    raw_call,
    refuse,
    say,
    think,
    together,
    usage,
)
from app.trial import AgentReply, MadeCall, OpenProject, open_project

__all__ = [
    "AgentReply",
    "Answer",
    "MadeCall",
    "OpenProject",
    "Script",
    "ScriptExhausted",
    "ScriptedProvider",
    "by_step",
    "call",
    "cut",
    "fail",
    "finish",
    "open_project",
    "pause",
    "raw_call",
    "refuse",
    "say",
    "think",
    "together",
    "usage",
]
