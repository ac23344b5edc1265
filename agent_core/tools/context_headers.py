"""The caller's context as HTTP headers for the servers of tools; the model never sees it."""

from collections.abc import Iterable

from agent_core.tools.base import CallContext

PREFIX = "X-Parley-Context-"
OWN = ("actor", "actor_name", "actor_kind", "channel", "session", "run")
"""Keys whose values are the core's own; no caller can set them."""
REPEATED = "its header is that of another key; keys differ by more than case, `_` and `-`."
MAX_VALUE = 1_000
"""Characters of one header's value."""


def context_headers(keys: Iterable[str], context: CallContext) -> dict[str, str]:
    """Return the headers with what *context* knows of each of *keys*; a key without a value has no header.

    Those of `OWN` are the core's own; any other key is one of `tool_context`, such as `email`. A key that `repeats`
    another has no header. Characters that no header may have are left out.
    """
    own = {
        "actor": context.actor.id,
        "actor_name": context.actor.name,
        "actor_kind": context.actor.kind,
        "channel": context.channel,
        "session": context.session,
        "run": context.run,
    }
    listed = list(keys)
    usable = [key for place, key in enumerate(listed) if not repeats(key, listed[:place])]
    values = {key: own[key] if key in own else context.tool_context.get(key) for key in usable}
    return {_name(key): _value(value) for key, value in values.items() if isinstance(value, str | int | float)}


def repeats(key: str, before: Iterable[str]) -> bool:
    """Return whether the header of *key* is that of a key *before* it, or of another one that is the core's own."""
    taken = {*before, *(each for each in OWN if each != key)}
    return _name(key) in map(_name, taken)


def _name(key: str) -> str:
    return PREFIX + "-".join(word.capitalize() for word in key.replace("_", "-").split("-") if word)


def _value(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    plain = "".join(each for each in text if each.isprintable())
    return plain[:MAX_VALUE].encode("ascii", "xmlcharrefreplace").decode()
