"""Untrusted results: what becomes of a write that follows what strangers may have written, in the same run. Pure."""

from agent_core.agents import Agent
from agent_core.loop.state import RunState
from agent_core.loop.waiting import CallState

AFTER_UNTRUSTED = "parley:after_untrusted"
"""The name in the log of the rule that an agent's `after_untrusted` is; no hook can have it."""


def needs_ruling(call: CallState, state: RunState, agent: Agent) -> bool:
    """Return whether the rule has yet to rule on *call*.

    It is about calls that write, of steps whose model has read an untrusted result; not about those that people
    approved already, for whatever reason.
    """
    if state.untrusted_since is None or call.step <= state.untrusted_since:
        return False
    if agent.definition.after_untrusted == "allow" or call.approved_for or AFTER_UNTRUSTED in call.allowed_by:
        return False
    spec = agent.tools.get(call.name)
    return spec is not None and spec.kind != "none" and spec.effect == "write"
