"""Who a bearer text names, from memory: API keys, tokens, and what was revoked of them."""

import asyncio
import hashlib
import hmac
import re
import time
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import structlog

from agent_core.clock import Clock, SystemClock
from agent_core.errors import ParleyError
from agent_core.messages import Actor
from agent_core.objects import Revocation, RevocationKind, SigningKey, StoredKey
from agent_core.runtime.access import Access
from app.serving.caps import Logins
from app.serving.readers import Reader, Readers
from app.storage import ApiKey
from channels.web.identity import (
    ACT_AS,
    COOKIE_SECONDS,
    FORGOTTEN,
    OPERATOR,
    SCOPES,
    Login,
    Principal,
    Token,
    TokenSigner,
)
from channels.web.signed import LEEWAY, Signer, read_signed, signer_of

AUDIENCE = "parley"
"""What every token may name as its audience; the server's public address is another."""
EVERY = 1.0
"""Seconds between two looks at the database for what other processes changed."""
OVERLAP = 60_000
"""Milliseconds by which each look goes back: clocks of processes differ, and commits overtake each other."""
FLUSH = 60_000
"""Milliseconds between two writes of when keys were last used."""
MAX_AGE = 1000 * COOKIE_SECONDS
"""Milliseconds after which nothing that a revoked actor held can be valid any more: a cookie lives longest."""
_KEY = re.compile(r"pk_(key_[A-Za-z0-9_-]{16})_[A-Za-z0-9_-]{43}")
_NO_DIGEST = bytes(32)
_log = structlog.get_logger("parley.access")


class Credentials:
    """The keys and revocations of this process's database, kept in memory so that no request asks for them.

    With *shared* other processes change them too: they are read again every second while `following`. Streams of
    *readers* that are refused from then on are ended. *public_url* is where others reach this server, which tokens that
    sites sign may name.
    """

    def __init__(
        self,
        access: Access,
        tokens: TokenSigner,
        api_key: ApiKey | None,
        *,
        readers: Readers,
        shared: bool = False,
        clock: Clock | None = None,
        public_url: str | None = None,
    ) -> None:
        self.tokens, self._access, self._api_key, self._readers = tokens, access, api_key, readers
        self._shared, self._clock = shared, clock or SystemClock()
        self.logins = Logins(time.monotonic)
        """The failed ones, by address."""
        self.signers = Signers(audiences_of(public_url))
        """The keys by which sites sign tokens of their visitors."""
        self._keys: dict[str, StoredKey] = {}
        self._revoked: dict[RevocationKind, dict[str, int]] = {"token": {}, "actor": {}, "session": {}}
        self._are_forgotten = False
        self._dropped: set[str] = set()
        self._used: dict[str, int] = {}
        self._flushed = self._looked = 0
        readers.refuse(self._is_refused)

    def identify(self, text: str) -> Principal | None:
        """Return whom *text* names; None when it is no key or token, or one that holds no more."""
        if (match := _KEY.fullmatch(text)) is not None and (named := self._named(match[1], text)) is not None:
            return named
        if self._api_key is not None and self._api_key.fits(text):
            return Principal("operator", OPERATOR, scopes=SCOPES)
        read = self.tokens.read(text) or self._signed(text)
        if read is None or not self.holds(read):
            return None
        return self._marked(read) if read.visitor else read

    def fault_of(self, text: str) -> str | None:
        """Return what is wrong with a token that is signed by a registered key, for who signs it; None: nothing is."""
        read = self.signers.read(text, self._clock.now())
        return read if isinstance(read, str) else None

    def is_genuine(self, text: str) -> bool:
        """Return whether *text* is a token that was signed here or by a registered key, though it may not hold."""
        return self.tokens.is_genuine(text) or self.signers.read(text, self._clock.now()) is not None

    def log_in(self, text: str) -> tuple[Token, Principal] | None:
        """Return a login with the API key *text*; None for all else, tokens and a secret that was replaced included."""
        match = _KEY.fullmatch(text)
        id = None if match is None or self._named(match[1], text) is None else match[1]
        if id is None and (self._api_key is None or not self._api_key.fits(text)):
            return None
        mark = self._mark(id)
        if id is not None and mark != self.tokens.mark(hashlib.sha256(text.encode()).digest()):
            return None
        token = self.tokens.login(id, mark or "")
        login = self.login(token.text)
        return None if login is None else (token, login[1])

    def login(self, text: str) -> tuple[Login, Principal] | None:
        """Return the login that a cookie holds, and who made it; None when it is over, or its key's secret is."""
        login = self.tokens.read_login(text)
        if login is None:
            return None
        key = None if login.key is None else self._keys.get(login.key)
        actor, scopes = (OPERATOR, SCOPES) if key is None else (_holder(key), frozenset(key.object.scopes))
        principal = Principal("operator", actor, scopes=scopes, key=login.key, token=login.id, mark=login.mark)
        if not self.holds(principal):
            return None
        if login.key is not None:
            self._used[login.key] = self._clock.now()
        return login, principal

    def holds(self, principal: Principal) -> bool:
        """Return whether what *principal* sent is still good: neither expired nor revoked, with the same scopes."""
        if principal.expires is not None and self._clock.now() >= principal.expires:
            return False
        key = None if principal.key is None else self._keys.get(principal.key)
        if not principal.visitor:
            if principal.mark is not None and not self._is_current(principal):
                return False
            return principal.key is None or (
                key is not None and not self._is_over(key) and principal.scopes == frozenset(key.object.scopes)
            )
        if principal.key is not None and key is None:
            return False
        if principal.signer is not None and principal.signer not in self.signers:
            return False
        revoked, actor = self._revoked, principal.actor.id
        if principal.token is not None and principal.token in revoked["token"]:
            return False
        until = revoked["actor"].get(actor, -1)
        if self._are_forgotten:
            until = max(until, revoked["actor"].get(self.tokens.pseudonym(actor), -1))
        # A site's clock may be ahead of ours: what it signed before the revocation may say that it did so after.
        return principal.issued > until + (0 if principal.signer is None else 1000 * LEEWAY)

    async def load(self) -> None:
        """Read everything."""
        now = self._clock.now()
        await self._access.tidy(now - MAX_AGE)
        await self._look(since=0)

    async def revoke(self, kind: RevocationKind, subject: str) -> Revocation:
        """Revoke a token, an actor's tokens, or visitors' access to a session: here at once, elsewhere in a second."""
        done = await self._access.revoke(kind, subject)
        self._learn((done,))
        self._end_refused()
        return done

    def put(self, key: StoredKey) -> None:
        """Use *key* as it is now; a revoked one no more."""
        if key.object.revoked_at is None:
            self._keys[key.object.id] = key
        else:
            self._dropped.add(key.object.id)  # a look that began before may end after this
            self._keys.pop(key.object.id, None)
        self._end_refused()

    def put_signer(self, key: SigningKey) -> None:
        """Take tokens that *key* signed, here at once."""
        self.signers.put(key)

    def drop_signer(self, id: str) -> None:
        """Take no more tokens that the key *id* signed; their streams end."""
        self.signers.drop(id)
        self._end_refused()

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Keep up with the database while the block lasts."""
        await self.load()
        work = asyncio.create_task(self._follow(), name="parley-credentials")
        try:
            yield
        finally:
            work.cancel()
            await asyncio.wait((work,))
            with suppress(ParleyError):
                await self._flush()

    def _signed(self, text: str) -> Principal | None:
        """Return the visitor of a token that a site signed, None for anything else."""
        read = self.signers.read(text, self._clock.now())
        return read if isinstance(read, Principal) else None

    def _named(self, id: str, text: str) -> Principal | None:
        """Return the holder of the key *id* if *text* is its secret; an unknown id takes as long."""
        key, digest = self._keys.get(id), hashlib.sha256(text.encode()).digest()
        fits = hmac.compare_digest(digest, _NO_DIGEST if key is None else key.digest)
        now, expires = self._clock.now(), None
        if key is not None and not fits and key.previous is not None and now < (key.previous_until or 0):
            fits = hmac.compare_digest(digest, key.previous)
            expires = key.previous_until
        if key is None or not fits or self._is_over(key):
            return None
        self._used[id] = now
        return Principal("operator", _holder(key), scopes=frozenset(key.object.scopes), key=id, expires=expires)

    def _is_current(self, operator: Principal) -> bool:
        """Return whether an operator's login was not ended, and its key's secret is the same."""
        return operator.token not in self._revoked["token"] and operator.mark == self._mark(operator.key)

    def _mark(self, id: str | None) -> str | None:
        """Return the mark of the secret that the key *id* has now, of the printed key when *id* is None."""
        key = self._api_key if id is None else self._keys.get(id)
        return None if key is None else self.tokens.mark(key.digest)

    def _marked(self, visitor: Principal) -> Principal:
        """Return *visitor* with the sessions that are closed to it, and with the key that its words count as too."""
        key = None if visitor.key is None else self._keys.get(visitor.key)
        via = None if key is None or ACT_AS in key.object.scopes else _holder(key)
        if visitor.signer is not None:
            via = self._registrar(visitor.signer)
        return replace(visitor, via=via, barred=self._revoked["session"].keys())

    def _registrar(self, signer: str) -> Actor | None:
        """Return who registered the key *signer* if they may not act for other people, or were revoked since."""
        registrar = self.signers.registrar(signer)
        if registrar is None or registrar == OPERATOR:
            return None
        key = self._keys.get(registrar.id.removeprefix(f"{OPERATOR.id}:"))
        return None if key is not None and ACT_AS in key.object.scopes else registrar

    def _is_over(self, key: StoredKey) -> bool:
        return key.object.expires_at is not None and self._clock.now() >= key.object.expires_at

    async def _follow(self) -> None:
        is_away = False
        while True:
            await self._clock.sleep(EVERY)
            now = self._clock.now()
            changed = any(key.object.expires_at is not None for key in self._keys.values())
            try:
                if self._shared:
                    changed |= await self._look(since=self._looked - OVERLAP)
                if now - self._flushed >= FLUSH:
                    await self._flush()
                is_away = False
            except ParleyError as error:  # the database is away: what is in memory holds until it is back
                if not is_away:  # once per outage
                    _log.warning("access.not_read", reason=str(error))
                is_away = True
            if changed:  # else there is nothing to look for in thousands of streams
                self._end_refused()

    async def _look(self, *, since: int) -> bool:
        """Read what is new, and return whether something may be."""
        now = self._clock.now()
        revoked = await self._access.revoked_since(since)
        usable = await self._access.usable_keys()
        keys = {key.object.id: key for key in usable if key.object.id not in self._dropped}
        changed = self.signers.replace(await self._access.every_signing_key())
        changed |= bool(revoked) or keys != self._keys
        self._keys = keys
        self._learn(revoked)
        self._looked = now
        return changed

    def _learn(self, revoked: Iterable[Revocation]) -> None:
        for each in revoked:
            self._revoked[each.kind][each.subject] = each.at
            self._are_forgotten |= each.kind == "actor" and each.subject.startswith(FORGOTTEN)

    def _end_refused(self) -> None:
        self._readers.end_refused()

    def _is_refused(self, reader: Reader) -> bool:
        barred = reader.principal.visitor and reader.session in self._revoked["session"]
        return barred or not self.holds(reader.principal)

    async def _flush(self) -> None:
        self._flushed = self._clock.now()
        for kind in ("token", "actor"):
            recent = {subject: at for subject, at in self._revoked[kind].items() if at > self._flushed - MAX_AGE}
            self._revoked[kind] = recent
        used = dict(self._used)
        if used:
            await self._access.note_used(used)
            self._used = {id: at for id, at in self._used.items() if at != used.get(id)}


def _holder(key: StoredKey) -> Actor:
    return Actor(id=key.object.actor, kind="service", name=key.object.name)


def audiences_of(public_url: str | None) -> frozenset[str]:
    """Return what a token's `aud` may be on a server that others reach at *public_url*."""
    named = () if public_url is None else (public_url.rstrip("/"), f"{public_url.rstrip('/')}/")
    return frozenset({AUDIENCE, *named})


class Signers:
    """The registered keys of sites by what tokens call them, in memory; tokens are for one of *audiences*."""

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
