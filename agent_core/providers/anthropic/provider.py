"""Anthropic: the Messages API through the official SDK, its stream decoded by us."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, get_args

import msgspec

from agent_core.agents import Snapshot, ToolSpec
from agent_core.controls import Abilities, Controls, Effort, NamedTool, is_forced, thinking_budget
from agent_core.net.exchange import trusted
from agent_core.providers import models
from agent_core.providers.anthropic.encode import MARK, encoder_of, unloaded, wires
from agent_core.providers.anthropic.fold import AnthropicFold
from agent_core.providers.base import CacheMarks, Encode, ModelDelta, Request, RequestEntry
from agent_core.providers.caching import BUDGETS, of_anthropic
from agent_core.providers.client import Sdk, SdkClient
from agent_core.providers.extras import NO_EXTRAS, NO_KEY, Extras
from agent_core.providers.marking import OptionalFields, Spare
from agent_core.providers.models import Vision
from agent_core.providers.wording import Starts, blind, joined

NAME = "anthropic"
PATH = "/v1/messages"
DEFAULT_ROOM = 32_000
"""Tokens of an answer where the model's own limit is unknown."""
_EFFORTS = get_args(Effort)


def anthropic(
    *,
    api_key: str | None,
    base_url: str | None = None,
    idle: float = 600.0,
    name: str = NAME,
    extras: Extras = NO_EXTRAS,
    vision: Vision | None = None,
) -> "AnthropicProvider":
    """Return the provider *name*; *idle* is the seconds without a byte after which an answer counts as broken.

    Without *api_key* no header has one, but *extras* may. *vision* says which models see pictures; None: the table says
    it.
    """

    def make() -> Sdk:
        from anthropic import AsyncAnthropic, DefaultAioHttpClient, Omit  # noqa: PLC0415 - slow, so in a thread

        http, key, query = DefaultAioHttpClient(verify=trusted()), api_key or NO_KEY, extras.query or None
        client = AsyncAnthropic(api_key=key, base_url=base_url, max_retries=0, http_client=http, default_query=query)
        return Sdk(extras.cleared(client), http, extras.sent(Omit(), keyless=api_key is None))

    return AnthropicProvider(SdkClient(name, make, idle=idle, secrets=extras.secrets), name, vision=vision)


class AnthropicProvider:
    """Claude, or another model that speaks Messages at the base URL; without cache marks while one refuses them."""

    def __init__(self, client: SdkClient, name: str = NAME, *, vision: Vision | None = None) -> None:
        self._client, self.name, self._vision = client, name, vision
        self._fields = OptionalFields(name)
        self._starts = Starts(prefix_of)

    def accepts(self, model: str) -> bool:
        """Accept any name: our table may lack models that the provider has."""
        return bool(model.strip())

    def able(self, model: str) -> Abilities:
        """Return what the API enforces without losing the cache, see `able`."""
        marked, searches = self._fields.taken(model), self._fields.taken(model, "search")
        return able(model, marked=marked, searches=searches, vision=self._vision)

    def encoder(self, model: str) -> Encode:
        """Return how a message becomes Messages JSON for *model*."""
        encode = encoder_of(f"{self.name}:{model}")
        return encode if self.able(model).vision else blind(encode)

    def stream(self, request: Request) -> AsyncGenerator[Sequence[ModelDelta]]:
        """Ask for one answer and yield it as it comes."""
        marks = request.cache if self._fields.taken(request.model) else None
        head = (request.session, request.snapshot.hash)
        loads = request.snapshot.searches and self._fields.taken_by(head, request.model, "search")
        loads = loads and self.able(request.model).searches
        body, spares = partial(self._body, request, loads=loads), list[Spare]()
        if marks:
            spares.append(self._fields.without(request.model, partial(body, None)))
        if loads:
            spares.append(self._fields.without(request.model, partial(self._body, request, None), "search", head))
        return self._client.stream(PATH, body(marks), AnthropicFold(), spares=spares)

    def _body(self, request: Request, marks: CacheMarks | None, *, loads: bool = False) -> bytes:
        """Return the request; *loads*: with the tools beside the prompt, for a search to load."""
        start = self._starts.of(request.snapshot, marks is not None, loads)
        if request.snapshot.searches and not loads:
            request = replace(request, messages=unloaded(request.messages))
        return body_of(request, start, marks)

    async def prepare(self) -> None:
        """Import the SDK ahead of the first request."""
        await self._client.prepare()

    async def close(self) -> None:
        """Close every connection."""
        await self._client.close()


@lru_cache(maxsize=256)
def able(model: str, *, marked: bool = True, searches: bool = True, vision: Vision | None = None) -> Abilities:
    """Return what the API enforces without losing the cache: any change of the choice bills all messages again.

    A model that does not think meanwhile can be forced to call a tool; that is worth its price. It is asked for a dozen
    times in a run, and only the model table decides it.
    """
    entry = models.find(listed := f"{NAME}:{model}")
    return Abilities(
        withholds=False,
        narrows=False,
        forces=entry.thinking in ("none", "budget"),
        structured="closed" if models.holds(entry) else "none",
        caching=of_anthropic(entry) if marked else None,
        listed_as=listed,
        searches=entry.tool_search and searches,
        vision=models.sees(listed, vision),
    )


def prefix_of(
    snapshot: Snapshot,
    marked: bool = False,  # noqa: FBT001, FBT002 - parts of a key, see `Starts`
    loads: bool = False,  # noqa: FBT001, FBT002
) -> bytes:
    """Return system and tools as members of the body, with cache marks if they are to be *marked*.

    The first mark ends what sessions share: its text, or the tools, which the cache has before the texts. The second
    one ends the session's own text, if it has one. When it *loads*, the tools beside the prompt are there too: the API
    leaves them out of what the model reads, and of the cache, until a result refers to them, and takes no mark on them.
    """
    tools = [_tool(spec) for spec in snapshot.tools]
    mark = MARK if marked else {}
    texts = [{"type": "text", "text": text, **mark} for text in (snapshot.shared, snapshot.own) if text.strip()]
    if tools and not snapshot.shared.strip():
        tools[-1] |= mark
    if loads:
        tools += [_tool(spec) | {"defer_loading": True} for spec in snapshot.routed]
    members = {"system": texts, "tools": tools}
    return msgspec.json.encode({name: each for name, each in members.items() if each})[1:-1]


def _tool(spec: ToolSpec) -> dict[str, Any]:
    return {"name": spec.name, "description": spec.description, "input_schema": spec.parameters}


def body_of(request: Request, prefix: bytes, marks: CacheMarks | None = None) -> bytes:
    """Return the request body: this step's settings, the frozen *prefix*, and the messages, with *marks*.

    No temperature: the version of the API that the SDK speaks refuses it from every model.
    """
    entry, controls = models.find(f"{NAME}:{request.model}"), request.controls
    room = controls.max_output_tokens or entry.max_output or DEFAULT_ROOM
    room = min(room, entry.max_output or room)
    settings: dict[str, Any] = {"model": request.model, "max_tokens": room, "stream": True}
    if thinking := _thinking(request, entry, room):
        settings["thinking"] = thinking
    if output := _output(controls, entry):
        settings["output_config"] = output
    if request.snapshot.tools and (choice := _choice(controls)):
        settings["tool_choice"] = choice
    head = msgspec.json.encode(settings)[:-1] + b"," + (prefix + b"," if prefix else b"")
    return joined(head + b'"messages":[', wires(request.messages, marks), b"]}")


def _choice(controls: Controls) -> dict[str, Any] | None:
    match controls.tool_choice:
        case "none":
            return {"type": "none"}
        case "required":
            return {"type": "any"}
        case NamedTool(name):
            return {"type": "tool", "name": name}
        case _:
            return None


def _output(controls: Controls, model: models.Model) -> dict[str, Any]:
    output: dict[str, Any] = {}
    if controls.effort and model.efforts:
        output["effort"] = models.effort(model, controls.effort, _EFFORTS)
    if controls.output_schema is not None:
        output["format"] = {"type": "json_schema", "schema": controls.output_schema}
    return output


def _thinking(request: Request, model: models.Model, room: int) -> dict[str, Any] | None:
    """Return how *request* asks for thinking; None leaves it to the model."""
    wanted = request.controls.effort
    match model.thinking:
        case "adaptive" if wanted == "none":
            return {"type": "disabled"}
        case "between_tools" if wanted == "none":
            return {"type": "between_tools"}
        case "adaptive" | "between_tools" | "always":
            return {"type": "adaptive", "display": "summarized"}
        # A forced call and thinking exclude each other.
        case "budget" if wanted and wanted != "none" and not is_forced(request.controls.tool_choice):
            budget = thinking_budget(wanted, room, BUDGETS)
            if budget and _may_begin_to_think(request.messages):
                return {"type": "enabled", "budget_tokens": budget}
        case _:
            return None
    return None


def _may_begin_to_think(messages: Sequence[RequestEntry]) -> bool:
    """Return whether no tool loop is open, or its first answer begins with thinking.

    With a budget the API answers 400 to a loop that does not: thinking was dropped, or another model began it.
    """
    first = b""
    for entry in reversed(messages):
        if entry.message.role == "user":
            break
        if entry.message.role == "assistant" and entry.wire:
            first = entry.wire
    return not first or b'thinking"' in first[:64]
