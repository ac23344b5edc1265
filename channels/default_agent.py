"""Which agent answers where none is named: one rule for the page, the terminal and tests."""

from collections.abc import Iterable

PREFERRED = "assistant"


def default_agent(agents: Iterable[tuple[str, bool]]) -> str | None:
    """Return the name of the agent that answers when none is asked for; None when several might be meant.

    *agents* are names, each with whether it is an agent of the files as they are now. It is `assistant` where there is
    one, else the only agent of the files, else the only one there is.
    """
    by_id = dict(agents)
    if PREFERRED in by_id:
        return PREFERRED
    names = [name for name, has_file in by_id.items() if has_file] or list(by_id)
    return names[0] if len(names) == 1 else None
