"""Call ids that every server takes, made from others."""

import hashlib

LENGTH = 9
"""Mistral takes exactly nine letters and digits, and no server wants anything else of an id."""
_SIGNS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def call_id(text: str) -> str:
    """Return the id for *text*, which is unique in its conversation: nine letters and digits, always the same ones."""
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
    signs: list[str] = []
    for _ in range(LENGTH):
        number, place = divmod(number, len(_SIGNS))
        signs.append(_SIGNS[place])
    return "".join(signs)
