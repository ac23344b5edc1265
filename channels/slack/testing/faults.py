"""Faults on demand: what goes wrong, with what, from which time on and how often."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal

FaultKind = Literal[
    "duplicate",
    "late",
    "out_of_order",
    "ratelimited",
    "server_error",
    "answer_lost",
    "request_lost",
    "stream_closed",
    "invalid_blocks",
    "refused",
    "deaf_socket",
]
"""Events are sent twice, late, or only after the next one. Calls get 429, a 5xx, or a cut connection, after or before
their effect; streams close too early, blocks are rejected, a method is unknown. A WebSocket falls silent."""


@dataclass(frozen=True, slots=True)
class InjectedFault:
    """Strike *on* a method or a type of event (None: any) of *workspace*, from the *nth* match on, *times* times.

    With *times* None it strikes until it is lifted; with *when*, only while that is true. *seconds* is the Retry-After
    of `ratelimited` and the delay of `late`; *status* the answer of `server_error`, which has its effect all the same
    if *effect* is set; *code* what a `refused` method says. With *block*, `invalid_blocks` strikes only a call with a
    block of that type, in a chunk too; the answer points to it if *points*.
    """

    kind: FaultKind
    on: str | None = None
    workspace: str | None = None
    nth: int = 1
    times: int | None = 1
    when: Callable[[], bool] | None = None
    seconds: float = 30.0
    status: int = 503
    effect: bool = False
    code: str = "unknown_method"
    block: str | None = None
    points: bool = True


@dataclass(slots=True, eq=False)
class Armed:
    """A fault on its way: how often it matched and struck; `lift` ends it."""

    fault: InjectedFault
    matched: int = 0
    struck: int = 0
    lifted: bool = False

    def lift(self) -> None:
        """Let it strike no more."""
        self.lifted = True

    @property
    def spent(self) -> bool:
        """Whether it strikes no more."""
        return self.lifted or (self.fault.times is not None and self.struck >= self.fault.times)

    def strikes(self, on: str, workspace: str | None, blocks: Collection[str]) -> bool:
        """Count a match and say whether it strikes."""
        fault = self.fault
        if self.spent or fault.on not in (None, on) or fault.workspace not in (None, workspace):
            return False
        if fault.when is not None and not fault.when():
            return False
        if fault.block is not None and fault.block not in blocks:
            return False
        self.matched += 1
        if self.matched < fault.nth:
            return False
        self.struck += 1
        return True


class Faults:
    """All faults of a stand-in."""

    def __init__(self) -> None:
        self.armed: list[Armed] = []

    def add(self, fault: InjectedFault) -> Armed:
        """Arm *fault*."""
        self.armed.append(made := Armed(fault))
        return made

    def strike(
        self, kind: FaultKind, on: str, workspace: str | None = None, *, blocks: Collection[str] = ()
    ) -> InjectedFault | None:
        """Return the fault of this *kind* that strikes now, the oldest first; the call has *blocks* of these types."""
        matches = (each for each in self.armed if each.fault.kind == kind and each.strikes(on, workspace, blocks))
        return next((each.fault for each in matches), None)
