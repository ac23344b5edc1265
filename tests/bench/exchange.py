"""An exchange: what one question makes the model do. The question itself says it, so that every process can read it."""

from dataclasses import dataclass, replace

# Four characters are about a token. Every delta of an answer holds it once, and nothing else does.
TOKEN = "tok "
# A delta that is stamped has in this place the time when it is sent: nanoseconds of the clock that all processes share.
STAMP = "@" + "0" * 18
STAMPED = f"{TOKEN}{STAMP} "
EVERY = 10


@dataclass(frozen=True, slots=True)
class Exchange:
    """An answer of *deltas* deltas, a token each, at *rate* per second (0: flat out), after a tool call if *tool*.

    *delay* is the seconds before the text: a reader who was not there at its begin gets what is missed in one piece.
    Every tenth delta of a *stamped* one says when it was sent.
    """

    deltas: int = 200
    rate: float = 0.0
    tool: bool = False
    delay: float = 0.0
    stamped: bool = False

    @property
    def text(self) -> str:
        """The question."""
        said = {"deltas": self.deltas, "rate": self.rate, "tool": int(self.tool), "delay": self.delay}
        return " ".join(f"{name}={value:g}" for name, value in {**said, "stamped": int(self.stamped)}.items())

    @property
    def seconds(self) -> float:
        """How long the text takes when it comes in time, from its first delta to its last."""
        return (self.deltas - 1) / self.rate if self.rate else 0.0

    @property
    def answer(self) -> tuple[str, ...]:
        """The deltas of the answer."""
        return tuple(STAMPED if self.stamped and n % EVERY == 0 else TOKEN for n in range(self.deltas))

    @property
    def plain(self) -> "Exchange":
        """The same without the tool call."""
        return replace(self, tool=False)

    @classmethod
    def read(cls, text: str) -> "Exchange":
        """Return what the question *text* asks for."""
        said = dict(word.split("=") for word in text.split())
        return cls(
            deltas=int(said["deltas"]),
            rate=float(said["rate"]),
            tool=said["tool"] == "1",
            delay=float(said["delay"]),
            stamped=said["stamped"] == "1",
        )
