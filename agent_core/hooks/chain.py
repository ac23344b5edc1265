"""The input of a hook and its answers. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

import msgspec
import structlog
from msgspec import json
from msgspec.structs import replace

from agent_core import events as e
from agent_core.agent.state import CallState, RunState
from agent_core.agent.strategy import AFTER_UNTRUSTED, needs_ruling
from agent_core.agents import Agent, ApprovalConfig, HookEvent, NamedHook, ToolSpec
from agent_core.errors import Unavailable
from agent_core.ids import new_id
from agent_core.messages import Actor, Text, ToolCall, legible, shorten, visible
from agent_core.schemas import defaults, is_choice_of_several, problems, schema_problem
from agent_core.tools.base import Elicitation, ForeignError, called


class Occasion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a hook is asked about.

    *channel* is the kind of place that the session is in (`slack`, `web`, `terminal`, `api`), *actor* who asked for the
    run. *tool*, *call* and *arguments* (presets among them) are there for a call, *wraps* for one of a tool that gives
    that one another name, *result* (its text) after one, *text* for an answer or, at the start of a run, what was
    asked; *status* is how a run ended.
    """

    event: HookEvent
    hook: str
    agent: str
    session: str
    run: str
    channel: str
    actor: Actor | None
    tool: str | None = None
    wraps: str | None = None
    call: str | None = None
    arguments: dict[str, Any] | None = None
    result: str | None = None
    text: str | None = None
    status: str | None = None


class Allow(msgspec.Struct, frozen=True):
    """Go on; *error* says why the hook itself gave no answer."""

    reason: str | None = None
    error: str | None = None


class Deny(msgspec.Struct, frozen=True):
    """Do not; the model, or the person, reads *reason*."""

    reason: str | None = None
    error: str | None = None


class Modify(msgspec.Struct, frozen=True):
    """Go on with other *arguments*, another *result* or another *text*."""

    arguments: dict[str, Any] | None = None
    result: str | None = None
    text: str | None = None
    reason: str | None = None


Answer = Allow | Deny | Modify


FORM_TIME = 7 * 24 * 3600.0
"""Seconds that a form is open. The wait holds no connection and no process."""
MAX_FORMS = 10
"""Forms that one call may show, one after the other."""
MAX_FIELDS = 30
MAX_TITLE, MAX_DETAIL = 150, 2_000
MAX_TOOL_TITLE = 60
MAX_PARAMETERS = 8_000
"""Bytes of JSON of a schema that a question holds: it is stored with each."""
_FORM = "parley:form"
_VALUES = frozenset({"const", "default", "enum", "examples"})
"""Keywords of a schema whose values are no schemas."""
_PLAIN = frozenset({"string", "integer", "number", "boolean"})


def question(spec: ToolSpec, name: str) -> str:
    """Return what people are asked before a call of the tool *name*; the name stands there whatever its title says.

    A title that an MCP server gives is not shown: it could say anything.
    """
    title = legible(spec.title)[:MAX_TOOL_TITLE] if spec.source != "mcp" else ""
    return f"Allow “{title}” ({name})?" if title else f"May {name} run?"


def held(
    hook: str, config: ApprovalConfig, call: CallState, spec: ToolSpec, actors: tuple[Actor | None, Sequence[Actor]]
) -> Sequence[e.FactBody]:
    """Return the facts by which *hook* holds *call* until people decided; *actors* are who asked, and all who spoke."""
    asker, speakers = actors
    config = with_presets(config, spec)
    approval = new_id("apr")
    return [
        e.HookRuled(hook=hook, event="PreToolUse", ruling="hold", reason=None, call=call.call),
        e.ApprovalRequested(
            approval=approval,
            call=call.call,
            step=call.step,
            tool=call.name,
            arguments=call.arguments,
            hook=hook,
            title=config.title or question(spec, call.name),
            responders=config.responders,
            quorum=config.quorum,
            timeout_s=config.timeout_s,
            status="open",
            on_timeout=config.on_timeout,
            detail=config.detail,
            edit=config.edit,
            remember=config.remember,
            deliver_to=config.deliver_to,
            by=asker,
            speakers=tuple(each for each in speakers if each != asker),
            parameters=_parameters(spec),
        ),
        e.ToolPending(call=call.call, on="approval", approval=approval),
    ]


def _parameters(spec: ToolSpec) -> dict[str, Any] | None:
    """Return the schema of the tool's arguments for a card, None where it is long or says nothing.

    Titles that an MCP server gives are left out: another name for an argument could say anything.
    """
    schema = _untitled(spec.parameters) if spec.source == "mcp" else spec.parameters
    return schema if schema.get("properties") and len(json.encode(schema)) <= MAX_PARAMETERS else None


def _untitled(schema: Any) -> Any:
    match schema:
        case dict():
            each = cast("dict[str, Any]", schema).items()
            # A property may be called `title`: then this is a schema, not a text.
            others = {key: value for key, value in each if key != "title" or not isinstance(value, str)}
            return {key: value if key in _VALUES else _untitled(value) for key, value in others.items()}
        case list():
            return [_untitled(value) for value in cast("list[Any]", schema)]
        case _:
            return schema


def with_presets(config: ApprovalConfig, spec: ToolSpec) -> ApprovalConfig:
    """Return *config* with a *detail* that says what the call's arguments do not: what it wraps, and its presets."""
    lines = [] if spec.wraps is None else [f"{spec.name} runs {spec.wraps}."]
    lines += [f"Preset: {name} = {json.encode(value).decode()}" for name, value in spec.preset.items()]
    if not lines:
        return config
    return replace(config, detail="\n".join(filter(None, (config.detail, *lines)))[:MAX_DETAIL])


def form(
    call: CallState,
    texts: tuple[str, str | None],
    schema: dict[str, Any],
    state: str | None,
    actors: tuple[Actor | None, Sequence[Actor]],
) -> Sequence[e.FactBody]:
    """Return the facts by which the tool of *call* asks the person who asked for the run to fill in a form.

    *texts* is a title and more of it, which a stranger may have written; *state* is the blob with the tool's own.
    """
    asker, speakers = actors
    approval, (title, detail), form = new_id("apr"), map(_printable, texts), _legible(schema)
    long = len(title) > MAX_TITLE
    return [
        e.ApprovalRequested(
            approval=approval,
            call=call.call,
            step=call.step,
            tool=call.name,
            arguments=defaults(form),
            hook=_FORM,
            title=shorten(title, MAX_TITLE) or f"{call.name} asks you something.",
            responders=("asker",) if asker is not None else ("operators",),
            quorum=1,
            timeout_s=FORM_TIME,
            status="open",
            detail="\n\n".join(filter(None, (title if long else "", detail)))[:MAX_DETAIL] or None,
            edit=True,
            by=asker,
            speakers=tuple(each for each in speakers if each != asker),
            form=form,
            state=state,
        ),
        e.ToolPending(call=call.call, on="approval", approval=approval),
    ]


def is_form(schema: Mapping[str, Any]) -> bool:
    """Return whether people can fill *schema* in: texts, numbers, choices of one or several, yes or no."""
    fields = cast("object", schema.get("properties"))
    if schema.get("type") != "object" or not isinstance(fields, dict):
        return False
    plain = all(_is_plain(each) for each in cast("dict[str, object]", fields).values())
    names = "".join(map(str, cast("dict[str, object]", fields)))
    if visible(names) != names:
        return False
    return plain and len(schema["properties"]) <= MAX_FIELDS and schema_problem(dict(schema)) is None


def _is_plain(field: object) -> bool:
    if not isinstance(field, dict):
        return False
    schema = cast("dict[str, Any]", field)
    kind: object = schema.get("type")
    return is_choice_of_several(schema) if kind == "array" else isinstance(kind, str) and kind in _PLAIN


def _printable(text: str | None) -> str:
    return visible(text or "").strip()


def _legible(value: Any) -> Any:
    """Return the JSON *value* without hidden characters in its texts."""
    if isinstance(value, dict):
        return {key: _legible(each) for key, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_legible(each) for each in cast("list[Any]", value)]
    return visible(value) if isinstance(value, str) else value


BLOCKED = "This cannot be answered here."
WITHHELD = "[The result is withheld by a rule of this agent.]"
_log = structlog.get_logger("parley.hooks")


class RunContext(msgspec.Struct, frozen=True):
    """Where and for whom a run works: its channel, who asked last and what, and all *speakers* of its session."""

    channel: str
    asker: Actor | None
    question: str
    speakers: tuple[Actor, ...] = ()


class Resolver(Protocol):
    """Asks one hook that needs no people; None when it has nothing to say."""

    async def ask(self, named: NamedHook, occasion: Occasion) -> Answer | None: ...


class RunInfo(Protocol):
    """What the chain needs to know about the run."""

    async def about(self) -> RunContext: ...

    async def is_granted(self, hook: str, tool: str, config: ApprovalConfig) -> bool:
        """Return whether people who may also decide now allowed *tool* for the rest of the conversation."""
        ...


class Hooks:
    """The hooks of one run. None of them is asked twice of the same thing, unless a crash lost what it said."""

    def __init__(self, agent: Agent, *, session: str, run: str, resolvers: Resolver, run_info: RunInfo) -> None:
        self._agent, self._session, self._run = agent, session, run
        self._resolvers, self._run_info = resolvers, run_info
        self._about: RunContext | None = None

    async def before_start(self, message: str, agents: Sequence[str]) -> Sequence[e.FactBody]:
        """Ask the hooks that were not asked yet whether the run may start; *message* is the id of a refusal."""
        facts: list[e.FactBody] = []
        question = (await self._of()).question
        for named in self._agent.hooks("OnRunStart"):
            if named.name in agents:
                continue
            answer = await self._ask(named, "OnRunStart", text=question)
            facts.append(_ruled(named.name, "OnRunStart", Allow() if isinstance(answer, Modify) else answer))
            if isinstance(answer, Deny):
                return [*facts, refusal(message, answer.reason)]
        return facts

    async def before_call(self, call: CallState, state: RunState) -> Sequence[e.FactBody]:
        """Ask whether *call* may run, up to the first no and the first question to people.

        At last the agent's own rule for a write after an untrusted result, see `loop.untrusted`.
        """
        facts: list[e.FactBody] = []
        spec = self._agent.tools[call.name]
        allowed = {*call.allowed_by, *call.approved_for}
        for named in self._agent.hooks("PreToolUse", call.name):
            if named.name in allowed:
                continue
            if isinstance(named.config, ApprovalConfig):
                if not await self._run_info.is_granted(named.name, call.name, named.config):
                    return [*facts, *held(named.name, named.config, call, spec, await self._actors())]
                answer: Answer = Allow("It is allowed for the rest of this conversation.")
            else:
                answer = await self._ask(named, "PreToolUse", **_of_call(call, spec))
            if isinstance(answer, Modify):
                answer = _without_presets(answer, spec)
                faults = problems(spec.parameters, answer.arguments)
                if faults:
                    answer = self._unfit(named, f"it changed the arguments to what does not fit: {faults[0]}")
            facts.append(_ruled(named.name, "PreToolUse", answer, call.call))
            if isinstance(answer, Deny):
                return facts
            if isinstance(answer, Modify):  # it is another call now: the others are asked about that
                return facts
        return [*facts, *await self._after_untrusted(call, spec)] if needs_ruling(call, state, self._agent) else facts

    async def _after_untrusted(self, call: CallState, spec: ToolSpec) -> Sequence[e.FactBody]:
        if self._agent.definition.after_untrusted == "deny":
            denied = Deny("It would follow a result that strangers may have written.")
            return [_ruled(AFTER_UNTRUSTED, "PreToolUse", denied, call.call)]
        config = ApprovalConfig(detail="It follows a result that strangers may have written.")
        return held(AFTER_UNTRUSTED, config, call, spec, await self._actors())

    async def form(self, call: CallState, asks: Elicitation, state: str | None) -> Sequence[e.FactBody]:
        """Return the facts by which the tool of *call* asks the person who asked; *state* is the blob of its own."""
        return form(call, (asks.title, asks.detail), asks.schema, state, await self._actors())

    async def _actors(self) -> tuple[Actor | None, Sequence[Actor]]:
        about = await self._run_info.about()
        return about.asker, about.speakers

    async def after_call(self, call: CallState, result: str) -> tuple[Sequence[e.FactBody], str | None]:
        """Show *result* to the hooks; return their rulings, and what replaces it if one changed it."""
        facts: list[e.FactBody] = []
        changed: str | None = None
        for named in self._agent.hooks("PostToolUse", call.name):
            answer = await self._ask(
                named,
                "PostToolUse",
                **_of_call(call, self._agent.tools.get(call.name)),
                result=result if changed is None else changed,
            )
            facts.append(_ruled(named.name, "PostToolUse", answer, call.call))
            match answer:
                case Deny(reason):
                    return facts, f"{WITHHELD} {reason}" if reason else WITHHELD
                case Modify():
                    changed = answer.result
                case Allow():
                    pass
        return facts, changed

    async def before_answer(self, text: str) -> tuple[Sequence[e.FactBody], str | None]:
        """Show *text* to the hooks before it is shown; return their rulings, and what is said instead."""
        facts: list[e.FactBody] = []
        changed: str | None = None
        for named in self._agent.hooks("PreResponse"):
            answer = await self._ask(named, "PreResponse", text=text if changed is None else changed)
            facts.append(_ruled(named.name, "PreResponse", answer))
            match answer:
                case Deny(reason):
                    return facts, reason or BLOCKED
                case Modify():
                    changed = answer.text
                case Allow():
                    pass
        return facts, changed

    async def after_end(self, status: str, text: str) -> None:
        """Notify the hooks that the run ended; what they say changes nothing."""
        for named in self._agent.hooks("OnRunComplete"):
            await self._ask(named, "OnRunComplete", status=status, text=text)

    async def _ask(self, named: NamedHook, event: HookEvent, **fields: object) -> Answer:
        about = await self._of()
        occasion = Occasion(
            event=event,
            hook=named.name,
            agent=self._agent.name,
            session=self._session,
            run=self._run,
            channel=about.channel,
            actor=about.asker,
        )
        try:
            return await called(lambda: self._resolvers.ask(named, replace(occasion, **fields))) or Allow()
        except ForeignError as error:
            if isinstance(error.__cause__, Unavailable):  # the database is away, which is no fault of the hook
                raise error.__cause__ from None
            return self._unfit(named, f"it raised {error}")

    async def _of(self) -> RunContext:
        if self._about is None:
            self._about = await self._run_info.about()
        return self._about

    def _unfit(self, named: NamedHook, error: str) -> Answer:
        """Return what counts when the answer of a hook makes no sense."""
        return Deny(error=error) if getattr(named.config, "on_error", "deny") == "deny" else Allow(error=error)


def saying(message: e.MessageCompleted, text: str) -> e.MessageCompleted:
    """Return *message* with *text* in the place of its words: what the model wrote and thought is not kept."""
    calls = tuple(part for part in message.parts if isinstance(part, ToolCall))
    return replace(message, parts=(*([Text(text)] if text else []), *calls), native=None)


def refusal(message: str, reason: str | None) -> e.MessageCompleted:
    """Return what the person reads in the place of an answer."""
    text = Text(reason or BLOCKED)
    return e.MessageCompleted(message=message, role="assistant", parts=(text,), stop="done")


def _ruled(hook: str, event: HookEvent, answer: Answer, call: str | None = None) -> e.HookRuled:
    match answer:
        case Allow(reason, error):
            return e.HookRuled(hook=hook, event=event, ruling="allow", reason=reason, error=error, call=call)
        case Deny(reason, error):
            return e.HookRuled(hook=hook, event=event, ruling="deny", reason=reason, error=error, call=call)
        case Modify():
            return e.HookRuled(
                hook=hook,
                event=event,
                ruling="modify",
                reason=answer.reason,
                call=call,
                arguments=answer.arguments,
            )


def _of_call(call: CallState, spec: ToolSpec | None) -> dict[str, Any]:
    """Return what a hook gets of *call*: its arguments as they will be, references to secrets not filled in."""
    fields = {"tool": call.name, "call": call.call, "arguments": call.arguments}
    return fields if spec is None else {**fields, "wraps": spec.wraps, "arguments": {**call.arguments, **spec.preset}}


def _without_presets(answer: Modify, spec: ToolSpec) -> Modify:
    """Return *answer* without the presets that the hook was shown and sent back; what it changed there stays."""
    arguments = answer.arguments or {}
    left = {name: each for name, each in arguments.items() if name not in spec.preset or each != spec.preset[name]}
    return answer if answer.arguments is None else replace(answer, arguments=left)
