"""A local server that speaks three model wires and plays scripts: `async with FakeModels([[say("Hi!")]]) as fake`."""

from agent_core.testing.models.asked import ModelCall, Wire
from agent_core.testing.models.chat import Quirks
from agent_core.testing.models.items import (
    Answer,
    Item,
    Script,
    native,
    raw,
    redacted,
    split,
    stall,
    status,
)
from agent_core.testing.models.server import FakeModels, Options

__all__ = [
    "Answer",
    "FakeModels",
    "Item",
    "ModelCall",
    "Options",
    "Quirks",
    "Script",
    "Wire",
    "native",
    "raw",
    "redacted",
    "split",
    "stall",
    "status",
]
