"""The chain: the hooks of one run, asked in their order; what they say becomes facts."""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec
import structlog
from msgspec.structs import replace

from agent_core.domain import events as e
from agent_core.domain.agents import Agent, ToolSpec
from agent_core.domain.hooks import ApprovalConfig, HookEvent, NamedHook
from agent_core.domain.messages import Actor, Text, ToolCall
from agent_core.domain.schemas import problems
from agent_core.errors import Unavailable
from agent_core.hooks.asking import form, held
from agent_core.hooks.base import Allow, Answer, Deny, Modify, Occasion
from agent_core.loop.state import RunState
from agent_core.loop.untrusted import AFTER_UNTRUSTED, needs_ruling
from agent_core.loop.waiting import CallState
from agent_core.tools.base import Elicitation
from agent_core.tools.foreign import ForeignError, called

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
