"""Plans of random sessions: what the model does in each of its calls, and what people do meanwhile."""

from dataclasses import dataclass
from typing import Literal

from hypothesis import strategies as st

Kind = Literal[
    "say", "think", "look", "looks", "move", "same", "unknown", "broken", "length", "continue", "refuse", "fail",
    "late", "dead", "empty", "full",
]  # fmt: skip
Act = Literal["steer", "queue", "interrupt", "correct", "retract", "tell", "reply", "join", "cancel", "edit", "restart"]
Place = Literal["asked", "said", "tool"]


@dataclass(frozen=True)
class PlannedStep:
    """One model call: what the model does, and what other users do meanwhile.

    When a message must be sent for it, it may bring its *own* instructions and an imported history.
    """

    kind: Kind
    act: Act | None = None
    place: Place = "said"
    own: bool = False


@dataclass(frozen=True)
class Plan:
    """A session: its steps in order, and its limits. Messages are sent whenever there is nothing to do.

    *kind* is how the agent's window is made shorter.
    """

    steps: tuple[PlannedStep, ...]
    max_steps: int = 4
    max_context_messages: int | None = None
    kind: Literal["summary", "cut"] = "cut"


EVERYTHING = Plan(
    (
        *(PlannedStep("fail") for _ in range(4)),
        *(PlannedStep("late") for _ in range(4)),
        *(PlannedStep(kind) for kind in Kind.__args__ if kind not in ("fail", "late")),
        *(PlannedStep("same") for _ in range(3)),
        *(PlannedStep("length") for _ in range(4)),
        *(
            PlannedStep("looks" if place == "tool" else "say", act, place)
            for act in Act.__args__
            for place in Place.__args__
        ),
        *(PlannedStep("say", own=own) for own in (True, False, True)),
        *(PlannedStep("move", "restart", "tool") for _ in range(2)),
    ),
    max_steps=25,
    max_context_messages=7,
)
"""A plan in which everything happens at least once, but for what makes room by other means than a cut."""
SHRINKING = Plan(
    (
        *(PlannedStep(kind) for kind in ("looks", "move", "look", "full", "say")),
        *(
            PlannedStep(kind)
            for kind in ("say", "looks", "say", "look", "say", "full", "say", "think", "full", "say", "say")
        ),
        *(
            PlannedStep("looks", "restart", "tool"),
            PlannedStep("full", "steer", "asked"),
            PlannedStep("move"),
            PlannedStep("full"),
            PlannedStep("say"),
        ),
        *(PlannedStep("say", own=own) for own in (True, False)),
        *(
            PlannedStep("looks", "interrupt"),
            PlannedStep("full", "restart", "asked"),
            PlannedStep("full"),
            PlannedStep("say"),
        ),
    ),
    max_steps=25,
    max_context_messages=18,
    kind="summary",
)
"""A plan whose window is pruned and summed up, again and again, and in which a summary fails."""


def plans() -> st.SearchStrategy[Plan]:
    """Return a strategy of plans."""
    kinds = st.sampled_from(list(Kind.__args__))
    acts = st.sampled_from([None, None, None, *Act.__args__])
    step = st.builds(
        PlannedStep, kinds, acts, st.sampled_from(list(Place.__args__)), st.sampled_from([False] * 5 + [True])
    )
    return st.builds(
        Plan,
        st.lists(step, min_size=1, max_size=14).map(tuple),
        st.sampled_from([1, 2, 4, 25]),
        st.sampled_from([None, 2, 4, 7]),
        st.sampled_from(["summary", "cut"]),
    )
