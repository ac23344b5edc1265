"""Who may decide of a call. Pure."""

from collections.abc import Sequence
from math import inf
from typing import Any

import msgspec

from agent_core.domain.hooks import ApprovalConfig
from agent_core.domain.messages import Actor
from agent_core.errors import InvalidInput

LONGEST = 30 * 24 * 3600.0
MAX_QUORUM = 20
_WORDS = frozenset({"asker", "operators", "anyone", "not_asker"})
_NAMED = ("actor:", "slack:")
_ONE = ("asker", "actor:", "slack:U", "slack:W")
"""How names of one person begin."""
_MAX_RESPONDERS = 100
_MAX_PLACES = 20
_MAX_NAME = 200
_CARRIERS = ("slack",)
"""The channels that can show a question in another place than its conversation."""
_MAX_TITLE = 150
_MAX_DETAIL = 2_000


class Decider(msgspec.Struct, frozen=True, kw_only=True):
    """Who decides, as the surface knows them.

    *is_operator*: with an operator's key, in nobody else's name. *is_present*: somebody who is where the question is
    shown. *also* are further names of theirs, such as `slack:U1` or the `slack:S1` of a group they are in.
    """

    actor: Actor
    is_operator: bool = False
    is_present: bool = False
    also: tuple[str, ...] = ()


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """A vote on *approval* (its id), given on *surface*: `slack`, `web`, `api` or `terminal`.

    *arguments* are corrected ones; *remember* allows the tool for the rest of the conversation.
    """

    approval: str
    by: Decider
    approved: bool
    surface: str
    reason: str | None = None
    arguments: dict[str, Any] | None = None
    remember: bool = False


def may_respond(
    responders: Sequence[str], asker: Actor | None, decider: Decider, speakers: Sequence[Actor] = ()
) -> bool:
    """Tell whether *decider* may vote on what *asker* wants.

    `not_asker` takes the asker out, and all *speakers* who had a say in it; alone it lets in everybody else who can see
    the question. Without an asker nobody is known to be another than the asker.
    """
    own = decider.actor
    is_asker = asker is not None and (asker.id, asker.kind) == (own.id, own.kind)
    had_a_say = any(
        each is not None and each.id == own.id for each in (asker, *speakers)
    )  # under whatever kind of name
    if "not_asker" in responders and (asker is None or had_a_say):
        return False
    wanted = [name for name in responders if name != "not_asker"] or ["anyone"]
    return any(_is(name, decider, is_asker=is_asker) for name in wanted)


def _is(name: str, decider: Decider, *, is_asker: bool) -> bool:
    match name:
        case "asker":
            return is_asker
        case "operators":
            return decider.is_operator
        case "anyone":
            return decider.is_present or decider.is_operator
        case _ if name.startswith("actor:"):
            return name.removeprefix("actor:") == decider.actor.id
        case _:
            return name in decider.also


def told(responders: Sequence[str]) -> str:
    """Say in words who may decide."""
    words = {
        "asker": "whoever asked",
        "operators": "operators",
        "anyone": "anyone here",
        "not_asker": "not whoever asked",
    }
    return ", ".join(words.get(name, name) for name in responders)


def check_approval(path: str, config: ApprovalConfig) -> None:
    """Raise `InvalidInput` when nobody could decide as *config* says."""
    if not config.responders:
        raise InvalidInput(f"{path}.responders", "name somebody who may decide, such as `asker` or `operators`.")
    _check_lists(path, config)
    for name in config.responders:
        if name not in _WORDS and not (name.startswith(_NAMED) and name.partition(":")[2].strip()):
            known = ", ".join(sorted(_WORDS))
            raise InvalidInput(f"{path}.responders", f"`{name}` is nobody: {known}, actor:<id> or slack:<id>.")
    if not 1 <= config.quorum <= MAX_QUORUM:
        raise InvalidInput(f"{path}.quorum", f"between 1 and {MAX_QUORUM}.")
    _check_people(path, config)
    if config.quorum > 1 and config.edit:
        why = "what several people approve is one call: none of them can correct it; deny it with a reason instead."
        raise InvalidInput(f"{path}.edit", why)
    if not 1 <= config.timeout_s <= LONGEST:
        raise InvalidInput(f"{path}.timeout_s", f"between 1 and {LONGEST:.0f} seconds (30 days).")
    for place in config.deliver_to:
        channel, _, where = place.partition(":")
        if channel not in _CARRIERS or not where.strip():
            raise InvalidInput(f"{path}.deliver_to", f"`{place}` is no place; write `slack:<channel or user id>`.")
    for name, text, most in (("title", config.title, _MAX_TITLE), ("detail", config.detail, _MAX_DETAIL)):
        if text is not None and not 1 <= len(text.strip()) <= most:
            raise InvalidInput(f"{path}.{name}", f"1 to {most} characters.")


def _check_people(path: str, config: ApprovalConfig) -> None:
    most = _people(config.responders)
    if not most:
        raise InvalidInput(f"{path}.responders", "`not_asker` leaves nobody who may decide; name somebody else.")
    if config.quorum > most:
        raise InvalidInput(f"{path}.quorum", f"the `responders` are never more than {most}; name more, or want fewer.")


def _people(responders: Sequence[str]) -> float:
    """Return how many could ever say yes: without end where a word or a group lets in people that it does not name."""
    wanted = set(responders) - {"not_asker"}
    if not wanted or not all(name.startswith(_ONE) for name in wanted):
        return inf
    return len(wanted - {"asker"} if "not_asker" in responders else wanted)


def _check_lists(path: str, config: ApprovalConfig) -> None:
    for names, field, most in (
        (config.responders, "responders", _MAX_RESPONDERS),
        (config.deliver_to, "deliver_to", _MAX_PLACES),
    ):
        if len(names) > most or any(len(name) > _MAX_NAME for name in names):
            raise InvalidInput(f"{path}.{field}", f"at most {most}, of {_MAX_NAME} characters each.")
