"""A local server that speaks three model wires and plays scripts: `async with FakeModels([[say("Hi!")]]) as fake`."""

from agent_core.testing.models.asked import (
    Answer,
    Item,
    ModelCall,
    Script,
    Wire,
    native,
    raw,
    redacted,
    split,
    stall,
    status,
)
from agent_core.testing.models.server import FakeModels, Options
from agent_core.testing.models.wires import Quirks

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
