"""Edits: what the model learns about a call that ran with other arguments than it gave. Pure."""

import msgspec

from agent_core.events import ApprovalDecided, HookRuled
from agent_core.messages import Actor, CallOutcome, legible

MAX_ARGUMENTS = 10_000
"""Characters of arguments that are repeated to the model."""
_NOT_RUN = frozenset({"denied", "cancelled"})


class Edit(msgspec.Struct, frozen=True):
    """Who has changed the arguments of a call: people, by their *names*, to *arguments*; or a rule.

    What a rule puts into arguments may be a secret of the operator, so they are not repeated once one has changed them.
    """

    names: tuple[str, ...] = ()
    arguments: bytes = b""
    by_rule: bool = False

    def note(self, outcome: CallOutcome) -> str | None:
        """Return what the model reads before the call's result; None when no person changed it, or it never ran."""
        if not self.names or outcome in _NOT_RUN:
            return None
        who = " and ".join(self.names)
        if self.by_rule:
            return f"ran with other arguments, changed by {who} and by a rule"
        text = self.arguments.decode()
        shown = text if len(text) <= MAX_ARGUMENTS else f"{text[:MAX_ARGUMENTS]}…"
        return f"ran with arguments {shown}, changed by {who}"


def edited(before: Edit, body: HookRuled | ApprovalDecided) -> Edit:
    """Return the edit after a rule's change, of the call or of its result, or people's approval."""
    if isinstance(body, HookRuled):
        return msgspec.structs.replace(before, by_rule=before.by_rule or body.event == "PreToolUse")
    if not body.edited:
        return before
    names = tuple(dict.fromkeys((*before.names, _name(body.by))))
    return msgspec.structs.replace(before, names=names, arguments=msgspec.json.encode(body.arguments))


def _name(actor: Actor | None) -> str:
    """Return what the model calls *actor*; the name of an API key is the operator's."""
    if actor is None or actor.kind == "service":
        return "an operator"
    return legible(actor.name) or "a person"
