"""What other processes changed of tools, servers and secrets, and the values of secrets."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial

import structlog

from agent_core.errors import ConfigError, InvalidInput, NotFound, Unavailable
from agent_core.objects import Page, SecretObject
from agent_core.runtime.roster import cursor_key
from agent_core.secrets import Secrets, Unreadable
from agent_core.store import servers, tools
from agent_core.store.store import Store
from agent_core.store.tools import RevisionKind
from agent_core.traces import trace_of


async def cancel_and_wait(*tasks: asyncio.Task[None] | None) -> None:
    """Cancel *tasks*, and return when they have ended."""
    for task in filter(None, tasks):
        task.cancel()
        await asyncio.wait((task,))


EVERY = 1.0
"""Seconds after which a change of another process is seen at the latest."""
Load = Callable[[], Awaitable[None]]
_log = structlog.get_logger("parley.tools")


class Revisions:
    """Reads kinds of stored things again when they have changed; a change of this process is read by `look` at once.

    Without a bus no other process has the database, and nothing is looked for in the background.
    """

    def __init__(self, store: Store) -> None:
        self._store, self._loads = store, dict[str, Load]()
        self._seen: dict[str, int] = {}
        self._one = asyncio.Lock()
        self._work: asyncio.Task[None] | None = None

    def follow(self, kind: RevisionKind, load: Load) -> None:
        """Call *load* at the start, and whenever things of *kind* have changed; it reads all of them."""
        self._loads[kind] = load

    async def start(self) -> None:
        """Load everything, and from now on what changes."""
        await self.look()
        if self._store.bus is not None:
            self._work = asyncio.create_task(self._follow(), name="parley-revisions")

    async def stop(self) -> None:
        """Look no more."""
        await cancel_and_wait(self._work)

    async def look(self) -> None:
        """Load what has changed since it was loaded last; call it after a change, and before refusing a name."""
        async with self._one:
            now = await self._store.peek(tools.current_revisions)
            for kind, load in self._loads.items():
                if self._seen.get(kind) != now.get(kind, 0):
                    await load()  # what it reads is at least as new as the number: a later one is loaded once more
                    self._seen[kind] = now.get(kind, 0)

    async def _follow(self) -> None:
        is_away = False
        while True:
            await self._store.clock.sleep(EVERY)
            try:
                await self.look()
                is_away = False
            except Unavailable as error:  # what is in memory holds until the database is back
                if not is_away:
                    _log.warning("tools.not_read", reason=str(error))
                is_away = True
            except Exception as error:  # noqa: BLE001 - the boundary: no caller awaits this task, and it must go on
                if not is_away:
                    _log.error("tools.not_read", exception=trace_of(error))
                is_away = True


MAX_VALUE = 20_000
"""Characters of a secret's value: keys in files have a few thousand."""
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_MAX_OPENED = 1_000


def _purpose(name: str) -> str:
    """Return what a secret is sealed for: moved to another name it does not open."""
    return f"secret {name}"


class SecretValues:
    """The secrets of a core; *secrets* seals them, None where the core has no key. *revisions* see what was stored."""

    def __init__(self, store: Store, secrets: Secrets | None, revisions: Revisions) -> None:
        self._store, self._secrets, self._revisions = store, secrets, revisions
        self._opened: dict[tuple[str, str], str] = {}

    async def put(self, name: str, value: str, *, replace: bool = True) -> SecretObject:
        """Store *value* under *name*; the next call of a tool has it. Raises `InvalidInput`, `Conflict`.

        MCP servers that refer to it are asked at once.
        """
        if not _NAME.fullmatch(name):
            raise InvalidInput("name", "1 to 64 letters, digits, `_`, `.` and `-`.")
        if not value or len(value) > MAX_VALUE:
            raise InvalidInput("value", f"1 to {MAX_VALUE:,} characters.")
        sealed = await asyncio.to_thread(self._sealer.seal, value, _purpose(name))
        now = self._store.clock.now()
        work = partial(servers.put_secret, name=name, sealed=sealed, now=now, replace=replace)
        stored = await self._store.write(work)
        await self._revisions.look()
        return stored

    async def list(self, *, limit: int = 50, cursor: str | None = None) -> Page[SecretObject]:
        """Return secrets without their values, the oldest first."""
        after = cursor_key(cursor)
        return await self._store.read(servers.listed_secrets, limit=limit, after=after)

    async def delete(self, name: str) -> None:
        """Delete a secret; raises `NotFound`, and `Conflict` while tools or servers refer to it."""
        await self._store.write(servers.remove_secret, name)

    async def values(self, names: Collection[str]) -> Mapping[str, str]:
        """Return the values of *names* as they are now; raises `NotFound` and `Unreadable`, which name the remedy."""
        if not names:
            return {}
        sealed = await self._store.peek(servers.sealed_secrets, names)
        values: dict[str, str] = {}
        for name in names:
            if name not in sealed:
                raise NotFound("secret", name, f"An operator sets it with `parley secrets set {name}`.")
            values[name] = await self._open(name, sealed[name])
        return values

    async def _open(self, name: str, sealed: str) -> str:
        plain = self._opened.get((name, sealed))
        if plain is not None:
            return plain
        try:
            value = await asyncio.to_thread(self._sealer.open, sealed, _purpose(name))  # the first one loads a library
        except Unreadable:
            raise UnreadableSecret(name) from None
        if len(self._opened) >= _MAX_OPENED:
            self._opened.clear()
        self._opened[name, sealed] = value
        return value

    @property
    def _sealer(self) -> Secrets:
        if self._secrets is None:
            raise ConfigError("This core has no key to seal secrets with; build it with `secrets`.")
        return self._secrets


class UnreadableSecret(Unreadable):
    """A stored secret that was sealed with another key."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.args = (f"The secret `{name}` cannot be opened. {self}",)
