"""A context source in one file: memories of people, by the id of the actor that asks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agent_core.agent.snapshot import ContextText, RunOpening


@dataclass
class Remembering:
    """Returns the memories *kept* for the actor; *asked* records the openings that it was called with."""

    kept: Mapping[str, Sequence[str]]
    name: str = "memories"
    asked: list[RunOpening] = field(default_factory=list[RunOpening])

    async def context(self, opening: RunOpening, /) -> Sequence[ContextText]:
        self.asked.append(opening)
        return [ContextText("memory", text) for text in self.kept.get(opening.actor.id, ())]
