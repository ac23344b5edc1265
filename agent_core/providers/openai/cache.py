"""What a request says of OpenAI's prompt cache.

The fields: `prompt_cache_key`, `prompt_cache_options` and `prompt_cache_breakpoint` in
`openai.types.responses.response_create_params` and `response_input_text_param`. Models from 5.6 on have breakpoints;
they bill what is written, and keep it for half an hour after its last use. Of older ones a key is served by few
machines, which take about 15 requests a minute.
"""

import hashlib
import re
from typing import Any
from urllib.parse import urlsplit

from agent_core.providers.base import Request

SHARDS = 8
"""Keys of an agent for older models: 120 requests a minute."""
BREAKPOINT: dict[str, Any] = {"prompt_cache_breakpoint": {"mode": "explicit"}}
NO_CACHE: dict[str, Any] = {"prompt_cache_options": {"mode": "explicit"}}
"""With no breakpoint in the request, nothing is written and nothing read."""
_HOST = "api.openai.com"
_VERSION = re.compile(r"gpt-(\d+)(?:\.(\d+))?")
_FIRST = (5, 6)


def is_openai(url: str | None) -> bool:
    """Return whether *url* is OpenAI's own API, of any region; None is the SDK's default."""
    host = urlsplit(url).hostname if url else _HOST
    return host == _HOST or (host or "").endswith(f".{_HOST}")


def has_breakpoints(model: str) -> bool:
    """Return whether *model* takes explicit breakpoints."""
    match = _VERSION.match(model)
    return match is not None and (int(match[1]), int(match[2] or 0)) >= _FIRST


def cache_fields(request: Request) -> dict[str, Any]:
    """Return what the end of the body says of the cache: which requests share their prefix, or that none is wanted.

    A model with breakpoints has one key per agent and prefix. For an older one sessions are spread over `SHARDS` keys,
    each always under the same one. Without cache marks only a model that bills what it writes is asked not to.
    """
    newer = has_breakpoints(request.model)
    if request.cache is None:
        return NO_CACHE if newer else {}
    key = request.cache.key
    if not newer:
        key = f"{key}-{hashlib.sha256(request.session.encode()).digest()[0] % SHARDS}"
    return {"prompt_cache_key": key}
