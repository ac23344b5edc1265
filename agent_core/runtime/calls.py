"""Renders: what a call shows to people, as facts."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog
from msgspec.structs import replace

from agent_core import events as e
from agent_core.agent import router
from agent_core.agent.entries import loaded_in
from agent_core.agent.state import CallState, RunState
from agent_core.agent.strategy import UNKNOWN
from agent_core.agent.window import Window
from agent_core.agents import LIST_RESOURCES, RENDER_TOOLS, SEARCH_TOOLS, Agent, ToolSpec, is_of_router
from agent_core.channels import channel_of
from agent_core.charts.made import MAX_RENDER, NewRender
from agent_core.charts.rows import FoundRows, may_hold_rows, note_of, rows_in, without_notes
from agent_core.events import RenderShown
from agent_core.hooks.chain import MAX_FORMS, Hooks, is_form
from agent_core.messages import Actor, CallOutcome, File, Part, Render, Text, clean, text_of, visible
from agent_core.net.sse import legible_text
from agent_core.schemas import problems
from agent_core.store import files, quotas
from agent_core.store.log import RunRef
from agent_core.store.store import Store
from agent_core.tools import base as t
from agent_core.tools.base import Done, ForeignError, render_id, router_tools, use
from agent_core.tools.output import without_new_presets
from agent_core.tools.toolset import Scope, Toolset, tools_with, unknown_tool

__all__ = ["MAX_RENDER", "shown_by"]
_log = structlog.get_logger("parley.renders")


def shown_by(call: CallState, renders: Sequence[NewRender]) -> list[RenderShown]:
    """Return the facts that show *renders* of *call*, without those that are too large or cannot be written as JSON.

    Ids derive from the call's, so that a call which runs again after a crash shows the same renders.
    """
    result: list[RenderShown] = []
    for n, render in enumerate(renders):
        fact = RenderShown(
            render=render_id(call.call, n + 1),
            call=call.call,
            kind=clean(render.kind),
            title=clean(render.title) if render.title else None,
            payload=render.payload,
            text=clean(render.text),
        )
        if problem := _problem(fact):
            _log.warning("render.dropped", tool=call.name, kind=fact.kind, problem=problem)
        else:
            result.append(fact)
    return result


def _problem(fact: RenderShown) -> str | None:
    """Return why *fact* cannot be in the log, None when it can."""
    try:
        size = len(msgspec.json.encode(fact))
    except (TypeError, ValueError, OverflowError, RecursionError):  # a lone surrogate is a ValueError too
        return "not JSON"
    return f"{size} bytes" if size > MAX_RENDER else None


def unknown(agent: Agent, name: str) -> str:
    """Return the text for a model that calls a tool *name* that there is none of."""
    others = agent.tools.keys() - {name}
    if agent.snapshot.routed:
        return router.unknown(name, others, SEARCH_TOOLS if agent.snapshot.searches else LIST_RESOURCES)
    text = unknown_tool(name, others)
    return text[0].upper() + text[1:]


def unread(agent: Agent, call: CallState, state: RunState, window: Window) -> str | None:
    """Return the text for a model on a tool beside its prompt that it has not read, None for one that it may call.

    What a search found may be called as long as that is in the *window*; a resource is open until the run ends.
    """
    choice = (state.step.controls or {}).get("tool_choice")
    if not agent.snapshot.routed or call.step == 0 or choice == {"tool": call.name}:
        return None  # a call before the first step is of a person's message
    if not agent.snapshot.searches:
        return router.closed(agent, call.name, state.waiting.opened_for(call))
    is_routed = any(spec.name == call.name for spec in agent.snapshot.routed)
    return router.not_found_yet(call.name) if is_routed and call.name not in _loaded(window) else None


def _loaded(window: Window) -> frozenset[str]:
    return loaded_in(entry.message for entry in window.entries)


def with_loaded(spec: ToolSpec, outcome: Done, facts: Sequence[e.FactBody]) -> Sequence[e.FactBody]:
    """Return *facts*, of which the last one ends a call, with what a search of the router's own found."""
    end = facts[-1]
    if not outcome.loaded or not is_of_router(spec) or not isinstance(end, e.ToolCompleted):
        return facts
    return [*facts[:-1], replace(end, loaded=outcome.loaded)]


_RAW_SHOWN = 500
_SHORT = 20_000
"""Characters of a result whose rows are looked for on the event loop: a thread costs as much as decoding them."""
_CANCEL_TIMEOUT = 0.5
ANSWERED = "Taken as the answer."
_calls_log = structlog.get_logger("parley.calls")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run works: the *address* of its session, if it has one, and who opened that."""

    address: str | None
    opener: Actor


class Calls:
    """Run the calls of one run; *window* is what its model sees."""

    def __init__(
        self,
        run: RunRef,
        agent: Agent,
        place: Place,
        toolset: Toolset,
        *,
        window: Window,
        hooks: Hooks,
        store: Store,
    ) -> None:
        self._run, self._agent, self._place, self._toolset, self.hooks = run, agent, place, toolset, hooks
        self._window, self._store = window, store
        self._left: set[asyncio.Future[t.Outcome]] = set()

    async def run(
        self, calls: tuple[CallState, ...], state: RunState, stopped: Callable[[], bool]
    ) -> AsyncGenerator[e.FactBody | e.ToolProgress]:
        """Run *calls* concurrently and yield their progress and their ends as they come.

        Once *stopped* is true, and its reader's task cancelled, it yields what has ended by then and stops the rest.
        """
        tools = await self._tools_of(calls)
        news: asyncio.Queue[e.FactBody | e.ToolProgress | BaseException] = asyncio.Queue()
        tasks = [asyncio.create_task(self._one(call, state, tools, news.put_nowait)) for call in calls]
        for task in tasks:
            task.add_done_callback(lambda done: _report(done, news))
        try:
            left = len(tasks)
            while left and not stopped():
                try:
                    event = await news.get()
                except asyncio.CancelledError:
                    if not stopped():
                        raise
                    break
                if isinstance(event, BaseException):
                    raise event
                left -= isinstance(event, e.ToolCompleted | e.ToolPending)
                yield event
            await _end(tasks)
            while not news.empty():
                if not isinstance(event := news.get_nowait(), BaseException):
                    yield event
        finally:
            await _end(tasks)

    async def _tools_of(self, calls: tuple[CallState, ...]) -> Mapping[str, t.Tool]:
        own, specs = router_tools(self._agent), (self._agent.tools.get(call.name) for call in calls)
        wanted = (spec.name for spec in specs if spec is not None and spec.kind == "function" and spec.name not in own)
        tools = await tools_with(self._toolset, Scope(self._agent.id), wanted)
        return {**tools, **own} if own else tools

    async def _one(
        self,
        call: CallState,
        state: RunState,
        tools: Mapping[str, t.Tool],
        emit: Callable[[e.FactBody | e.ToolProgress], None],
    ) -> None:
        prepared = self._prepare(call, state, tools)
        if isinstance(prepared, e.ToolCompleted | e.ToolPending):
            emit(prepared)
            return
        context = self._context(call, state, emit, await self._answered(call))
        outcome = await self._execute(prepared, call, context)
        if isinstance(outcome, e.ToolCompleted):
            emit(outcome)
            return
        for fact in await self._finalize(prepared.spec, call, outcome):
            emit(fact)

    def _context(
        self,
        call: CallState,
        state: RunState,
        emit: Callable[[e.FactBody | e.ToolProgress], None],
        answer: t.ElicitationAnswer | None,
    ) -> t.CallContext:
        asker = state.asker or self._place.opener  # a run without an asker is one whose messages were deleted
        return t.CallContext(
            call=call.call,
            session=self._run.session_id,
            run=self._run.id,
            actor=asker,
            channel=channel_of(self._place.address, asker),
            clock=self._store.clock,
            progress=lambda text: emit(e.ToolProgress(call=call.call, text=clean(text))),
            tool_context=self._agent.tool_context,
            answer=answer,
            rows=self._rows,
            keep_file=self._keep_file,
        )

    async def _keep_file(self, data: bytes, mime: str, name: str) -> File:
        return File(await self._put(mime, data), name, mime, len(data))

    async def _put(self, mime: str, data: bytes) -> str:
        """Store bytes, which count as stored by the run, and return their blob id."""
        return await self._store.write(quotas.put_blob, self._run.session, mime, data, self._run.key)

    async def _answered(self, call: CallState) -> t.ElicitationAnswer | None:
        """Return what people answered to the newest form of *call*, with what its tool kept for it."""
        if call.answer is None:
            return None
        state = (
            ""
            if call.answer.state is None
            else (await self._store.read(quotas.get_blob, call.answer.state))[1].decode()
        )
        return t.ElicitationAnswer(call.answer.accepted, call.answer.content, state)

    async def _rows(self, handle: str) -> list[dict[str, Any]]:
        """Return kept rows of the session; raises `NotFound`."""
        data = await self._store.read(files.rows, self._run.session, handle)
        return await asyncio.to_thread(msgspec.json.decode, data, type=list[dict[str, Any]])

    async def rule(self, calls: tuple[CallState, ...], state: RunState) -> AsyncGenerator[e.FactBody]:
        """Ask the hooks whether *calls* may run, concurrently; a call that cannot run anyway ends without asking."""
        tools = await self._tools_of(calls)
        rulings = [self._ruled(call, state, tools) for call in calls]
        for facts in await asyncio.gather(*rulings):
            for fact in facts:
                yield fact

    async def _ruled(self, call: CallState, state: RunState, tools: Mapping[str, t.Tool]) -> Sequence[e.FactBody]:
        end = self._prepare(call, state, tools)
        if isinstance(end, e.ToolCompleted) and end.outcome == "failed":
            return [end]
        return await self.hooks.before_call(call, state)

    def _prepare(
        self, call: CallState, state: RunState, tools: Mapping[str, t.Tool]
    ) -> t.Tool | e.ToolCompleted | e.ToolPending:
        """Return the tool that may run, or how the call ends without it."""
        if call.denial is not None:
            return _ended(call, "denied", call.denial)
        spec, tool = self._agent.tools.get(call.name), tools.get(call.name)
        interrupted = call.status == "started" and call.epoch < state.epoch
        if interrupted and _may_have_written(spec, tool, call):
            return _ended(call, "unknown", UNKNOWN)
        if spec is None or (tool is None and spec.kind == "function"):
            if spec is not None:
                _calls_log.warning("tool.missing", run=self._run.id, tool=call.name, remedy="load it again, or restart")
            return _ended(call, "failed", unknown(self._agent, call.name))
        if (text := unread(self._agent, call, state, self._window)) is not None:
            return _ended(call, "failed", text)
        if call.raw is not None:
            text = f"Not run: the arguments are no JSON object. They were: {call.raw[:_RAW_SHOWN]}"
            return _ended(call, "failed", text)
        # By the router's tool a model calls what there is now, as a note has it, and not what its list has frozen.
        parameters = spec.parameters if call.via is None or tool is None else tool.spec.parameters
        if faults := problems(parameters, call.arguments):
            listed = "; ".join(map(str, faults))
            return _ended(call, "failed", f"The arguments do not fit the schema of `{call.name}`: {listed}")
        if spec.kind == "client":
            return e.ToolPending(call=call.call, on="client", tool=call.name, arguments=call.arguments)
        return tool or _ended(call, "done", ANSWERED)

    async def _execute(self, tool: t.Tool, call: CallState, context: t.CallContext) -> t.Outcome | e.ToolCompleted:
        """Execute the tool within its timeout; one that ignores its cancellation is abandoned."""
        spec = self._agent.tools.get(call.name, tool.spec)
        work = asyncio.ensure_future(use(tool, without_new_presets(tool, spec, call.arguments), context))
        try:
            await asyncio.wait((work,), timeout=spec.timeout)
        except asyncio.CancelledError:
            if not work.done():  # a call that has ended by now is recorded, stopped or not
                await self._abandon(work)
                raise
        if not work.done():
            await self._abandon(work)
            text = f"`{call.name}` did not answer within {spec.timeout:g} s."
            return _ended(call, "unknown", f"{text} {UNKNOWN}") if spec.effect == "write" else t.ToolError(text)
        try:
            return work.result()
        except asyncio.CancelledError:
            return t.ToolError(f"`{call.name}` failed: its own work was cancelled.")
        except ForeignError as error:
            return t.ToolError(f"`{call.name}` failed: {error}")

    async def _abandon(self, work: "asyncio.Future[t.Outcome]") -> None:
        """Cancel *work*, and wait for its end a short time only: a Stop must not hang on a tool that does not stop."""
        work.cancel()
        self._left.add(work)
        work.add_done_callback(self._forget)
        await asyncio.wait((work,), timeout=_CANCEL_TIMEOUT)

    def _forget(self, work: "asyncio.Future[t.Outcome]") -> None:
        self._left.discard(work)
        if not work.cancelled() and (error := work.exception()) is not None:
            _calls_log.info("tool.left", run=self._run.id, error=getattr(error, "kind", type(error).__name__))

    async def _finalize(self, spec: ToolSpec, call: CallState, outcome: t.Outcome) -> Sequence[e.FactBody]:
        match outcome:
            case t.Done(parts, renders):
                return with_loaded(spec, outcome, await self.result(spec, call, "done", parts, renders))
            case t.ToolError(message, unknown):
                return await self.result(spec, call, "unknown" if unknown else "failed", (Text(message),))
            case t.Elicitation():
                return await self._asking(spec, call, outcome)
            case t.Pending(on):
                return [e.ToolPending(call=call.call, on=on)]

    async def _asking(self, spec: ToolSpec, call: CallState, asks: t.Elicitation) -> Sequence[e.FactBody]:
        """Return the facts by which *call* waits for the answer to a form; one that cannot be shown fails the call."""
        if call.forms >= MAX_FORMS:
            return await self.result(spec, call, "failed", (Text(f"It asked for more than {MAX_FORMS} answers."),))
        if not is_form(asks.schema):
            text = "It asked for what cannot be asked of people: a form has texts, numbers, choices and yes or no."
            return await self.result(spec, call, "failed", (Text(text),))
        ref = None
        if asks.state:
            ref = await self._put("text/plain", asks.state.encode())
        return await self.hooks.form(call, asks, ref)

    async def result(
        self,
        spec: ToolSpec,
        call: CallState,
        outcome: CallOutcome,
        parts: tuple[Part, ...],
        renders: Sequence[t.NewRender] = (),
    ) -> Sequence[e.FactBody]:
        """Return how a call with the result *parts* and *renders* ends, once the hooks have ruled on their texts.

        A hook that changes the result replaces all of it by its text, since no hook has seen the payload of a render.
        """
        rulings: Sequence[e.FactBody] = ()
        render_facts = shown_by(call, renders)
        parts = await _visible(parts)
        if self._agent.hooks("PostToolUse", call.name):
            seen = "\n\n".join(filter(None, (text_of(parts), *(clean(each.text) for each in renders))))
            rulings, changed = await self.hooks.after_call(call, seen)
            parts, render_facts, renders = (
                (parts, render_facts, renders) if changed is None else ((Text(changed),), [], ())
            )
        if not text_of(parts):
            parts = (*parts, *(Text(each.text) for each in renders))
        parts = await _visible(parts)
        note = ()
        if any(name in self._agent.tools for name in RENDER_TOOLS):
            parts = tuple(Text(without_notes(part.text)) if isinstance(part, Text) else part for part in parts)
            note = await self._kept_rows(call, parts) if outcome == "done" else ()
        parts = (*parts, *(Render(each.render) for each in render_facts))
        return [*rulings, *render_facts, await self._completed(spec, call, outcome, parts, note)]

    async def _kept_rows(self, call: CallState, parts: tuple[Part, ...]) -> tuple[Text, ...]:
        """Keep the rows that a result holds, and return the line that names their handle.

        They are those in the text that the hooks have left, whole also where the model reads the beginning of it.
        """
        for part in parts:
            if isinstance(part, Text) and may_hold_rows(part.text) and (table := await _find_rows(part.text)):
                kept = await self._store.write(files.keep_rows, self._run, call.call, *table)
                return (Text(note_of(kept)),)
        return ()

    async def _completed(
        self,
        spec: ToolSpec,
        call: CallState,
        outcome: CallOutcome,
        parts: tuple[Part, ...],
        handle: tuple[Text, ...],
    ) -> e.ToolCompleted:
        """Return the end with at most `result_limit` characters for the model; a longer result goes to a blob.

        The line of a *handle* comes last, whatever is cut.
        """
        length = sum(len(part.text) for part in parts if isinstance(part, Text))
        end = e.ToolCompleted(call=call.call, outcome=outcome, parts=(*parts, *handle), truncated=False)
        if spec.untrusted and outcome in ("done", "failed", "unknown"):
            end = replace(end, untrusted=True)
        if length <= spec.result_limit:
            return end
        data = msgspec.json.encode(parts)
        ref = await self._put("application/json", data)
        note = f"[Cut after {spec.result_limit} of {length} characters; the whole is kept as `{ref}`.]"
        cut = (*_first(parts, spec.result_limit), Text(note), *handle)
        return replace(end, parts=cut, truncated=True, ref=ref)


async def _visible(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return *parts* without what people cannot see in their texts; of long ones in a thread."""
    long = sum(len(part.text) for part in parts if isinstance(part, Text)) > _SHORT
    return await asyncio.to_thread(_all_visible, parts) if long else _all_visible(parts)


def _all_visible(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    return tuple(Text(visible(legible_text(clean(part.text)))) if isinstance(part, Text) else part for part in parts)


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel *tasks* and return when they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _report(done: asyncio.Task[None], news: asyncio.Queue[Any]) -> None:
    """Pass an error of our own code to the reader, which would wait forever otherwise."""
    if not done.cancelled() and (error := done.exception()) is not None:
        news.put_nowait(error)


def _may_have_written(spec: ToolSpec | None, tool: t.Tool | None, call: CallState) -> bool:
    """Return whether an interrupted *call* must not run again; one that came later may be gone, with all it said."""
    if spec is None:
        return call.via is not None
    return spec.effect == "write" and (tool is None or not spec.idempotent)


def _ended(call: CallState, outcome: CallOutcome, text: str) -> e.ToolCompleted:
    return e.ToolCompleted(call=call.call, outcome=outcome, parts=(Text(text),), truncated=False)


async def _find_rows(text: str) -> tuple[FoundRows, bytes] | None:
    return _decoded(text) if len(text) <= _SHORT else await asyncio.to_thread(_decoded, text)


def _decoded(text: str) -> tuple[FoundRows, bytes] | None:
    """Return the rows in *text*, and their JSON."""
    rows = rows_in(text)
    return None if rows is None else (rows, msgspec.json.encode(rows.rows))


def _first(parts: tuple[Part, ...], limit: int) -> list[Part]:
    result: list[Part] = []
    for part in parts:
        if not isinstance(part, Text):
            result.append(part)
        elif limit > 0:
            result.append(Text(part.text[:limit]))
            limit -= len(part.text)
    return result
