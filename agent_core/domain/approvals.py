"""The people who may decide on a call. Pure."""

from collections.abc import Sequence
from math import inf
from typing import Any

import msgspec

from agent_core.domain.channels import Channels
from agent_core.domain.hooks import ApprovalConfig
from agent_core.domain.messages import Actor
from agent_core.errors import InvalidInput

MAX_TIMEOUT = 30 * 24 * 3600.0
MAX_QUORUM = 20
_WORDS = frozenset({"asker", "operators", "anyone", "not_asker"})
_ACTOR = "actor:"
_MAX_RESPONDERS = 100
_MAX_PLACES = 20
_MAX_NAME = 200
_MAX_TITLE = 150
_MAX_DETAIL = 2_000


class Decider(msgspec.Struct, frozen=True, kw_only=True):
    """The person who decides, as the surface knows them.

    *is_operator*: with an operator's key and in no other person's name. *is_present*: in the place that shows the
    approval. *also* are further names, such as the account `slack:U1` or the group `slack:S1`.
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
    """Return whether *decider* may vote on a call that *asker* caused.

    `not_asker` excludes the asker and all *speakers* of the run; alone it admits everyone else who can see the
    approval. Without an asker it admits no one: any decider might be the asker.
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


def described(responders: Sequence[str]) -> str:
    """Return a description of the *responders*, as part of a sentence."""
    words = {
        "asker": "the person who asked",
        "operators": "operators",
        "anyone": "anyone here",
        "not_asker": "not the person who asked",
    }
    return ", ".join(words.get(name, name) for name in responders)


def check_approval(path: str, config: ApprovalConfig, channels: Channels) -> None:
    """Raise `InvalidInput` when no call could be decided under *config*; *channels* know people and destinations."""
    if not config.responders:
        raise InvalidInput(f"{path}.responders", "name a responder, such as `asker` or `operators`.")
    _check_lists(path, config)
    for name in config.responders:
        if name not in _WORDS and not _is_actor(name) and channels.responder(name) is None:
            accepted = ", ".join([*sorted(_WORDS), "actor:<id>", *(f"{each}:<id>" for each in channels.of_responders)])
            raise InvalidInput(f"{path}.responders", f"unknown responder `{name}`; the responders are: {accepted}.")
    if not 1 <= config.quorum <= MAX_QUORUM:
        raise InvalidInput(f"{path}.quorum", f"between 1 and {MAX_QUORUM}.")
    _check_people(path, config, channels)
    if config.quorum > 1 and config.edit:
        why = "with a quorum above 1 the arguments cannot be corrected: all approve one call; deny it with a reason."
        raise InvalidInput(f"{path}.edit", why)
    if not 1 <= config.timeout_s <= MAX_TIMEOUT:
        raise InvalidInput(f"{path}.timeout_s", f"between 1 and {MAX_TIMEOUT:.0f} seconds (30 days).")
    for place in config.deliver_to:
        if not channels.delivers(place):
            accepted = " or ".join(f"`{each}:<channel or user id>`" for each in channels.of_deliveries)
            remedy = f"write {accepted}." if accepted else "no channel here shows approvals elsewhere; leave it out."
            raise InvalidInput(f"{path}.deliver_to", f"invalid destination `{place}`; {remedy}")
    for name, text, limit in (("title", config.title, _MAX_TITLE), ("detail", config.detail, _MAX_DETAIL)):
        if text is not None and not 1 <= len(text.strip()) <= limit:
            raise InvalidInput(f"{path}.{name}", f"1 to {limit} characters.")


def _is_actor(name: str) -> bool:
    return name.startswith(_ACTOR) and bool(name.removeprefix(_ACTOR).strip())


def _check_people(path: str, config: ApprovalConfig, channels: Channels) -> None:
    limit = _people(config.responders, channels)
    if not limit:
        raise InvalidInput(f"{path}.responders", "`not_asker` excludes every responder; name another one.")
    if config.quorum > limit:
        raise InvalidInput(f"{path}.quorum", f"the `responders` are at most {limit} people; name more, or lower it.")


def _people(responders: Sequence[str], channels: Channels) -> float:
    """Return how many people could approve; infinite when one of *responders* is a role or a group."""
    wanted = set(responders) - {"not_asker"}
    if not wanted or not all(_is_person(name, channels) for name in wanted):
        return inf
    return len(wanted - {"asker"} if "not_asker" in responders else wanted)


def _is_person(name: str, channels: Channels) -> bool:
    return name == "asker" or _is_actor(name) or channels.responder(name) == "person"


def _check_lists(path: str, config: ApprovalConfig) -> None:
    for names, field, limit in (
        (config.responders, "responders", _MAX_RESPONDERS),
        (config.deliver_to, "deliver_to", _MAX_PLACES),
    ):
        if len(names) > limit or any(len(name) > _MAX_NAME for name in names):
            raise InvalidInput(f"{path}.{field}", f"at most {limit}, of {_MAX_NAME} characters each.")
