"""Secrets: by reference in definitions, and masked where a text could hold one."""

import hmac
import html
import re
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote_to_bytes

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


MASK = "[secret {}]"
_MIN_LENGTH, _MIN_BASE64 = 4, 8
"""Characters of a secret from which on its value is looked for in results: shorter ones are in ordinary words too."""
_URL_SAFE = str.maketrans("+/", "-_")
_LAYERS = 4
"""How often a text is read: JSON within JSON, or a URL within it, is escaped more than once."""
_ESCAPE = re.compile(
    r"(?:\\\\)+|(?:%25)+"
    r"|\\(?:u[Dd][89ABab][\dA-Fa-f]{2}\\u[Dd][C-Fc-f][\dA-Fa-f]{2}|u[\dA-Fa-f]{4}|x[\dA-Fa-f]{2}|[bfnrt]|[!-/:-@\[-`{-~])"
    r"|%(?:[C-Dc-d][\dA-Fa-f]%[89ABab][\dA-Fa-f]|[Ee][\dA-Fa-f](?:%[89ABab][\dA-Fa-f]){2}"
    r"|[Ff][0-4](?:%[89ABab][\dA-Fa-f]){3}|[\dA-Fa-f]{2})"
    r"|&(?:#\d{1,7}|#[Xx][\dA-Fa-f]{1,6}|[A-Za-z][\dA-Za-z]{1,31});",
    re.ASCII,
)
"""A character as JSON, a URL or HTML may write it, also where it need not be escaped; a run of the signs themselves."""
_CONTROLS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_Span = tuple[int, int, str]
"""Where a secret begins and ends in a text, and its mask."""


def scrubbed(text: str, values: Mapping[str, str]) -> str:
    """Return *text* with each of the secret *values* (by name) in it masked.

    A value is found as it is, with any of its characters escaped as in JSON, URLs and HTML, also several times over,
    and inside base64 such as that of basic credentials. The time is linear in the text.
    """
    forms = {form: MASK.format(name) for name, value in values.items() for form in _forms(value)}
    spans = _spans(text, forms, _LAYERS) if forms else []
    return _replaced(text, spans) if spans else text


def _forms(value: str) -> Iterator[str]:
    """Yield what stands for *value* in a text that has been read, or in base64."""
    if len(value) < _MIN_LENGTH:
        return
    yield value
    yield value.replace(" ", "+")  # in queries and forms
    yield from _inside_base64(value.encode())
    # What looks like an escape in the secret itself is read too, where the text around it is escaped.
    for _ in range(_LAYERS):
        value, before = _ESCAPE.sub(_unescaped, value), value
        if value == before or len(value) < _MIN_LENGTH:
            return
        yield value


def _inside_base64(value: bytes) -> Iterator[str]:
    """Yield what base64 of any text with *value* in it contains: it depends on where in a group of three it begins."""
    for shift in range(3):
        encoded = b64encode(bytes(shift) + value)[-(-shift * 8 // 6) : (shift + len(value)) * 8 // 6].decode()
        if len(encoded) >= _MIN_BASE64:
            yield encoded
            yield encoded.translate(_URL_SAFE)


def _spans(text: str, forms: Mapping[str, str], layers: int) -> list[_Span]:
    """Return where *forms* are in *text*, and in what it says when it is read up to *layers* times."""
    spans = [(at, at + len(form), mask) for form, mask in forms.items() for at in _places(text, form)]
    if not layers or not ("\\" in text or "%" in text or "&" in text):
        return spans
    read = _ESCAPE.sub(_unescaped, text)
    if read != text and (within := _spans(read, forms, layers - 1)):
        spans += _in_source(text, within)
    return spans


def _places(text: str, form: str) -> Iterator[int]:
    at = text.find(form)
    while at >= 0:
        yield at
        at = text.find(form, at + len(form))


def _in_source(text: str, spans: list[_Span]) -> list[_Span]:
    """Return *spans* of what *text* says as those of *text* itself, with whole escapes."""
    begins, escapes, shorter = [0], [(0, 0, 0)], 0
    for match in _ESCAPE.finditer(text):
        begin, size = match.start() - shorter, len(_unescaped(match))
        begins.append(begin)
        escapes.append((begin + size, *match.span()))
        shorter += match.end() - match.start() - size

    def place(at: int) -> tuple[int, int]:
        end, first, last = escapes[bisect_right(begins, at) - 1]
        return (first, last) if at < end else (last + at - end, last + at - end + 1)

    return [(place(begin)[0], place(end - 1)[1], mask) for begin, end, mask in spans]


def _replaced(text: str, spans: list[_Span]) -> str:
    """Return *text* with masks; of spans that overlap, the mask of the longest stands for all."""
    parts: list[str] = []
    done = start = end = size = 0
    mask = ""
    for begin, last, name in sorted(spans):
        if begin >= end:
            parts += (text[done:start], mask)
            done, start, end, size, mask = end, begin, last, last - begin, name
        else:
            end = max(end, last)
            if last - begin > size:
                size, mask = last - begin, name
    return "".join((*parts, text[done:start], mask, text[end:]))


def _unescaped(match: re.Match[str]) -> str:
    return _character(match[0])


@lru_cache(4096)
def _character(escape: str) -> str:
    """Return what an escape stands for; one of HTML that is none stands for itself."""
    match escape[:2]:
        case "\\\\":
            return escape[::2]
        case "%2" if escape.startswith("%25"):
            return escape[::3]
        case each if each[0] == "&":
            return html.unescape(escape)
        case each if each[0] == "%":
            data = unquote_to_bytes(escape)
            try:
                return data.decode()
            except UnicodeDecodeError:
                return data.decode("latin-1")
        case _ if len(escape) == len("\\n"):
            return _CONTROLS.get(escape[1], escape[1])
        case _:
            units = [int(each[1:], 16) for each in escape[1:].split("\\")]
            if len(units) == 1:
                return chr(units[0])
            return chr(0x10000 + ((units[0] - 0xD800) << 10) + units[1] - 0xDC00)
