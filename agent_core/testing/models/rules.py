"""The rules that the vendors' servers hold requests to, in their own words."""

from collections.abc import Collection, Sequence

from agent_core.testing.models import rules_chat, rules_messages, rules_responses, seals
from agent_core.testing.models.asked import ModelCall
from agent_core.testing.models.failing import RuleBroken
from agent_core.testing.models.prefix import Position

BAD_KEY = "bad-key"
"""The one key that is not accepted."""


def check_request(
    asked: ModelCall, positions: Sequence[Position], sealed: Collection[str] | None, *, counting: bool = False
) -> None:
    """Raise `RuleBroken` for what the vendor of *asked* would refuse."""
    _check_key(asked)
    match asked.wire:
        case "messages":
            rules_messages.check(asked, positions, counting=counting)
            if seals.bound(asked.model, sealed):
                seals.check(asked.model, positions)
        case "responses":
            rules_responses.check(asked.body)
            if seals.bound(asked.model, sealed):
                seals.check_items(asked.model, seals.reasoning_in(asked.body))
        case "chat":
            rules_chat.check(asked.body)


def check_length(asked: ModelCall, tokens: int, most: int | None) -> None:
    """Raise `RuleBroken`, as the vendor says it, for a prompt of more than *most* tokens."""
    if most is None or tokens <= most:
        return
    match asked.wire:
        case "messages":
            raise RuleBroken(f"prompt is too long: {tokens} tokens > {most} maximum", kind="context_overflow")
        case "responses":
            said = "Your input exceeds the context window of this model. Please adjust your input and try again."
            raise RuleBroken(said, param="input", kind="context_overflow")
        case "chat":
            said = (
                f"This model's maximum context length is {most} tokens. However, your messages resulted in {tokens} "
                "tokens. Please reduce the length of the messages."
            )
            raise RuleBroken(said, param="messages", kind="context_overflow")


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
