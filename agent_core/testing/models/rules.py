"""The rules that the vendors' servers hold requests to, in their own words."""

from collections.abc import Collection, Sequence

from agent_core.testing.models import rules_chat, rules_messages, rules_responses, seals, servers
from agent_core.testing.models.asked import ModelCall
from agent_core.testing.models.failing import RuleBroken
from agent_core.testing.models.prefix import Position

BAD_KEY = "bad-key"
"""The one key that is not accepted."""


def check_request(
    asked: ModelCall,
    positions: Sequence[Position],
    sealed: Collection[str] | None,
    *,
    counting: bool = False,
    server: servers.Server = "openai",
    verified: bool = True,
) -> None:
    """Raise `RuleBroken` for what the vendor of *asked* would refuse.

    That of the Chat wire is *server*; OpenAI gives summaries of thinking to a *verified* organization.
    """
    _check_key(asked)
    match asked.wire:
        case "messages":
            rules_messages.check(asked, positions, counting=counting)
            if seals.bound(asked.model, sealed):
                seals.check(asked.model, positions)
        case "responses":
            rules_responses.check(asked.body, verified=verified)
            if seals.bound(asked.model, sealed):
                seals.check_items(asked.model, seals.reasoning_in(asked.body))
        case "chat":
            rules_chat.check(asked.body)
            servers.check(server, asked.model, asked.body)


def _check_key(asked: ModelCall) -> None:
    given = asked.headers.get("authorization", "").removeprefix("Bearer ").strip()
    if asked.wire == "messages":
        given = given or asked.headers.get("x-api-key", "")
        if not given:
            raise RuleBroken("x-api-key header is required", kind="auth")
        if given == BAD_KEY:
            raise RuleBroken("invalid x-api-key", kind="auth")
        return
    if not given:
        raise RuleBroken(
            "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer "
            "auth (i.e. Authorization: Bearer YOUR_KEY).",
            kind="auth",
        )
    if given == BAD_KEY:
        raise RuleBroken(
            f"Incorrect API key provided: {'*' * len(given)}. You can find your API key at "
            "https://platform.openai.com/account/api-keys.",
            code="invalid_api_key",
            kind="auth",
        )
