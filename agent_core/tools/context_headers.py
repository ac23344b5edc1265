"""The caller's context as HTTP headers for the servers of tools; the model never sees it."""

from collections.abc import Iterable

from agent_core.tools.base import CallContext

PREFIX = "X-Parley-Context-"
MAX_VALUE = 1_000
"""Characters of one header's value."""


def context_headers(keys: Iterable[str], context: CallContext) -> dict[str, str]:
    """Return the headers with what *context* knows of each of *keys*; a key without a value has no header.

    `actor`, `actor_name`, `actor_kind`, `channel`, `session` and `run` are the core's own, and no caller can set
    them; any other key is one of `tool_context`, such as `email`. Characters that no header may have are left out.
    """
    own = {
        "actor": context.actor.id,
        "actor_name": context.actor.name,
        "actor_kind": context.actor.kind,
        "channel": context.channel,
        "session": context.session,
        "run": context.run,
    }
    found = {key: own[key] if key in own else context.tool_context.get(key) for key in keys}
    return {_name(key): _value(value) for key, value in found.items() if isinstance(value, str | int | float)}


def _name(key: str) -> str:
    return PREFIX + "-".join(word.capitalize() for word in key.replace("_", "-").split("-") if word)


def _value(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    plain = "".join(each for each in text if each.isprintable())
    return plain[:MAX_VALUE].encode("ascii", "xmlcharrefreplace").decode()
