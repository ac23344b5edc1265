"""Answers of many texts: blocks of one sentence, sources, pauses, and a last step without words; on each wire."""

import itertools
import json

import pytest

from agent_core.agents import Controls
from agent_core.events import MessageCompleted, StepFailed
from agent_core.messages import Citation, Reasoning, Text
from agent_core.runtime.drive import out_of_steps
from agent_core.testing import call, finish, say, think
from agent_core.testing.models import native
from tests.agent_core.laws import check_log
from tests.agent_core.providers.contract.telling import TOOLS
from tests.agent_core.providers.contract.wires import MESSAGES, RESPONSES

pytestmark = pytest.mark.sampled(3)

SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "rain"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
SOURCE = {
    "type": "web_search_result_location",
    "cited_text": "Rain from noon \U0001f327",
    "url": "https://weather.example/oslo",
    "title": "Oslo",
    "encrypted_index": "EpMBCioICBg=",
}
CITED = {"type": "text", "text": "it rains \U0001f327 in Oslo", "citations": [SOURCE]}
BLANK = {"type": "text", "text": " "}
AGAIN = {"type": "text", "text": "from noon on", "citations": [SOURCE]}
WHOLE = "Today it rains \U0001f327 in Oslo from noon on.\n\nTake a coat."
FACTS = {"start": 0, "text": "Rain from noon \U0001f327", "title": "Oslo", "url": "https://weather.example/oslo"}


async def test_text_blocks_side_by_side_are_one_text(scene):
    """Cited blocks and the blank ones between them are one part, as they came, and go back without the blank ones."""
    answer = [say("Today "), native(CITED), native(BLANK), native(AGAIN), say(".\n\n", "Take a coat.")]
    script = itertools.chain([[think("Hm."), *answer]], itertools.repeat([say("Yes.")]))
    stage = await scene(MESSAGES, lambda _: next(script))
    run = await stage.play("One")
    assert run.text == WHOLE
    (message,) = await stage.said(MessageCompleted)
    first, second = Citation(**{**FACTS, "start": 6, "end": 24}), Citation(**{**FACTS, "start": 25, "end": 37})
    assert message.parts == (Reasoning("Hm."), Text(WHOLE, (first, second)))
    assert [WHOLE[each.start : each.end] for each in (first, second)] == [CITED["text"], AGAIN["text"]]
    await stage.play("Two")
    await stage.play("Three")
    sent = stage.line.models.asked[1].body["messages"][1]["content"]
    texts = [{"type": "text", "text": text} for text in ("Today ", ".\n\nTake a coat.")]
    assert sent[1:] == [texts[0], CITED, AGAIN, texts[1]]
    assert sent[0]["type"] == "thinking"
    assert [requests[: len(before)] == before for before, requests in itertools.pairwise(stage.requests)] == [True] * 2
    assert await stage.said(StepFailed) == []


async def test_deltas_of_side_by_side_blocks_are_one_part(scene):
    """The text of the next block is shown where that of the block before it ends, in the same part."""
    stage = await scene(MESSAGES, [[say("It "), native(CITED), native(BLANK), say("\U0001f327!")]])
    async with stage.reader() as reader:
        run = await stage.play("One")
    shown = ""
    for event in reader.events:
        if event.type == "text.delta":
            data = json.loads(event.raw)
            assert (data["part"], data["offset"]) == (0, len(shown))
            shown += data["text"]
    assert shown == run.text == f"It {CITED['text']} \U0001f327!"


async def test_text_before_a_tool_of_the_server_is_a_paragraph(scene):
    """What lies before the use of a server's tool and what follows it are two parts, over a pause too."""
    answers = [
        [say("I look it up."), native(SEARCH), native(FOUND), say("It "), native(CITED), say(" now.")],
        [say("Once more."), native(SEARCH), finish("continue")],
        [native(FOUND), say("Still "), native(CITED)],
    ]
    script = iter(answers)
    stage = await scene(MESSAGES, lambda _: next(script))
    assert (await stage.play("One")).text == f"I look it up.\n\nIt {CITED['text']} now."
    assert (await stage.play("Two")).text == f"Once more.\n\nStill {CITED['text']}"
    again = stage.line.models.asked[2].body["messages"][-1]["content"]
    assert again == [{"type": "text", "text": "Once more."}, SEARCH]
    assert await stage.said(StepFailed) == []


async def test_a_cited_answer_goes_back_after_the_model_has_changed(scene, wire):
    """What a model wrote in several blocks is one text to another model, and law 8 holds on every wire."""
    script = iter([[say("It "), say("rains."), call("list_all")], [say("Bye.")], [say("Hm.")]])
    stage = await scene(wire, lambda _: next(script), tools=TOOLS)
    assert (await stage.play("One")).text == "Bye."
    assert (await stage.play("Two")).text == "Hm."
    assert [requests[: len(before)] == before for before, requests in itertools.pairwise(stage.requests)] == [True] * 2


async def test_annotations_of_a_response_are_kept(scene):
    """The sources that OpenAI names for a text are kept with it, and the item goes back as it was."""
    quoted = {"type": "url_citation", "url": "https://a.example", "title": "A", "start_index": 3, "end_index": 8}
    of_file = {"type": "file_citation", "file_id": "file_1", "filename": "b.pdf", "index": 2}
    content = [{"type": "output_text", "text": "It rains.", "annotations": [quoted, of_file], "logprobs": []}]
    item = {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": content}
    script = iter([[native(item)], [say("Yes.")]])
    stage = await scene(RESPONSES, lambda _: next(script))
    run = await stage.play("One")
    kept = (Citation(start=3, end=8, title="A", url="https://a.example"), Citation(title="b.pdf", index=2))
    assert run.parts == (Text("It rains.", kept),)
    await stage.play("Two")
    assert item in stage.line.models.asked[1].body["input"]


async def test_a_last_step_of_calls_alone_ends_with_a_sentence(scene, wire):
    """On each wire: a model that calls a tool although none is offered, twice, leaves a person with what there is."""
    script = iter([[call("look", what="a")], [call("look", what="b")], [call("look", what="c")]])
    stage = await scene(wire, lambda _: next(script), tools=TOOLS, controls=Controls(max_steps=2))
    run = await stage.play("One")
    assert (run.status, run.stop_reason, run.text) == ("completed", "max_steps", out_of_steps(2, 1))
    check_log(await stage.log())
