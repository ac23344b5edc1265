"""Who may decide: the words of a policy, alone and together."""

from collections.abc import Sequence
from typing import Any

import pytest

from agent_core.agents import ApprovalConfig
from agent_core.channels import Channels
from agent_core.errors import InvalidInput
from agent_core.messages import Actor
from agent_core.objects import Decider, check_approval, may_respond
from app.compose import CHANNELS
from tests.agent_core.asking import BOB, EVE, OPERATOR
from tests.agent_core.stage import ANN
from tests.cases import for_each

ASKER = Decider(actor=ANN, is_present=True)
NEIGHBOUR = Decider(actor=BOB, is_present=True)
OUTSIDER = Decider(actor=EVE)
MEMBER = Decider(actor=Actor("slack:T1:U7", "user"), is_present=True, also=("slack:U7", "slack:S9"))
IMPOSTOR = Decider(actor=Actor("ann", "visitor"), is_present=True)
KNOWN = Channels(CHANNELS)
EVERYBODY = (ASKER, NEIGHBOUR, OUTSIDER, MEMBER, IMPOSTOR, OPERATOR)


@for_each(
    "responders, may",
    [
        (("asker",), {ASKER}),
        (("operators",), {OPERATOR}),
        (("asker", "operators"), {ASKER, OPERATOR}),
        (("anyone",), {ASKER, IMPOSTOR, NEIGHBOUR, MEMBER, OPERATOR}),
        (("not_asker",), {NEIGHBOUR, MEMBER, OPERATOR}),
        (("asker", "not_asker"), set()),
        (("anyone", "not_asker"), {NEIGHBOUR, MEMBER, OPERATOR}),
        (("actor:bob",), {NEIGHBOUR}),
        (("actor:ann",), {ASKER, IMPOSTOR}),
        (("actor:ann", "not_asker"), set()),
        (("actor:bob", "not_asker"), {NEIGHBOUR}),
        (("slack:U7",), {MEMBER}),
        (("slack:S9", "operators"), {MEMBER, OPERATOR}),
        (("slack:S8",), set()),
    ],
)
def test_each_word_lets_in_whom_it_says(responders: tuple[str, ...], may: set[Decider]) -> None:
    """A policy admits those it names, and no others."""
    assert {each for each in EVERYBODY if may_respond(responders, ANN, each)} == may


def test_without_an_asker_not_asker_admits_no_one() -> None:
    """In a run without an asker neither `asker` nor `not_asker` admits anyone."""
    assert not any(may_respond(("asker",), None, each) for each in EVERYBODY)
    assert not any(may_respond(("not_asker",), None, each) for each in EVERYBODY)


@for_each(
    "config, path",
    [
        ({"responders": ()}, "responders"),
        ({"responders": ("boss",)}, "responders"),
        ({"responders": ("actor:",)}, "responders"),
        ({"quorum": 0}, "quorum"),
        ({"quorum": 2, "responders": ("asker",)}, "quorum"),
        ({"quorum": 2, "responders": ("asker", "actor:bob", "not_asker")}, "quorum"),
        ({"quorum": 3, "responders": ("actor:bob", "actor:eve", "actor:bob")}, "quorum"),
        ({"quorum": 3, "responders": ("asker", "slack:U7")}, "quorum"),
        ({"responders": ("asker", "not_asker")}, "responders"),
        ({"quorum": 2, "responders": ("anyone",), "edit": True}, "edit"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"timeout_s": 1e9}, "timeout_s"),
        ({"responders": ("actor:a",) * 101}, "responders"),
        ({"responders": ("actor:" + "a" * 200,)}, "responders"),
        ({"deliver_to": ("somewhere",)}, "deliver_to"),
        ({"deliver_to": ("slack:C1",) * 21}, "deliver_to"),
        ({"deliver_to": ("slack:" + "C" * 200,)}, "deliver_to"),
        ({"title": ""}, "title"),
        ({"detail": "x" * 5_000}, "detail"),
    ],
)
def test_an_impossible_policy_is_refused(config: dict[str, Any], path: str) -> None:
    """A policy without responders, or beyond its bounds, is refused with its path."""
    with pytest.raises(InvalidInput, match=f"config.{path}"):
        check_approval("hooks[0].config", ApprovalConfig(**config), KNOWN)


def is_taken(responders: Sequence[str], quorum: int) -> bool:
    """Return whether an agent may have such a policy."""
    try:
        check_approval("config", ApprovalConfig(responders=tuple(responders), quorum=quorum), KNOWN)
    except InvalidInput:
        return False
    return True


@for_each(
    "responders",
    [("actor:bob", "actor:eve"), ("asker", "slack:U7"), ("slack:S9",), ("actor:bob", "operators"), ("not_asker",)],
)
def test_a_quorum_that_can_be_reached_is_taken(responders: tuple[str, ...]) -> None:
    """Two people who are named can be two; of a group, operators or anybody there may be as many."""
    assert is_taken(responders, 2)
