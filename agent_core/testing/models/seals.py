"""Seals on thinking: what makes a signature valid, and the check of those that come back.

A signature is bound to the model and to everything before its block: tools, system, earlier messages and the earlier
blocks of its own message, thinking left out. It also names the thinking before it, so that blocks may be dropped from
the front, and never from between.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Collection, Sequence
from typing import Any

from agent_core.testing.models.failing import STALE_THINKING, RuleBroken
from agent_core.testing.models.prefix import THINKING, Json, Position, dicts

# No secret: a seal detects a client's mistakes, nothing more. One key for all servers lets one be restarted.
_KEY = b"parley fake models"
_FIRST = bytes(16)
_LINK, _MAC = 16, 32
_ITEM = "gAAAAA"


class Chain:
    """Everything before the next block of one request, and the last thinking in it."""

    def __init__(self, model: str, positions: Sequence[Position] = ()) -> None:
        self._model = model
        self._seen = hashlib.sha256()
        self._last = _FIRST
        for position in positions:
            if position.type in THINKING and position.role == "assistant":
                self._last = _link(_seal_in(position.block))
            elif position.data is not None:
                _take(self._seen, position.data)

    def sign(self, before: Sequence[bytes], text: str) -> str:
        """Return the signature of the next thinking, *text*; *before* are the blocks of its message so far."""
        seen = self._seen.copy()
        for block in before:
            _take(seen, block)
        mac = _mac(self._model.encode(), seen.digest(), self._last, text.encode())
        signature = base64.b64encode(b"\x01" + self._last + mac).decode()
        self._last = _link(signature)
        return signature


def check(model: str, positions: Sequence[Position]) -> None:
    """Verify every thinking block among *positions*; raises `RuleBroken` for the first that does not belong."""
    seen, last = hashlib.sha256(), None
    for position in positions:
        if position.type not in THINKING or position.role != "assistant":
            if position.data is not None:
                _take(seen, position.data)
            continue
        seal = _seal_in(position.block)
        link, mac = _parts(seal)
        text = str(position.block.get("thinking") or "").encode()
        bound = hmac.compare_digest(mac, _mac(model.encode(), seen.digest(), link, text))
        if not bound or last not in (None, link):
            raise RuleBroken(f"{position.path}: {STALE_THINKING}", kind="stale_reasoning")
        last = _link(seal)


def sign_item(model: str) -> str:
    """Return the encrypted content of a reasoning item of *model*."""
    own = secrets.token_bytes(16)
    return _ITEM + base64.urlsafe_b64encode(own + _mac(model.encode(), own)).decode()


def check_items(model: str, items: Sequence[Json]) -> None:
    """Verify the encrypted content of each reasoning item; raises `RuleBroken`."""
    for item in items:
        content = item.get("encrypted_content")
        if item.get("type") != "reasoning" or content is None:
            continue
        data = _decoded(str(content).removeprefix(_ITEM), urlsafe=True)
        if not hmac.compare_digest(data[_LINK:], _mac(model.encode(), data[:_LINK])):
            raise RuleBroken(
                f"The encrypted content for item {item.get('id')} could not be verified. "
                "Reason: Encrypted content could not be decrypted or parsed.",
                code="invalid_encrypted_content",
            )


def bound(model: str, models: Collection[str] | None) -> bool:
    """Return whether the seals of *model* are checked: of all models, or of those that start with one of *models*."""
    return models is None or any(model.startswith(each) for each in models)


def reasoning_in(body: Json) -> list[Json]:
    """Return the reasoning items of a request."""
    return [item for item in dicts(body.get("input")) if item.get("type") == "reasoning"]


def _seal_in(block: Json) -> str:
    return str(block.get("signature") or block.get("data") or "")


def _parts(seal: str) -> tuple[bytes, bytes]:
    data = _decoded(seal)[1:]
    return data[:_LINK], data[_LINK:]


def _decoded(text: str, *, urlsafe: bool = False) -> bytes:
    try:
        return base64.b64decode(text, altchars=b"-_" if urlsafe else None, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _link(seal: str) -> bytes:
    return hashlib.sha256(seal.encode()).digest()[:_LINK]


def _take(seen: Any, data: bytes) -> None:
    seen.update(b"%d:" % len(data))
    seen.update(data)


def _mac(*parts: bytes) -> bytes:
    joined = b"".join(b"%d:%b" % (len(part), part) for part in parts)
    return hmac.new(_KEY, joined, hashlib.sha256).digest()
