"""The secrets of webhooks: sealed where they are kept, masked where they are shown."""

import asyncio
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from agent_core.agents import Hook, HookEvent, HttpConfig
from agent_core.clock import Clock
from agent_core.errors import InvalidInput
from agent_core.hooks.chain import Allow, Answer, Deny, Modify, Occasion
from agent_core.net.fetch import Bounds, Fetched, FetchFailed, FetchPort
from agent_core.net.targets import PORTS, FetchRefused, check_text, read_target
from agent_core.secrets import Secrets, Unreadable

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
        why = "there are several; give it." if secrets else "there is none; give it."
        raise InvalidInput(path, f"`{MASK}` stands for a secret that is kept for this URL, and {why}")
    return str(secrets.pop())


def _secret(hook: Hook) -> str | None:
    secret = hook.config.get("secret") if hook.type == "http" else None
    return secret if isinstance(secret, str) else None


def _with(hook: Hook, secret: str) -> Hook:
    return replace(hook, config={**hook.config, "secret": secret})


MIN_SECRET, MAX_SECRET = 16, 512
MIN_TIMEOUT, MAX_TIMEOUT = 0.1, 60.0
MAX_ANSWER = 1_000_000
MAX_REASON = 1_000
UNASKED = "It could not be checked whether this is allowed."
_AMENDS: Mapping[HookEvent, str] = {"PreToolUse": "arguments", "PostToolUse": "result", "PreResponse": "text"}
_SHOWN = 200
_OK = range(200, 300)
_REDIRECTS = range(300, 400)
_VARIABLE = re.compile(r"\$\{.*\}")
_SECRET = f"{MIN_SECRET} to {MAX_SECRET} characters that cannot be guessed (`openssl rand -hex 32`)."


class _Reply(msgspec.Struct, frozen=True):
    decision: Literal["allow", "deny", "modify"]
    arguments: dict[str, Any] | None = None
    result: str | None = None
    text: str | None = None
    reason: str | None = None


class _Useless(Exception):
    """The answer is none that counts."""


def sign(secret: str, timestamp: int, body: bytes) -> str:
    """Return the value of `X-Parley-Signature` for *body* that is sent at *timestamp*, in seconds since the epoch."""
    return f"v1={hmac.new(secret.encode(), b'%d.%b' % (timestamp, body), 'sha256').hexdigest()}"


def check_http(path: str, config: HttpConfig) -> None:
    """Raise `InvalidInput` when *config* names nothing that could be asked; this looks nothing up."""
    if fault := _url_fault(config.url):
        raise InvalidInput(f"{path}.url", fault)
    if _VARIABLE.fullmatch(config.secret):
        raise InvalidInput(f"{path}.secret", "only agents' files name variables; give the secret itself.")
    if len(config.secret) < MIN_SECRET:
        raise InvalidInput(f"{path}.secret", _SECRET)
    if not (isfinite(config.timeout_s) and MIN_TIMEOUT <= config.timeout_s <= MAX_TIMEOUT):
        raise InvalidInput(f"{path}.timeout_s", f"between {MIN_TIMEOUT} and {MAX_TIMEOUT:.0f} seconds.")


def check_secrets(hooks: Sequence[Hook], stored: Sequence[Hook] = ()) -> None:
    """Raise `InvalidInput` for a secret that is too long; those of *stored* are sealed, which makes them longer."""
    secrets = [hook.config.get("secret") for hook in stored]
    for index, hook in enumerate(hooks):
        secret = str(hook.config.get("secret", ""))
        if hook.type == "http" and len(secret) > MAX_SECRET and secret not in secrets:
            raise InvalidInput(f"hooks[{index}].config.secret", _SECRET)


async def ask(config: HttpConfig, occasion: Occasion, fetch: FetchPort, clock: Clock, secrets: Secrets) -> Answer:
    """Post *occasion* and return what is answered; without a useful answer, what `on_error` says and why.

    The delivery's id is that of the question: one that is asked again after a crash has the same, one about other
    arguments another.
    """
    body, timestamp = msgspec.json.encode(occasion), clock.now() // 1000
    bounds = Bounds(seconds=config.timeout_s, first_byte=config.timeout_s, size=MAX_ANSWER)
    try:
        secret = await asyncio.to_thread(secrets.open, config.secret, PURPOSE)  # the first one loads a library
        headers = {
            "Content-Type": "application/json",
            "X-Parley-Timestamp": str(timestamp),
            "X-Parley-Signature": sign(secret, timestamp, body),
            "X-Parley-Delivery": hashlib.sha256(body).hexdigest()[:32],
        }
        fetched = await fetch(config.url, method="POST", headers=headers, body=body, redirects=0, bounds=bounds)
        return _meant(fetched, occasion.event)
    except Unreadable as error:
        return unasked(config, f"Its secret cannot be opened. {error}")
    except (FetchFailed, _Useless) as error:
        return unasked(config, str(error))


def unasked(config: HttpConfig, error: str) -> Answer:
    """Return what counts when the hook could not be asked, or made no sense."""
    return Deny(UNASKED, error) if config.on_error == "deny" else Allow(error=error)


def _meant(fetched: Fetched, event: HookEvent) -> Answer:
    """Return the answer that *fetched* holds; raise _Useless when it is none."""
    if fetched.status in _REDIRECTS:
        raise _Useless(f"It answered {fetched.status}, a redirect; these are not followed: name the URL that answers.")
    if fetched.status not in _OK:
        raise _Useless(f"It answered {fetched.status}; an answer has a status of 200 to 299.")
    if event == "OnRunComplete":  # a notification: its answer is not used
        return Allow()
    return _read(_decoded(fetched.body), event)


def _decoded(body: bytes) -> _Reply:
    try:
        return msgspec.json.decode(body, type=_Reply)
    except msgspec.ValidationError as error:
        raise _Useless(f"Its answer does not fit: {str(error)[:_SHOWN]}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _Useless("Its answer is no JSON in UTF-8.") from None


def _read(reply: _Reply, event: HookEvent) -> Answer:
    reason = reply.reason[:MAX_REASON] if reply.reason else None
    own = _AMENDS.get(event)
    changes = {name: value for name in _AMENDS.values() if (value := getattr(reply, name)) is not None}
    match reply.decision:
        case "modify" if own is None:
            raise _Useless(f"Its answer is `modify`, but nothing can be changed at `{event}`.")
        case "modify" if set(changes) != {own}:
            raise _Useless(f"Its answer is `modify`; at `{event}` that goes with `{own}`, and with nothing else.")
        case "modify":
            return Modify(**changes, reason=reason)
        case decision if changes:
            raise _Useless(f"Its answer is `{decision}` and changes `{min(changes)}`; only `modify` changes something.")
        case "allow":
            return Allow(reason)
        case "deny":
            return Deny(reason)


def _url_fault(url: str) -> str | None:
    """Say what is wrong with how *url* is written, None when nothing is."""
    try:
        check_text(url)
        parts = urlsplit(url)
        host = parts.hostname or ""
        if not host.isascii():
            return "write the host in ASCII, as `xn--…`."
        read_target(f"[{host}]:{_port(parts)}" if ":" in host else f"{host}:{_port(parts)}")
    except FetchRefused as error:
        return str(error)
    except ValueError:
        return "it has no host and port that can be asked; write it as https://example.com/hook."
    return None


def _port(parts: Any) -> int:
    return PORTS[parts.scheme] if parts.port is None else parts.port
