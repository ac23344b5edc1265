"""Visitors' tokens as they travel."""

import msgspec


class TokenAnswer(msgspec.Struct, frozen=True):
    """A visitor's token, when it ends, and the *id* by which it can be revoked."""

    token: str
    expires_at: str
    id: str


class AnonymousToken(TokenAnswer, frozen=True):
    """A token for a visitor whom no site names, and the *secret* that gives the same visitor the next one.

    The secret is for the browser's storage; each answer has a new one, good for 30 days.
    """

    secret: str
