"""Which pictures and signs an agent may have on a page: what is safe under a strict policy, and small. Pure."""

import binascii
import re
import unicodedata
from base64 import b64decode
from collections.abc import Mapping

MAX_ADDRESS = 2_000
"""Characters of a picture's address."""
MAX_DATA = 64_000
"""Characters of a picture that is written in an address: 48 kB, enough for one of 128 by 128 pixels."""
MAX_SIGNS = 2
MAX_POINTS = 24
"""Code points of the signs together: a family of emoji with the colours of its skins has as many."""
AVATAR = (
    "an https address, an image as a data: address (image/png, image/jpeg, image/webp or image/gif, base64, at most "
    f"{MAX_DATA:,} characters), or one or two characters that can be seen."
)
_HTTPS = re.compile(r"https://[a-z0-9-]+(\.[a-z0-9-]+)*(:[0-9]{1,5})?([/?][\w\-.~:/?#\[\]@!$&()*+,;=%]*)?", re.ASCII)
_DATA = re.compile(r"data:image/(png|jpeg|webp|gif);base64,([A-Za-z0-9+/]+={0,2})")
_BEGINS: Mapping[str, bytes] = {"png": b"\x89PNG\r\n\x1a\n", "jpeg": b"\xff\xd8\xff", "webp": b"RIFF", "gif": b"GIF8"}
_JOINER = "\u200d"
_TAG = re.compile("[\U000e0020-\U000e007f]")
_SKIN = re.compile("[\U0001f3fb-\U0001f3ff]")
_REGIONAL = re.compile("[\U0001f1e6-\U0001f1ff]")


def fault_of_avatar(text: str) -> str | None:
    """Return what is wrong with *text* as an avatar, None when nothing is."""
    if text.startswith("data:"):
        return None if len(text) <= MAX_DATA and _is_image(text) else AVATAR
    if ":" in text[:12]:
        return None if len(text) <= MAX_ADDRESS and _HTTPS.fullmatch(text) else AVATAR
    return AVATAR if fault_of_signs(text) else None


def fault_of_signs(text: str) -> str | None:
    """Return what is wrong with *text* as an emoji or initials, None when nothing is."""
    fault = f"one or {MAX_SIGNS} characters that can be seen, such as an emoji or initials."
    if not text.strip() or len(text) > MAX_POINTS:
        return fault
    characters = signs(text)
    return None if len(characters) <= MAX_SIGNS and all(map(_is_seen, characters)) else fault


def signs(text: str) -> list[str]:
    """Return the characters of *text* as people count them: with their marks, styles, joiners and colours of skin."""
    result: list[str] = []
    for each in text:
        last = result[-1] if result else ""
        is_flag = _REGIONAL.match(each) and _REGIONAL.fullmatch(last)
        if last and (_continues(each) or last.endswith(_JOINER) or is_flag):
            result[-1] += each
        else:
            result.append(each)
    return result


def _is_seen(sign: str) -> bool:
    return sign[0].isprintable() and not sign[0].isspace() and not _continues(sign[0]) and not sign.endswith(_JOINER)


def _continues(each: str) -> bool:
    changes = each == _JOINER or _TAG.match(each) or _SKIN.match(each)
    return bool(changes) or unicodedata.category(each).startswith("M")


def _is_image(address: str) -> bool:
    """Return whether a data address is whole, and begins as its kind of picture does."""
    match = _DATA.fullmatch(address)
    if match is None:
        return False
    try:
        return b64decode(match[2], validate=True).startswith(_BEGINS[match[1]])
    except binascii.Error:
        return False
