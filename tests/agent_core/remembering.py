"""A context source in one file: what was kept of a person, by the id of the one who asks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agent_core.context.source import ContextText, Opening


@dataclass
class Remembering:
    """Gives what is *kept* of the actor as memories; *asked* are the openings that it was asked about."""

    kept: Mapping[str, Sequence[str]]
    name: str = "memories"
    asked: list[Opening] = field(default_factory=list[Opening])

    async def context(self, opening: Opening, /) -> Sequence[ContextText]:
        self.asked.append(opening)
        return [ContextText("memory", text) for text in self.kept.get(opening.actor.id, ())]
