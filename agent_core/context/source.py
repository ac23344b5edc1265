"""Context sources: what a run is given to know beside its messages, such as memories or knowledge."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from agent_core.events import ContextKind
from agent_core.messages import Actor, Message


@dataclass(frozen=True, slots=True)
class RunOpening:
    """A run before its first step: the id of its *agent*, and the *messages* it answers, oldest first.

    *actor* sent the newest of them.
    """

    session: str
    run: str
    agent: str
    actor: Actor
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class ContextText:
    """One entry for the model, which reads the text in a frame that names its *source*, see `context.frames`.

    The text is shown as it is: what people or web pages wrote is to be quoted, see `context.quoted`.
    """

    source: ContextKind
    text: str


class ContextSource(Protocol):
    """Gives context to runs; *name* is its name in the log, unique among the sources of a core.

    The first word of an answer waits for it for two seconds at most, or as long as it says, see `Timed`.
    """

    @property
    def name(self) -> str: ...

    async def context(self, opening: RunOpening, /) -> Sequence[ContextText]:
        """Return what the model reads after the messages of *opening*; nothing is fine.

        It is asked before the first step of a run. What it returns is in the log before the step is, so that it is not
        asked again after a crash. An error or a timeout is logged, and the run continues without it.
        """
        ...


@runtime_checkable
class Timed(Protocol):
    """A source that says how many seconds a run may wait for it."""

    @property
    def timeout(self) -> float: ...
