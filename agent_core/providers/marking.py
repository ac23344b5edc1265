"""Which models take what a request says of the prompt cache, and tools that a search loads.

A server at another address may not know those fields.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import structlog

from agent_core.clock import Clock, SystemClock
from agent_core.providers.base import CallFailed

Lacks = Literal["all", "search"]
"""What a request was left without: cache marks, or these and what a search loads."""

Head = tuple[str, str]
"""A session, and the hash of the snapshot that its requests begin with."""

_MAX_HEADS = 10_000
REMEMBERED = 3_600_000
"""Milliseconds for which a model gets no fields after it refused them: by then its server may have been repaired."""
_log = structlog.get_logger("parley.providers")
_CACHE = r"(?<!\w)(?:cache_control|prompt_cache_(?:key|options|breakpoint))(?!\w)"
_SEARCH = r"(?<!\w)(?:defer_loading|tool_reference|tool_search)(?!\w)"
_NOUN = r"(?:field|param|parameter|argument|property|propertie|key|name|input|option|attribute|member)s?"
_STRANGE = r"(?:unknown|unsupported|unrecogni[sz]ed|unexpected)"
_REMEDIES: dict[Lacks, str] = {
    "all": "it gets no cache marks; `prompt_caching: false` on its agents asks for none",
    "search": "its agents get the router's own tools; `router: meta` on them asks for no search",
}
_IN_SCHEMA = re.compile(r"schema|context=|\b(?:properties|parameters)[.,/\[]")
"""What a refusal names that is about the parameters of a tool, which may have any names."""
_SAYINGS = re.compile(r"[;\n]|\.\s")
_MARKS = re.compile("[`'\"]")
_EXPECTED = re.compile(r", expected [^;\n]*")
"""The fields that a server does know, which some of them list."""


def _refusing(field: str) -> re.Pattern[str]:
    """Return how servers say that they do not know a *field*, a pattern."""
    return re.compile(
        rf"(?:{_STRANGE}|extra|extraneous|additional)[ _](?:\w+ ){{0,2}}{_NOUN}\b|extra_forbidden"
        rf"|{field}[^ ]* (?:(?:is|was|are) (?:currently )?)?(?:{_STRANGE}|not (?:supported|recogni[sz]ed))\b(?! value)"
        rf"|does(?: not|nt) support .*{field}"
    )


_FIELDS = {field: (re.compile(field), _refusing(field)) for field in (_CACHE, _SEARCH)}


def knows_no_cache(param: str, code: str | None, text: str | None) -> bool:
    """Return whether a refusal says that a field of the prompt cache is unknown, rather than wrongly used.

    *param* is the field that it names, if any. The field and the words of it must be in one sentence.
    """
    return _knows_none(_CACHE, _sentences(param, code, text))


def knows_no_search(param: str, code: str | None, text: str | None) -> bool:
    """Return whether a refusal says that a field of the search for tools is unknown; see `knows_no_cache`."""
    return _knows_none(_SEARCH, _sentences(param, code, text))


def _sentences(param: str, code: str | None, text: str | None) -> list[str]:
    """Return what a refusal says, without marks; empty where it is about the parameters of a tool."""
    whole = _EXPECTED.sub("", _MARKS.sub("", f"{param}: {code or ''} {text or ''}").lower())
    return [] if _IN_SCHEMA.search(whole) else _SAYINGS.split(whole)


def _knows_none(field: str, sentences: list[str]) -> bool:
    named, refuses = _FIELDS[field]
    return any(named.search(each) and refuses.search(each) for each in sentences)


class Spare(NamedTuple):
    """The same request without what was refused: its *body*, and what to call with the refusal once it is answered."""

    body: Callable[[], bytes]
    accepted: Callable[[CallFailed], None]
    lacks: Lacks

    def answers(self, refusal: CallFailed) -> bool:
        """Return whether it lacks what *refusal* is about."""
        return refusal.search_unknown if self.lacks == "search" else refusal.cache_unknown


class OptionalFields:
    """The fields that models of one provider were found to refuse; what is not known to be refused is sent."""

    def __init__(self, provider: str, clock: Clock | None = None) -> None:
        self._provider, self._clock = provider, clock or SystemClock()
        self._refusing = dict[tuple[str, Lacks], int]()
        self._without = dict[tuple[str, Lacks, Head], None]()

    def taken(self, model: str, what: Lacks = "all") -> bool:
        """Return whether *model* gets *what*."""
        since = self._refusing.get((model, what))
        return since is None or self._clock.now() - since >= REMEMBERED

    def taken_by(self, head: Head, model: str, what: Lacks) -> bool:
        """Return whether requests of *model* with *head* get *what*, which is in the prefix that they share.

        Once one went without, all do: what is remembered of the model ends, and a running session's prefix stays.
        """
        if (key := (model, what, head)) in self._without or not self.taken(model, what):
            self._decide(key)
            return False
        return True

    def _decide(self, key: tuple[str, Lacks, Head]) -> None:
        self._without.pop(key, None)
        self._without[key] = None
        if len(self._without) > _MAX_HEADS:
            del self._without[next(iter(self._without))]

    def without(self, model: str, body: Callable[[], bytes], lacks: Lacks = "all", head: Head | None = None) -> Spare:
        """Return what to ask *model* instead, once it says that it does not know what *body* *lacks*.

        With a *head* all later requests with it lack that too.
        """
        return Spare(body, partial(self._learn, model, lacks, head), lacks)

    def _learn(self, model: str, lacks: Lacks, head: Head | None, refusal: CallFailed) -> None:
        """Note that *model* answers a request that *lacks* what it gave *refusal* to."""
        if head is not None:
            self._decide((model, lacks, head))
        if self.taken(model, lacks):
            event = "search.refused" if lacks == "search" else "cache.refused"
            _log.warning(event, provider=self._provider, model=model, said=refusal.message, remedy=_REMEDIES[lacks])
        self._refusing[model, lacks] = self._clock.now()
