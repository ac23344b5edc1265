"""The objects that the API shows: sessions, runs, messages, approvals, keys."""

from collections.abc import Sequence
from math import inf
from typing import Any, Generic, Literal, TypeVar

import msgspec

from agent_core.agents import ApprovalConfig, Definition
from agent_core.channels import Channels
from agent_core.errors import InvalidInput
from agent_core.events import WaitingOn
from agent_core.messages import Actor, Part, Usage


class SecretObject(msgspec.Struct, frozen=True, kw_only=True):
    """A secret without its value; times are milliseconds."""

    name: str
    created_at: int
    updated_at: int


Scope = Literal["read", "run", "approve", "approvals:as", "admin"]
"""What an API key may do: read, make agents work, decide approvals, act for other people in them, administer."""
SCOPES: tuple[Scope, ...] = ("read", "run", "approve", "approvals:as", "admin")
RevocationKind = Literal["token", "actor", "session"]


class KeyObject(msgspec.Struct, frozen=True, kw_only=True):
    """An API key without its secret; *actor* is the id that it acts under. Times are milliseconds.

    A key that was made by a key which may not act for other people shares that key's *actor*.
    """

    id: str
    name: str
    actor: str
    scopes: tuple[Scope, ...]
    created_at: int
    created_by: Actor
    expires_at: int | None
    used_at: int | None = None
    rotated_at: int | None = None
    revoked_at: int | None = None


class StoredKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key with the hashes of its secret and, until *previous_until*, of the one that it replaced."""

    object: KeyObject
    digest: bytes
    previous: bytes | None = None
    previous_until: int | None = None


class KeyChanges(msgspec.Struct, frozen=True, kw_only=True):
    """What of a key is changed; UNSET leaves it as it is."""

    name: str | msgspec.UnsetType = msgspec.UNSET
    scopes: tuple[Scope, ...] | msgspec.UnsetType = msgspec.UNSET
    expires_at: int | msgspec.UnsetType | None = msgspec.UNSET


class Revocation(msgspec.Struct, frozen=True, kw_only=True):
    """What holds no more since *at* (milliseconds): a token by its id, an actor's tokens, visitors in a session."""

    id: str
    kind: RevocationKind
    subject: str
    at: int


class SigningKey(msgspec.Struct, frozen=True, kw_only=True):
    """A public key by which sites sign tokens of their visitors; *jwk* is the key, *kid* what a token calls it.

    *agents* are the ids of those for which it signs; null: for every agent.
    """

    id: str
    name: str
    kid: str
    algorithm: Literal["RS256", "ES256", "EdDSA"]
    jwk: dict[str, str]
    created_at: int
    created_by: Actor
    agents: tuple[str, ...] | None = None


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator did: *route* is the method and the path's template, *object* the id, *result* HTTP's status."""

    at: int
    actor: Actor
    route: str
    object: str | None
    result: int


class OperationEntry(Operation, frozen=True, kw_only=True):
    """One line of the record of operations; *seq* orders all of them."""

    seq: int


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


RunStatus = Literal["queued", "running", "waiting", "requires_action", "completed", "failed", "cancelled"]
SessionStatus = Literal["idle", "running", "waiting", "requires_action", "closed"]
Rating = Literal["up", "down"]
ApprovalStatus = Literal["open", "approved", "denied", "expired", "cancelled"]
AuditKind = Literal[
    "requested", "delivered", "opened", "voted", "approved", "denied", "expired", "cancelled", "refused", "late"
]
ACTIVE: tuple[RunStatus, ...] = ("running", "waiting", "requires_action")
ENDED: tuple[RunStatus, ...] = ("completed", "failed", "cancelled")
T = TypeVar("T")


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Some items of a list, and the cursor of the next ones."""

    items: tuple[T, ...]
    next_cursor: str | None


class AgentObject(msgspec.Struct, frozen=True, kw_only=True):
    """A stored agent at its newest version; *source* `file` means read-only."""

    id: str
    version: int
    source: Literal["file", "api"]
    definition: Definition


class SessionObject(msgspec.Struct, frozen=True, kw_only=True):
    """A durable conversation.

    *forked_from* is the session that it began as a copy of, *replaced_by* the one that goes on in its place, by id.
    """

    id: str
    agent: str
    actor: Actor
    title: str | None
    status: SessionStatus
    metadata: dict[str, Any]
    created_at: int
    last_activity_at: int
    forked_from: str | None = None
    replaced_by: str | None = None


class ConversationObject(msgspec.Struct, frozen=True, kw_only=True):
    """A session as its person looks for it.

    *title* is on one line: the one that it was given, else the beginning of what was said first. *newest_seq*
    is the fact of the newest answer, 0 before the first.
    """

    id: str
    title: str | None
    status: SessionStatus
    created_at: int
    last_activity_at: int
    newest_seq: int


class MessageObject(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a session's transcript; *run* is the run that takes or made it."""

    id: str
    seq: int
    role: Literal["user", "assistant"]
    actor: Actor | None
    run: str | None
    parts: tuple[Part, ...]
    partial: bool
    created_at: int


class PendingCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that a person, a client or another run has to complete."""

    call: str
    on: WaitingOn
    tool: str
    arguments: dict[str, Any]
    approval: str | None = None


class RunError(msgspec.Struct, frozen=True):
    """Why a run failed: *message* is for the person, *detail* for the operator."""

    code: str
    message: str
    retryable: bool
    detail: str | None = None


class Feedback(msgspec.Struct, frozen=True, kw_only=True):
    """A person's feedback on a run."""

    run: str
    actor: Actor
    rating: Rating
    comment: str | None
    created_at: int


class RenderObject(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a call showed; *payload* is what its *kind* says, *text* all of it for those who cannot draw it.

    A fork shows it under the same id: there *session* and *run* are the fork's.
    """

    id: str
    session: str
    run: str | None
    call: str
    kind: str
    title: str | None
    payload: dict[str, Any]
    text: str
    created_at: int


class RunObject(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of an agent, from input to a terminal status; *text* is the last assistant message."""

    id: str
    session: str
    agent: str
    agent_version: int
    parent_run: str | None
    root_run: str
    status: RunStatus
    stop_reason: str | None
    error: RunError | None
    text: str
    parts: tuple[Part, ...]
    structured: Any | msgspec.UnsetType
    usage: Usage
    cost: str | None
    steps: int
    pending: tuple[PendingCall, ...]
    started_by: Actor | None
    created_at: int
    started_at: int | None
    last_activity_at: int
    completed_at: int | None
    feedback: tuple[Feedback, ...] = ()


class Vote(msgspec.Struct, frozen=True, omit_defaults=True):
    """One person's vote on an approval; *decider* is how the surface knew them, stored to check later permissions."""

    actor: Actor
    approved: bool
    at: int
    surface: str
    remember: bool = False
    is_operator: bool = False
    is_present: bool = False
    also: tuple[str, ...] = ()


class ApprovalObject(msgspec.Struct, frozen=True, kw_only=True):
    """A question to people about one exact call; *arguments* are those that may run, *asked* the model's own.

    *digest* is the hash of tool and arguments; *edit* and *remember* are what a decision may do besides yes or no. With
    a *form*, a JSON Schema, the tool asks people to fill it in, and *arguments* are what it is filled with.
    *parameters* is the JSON Schema of a tool's arguments, left out where it is long.
    """

    id: str
    session: str
    run: str
    agent: str
    call: str
    step: int
    tool: str
    arguments: dict[str, Any]
    asked: dict[str, Any]
    digest: str
    title: str
    detail: str | None
    status: ApprovalStatus
    responders: tuple[str, ...]
    quorum: int
    votes: tuple[Vote, ...]
    edit: bool
    remember: bool
    deliver_to: tuple[str, ...]
    on_timeout: Literal["deny", "fail"]
    asker: Actor | None
    speakers: tuple[Actor, ...] = ()
    requested_at: int
    expires_at: int
    decided_by: Actor | None = None
    decided_at: int | None = None
    reason: str | None = None
    form: dict[str, Any] | None = None
    parameters: dict[str, Any] | None = None

    @property
    def is_edited(self) -> bool:
        """Whether other arguments may run than the model asked for; what fills a form in is none of these."""
        return self.form is None and _canonical(self.arguments) != _canonical(self.asked)


def _canonical(arguments: dict[str, Any]) -> bytes:
    """Return a key that distinguishes arguments: to Python 1 and true are equal."""
    return msgspec.json.encode(arguments, order="deterministic")


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the record of approvals; *seq* orders all of them."""

    seq: int
    approval: str
    session: str
    run: str
    at: int
    kind: AuditKind
    actor: Actor | None
    surface: str | None
    place: str | None
    data: dict[str, Any] | None


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of receiving a message: its id, the run that answers it, its seq; *repeated* when the key was known.

    The run's facts have seqs above *before*.
    """

    session: str
    message: str
    run: str
    seq: int
    before: int = 0
    repeated: bool = False


__all__ = [
    "ACTIVE",
    "ENDED",
    "AgentObject",
    "ApprovalObject",
    "ApprovalStatus",
    "AuditEntry",
    "AuditKind",
    "Feedback",
    "MessageObject",
    "Page",
    "PendingCall",
    "Rating",
    "Receipt",
    "RunError",
    "RunObject",
    "RunStatus",
    "SessionObject",
    "SessionStatus",
    "Vote",
]
