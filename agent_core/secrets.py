"""Encryption of stored secrets: tokens, and the secrets of webhooks.

AES-SIV (RFC 5297) with a key that is derived from PARLEY_SECRET_KEY. A sealed text is `v1.<key>.<text>`, so that a
later key or cipher can be distinguished from this one. Sealing is deterministic, so that an unchanged agent's file
makes no new version. A reader of the database sees the length of a secret, and which secrets are equal.
"""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from typing import Any

from agent_core.errors import ParleyError

_FORM = "v1"


class Unreadable(ParleyError):
    """A sealed text cannot be opened: it was sealed with another key, for another purpose, or is damaged."""

    code = "unreadable"

    def __init__(self) -> None:
        super().__init__("It was sealed with another PARLEY_SECRET_KEY, or is damaged; give it again.")


class Secrets:
    """Seals with *key*, opens with it and with *former* ones; each is 32 random bytes."""

    def __init__(self, key: bytes, *former: bytes) -> None:
        self._id = _id(key)
        self._keys = {_id(each): each for each in (key, *former)}

    def seal(self, text: str, purpose: str) -> str:
        """Return *text* so that only the same key opens it, and only for the same *purpose*."""
        sealed = self._cipher(self._id).encrypt(text.encode(), [purpose.encode()])
        return f"{_FORM}.{self._id}.{urlsafe_b64encode(sealed).decode()}"

    def open(self, sealed: str, purpose: str) -> str:
        """Return the text that was sealed for *purpose*; raises `Unreadable`. The first call takes 30 ms."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - as below

        form, _, rest = sealed.partition(".")
        name, _, text = rest.partition(".")
        if form != _FORM or name not in self._keys:
            raise Unreadable
        try:
            return self._cipher(name).decrypt(urlsafe_b64decode(text), [purpose.encode()]).decode()
        except (InvalidTag, ValueError, NotBase64):
            raise Unreadable from None

    def _cipher(self, name: str) -> Any:
        from cryptography.hazmat.primitives.ciphers.aead import AESSIV  # noqa: PLC0415 - only a secret needs it

        return AESSIV(hmac.digest(self._keys[name], b"parley sealed", "sha512"))


def _id(key: bytes) -> str:
    return hmac.digest(key, b"parley key id", "sha256")[:4].hex()
