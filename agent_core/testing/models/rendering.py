"""Scores of answers, each rendered once per wire and kept."""

from collections import OrderedDict
from collections.abc import Hashable

from agent_core.testing.models import rules_responses
from agent_core.testing.models.asked import Head, ModelCall
from agent_core.testing.models.chat import ChatVoice, Quirks
from agent_core.testing.models.items import Answer, Item
from agent_core.testing.models.messages import MessagesVoice
from agent_core.testing.models.responses import ResponsesVoice
from agent_core.testing.models.score import Score, Voice, compose

KEPT = 256
"""Scores that are kept; a script that makes new answers all the time must not fill the memory."""


class Renderings:
    """Keeps the scores of the answers that came last."""

    def __init__(self, quirks: Quirks, split: int) -> None:
        self._quirks, self._split = quirks, split
        # By the identity of the answer, which is kept with it so that no other can have the same one.
        self._kept: OrderedDict[Hashable, tuple[Answer, tuple[Item, ...], Score]] = OrderedDict()

    def score(self, call: ModelCall, head: Head, answer: Answer) -> Score:
        """Return *answer* as it is played to *call*."""
        options = head.stream_options or {}
        obfuscate = options.get("include_obfuscation") is not False
        include = options.get("include_usage") is True
        omit = (head.thinking or {}).get("display") == "omitted"
        summaries = bool((head.reasoning or {}).get("summary"))
        model = head.model if call.wire == "chat" else None
        searches = call.wire == "responses" and rules_responses.searches(call.body)
        key = (id(answer), call.wire, model, obfuscate, include, omit, summaries, searches)
        items = tuple(answer)
        if (rendering := self._kept.get(key)) and rendering[1] == items:
            self._kept.move_to_end(key)
            return rendering[2]
        voice: Voice
        if call.wire == "messages":
            voice = MessagesVoice(omit=omit)
        elif call.wire == "responses":
            voice = ResponsesVoice(obfuscate=obfuscate, summaries=summaries, searches=searches)
        else:
            voice = ChatVoice(head.model, self._quirks, include_usage=include, obfuscate=obfuscate)
        score = compose(items, voice, split=self._split)
        self._kept[key] = (answer, items, score)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return score
