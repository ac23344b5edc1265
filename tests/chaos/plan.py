"""A question: what one message makes the model do. The message itself says it, so that every process can read it."""

import random
from dataclasses import dataclass

TOOLS = ("look", "note", "pay")


def chance(*seed: object) -> random.Random:
    """Return what draws all that *seed* names, the same each time."""
    return random.Random(repr(seed))  # noqa: S311 - for weather, not for secrets


@dataclass(frozen=True, slots=True)
class Question:
    """Message *n* of the talk *talk*: a step for each of *steps* (`look+note` calls two tools), then *words* of text.

    One that *trips* fails in the middle of its last text the first time that it is asked.
    """

    talk: str
    n: int
    steps: tuple[str, ...]
    words: int
    trips: bool = False

    @property
    def text(self) -> str:
        """The message."""
        return " ".join((*self.name, *self.steps, f"words={self.words}", f"trips={int(self.trips)}"))

    @property
    def name(self) -> tuple[str, str]:
        """What every answer to it begins with."""
        return self.talk, f"#{self.n}"

    @classmethod
    def read(cls, text: str) -> "Question":
        """Return the question that *text* asks."""
        talk, n, *steps, words, trips = text.split()
        return cls(talk, int(n[1:]), tuple(steps), int(words.partition("=")[2]), trips=trips.endswith("1"))

    @classmethod
    def draw(cls, talk: str, n: int, chance: random.Random) -> "Question":
        """Return a question as people might ask it: mostly with a few calls, some of them writes."""
        steps = tuple(
            "+".join(chance.choices(TOOLS, weights=(3, 3, 2), k=chance.choice((1, 1, 2))))
            for _ in range(chance.choice((0, 1, 1, 2, 3)))
        )
        return cls(talk, n, steps, words=chance.randint(3, 40), trips=chance.random() < 0.1)
