"""Access as values: API keys with their scopes, revocations, and the record of what operators did."""

from typing import Literal

import msgspec

from agent_core.domain.messages import Actor

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
