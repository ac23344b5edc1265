"""The example calls of a tool's definition (`tests`), made and compared with how they have to end."""

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from app.cli.client import ServerRefused, Unreachable
from app.cli.printing import request, short


def tried(name: str, *, is_named: bool) -> dict[str, Any]:
    """Return how many example calls of the tool *name* were made, how many were not, and their faults.

    Those of a tool that writes are made only if it *is_named* by the operator.
    """
    path = f"/v1/tools/{quote(name, safe='')}"
    tool = request("GET", path)
    if tool["effect"] == "write" and not is_named:
        return {"calls": 0, "skipped": len(tool["tests"])}
    faults = list[str]()
    for place, example in enumerate(tool["tests"]):
        body = {"arguments": example["arguments"], "tool_context": example["tool_context"]}
        try:
            done = request("POST", f"{path}/call", body=body)
        except (ServerRefused, Unreachable) as error:  # the other examples are tried all the same
            faults.append(f"tests[{place}]: {error}")
        else:
            faults += (f"tests[{place}]: {fault}" for fault in _differences(example, done))
    return {"faults": faults, "calls": len(tool["tests"]), "skipped": 0}


def summary(result: dict[str, Any]) -> Sequence[str]:
    """Return what people read of the calls that were made, and of those that were not."""
    calls, skipped = result.get("calls", 0), result.get("skipped", 0)
    lines = [f"{calls} calls as expected" if calls != 1 else "1 call as expected"] if calls else []
    return [*lines, f"{skipped} not made, as it writes: name it"] if skipped else lines


def _differences(example: dict[str, Any], done: dict[str, Any]) -> Iterator[str]:
    if done["outcome"] != example["outcome"]:
        yield f"{done['outcome']}, and not {example['outcome']}: {short(done['text'], 200)}"
        return
    for text in example["contains"]:
        if text not in done["text"]:
            yield f"the result has no `{short(text)}`: {short(done['text'], 200)}"
