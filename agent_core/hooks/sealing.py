"""The secrets of webhooks: sealed where they are kept, masked where they are shown."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from agent_core.domain.hooks import Hook
from agent_core.errors import InvalidInput

PURPOSE = "hook"
MASK = "********"
"""What is shown of a secret; sent back, it means the stored one."""


def masked(hooks: Sequence[Hook]) -> tuple[Hook, ...]:
    """Return *hooks* as they are shown."""
    return tuple(_with(hook, MASK) if _secret(hook) else hook for hook in hooks)


def unmasked(hooks: Sequence[Hook], stored: Sequence[Hook]) -> tuple[Hook, ...]:
    """Return *hooks* with the secrets of *stored* for their masks; raise `InvalidInput` where it is not plain which.

    A secret stays with its URL: for another URL it has to be given again.
    """
    return tuple(
        _with(hook, _kept_secret(f"hooks[{index}].config.secret", hook, stored)) if _secret(hook) == MASK else hook
        for index, hook in enumerate(hooks)
    )


def sealed(hooks: Sequence[Hook], stored: Sequence[Hook], seal: Callable[[str, str], str]) -> tuple[Hook, ...]:
    """Return *hooks* with their secrets sealed; those that are so in *stored* stay."""
    done = {_secret(hook) for hook in stored}
    return tuple(
        hook if (secret := _secret(hook)) in done or secret is None else _with(hook, seal(secret, PURPOSE))
        for hook in hooks
    )


def _kept_secret(path: str, hook: Hook, stored: Sequence[Hook]) -> str:
    there = [each for each in stored if _secret(each) and each.config.get("url") == hook.config.get("url")]
    same = [each for each in there if (each.event, each.name) == (hook.event, hook.name)]
    secrets = {_secret(each) for each in same or there}
    if len(secrets) != 1:
        raise InvalidInput(path, f"`{MASK}` stands for a secret that is kept for this URL, and {_why(len(secrets))}")
    return str(secrets.pop())


def _why(count: int) -> str:
    return "there are several; give it." if count else "there is none; give it."


def _secret(hook: Hook) -> str | None:
    secret = hook.config.get("secret") if hook.type == "http" else None
    return secret if isinstance(secret, str) else None


def _with(hook: Hook, secret: str) -> Hook:
    return replace(hook, config={**hook.config, "secret": secret})
