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

REMEMBERED = 3_600_000
"""Milliseconds for which a model gets no fields after it refused them: by then its server may have been repaired."""
_log = structlog.get_logger("parley.providers")
_CACHE = r"(?<!\w)(?:cache_control|prompt_cache_(?:key|options|breakpoint))(?!\w)"
_SEARCH = r"(?<!\w)(?:defer_loading|tool_reference|tool_search)(?!\w)"
_NOUN = r"(?:field|param|parameter|argument|property|propertie|key|name|input|option|attribute|member)s?"
_STRANGE = r"(?:unknown|unsupported|unrecogni[sz]ed|unexpected)"
_REMEDIES = {
    "cache": "set `prompt_caching: false` on its agents",
    "search": "set `router: meta` on its agents",
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
    return _knows_none(_CACHE, param, code, text)


def knows_no_search(param: str, code: str | None, text: str | None) -> bool:
    """Return whether a refusal says that a field of the search for tools is unknown; see `knows_no_cache`."""
    return _knows_none(_SEARCH, param, code, text)


def _knows_none(field: str, param: str, code: str | None, text: str | None) -> bool:
    wording = _EXPECTED.sub("", _MARKS.sub("", f"{param}: {code or ''} {text or ''}").lower())
    if _IN_SCHEMA.search(wording):
        return False
    named, refuses = _FIELDS[field]
    return any(named.search(saying) and refuses.search(saying) for saying in _SAYINGS.split(wording))


class Unmarked(NamedTuple):
    """The same request without the fields: its *body*; *accepted* is called with the refusal once it is answered."""

    body: Callable[[], bytes]
    accepted: Callable[[CallFailed], None]


class Spares(NamedTuple):
    """What to ask instead: *unmarked* without a prompt cache's fields, *unsearched* without those of a search too."""

    unmarked: Unmarked | None = None
    unsearched: Unmarked | None = None


NO_SPARES = Spares()


class CacheFields:
    """The models of one provider that refused them; requests to all others have them.

    *fields* are those of the prompt cache, or of the search for tools.
    """

    def __init__(
        self, provider: str, clock: Clock | None = None, *, fields: Literal["cache", "search"] = "cache"
    ) -> None:
        self._provider, self._clock, self._fields = provider, clock or SystemClock(), fields
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
            event, remedy = f"{self._fields}.refused", _REMEDIES[self._fields]
            _log.warning(event, provider=self._provider, model=model, said=refusal.message, remedy=remedy)
        self._refusing[model] = self._clock.now()
