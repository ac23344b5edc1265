"""Which models take what a request says of the prompt cache: a server at another address may not know its fields."""

import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import structlog

from agent_core.clock import Clock, SystemClock
from agent_core.providers.base import CacheUnknown, CallFailed

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
_TTL = re.compile(r"(?<!\w)ttl(?!\w)")
_REFUSES_TTL = re.compile(
    rf"{_REFUSES.pattern}|(?:{_STRANGE}|invalid) (?:value|ttl)\b|\b(?:input should|must) be\b"
    r"|not (?:supported|permitted|allowed|valid|available|recogni[sz]ed)\b|\brequires? .*\bbeta\b"
)
"""How servers say that they keep nothing for an hour: by the field, or by its value."""
_IN_SCHEMA = re.compile(r"schema|context=|\b(?:properties|parameters)[.,/\[]")
"""What a refusal names that is about the parameters of a tool, which may have any names."""
_SAYINGS = re.compile(r"[;\n]|\.\s")
_MARKS = re.compile("[`'\"]")
_EXPECTED = re.compile(r", expected [^;\n]*")
"""The fields that a server does know, which some of them list."""


def unknown_of_cache(param: str, code: str | None, text: str | None) -> CacheUnknown:
    """Return which field of the prompt cache a refusal says is unknown, rather than wrongly used; empty for none.

    *param* is the field that it names, if any. The field and the words of it must be in one sentence. Where that names
    the lifetime, it is the lifetime that is refused.
    """
    said = _EXPECTED.sub("", _MARKS.sub("", f"{param}: {code or ''} {text or ''}").lower())
    if _IN_SCHEMA.search(said):
        return ""
    sayings = _SAYINGS.split(said)
    if any(_TTL.search(saying) and _REFUSES_TTL.search(saying) for saying in sayings):
        return "ttl"
    return "all" if any(re.search(_FIELD, saying) and _REFUSES.search(saying) for saying in sayings) else ""


class Unmarked(NamedTuple):
    """The same request without what was refused: its *body*, and whom to tell of an answer with the refusal before it.

    *lacks* is what it has no more: lifetimes alone, which answers no refusal of a whole mark.
    """

    body: Callable[[], bytes]
    accepted: Callable[[CallFailed], None]
    lacks: CacheUnknown = "all"

    def answers(self, refusal: CallFailed) -> bool:
        """Return whether it lacks what *refusal* is about."""
        return refusal.cache_unknown != "" and self.lacks in ("all", refusal.cache_unknown)


class CacheFields:
    """The models of one provider that were found to refuse them; what is not known to is marked."""

    def __init__(self, provider: str, clock: Clock | None = None) -> None:
        self._provider, self._clock = provider, clock or SystemClock()
        self._refusing = dict[tuple[str, CacheUnknown], int]()

    def taken(self, model: str, what: CacheUnknown = "all") -> bool:
        """Return whether *model* gets the fields, or lifetimes in them."""
        since = self._refusing.get((model, what))
        return since is None or self._clock.now() - since >= REMEMBERED

    def without(self, model: str, body: Callable[[], bytes], lacks: CacheUnknown = "all") -> Unmarked:
        """Return what to ask *model* instead, once it says that it does not know what *body* *lacks*."""
        return Unmarked(body, partial(self._learn, model, lacks), lacks)

    def _learn(self, model: str, lacks: CacheUnknown, refusal: CallFailed) -> None:
        """Note that *model* answers a request that *lacks* what it gave *refusal* to."""
        if self.taken(model, lacks):
            fact = "its marks keep for five minutes, none for an hour" if lacks == "ttl" else "it gets no cache marks"
            said, remedy = refusal.message, f"{fact}; `prompt_caching: false` on its agents asks for none"
            _log.warning("cache.refused", provider=self._provider, model=model, said=said, remedy=remedy)
        self._refusing[model, lacks] = self._clock.now()
