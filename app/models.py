"""Models: the providers that the settings allow, the notice about the model that answers, and warnings."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Protocol, runtime_checkable

import structlog
from pydantic import SecretStr

from agent_core import Clock, Definition
from agent_core.providers.base import Provider
from agent_core.providers.demo import DemoProvider
from agent_core.providers.models import UNKNOWN, find, table
from app.settings import DEMO, Settings

ANTHROPIC_URL = "https://api.anthropic.com"
OPENAI_URL = "https://api.openai.com/v1"
NOTICE_DAYS = 60
"""How many days before its end a model is warned of."""
UNLISTED = "check its spelling; a model that is not listed works if its provider has it, at an unknown cost"
DEMO_NOTICE = "This is a demonstration: no model answers here, a script does."
_log = structlog.get_logger("parley.models")


@runtime_checkable
class Connected(Provider, Protocol):
    """A provider with a client that is made, which takes a second, and closed."""

    async def prepare(self) -> None: ...
    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Models:
    """The providers of this process by name, and the model of agents that name none."""

    providers: Mapping[str, Provider]
    default: str

    async def prepare(self) -> None:
        """Make the default model's client ready; a failure is logged, and shows again with the first answer."""
        provider = self.providers[self.default.partition(":")[0]]
        if not isinstance(provider, Connected):
            return
        try:
            await provider.prepare()
        except Exception as error:  # noqa: BLE001 - the boundary: the server keeps running, whatever an SDK raises
            _log.error("models.not_ready", provider=provider.name, error=type(error).__name__)


@asynccontextmanager
async def running_models(settings: Settings, clock: Clock) -> AsyncIterator[Models]:
    """Give the providers that *settings* allow; close their connections at the end."""
    async with AsyncExitStack() as stack:
        connected = list(_connected(settings))
        for each in connected:
            stack.push_async_callback(each.close)
        demo = DemoProvider(clock, settings.demo_rate)
        yield Models({each.name: each for each in (demo, *connected)}, settings.default_model)


def _connected(settings: Settings) -> Iterator[Connected]:
    """Build what has a key; nothing is imported for a provider that has none.

    Keys and addresses are given always, so that they are the ones that were checked. The rest of what an SDK looks for
    in the environment it still finds and sends: `ANTHROPIC_CUSTOM_HEADERS`, `OPENAI_ORG_ID` and the like.
    """
    anthropic_url, openai_url = settings.anthropic_base_url or ANTHROPIC_URL, settings.openai_base_url or OPENAI_URL
    if "anthropic" in settings.providers:
        from agent_core.providers.anthropic.provider import anthropic  # noqa: PLC0415

        yield anthropic(api_key=_key_text(settings.anthropic_api_key), base_url=anthropic_url)
    if "openai" in settings.providers:
        from agent_core.providers.openai.provider import openai  # noqa: PLC0415

        yield openai(api_key=_key_text(settings.openai_api_key), base_url=openai_url)
    if "openai-compatible" in settings.providers:
        from agent_core.providers.compatible.provider import compatible  # noqa: PLC0415

        yield compatible(api_key=_key_text(settings.openai_api_key), base_url=openai_url)


def _key_text(key: SecretStr | None) -> str:
    """Return the key; the SDKs want one, and servers such as Ollama take any."""
    return key.get_secret_value() if key else "none"


def notice(settings: Settings, model: str | None = None) -> str:
    """Return what is said of *model*, the default one when None, on the demo page."""
    model = model or settings.default_model
    return f"Answers come from {model}." if model != DEMO else f"{DEMO_NOTICE} {why_demo(settings)}"


def why_demo(settings: Settings) -> str:
    """Return how a real model is made to answer, in a sentence."""
    if settings.default_model != DEMO:
        return f"Its agent asks for `demo`; without that {settings.default_model} answers."
    if settings.default_key is not None:
        return f"PARLEY_MODEL asks for it; unset it, and the model of {settings.default_key} answers."
    return "For a real model set ANTHROPIC_API_KEY or OPENAI_API_KEY and start again."


def models_of(definition: Definition) -> Iterator[str]:
    """Give the models that an agent names."""
    named = (definition.controls.model, definition.model, *definition.fallback_models)
    yield from (model for model in named if model is not None)


def is_unlisted(model: str) -> bool:
    """Return whether *model* is missing among the known models of a vendor; other providers serve any name."""
    return model.partition(":")[0] in table().defaults and find(model) is UNKNOWN


def warn_of_model(model: str, today: date, *, agent: str | None = None) -> None:
    """Log that *model*, which *agent* or PARLEY_MODEL names, is not known, or is not served much longer."""
    named_by = f"agent {agent}" if agent else "PARLEY_MODEL"
    if is_unlisted(model):
        _log.warning("model.unlisted", model=model, named_by=named_by, remedy=UNLISTED)
    ends = find(model).ends
    if ends is None or today < ends - timedelta(days=NOTICE_DAYS):
        return
    event = "model.ended" if today > ends else "model.ending"
    _log.warning(event, model=model, ends=ends.isoformat(), named_by=named_by, remedy="name another model")
