"""Keys that sign visitors' tokens in the store: one per name, in order, gone once removed."""

import pytest
from msgspec.structs import replace

from agent_core.errors import Conflict, NotFound
from agent_core.messages import Actor
from agent_core.objects import SigningKey
from agent_core.store import access
from tests.conftest import MakeCore

BOSS = Actor("operator", "service")
JWK = {"crv": "Ed25519", "kty": "OKP", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}


def key(kid: str, *agents: str) -> SigningKey:
    made = SigningKey(id="", name="Site", kid=kid, algorithm="EdDSA", jwk=JWK, created_at=0, created_by=BOSS)
    return replace(made, agents=agents or None)


async def test_keys_are_shared_by_the_processes_of_a_database(make_core: MakeCore, monkeypatch: pytest.MonkeyPatch):
    """What one process registers another reads; a name is taken once, there is a most, and removed is gone."""
    core, other = await make_core(), await make_core()
    first = await core.access.add_signing_key(key("a"))
    second = await other.access.add_signing_key(key("b", "agent_1", "agent_2"))
    assert await core.access.every_signing_key() == [first, second]
    assert (first.agents, second.agents) == (None, ("agent_1", "agent_2"))
    page = await core.access.signing_keys(limit=1)
    assert (page.items, (await core.access.signing_keys(cursor=page.next_cursor)).items) == ((first,), (second,))
    assert (first.jwk, first.created_by, first.id[:5]) == (JWK, BOSS, "sign_")
    with pytest.raises(Conflict, match="`a` is registered"):
        await other.access.add_signing_key(key("a"))
    monkeypatch.setattr(access, "MAX_KEYS", 2)
    with pytest.raises(Conflict, match="2 keys"):
        await core.access.add_signing_key(key("c"))
    await other.access.remove_signing_key(first.id)
    assert await core.access.every_signing_key() == [second]
    with pytest.raises(NotFound):
        await core.access.remove_signing_key(first.id)
    again = await core.access.add_signing_key(key("a"))
    assert again.id != first.id
