"""Models: the providers that the settings allow, the notice about the model that answers, and warnings."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol, TypedDict, runtime_checkable

import structlog
from pydantic import SecretStr

from agent_core.clock import Clock
from agent_core.providers.base import Extras, Provider, Vision
from agent_core.providers.demo import DemoProvider
from app.settings import DEMO, Settings

ANTHROPIC_URL = "https://api.anthropic.com"
OPENAI_URL = "https://api.openai.com/v1"
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


class _Rest(TypedDict):
    """What a provider of any kind is made with, beside its key and address."""

    name: str
    extras: Extras
    vision: Vision | None


def _connected(settings: Settings) -> Iterator[Connected]:
    """Build what has a key; nothing is imported for a kind that has none.

    Keys and addresses are given always, so that they are the ones that were checked. The rest of what an SDK looks for
    in the environment it still finds and sends, except to named providers: `ANTHROPIC_CUSTOM_HEADERS` and the like.
    """
    for name, endpoint in settings.endpoints.items():
        key = endpoint.key.get_secret_value() if endpoint.key else None
        extras = Extras(_plain(endpoint.headers), _plain(endpoint.query), ambient=name not in settings.named)
        rest: _Rest = {"name": name, "extras": extras, "vision": endpoint.vision}
        match endpoint.kind:
            case "anthropic":
                from agent_core.providers.anthropic import anthropic  # noqa: PLC0415

                yield anthropic(api_key=key, base_url=endpoint.base_url or ANTHROPIC_URL, **rest)
            case "openai":
                from agent_core.providers.openai import openai  # noqa: PLC0415

                yield openai(api_key=key, base_url=endpoint.base_url or OPENAI_URL, **rest)
            case "openai-compatible":
                from agent_core.providers.compatible import compatible  # noqa: PLC0415

                yield compatible(api_key=key, base_url=endpoint.base_url or OPENAI_URL, **rest)


def _plain(secrets: Mapping[str, SecretStr]) -> dict[str, str]:
    return {name: each.get_secret_value() for name, each in secrets.items()}


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
