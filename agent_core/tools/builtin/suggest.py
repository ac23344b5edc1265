"""What a person could ask next: a few suggestions below an answer, which send themselves when they are chosen."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agent_core.agents import ToolSpec
from agent_core.charts.made import NewRender
from agent_core.messages import Text, visible
from agent_core.tools.base import CallContext, Done, Outcome, ToolError

KIND = "suggestions"
"""The render's kind; its payload is `{items: [{label, prompt}]}`."""
MAX_ITEMS = 4
MAX_LABEL = 60
MAX_PROMPT = 500
# Letters and marks that are drawn as nothing: a label of them alone would be a button without words.
_BLANK = dict.fromkeys(map(ord, "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"))
_SPEC = ToolSpec(
    name="suggest",
    title="Suggestions",
    source="builtin",
    description=(
        "Offer the person up to four short replies or questions to choose from, shown below your answer. Use it once, "
        "when a next step is likely, and then answer without repeating them. A chosen one is sent in the person's "
        "name, so write it as they would say it."
    ),
    parameters={
        "type": "object",
        "properties": {
            "items": {
                "type": "array",
                "minItems": 1,
                "maxItems": MAX_ITEMS,
                "items": {
                    "type": "object",
                    "properties": {
                        "label": {
                            "type": "string",
                            "minLength": 1,
                            "maxLength": MAX_LABEL,
                            "description": "What is shown, on one line.",
                        },
                        "prompt": {
                            "type": "string",
                            "minLength": 1,
                            "maxLength": MAX_PROMPT,
                            "description": "What is sent; the label if it is left out.",
                        },
                    },
                    "required": ["label"],
                    "additionalProperties": False,
                },
            }
        },
        "required": ["items"],
        "additionalProperties": False,
    },
    concurrency_safe=True,
    idempotent=True,
)


@dataclass(frozen=True, slots=True)
class Suggest:
    """Show what the person could say next."""

    spec: ToolSpec

    async def call(self, arguments: dict[str, Any], context: CallContext) -> Outcome:  # noqa: ARG002 - a tool's shape
        items = list(_items(arguments["items"]))
        if any(not each["label"] or not each["prompt"] for each in items):
            return ToolError("A label and a prompt have words that can be seen; write them out.")
        if len({each["label"] for each in items}) < len(items):
            return ToolError("Two labels are the same; a person could not tell them apart.")
        text = "\n".join(f"- {each['prompt']}" for each in items)
        note = "Shown below your answer; the person may choose one, or write something else. Do not repeat them."
        return Done((Text(note),), (NewRender(KIND, {"items": items}, text),))


def _items(items: list[Mapping[str, str]]) -> Iterator[dict[str, str]]:
    for each in items:
        label = _line(each["label"])
        yield {"label": label, "prompt": _line(each["prompt"]) if "prompt" in each else label}


def _line(text: str) -> str:
    """Return *text* on one line, without what cannot be seen."""
    return " ".join(visible(text).translate(_BLANK).split())


suggest = Suggest(_SPEC)
