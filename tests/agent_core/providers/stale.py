"""How Anthropic refuses what a model wrote itself, as seen by its users until September 2026."""

from agent_core.testing.models.failing import STALE_THINKING

MODIFIED_THINKING = (
    "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks must "
    "remain as they were in the original response."
)
LAST_THINKING = "The final block in an assistant message cannot be `thinking`."
STALE_TEXTS = (
    f"messages.1.content.0: {STALE_THINKING}",
    "messages.1.content.0: Invalid `signature` in `thinking` block",
    f"messages.5.content.1: {MODIFIED_THINKING}",
    "messages.1.content.0: Invalid `data` in `redacted_thinking` block",
    "messages.1.content.0.thinking.signature: Field required",
    (
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`. When `thinking` is "
        "enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of "
        "`tool_use` and `tool_result` blocks)."
    ),
    (
        "messages.1.content.0: If an assistant message contains any thinking blocks, the first block must be "
        "`thinking` or `redacted_thinking`. Found `text`."
    ),
    f"messages.1: {LAST_THINKING}",
    (
        "messages.1: `web_search` tool use with id `srvtoolu_1` was found without a corresponding "
        "`web_search_tool_result` block"
    ),
)
