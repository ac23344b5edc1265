"""The registered keys of sites, in memory and ready to verify the tokens that those signed for their visitors."""

from collections.abc import Collection, Iterable

from agent_core import Actor
from agent_core.domain.access import SigningKey
from channels.web.identity import Principal
from channels.web.signed import Signer, read_signed, signer_of

AUDIENCE = "parley"
"""What every token may name as its audience; the server's public address is another."""


def audiences_of(public_url: str | None) -> frozenset[str]:
    """Return what a token's `aud` may be on a server that others reach at *public_url*."""
    named = () if public_url is None else (public_url.rstrip("/"), f"{public_url.rstrip('/')}/")
    return frozenset({AUDIENCE, *named})


class Signers:
    """Keys by what tokens call them; tokens are for one of *audiences*."""

    def __init__(self, audiences: Collection[str]) -> None:
        self._audiences = audiences
        self._keys: dict[str, SigningKey] = {}
        self._signers: dict[str, Signer] = {}
        self._registrars: dict[str, Actor] = {}
        self._dropped: set[str] = set()

    def __contains__(self, id: str) -> bool:
        return id in self._registrars

    def registrar(self, id: str) -> Actor | None:
        """Return the operator who registered the key *id*; None for one that is not there."""
        return self._registrars.get(id)

    def read(self, text: str, now: int) -> Principal | str | None:
        """Return whom *text* names at *now* (milliseconds), what is wrong with it, or None when no key signed it."""
        return read_signed(text, self._signers, audiences=self._audiences, now=now / 1000)

    def opens(self, id: str, agent: str | None) -> bool:
        """Return whether the key *id* signs for *agent*, by its id; None: for an agent that is not there."""
        agents = next((key.agents for key in self._keys.values() if key.id == id), ())
        return agents is None or agent in agents

    def put(self, key: SigningKey) -> None:
        """Take tokens of *key* from now on."""
        self.replace((*self._keys.values(), key))

    def drop(self, id: str) -> None:
        """Take no more tokens of the key *id*."""
        self._dropped.add(id)  # a look that began before may end after this
        self.replace(self._keys.values())

    def replace(self, keys: Iterable[SigningKey]) -> bool:
        """Use *keys* and no others; return whether that changes anything."""
        current = {key.kid: key for key in keys if key.id not in self._dropped}
        if current == self._keys:
            return False
        self._keys = current
        self._signers = {key.kid: signer_of(key.id, key.jwk, key.algorithm) for key in current.values()}
        self._registrars = {key.id: key.created_by for key in current.values()}
        return True
