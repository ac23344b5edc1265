"""Fakes that users of Parley test with too: a scripted model, a server of models, and a clock moved by hand."""

from agent_core.testing.clock import FakeClock
from agent_core.testing.level import Level
from agent_core.testing.models import FakeModels
from agent_core.testing.script import (
    Answer,
    Item,
    bug,
    call,
    cut,
    fail,
    finish,
    flat,
    pause,
    raw_call,
    refuse,
    say,
    sleep,
    think,
    together,
    usage,
)
from agent_core.testing.scripted import (
    Script,
    ScriptedProvider,
    ScriptExhausted,
    by_step,
    prefix_of,
    step_of,
)

__all__ = [
    "Answer",
    "FakeClock",
    "FakeModels",
    "Item",
    "Level",
    "Script",
    "ScriptExhausted",
    "ScriptedProvider",
    "bug",
    "by_step",
    "call",
    "cut",
    "fail",
    "finish",
    "flat",
    "pause",
    "prefix_of",
    "raw_call",
    "refuse",
    "say",
    "sleep",
    "step_of",
    "think",
    "together",
    "usage",
]
