"""What goes with every request to a named provider, beside what its SDK sends."""

from collections.abc import Mapping
from typing import Any, NamedTuple

NO_KEY = "none"
"""A placeholder key for servers that want none: the SDKs require one."""
_KEY_HEADERS = ("Authorization", "X-Api-Key")


class Extras(NamedTuple):
    """*headers* and a *query* that go with every request; either may hold a secret.

    *ambient*: what an SDK finds in the environment goes too. It is meant for one server, which is not a named one.
    """

    headers: Mapping[str, str] = {}
    query: Mapping[str, str] = {}
    ambient: bool = True

    def cleared(self, client: Any) -> Any:
        """Return *client*, an SDK's, unless *ambient* without the headers that it found in the environment."""
        if not self.ambient:
            client._custom_headers = {}  # noqa: SLF001 - no option leaves them out, and a copy reads them again
            for name in ("organization", "project"):  # OpenAI's; of Anthropic's client one is a resource
                if name in vars(client):
                    setattr(client, name, None)
        return client

    def sent(self, omitted: Any, *, keyless: bool) -> dict[str, Any]:
        """Return the headers of a request, with *omitted* in the place of those that hold the key if *keyless*."""
        own = {name.lower() for name in self.headers}
        left_out = [name for name in _KEY_HEADERS if keyless and name.lower() not in own]
        return {**dict.fromkeys(left_out, omitted), **self.headers}

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return what no error may repeat."""
        return (*self.headers.values(), *self.query.values())


NO_EXTRAS = Extras()
