"""Which models take what a request says of the prompt cache: a server at another address may not know its fields."""

import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import structlog

from agent_core.clock import Clock, SystemClock
from agent_core.providers.base import CallFailed

REMEMBERED = 3_600_000
"""Milliseconds for which a model gets no fields after it refused them: by then its server may have been repaired."""
_log = structlog.get_logger("parley.providers")
_FIELD = r"(?<!\w)(?:cache_control|prompt_cache_(?:key|options|breakpoint))(?!\w)"
_NOUN = r"(?:field|param|parameter|argument|property|propertie|key|name|input|option|attribute|member)s?"
_STRANGE = r"(?:unknown|unsupported|unrecogni[sz]ed|unexpected)"
_REFUSES = re.compile(
    rf"(?:{_STRANGE}|extra|extraneous|additional)[ _](?:\w+ ){{0,2}}{_NOUN}\b|extra_forbidden"
    rf"|{_FIELD}[^ ]* (?:(?:is|was|are) (?:currently )?)?(?:{_STRANGE}|not (?:supported|recogni[sz]ed))\b(?! value)"
    rf"|does(?: not|nt) support .*{_FIELD}"
)
"""How servers say that they do not know a field."""
_IN_SCHEMA = re.compile(r"schema|context=|\b(?:properties|parameters)[.,/\[]")
"""What a refusal names that is about the parameters of a tool, which may have any names."""
_SAYINGS = re.compile(r"[;\n]|\.\s")
_MARKS = re.compile("[`'\"]")
_EXPECTED = re.compile(r", expected [^;\n]*")
"""The fields that a server does know, which some of them list."""


def knows_no_cache(param: str, code: str | None, text: str | None) -> bool:
    """Return whether a refusal says that a field of the prompt cache is unknown, rather than wrongly used.

    *param* is the field that it names, if any. The field and the words of it must be in one sentence.
    """
    wording = _EXPECTED.sub("", _MARKS.sub("", f"{param}: {code or ''} {text or ''}").lower())
    if _IN_SCHEMA.search(wording):
        return False
    return any(re.search(_FIELD, saying) and _REFUSES.search(saying) for saying in _SAYINGS.split(wording))


class Unmarked(NamedTuple):
    """The same request without the fields: its *body*; *accepted* is called with the refusal once it is answered."""

    body: Callable[[], bytes]
    accepted: Callable[[CallFailed], None]


class CacheFields:
    """The models of one provider that refused them; requests to all others are marked."""

    def __init__(self, provider: str, clock: Clock | None = None) -> None:
        self._provider, self._clock = provider, clock or SystemClock()
        self._refusing = dict[str, int]()

    def taken(self, model: str) -> bool:
        """Return whether *model* gets the fields."""
        since = self._refusing.get(model)
        return since is None or self._clock.now() - since >= REMEMBERED

    def without(self, model: str, body: Callable[[], bytes]) -> Unmarked:
        """Return what to ask *model* instead, once it says that it does not know the fields; *body* has none."""
        return Unmarked(body, partial(self._learn, model))

    def _learn(self, model: str, refusal: CallFailed) -> None:
        """Note that *model* answers without the fields what it gave *refusal* to with them."""
        if self.taken(model):
            remedy = "set `prompt_caching: false` on its agents"
            _log.warning("cache.refused", provider=self._provider, model=model, said=refusal.message, remedy=remedy)
        self._refusing[model] = self._clock.now()
