"""An exchange: what one question makes the model do. The question itself says it, so that both servers can read it."""

from dataclasses import dataclass

# Four characters are about a token.
TOKEN = "tok "


@dataclass(frozen=True, slots=True)
class Exchange:
    """An answer of *deltas* deltas, a token each, at *rate* per second (0: flat out), after a tool call if *tool*.

    *delay* is the seconds before the text; a reader who was not there at its begin gets what is missed in one delta.
    """

    deltas: int = 200
    rate: float = 0.0
    tool: bool = False
    delay: float = 0.0

    @property
    def text(self) -> str:
        """The question."""
        return f"deltas={self.deltas} rate={self.rate:g} tool={self.tool:d} delay={self.delay:g}"

    @property
    def seconds(self) -> float:
        """How long the text takes when it comes in time, from its first delta to its last."""
        return (self.deltas - 1) / self.rate if self.rate else 0.0

    @classmethod
    def read(cls, text: str) -> "Exchange":
        """Return what the question *text* asks for."""
        said = dict(word.split("=") for word in text.split())
        return cls(int(said["deltas"]), float(said["rate"]), said["tool"] == "1", float(said["delay"]))
