"""Failures of model calls: their kinds, and an explanation of each for the person who asked."""

from typing import Literal, get_args

FailureKind = Literal[
    "overloaded",
    "rate_limited",
    "network",
    "error",
    "context_overflow",
    "quota",
    "auth",
    "misconfigured",
    "invalid",
    "content_refused",
    "file_refused",
    "stale_reasoning",
    "controls_refused",
]
KINDS: tuple[str, ...] = get_args(FailureKind)
CONTENT_REFUSED, FILE_REFUSED = "content_refused", "file_refused"
REFUSALS = frozenset({CONTENT_REFUSED, FILE_REFUSED, "invalid", "stale_reasoning", "refused"})
"""What the same conversation meets again, however often it is sent; `refused` is the answer of a model itself."""

_EXPLANATIONS: dict[str, str] = {
    "overloaded": "The model's provider is overloaded. Nothing is lost; please ask again in a few minutes.",
    "rate_limited": "The model is asked more than its limit allows. Nothing is lost; please ask again shortly.",
    "network": "The connection to the model broke off. Nothing is lost; please ask again.",
    "error": "The model's provider had a fault of its own. Nothing is lost; please ask again.",
    "context_overflow": "This is too long for the model. Please send less at once, or begin a new conversation.",
    "quota": "The account that pays for the model has reached its limit. Only an operator can fix this.",
    "auth": "The model's provider does not accept the key it was given. Only an operator can fix this.",
    "misconfigured": "The model is not set up correctly here. Only an operator can fix this.",
    "invalid": "The model's provider refused the request. Asking in another way, or in a new conversation, may help.",
    "content_refused": (
        "The content filter of the model's provider refused what was sent. "
        "It is left out from now on; please ask in another way."
    ),
    "file_refused": (
        "The model's provider could not take a file or a picture. It is left out from now on; please go on without it."
    ),
    "stale_reasoning": "The model could not take up its earlier thoughts again. Please ask again.",
    "controls_refused": "The model does not take what this agent asks. Only an operator can fix this.",
}


def explanation(kind: str) -> str:
    """Return the text for the person who asked when a model call failed finally as *kind*; it names no internals."""
    return _EXPLANATIONS.get(kind, _EXPLANATIONS["error"])
