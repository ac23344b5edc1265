"""Keys and revocations in memory: when they are read, when use is written, and when a key ends."""

import asyncio
from collections.abc import Callable
from itertools import pairwise

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from agent_core.core import Core
from agent_core.messages import Actor
from agent_core.objects import Scope, SigningKey
from agent_core.testing import FakeClock
from app.serving.credentials import Credentials
from app.serving.readers import Readers
from app.storage import Keys
from channels.web.identity import TokenSigner
from channels.web.public_keys import read_key
from tests.app.conftest import SECRET
from tests.polling import PATIENCE

BOSS = Actor("operator", "service")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def core(make_core, clock: FakeClock) -> Core:
    return await make_core(clock=clock)


async def secret_of(core: Core, *scopes: Scope, expires_at: int | None = None) -> str:
    made = await core.access.create_key(name="a", scopes=scopes, by=BOSS, shared=None, expires_at=expires_at)
    return made[1]


def credentials_of(core: Core, tokens: TokenSigner, clock: FakeClock, *, shared: bool) -> Credentials:
    return Credentials(core.access, tokens, None, readers=Readers(), shared=shared, clock=clock)


async def until(core: Core, clock: FakeClock, condition: Callable[[], object]) -> None:
    """Let seconds pass until *condition* is true."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            clock.advance(1)
            await core.health.ping()


async def test_other_processes_changes_are_seen_within_a_second(core: Core, tokens: TokenSigner, clock: FakeClock):
    """A key that another process made works here a second later, and one that it revoked works no more."""
    here = credentials_of(core, tokens, clock, shared=True)
    async with here.following():
        secret = await secret_of(core, "read")
        assert here.identify(secret) is None
        await until(core, clock, lambda: here.identify(secret))
        found = here.identify(secret)
        assert found
        assert (found.scopes, found.actor.id) == ({"read"}, f"operator:{found.key}")
        await core.access.revoke_key(str(found.key))
        token = tokens.visitor(Actor("ada", "visitor"), agent="agent_1")
        assert here.identify(token.text)
        await core.access.revoke("token", token.id)
        await until(core, clock, lambda: here.identify(secret) is None and here.identify(token.text) is None)


async def test_a_key_ends_at_its_time(core: Core, tokens: TokenSigner, clock: FakeClock):
    """A key with an end is refused from that moment on."""
    secret = await secret_of(core, "read", expires_at=clock.now() + 1000)
    here = credentials_of(core, tokens, clock, shared=False)
    await here.load()
    assert here.identify(secret)
    clock.advance(1)
    assert here.identify(secret) is None


async def test_a_stream_ends_with_its_token(tokens: TokenSigner):
    """An open stream is ended when the visitor's token expires: to read on takes a new one."""
    token = tokens.visitor(Actor("ada", "visitor"), agent="agent_1", seconds=60)
    visitor = tokens.read(token.text)
    assert visitor
    readers = Readers(now=lambda: 1000 * token.expires - 5)
    stream = asyncio.create_task(asyncio.Event().wait())
    with readers.of(visitor, "ses_1").holding(stream):
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(asyncio.shield(stream), PATIENCE)
        assert stream.cancelled()


async def test_a_secret_that_was_rotated_has_an_end(core: Core, tokens: TokenSigner, clock: FakeClock):
    """What is opened with the secret before ends with its grace; the new secret has no such end."""
    secret = await secret_of(core, "read")
    here = credentials_of(core, tokens, clock, shared=False)
    await here.load()
    first = here.identify(secret)
    assert first
    assert (first.expires, first.key) == (None, first.key)
    _, new = await core.access.rotate_key(str(first.key), grace=60)
    await here.load()
    assert [getattr(here.identify(each), "expires", 0) for each in (secret, new)] == [clock.now() + 60_000, None]


async def test_what_was_identified_before_its_end_does_not_hold_after_it(core: Core, clock: FakeClock):
    """A token, or the secret before a rotation, that expires while its request arrives is refused then."""
    tokens = TokenSigner(Keys(SECRET).derive, now=lambda: clock.now() / 1000)
    secret = await secret_of(core, "read")
    here = credentials_of(core, tokens, clock, shared=False)
    await here.load()
    lasting = here.identify(secret)
    assert lasting
    await core.access.rotate_key(str(lasting.key), grace=60)
    await here.load()
    visitor = tokens.visitor(Actor("ada", "visitor"), agent="agent_1", seconds=60)
    ending = [here.identify(text) for text in (secret, visitor.text, tokens.operator(seconds=60).text)]
    assert [each is not None and here.holds(each) for each in ending] == [True] * 3
    clock.advance(60)
    assert [each is not None and here.holds(each) for each in ending] == [False] * 3
    assert here.holds(lasting)


async def test_use_is_written_once_a_minute(core: Core, tokens: TokenSigner, clock: FakeClock, monkeypatch):
    """However often a key is used, its last use is written once a minute, and at the end."""
    secret = await secret_of(core, "read")
    here = credentials_of(core, tokens, clock, shared=False)
    written: list[int] = []
    original = core.access.note_used

    async def noted(used):
        written.append(clock.now())
        await original(used)

    monkeypatch.setattr(core.access, "note_used", noted)

    def used_and_written() -> bool:
        assert here.identify(secret)
        return len(written) == 3

    async with here.following():
        await until(core, clock, used_and_written)
    assert [(earlier, later) for earlier, later in pairwise(written[:3]) if later - earlier < 60_000] == []
    (key,) = (await core.access.keys()).items
    assert key.used_at is not None
    assert key.used_at >= written[1]


async def test_many_processes_ask_no_database_for_a_caller(core: Core, tokens: TokenSigner, clock: FakeClock):
    """Whom a text names is answered from memory, at once."""
    here = credentials_of(core, tokens, clock, shared=False)
    await here.load()
    assert not asyncio.iscoroutinefunction(here.identify)
    assert here.identify("pk_key_AAAAAAAAAAAAAAAA_" + "A" * 43) is None


async def test_a_sites_key_of_another_process_is_seen_within_a_second(
    core: Core, tokens: TokenSigner, clock: FakeClock
):
    """What the key signs names visitors a second after it was registered elsewhere, and no more once it is removed."""
    private = Ed25519PrivateKey.generate()
    public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    read = read_key(public)
    key = SigningKey(
        id="", name="Site", kid="site", algorithm=read.algorithm, jwk=read.jwk, created_at=0, created_by=BOSS
    )
    at = clock.now() / 1000
    body = {"sub": "ada", "aud": "parley", "agent": "shop", "iat": at, "exp": at + 3600}
    token = jwt.encode(body, private, "EdDSA", headers={"kid": "site"})
    here = credentials_of(core, tokens, clock, shared=True)
    async with here.following():
        assert (here.identify(token), here.is_genuine(token)) == (None, False)
        made = await core.access.add_signing_key(key)
        await until(core, clock, lambda: here.identify(token))
        await core.access.remove_signing_key(made.id)
        await until(core, clock, lambda: here.identify(token) is None)
        assert clock.now() / 1000 < body["exp"], "it has not just expired"
