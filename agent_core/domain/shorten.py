"""A text cut to a length, with an ellipsis that says so."""


def shorten(text: str, limit: int) -> str:
    """Return *text* in at most *limit* characters, 1 or more, with an ellipsis where its end is missing."""
    return text if len(text) <= limit else f"{text[: limit - 1].rstrip()}…"
