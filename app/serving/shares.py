"""Whose use a visitor's request counts towards: the visitor's by id, and that of all visitors at one address."""

from starlette.types import Scope

from app.addresses import is_shared, place_of
from channels.web.identity import Principal

ELSEWHERE = "elsewhere"
"""The address of all anonymous visitors whose own is not known."""


def address_in(scope: Scope) -> str | None:
    """Return the network address that a request came from; of IPv6 the network of 64 bits that one customer has.

    This is the one place that says so: it is the connection's peer, or what a proxy of PARLEY_TRUSTED_PROXIES names.
    None for this machine and private networks: without that setting it is a proxy, which all visitors come through.
    """
    client = scope.get("client")
    return None if client is None or is_shared(client[0]) else place_of(client[0])


def share_of(principal: Principal, scope: Scope) -> str | None:
    """Return the address whose share a visitor uses; None for an operator, and where it is not known.

    Anonymous visitors always have one: without it a new id, which costs them nothing, would be a new share.
    """
    if not principal.visitor:
        return None
    return address_in(scope) or (ELSEWHERE if principal.is_anonymous else None)
