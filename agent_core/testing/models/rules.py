"""The rules that the vendors' servers hold requests to, in their own words."""

from collections.abc import Collection, Sequence

from agent_core.testing.models import rules_chat, rules_messages, rules_responses, seals, servers
from agent_core.testing.models.asked import ModelCall
from agent_core.testing.models.failing import RuleBroken
from agent_core.testing.models.prefix import Position

BAD_KEY = "bad-key"
"""The one key that is not accepted."""


def check_request(
    call: ModelCall,
    positions: Sequence[Position],
    sealed: Collection[str] | None,
    *,
    counting: bool = False,
    server: servers.Server = "openai",
    verified: bool = True,
) -> None:
    """Raise `RuleBroken` for what the vendor of *call* would refuse.

    That of the Chat wire is *server*; OpenAI gives summaries of thinking to a *verified* organization.
    """
    _check_key(call)
    match call.wire:
        case "messages":
            rules_messages.check(call, positions, counting=counting)
            if seals.bound(call.model, sealed):
                seals.check(call.model, positions)
        case "responses":
            rules_responses.check(call.body, verified=verified)
            if seals.bound(call.model, sealed):
                seals.check_items(call.model, seals.reasoning_in(call.body))
        case "chat":
            rules_chat.check(call.body)
            servers.check(server, call.model, call.body)


def _check_key(call: ModelCall) -> None:
    key = call.headers.get("authorization", "").removeprefix("Bearer ").strip()
    if call.wire == "messages":
        key = key or call.headers.get("x-api-key", "")
        if not key:
            raise RuleBroken("x-api-key header is required", kind="auth")
        if key == BAD_KEY:
            raise RuleBroken("invalid x-api-key", kind="auth")
        return
    if not key:
        raise RuleBroken(
            "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer "
            "auth (i.e. Authorization: Bearer YOUR_KEY).",
            kind="auth",
        )
    if key == BAD_KEY:
        raise RuleBroken(
            f"Incorrect API key provided: {'*' * len(key)}. You can find your API key at "
            "https://platform.openai.com/account/api-keys.",
            code="invalid_api_key",
            kind="auth",
        )
