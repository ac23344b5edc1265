"""Deciding: votes and outputs for a run that waits. Each function is one transaction's work."""

from collections.abc import Collection, Sequence
from typing import Any, Literal

import msgspec
from msgspec.structs import replace
from sqlalchemy import Connection, update

from agent_core import events as e
from agent_core.agent.state import RunState, replay
from agent_core.agents import ApprovalConfig
from agent_core.channels import read_options
from agent_core.errors import AlreadyDecided, InvalidInput
from agent_core.events import Fact, FactBody
from agent_core.messages import Actor
from agent_core.objects import ApprovalObject, Decider, Decision, Vote, may_respond
from agent_core.store import approvals, log, queue, runs
from agent_core.store.approvals import Held
from agent_core.store.log import RUN, RunRef, SessionKey


class Ruled(msgspec.Struct, frozen=True):
    """The result of a vote.

    *late* when the approval was settled before, *refused* when the decider may not vote; *run* is set when it can
    continue, and is to be woken.
    """

    approval: ApprovalObject
    facts: Sequence[Fact] = ()
    late: bool = False
    refused: bool = False
    run: int | None = None


class Submitted(msgspec.Struct, frozen=True):
    """The *facts* of tool outputs; *run* is set when it can continue, and is to be woken."""

    facts: Sequence[Fact]
    run: int | None


def decide(connection: Connection, decision: Decision, now: int) -> Ruled:
    """Count a vote; the run continues after the one that settles the approval. Raises `NotFound`, `InvalidInput`.

    The session's lock orders simultaneous votes: one is first, the others are late.
    """
    id = decision.approval
    held, run = _hold(connection, id)
    seen = held.object
    if seen.status == "open" and seen.expires_at <= now:
        facts = approvals.expire(connection, run, now)
        late = approvals.find(connection, id).object
        _note(connection, late, "late", decision, now)
        return Ruled(late, facts, late=True, run=_woken(connection, run, now))
    if seen.status != "open":
        _note(connection, seen, "late", decision, now)
        return Ruled(seen, late=True)
    if not may_respond(seen.responders, seen.asker, decision.by, seen.speakers):
        _note(connection, seen, "refused", decision, now)
        return Ruled(seen, refused=True)
    _check(seen, decision)
    held = _voted(held, decision, now)
    seen = held.object
    yes = sum(vote.approved for vote in seen.votes)
    if decision.approved and yes < seen.quorum:
        return _counted(connection, held, run, decision, yes, now)
    end = "approved" if decision.approved else "denied"
    actor, reason, surface = decision.by.actor, decision.reason, decision.surface
    fact = approvals.settle(connection, held, end, now=now, by=actor, reason=reason, surface=surface)
    assert fact is not None, "The session's lock lets one decide."
    facts = approvals.record(connection, run, [fact], now=now)
    settled = approvals.find(connection, id).object
    return Ruled(settled, facts, run=_woken(connection, run, now))


def submit(
    connection: Connection,
    run: str,
    ends: Sequence[Sequence[FactBody]],
    also: Sequence[FactBody],
    tool_context: dict[str, Any] | None,
    *,
    now: int,
) -> Submitted:
    """Take the outputs of a run's client calls: *ends* are the facts of each, *also* are facts recorded with them.

    From then on *tool_context*, if given, is passed to the run's tools; it is in no fact. The run continues once no
    client call is open. Nothing is written when a call is unknown (`InvalidInput`) or has ended (`AlreadyDecided`).
    Raises `NotFound`.
    """
    ref, _ = runs.hold(connection, run)
    session_key = SessionKey(ref.session, ref.session_id)
    own = log.facts_of_run(connection, session_key, ref.id, ref.first_seq, None)
    state = replay(ref.id, own)
    done = [fact.call for facts in ends for fact in facts if isinstance(fact, e.ToolCompleted)]
    ended = {fact.body.call for fact in own if isinstance(fact.body, e.ToolCompleted)}
    _check_calls(state, ended, done)
    if tool_context is not None:
        _hand(connection, ref, tool_context)
    bodies = [*(fact for facts in ends for fact in facts), *also]
    first = log.take_seqs(connection, ref.session, len(bodies))
    facts = log.write(connection, session_key, first, [(ref, body) for body in bodies], now=now)
    e.note_tools(facts, state.waiting.tools)
    left = [
        call
        for call in state.waiting.calls
        if call.status == "pending" and call.on == "client" and call.call not in done
    ]
    return Submitted(facts, None if left else _woken(connection, ref, now))


def is_granted(
    connection: Connection, session: int, named: tuple[str, str], config: ApprovalConfig, speakers: Sequence[Actor]
) -> bool:
    """Return whether enough responders allowed a tool for the rest of a session.

    *named* are hook and tool; *speakers* spoke in the run, the asker last.
    """
    (hook, tool), asker = named, speakers[-1] if speakers else None
    for votes in approvals.grants(connection, session, hook, tool):
        yes = [
            vote for vote in votes if vote.approved and may_respond(config.responders, asker, _decider(vote), speakers)
        ]
        if len(yes) >= config.quorum:
            return True
    return False


def _hold(connection: Connection, id: str) -> tuple[Held, RunRef]:
    """Return an approval with its run, its session locked."""
    approval = approvals.find(connection, id)
    run, _ = runs.hold(connection, approval.object.run)
    return approvals.find(connection, id), run


def _hand(connection: Connection, run: RunRef, tool_context: dict[str, Any]) -> None:
    """Store what is passed to the tools of *run* from now on."""
    options = read_options(run.options)
    changed = replace(options, controls=replace(options.controls, tool_context=tool_context))
    connection.execute(update(RUN).where(RUN.c.key == run.key).values(options=msgspec.json.encode(changed)))


def _woken(connection: Connection, run: RunRef, now: int) -> int | None:
    """Mark *run* due if it waits, and return it for the caller to wake."""
    return run.key if queue.wake(connection, run.key, now) else None


def _note(
    connection: Connection, seen: ApprovalObject, kind: Literal["late", "refused"], decision: Decision, now: int
) -> None:
    """Record a vote that did not count, once per person and surface: repeated clicks add nothing."""
    by, surface = decision.by.actor, decision.surface
    if not approvals.has_entry(connection, seen.id, kind, actor=by, surface=surface, place=None):
        approvals.note(connection, approvals.names_of(seen), kind, now=now, actor=by, surface=surface)


def _check(seen: ApprovalObject, decision: Decision) -> None:
    if decision.arguments is not None and not decision.approved:
        raise InvalidInput("arguments", "a denial takes no corrected arguments; leave them out, or approve.")
    if decision.arguments is not None and not seen.edit:
        raise InvalidInput("arguments", "this call cannot be corrected; approve or deny it as it is.")
    if decision.remember and not decision.approved:
        raise InvalidInput("remember", "only an approval can be remembered; leave it out to deny this call.")
    if decision.remember and not seen.remember:
        raise InvalidInput("remember", "approvals of this tool cannot be remembered; approve this call alone.")


def _voted(held: Held, decision: Decision, now: int) -> Held:
    """Count the vote: the newest of each person. Corrected arguments void earlier approvals.

    An id is one person whatever its kind, as for `actor:<id>`: two kinds are no quorum of two.
    """
    seen, by = held.object, decision.by
    others = tuple(x for x in seen.votes if x.actor.id != by.actor.id)
    arguments = seen.arguments if decision.arguments is None else decision.arguments
    if approvals.digest(seen.tool, arguments) != seen.digest:
        others = ()
    vote = Vote(
        actor=by.actor,
        approved=decision.approved,
        at=now,
        surface=decision.surface,
        remember=decision.remember,
        is_operator=by.is_operator,
        is_present=by.is_present,
        also=by.also,
    )
    changed = replace(seen, votes=(*others, vote), arguments=arguments, digest=approvals.digest(seen.tool, arguments))
    return replace(held, object=changed)


def _counted(connection: Connection, held: Held, run: RunRef, decision: Decision, yes: int, now: int) -> Ruled:
    """Store an approving vote that does not complete the quorum."""
    seen, actor = held.object, decision.by.actor
    approvals.keep_votes(connection, held)
    data = {"arguments": seen.arguments, "votes": yes}
    approvals.note(
        connection, approvals.names_of(seen), "voted", now=now, actor=actor, surface=decision.surface, data=data
    )
    fact = e.ApprovalVoted(
        approval=seen.id,
        call=seen.call,
        by=actor,
        arguments=seen.arguments,
        votes=yes,
        quorum=seen.quorum,
        edited=seen.is_edited,
        surface=decision.surface,
    )
    return Ruled(seen, approvals.record(connection, run, [fact], now=now))


def _check_calls(state: RunState, ended: Collection[str], names: Sequence[str]) -> None:
    """Raise when one of *names* is not an open client call of the run; *ended* are the calls that have ended."""
    calls = {call.call: call for call in state.waiting.calls}
    for index, name in enumerate(names):
        path, call = f"outputs[{index}].call", calls.get(name)
        if name in names[:index]:
            raise InvalidInput(path, f"`{name}` is there twice; send one output for each call.")
        if name in ended:
            raise AlreadyDecided(f"The call `{name}` has its output already.")
        if call is None or call.on != "client" or call.status != "pending":
            waits = ", ".join(f"`{x.call}`" for x in state.waiting.calls if x.status == "pending" and x.on == "client")
            raise InvalidInput(path, f"`{state.run}` does not wait for `{name}`, but for: {waits or 'none'}.")


def _decider(vote: Vote) -> Decider:
    return Decider(actor=vote.actor, is_operator=vote.is_operator, is_present=vote.is_present, also=vote.also)
