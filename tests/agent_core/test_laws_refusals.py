"""Law 10 of the design: no refusal of any kind makes a session unusable."""

import base64
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from agent_core.channels import Inbound
from agent_core.events import ContentLeftOut, StepFailed
from agent_core.messages import Part, Text, explanation
from agent_core.testing import call, fail, say
from agent_core.testing.models import status
from agent_core.tools.functions import tool
from tests.agent_core.laws import check_log
from tests.agent_core.providers.contract.conftest import SetScene, dial, scene
from tests.agent_core.providers.contract.test_files import PDF, keep, png
from tests.agent_core.providers.contract.wires import CHAT, MESSAGES, RESPONSES, WIRES, Wire
from tests.agent_core.stage import ANN, Stage, restart, results, set_stage, texts
from tests.conftest import MakeCore

__all__ = ["dial", "scene"]
BAD = "A bad word."
_INVALID = "invalid_request_error"
_FILTER = "The response was filtered due to the prompt triggering Azure OpenAI's content management policy."
CONTENT: dict[Wire, list[tuple[int, dict[str, Any]]]] = {
    MESSAGES: [
        (400, {"type": _INVALID, "message": "Output blocked by content filtering policy"}),
        (400, {"type": _INVALID, "message": "messages.0: odd"}),
        (422, {"message": "Unprocessable"}),
    ],
    RESPONSES: [
        (400, {"code": "invalid_prompt", "message": "Your prompt was flagged as violating our usage policy."}),
        (400, {"code": "content_policy_violation", "type": _INVALID, "message": "Rejected by our safety system."}),
        (400, {"code": "content_filter", "param": "prompt", "message": _FILTER}),
        (400, {"type": _INVALID, "message": "Invalid value"}),
    ],
    CHAT: [
        (400, {"code": "content_filter", "param": "prompt", "type": None, "message": _FILTER}),
        (400, {"type": _INVALID, "message": "Content Exists Risk"}),
        (400, {"code": "data_inspection_failed", "message": "Input text data may contain inappropriate content."}),
        (403, {"code": 403, "message": "Your chosen model requires moderation and your input was flagged"}),
        (403, {"code": "permission-denied", "message": "Content violates usage guidelines."}),
        (400, {"code": 400, "message": "Unknown."}),
    ],
}
FILES: dict[Wire, list[tuple[int, dict[str, Any]]]] = {
    MESSAGES: [
        (400, {"type": _INVALID, "message": "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum"}),
        (400, {"type": _INVALID, "message": "Could not process image"}),
        (400, {"type": _INVALID, "message": "A maximum of 100 PDF pages may be provided."}),
        (400, {"type": _INVALID, "message": "messages.0.content: odd"}),
    ],
    RESPONSES: [
        (400, {"code": "invalid_image_format", "param": "input", "message": "You uploaded an unsupported image."}),
        (400, {"code": "invalid_value", "param": "input[1].content[1].image_url", "message": "Not a valid value."}),
        (400, {"code": "invalid_base64", "message": "Expected a base64-encoded data URL with a supported MIME type."}),
    ],
    CHAT: [
        (400, {"message": "unknown variant `image_url`, expected `text`"}),
        (404, {"code": 404, "message": "No endpoints found that support image input"}),
        (500, {"type": "server_error", "code": 500, "message": "image input is not supported - hint: see mmproj"}),
        (400, {"message": "llama-4 is not a multimodal model"}),
        (422, {"detail": [{"loc": ["body", "messages", 1, "content"], "msg": "Input should be a valid string"}]}),
    ],
}


def cases(table: dict[Wire, list[tuple[int, dict[str, Any]]]]) -> list[Any]:
    return [
        pytest.param(wire, *each, id=f"{wire.name} {n}", marks=() if n < 2 else (pytest.mark.whole,))
        for wire in WIRES
        for n, each in enumerate(table[wire])
    ]


def refusing(bad: bytes, code: int, error: dict[str, Any]) -> Any:
    """Return a script that refuses each request that holds *bad*."""
    body = msgspec.json.encode(error if "detail" in error else {"error": error}).decode()
    refusal = [status(code, body, {"content-type": "application/json"})]
    return lambda asked: refusal if bad in asked.raw else [say("Fine.")]


@pytest.mark.parametrize(("wire", "code", "error"), cases(CONTENT))
async def test_law_10_the_message_after_refused_content_is_answered(scene: SetScene, wire: Wire, code: int, error: Any):
    """What came with the content that a vendor refused is lost at most; the next message is answered without it."""
    stage = await scene(wire, refusing(BAD.encode(), code, error))
    await stage.play("Hello")
    await stage.play(BAD)
    done = await stage.play("And now?")
    assert (done.status, done.text) == ("completed", "Fine."), await stage.said(StepFailed)
    assert (await stage.play("Again")).text == "Fine."
    sent = stage.line.models.asked[-1].raw
    assert (b"Hello" in sent, b"was left out" in sent, b"And now?" in sent) == (True, True, True)
    assert len(await stage.said(ContentLeftOut)) == 1
    check_log(await stage.log())


@pytest.mark.parametrize(("wire", "code", "error"), cases(FILES))
async def test_law_10_the_message_after_a_refused_file_is_answered(scene: SetScene, wire: Wire, code: int, error: Any):
    """Of what a vendor cannot take the file alone is left out where the error says so, and in the same run."""
    stage = await scene(wire, refusing(base64.b64encode(png(7)), code, error))
    image = await keep(stage, "dot.png", "image/png", png(7))
    first = await post(stage, Text("Look"), image)
    assert (await stage.play("And now?")).text == "Fine.", await stage.said(StepFailed)
    (made,) = await stage.said(ContentLeftOut)
    if made.files:
        assert (first, made.files, made.names) == ("completed", (image.file,), ("dot.png",))
        sent = stage.line.models.asked[-1].raw
        assert (b"Look" in sent, b"dot.png" in sent) == (True, True)
    check_log(await stage.log())


async def post(stage: Stage, *parts: Part) -> str:
    return (await stage.done((await stage.core.receive(stage.session, Inbound(parts=parts, actor=ANN))).run)).status


@pytest.mark.parametrize(
    ("wire", "path"),
    [(MESSAGES, "messages.0.content.2.image"), (RESPONSES, "input[1].content[2]"), (CHAT, "messages.[1].content.[2]")],
    ids=lambda each: getattr(each, "name", None),
)
async def test_law_10_only_the_file_that_is_named_is_left_out(scene: SetScene, wire: Wire, path: str):
    """Where a vendor names what it refuses the pictures beside it stay."""
    error = {"type": _INVALID, "message": f"{path}: could not process image"}
    stage = await scene(wire, refusing(base64.b64encode(png(9)), 400, error))
    good, bad = [await keep(stage, f"{n}.png", "image/png", png(n)) for n in (7, 9)]
    paper = await keep(stage, "paper.pdf", "application/pdf", PDF)
    assert await post(stage, Text("Look"), good, bad, paper) == "completed"
    assert [made.files for made in await stage.said(ContentLeftOut)] == [(bad.file,)]
    sent = stage.line.models.asked[-1].raw
    assert [base64.b64encode(data) in sent for data in (png(7), png(9), PDF)] == [True, False, True]


REFUSAL = fail("content_refused", retryable=False)


async def test_law_10_a_refused_message_is_left_out_after_a_restart_too(make_core: MakeCore):
    """The model reads what was left out, and a window that is rebuilt from the log is without it."""
    stage = await set_stage(make_core, [(REFUSAL,), (say("No."),)])
    assert (await stage.play(BAD)).text == "No."
    again = await restart(make_core, stage, [(say("Yes."),)])
    assert (await again.play("And now?")).text == "Yes."
    (_, left_out), _, question = texts(again.provider.requests[0])
    assert left_out.startswith("[note] What was said here was left out: the content filter of the model's provider")
    assert question == ("user", "And now?")


async def test_law_10_a_result_that_is_refused_is_left_out_in_its_run(make_core: MakeCore):
    """What a tool brought is the newest content of the window: the run goes on without it."""

    @tool
    async def look() -> str:
        """Look."""
        return BAD

    stage = await set_stage(make_core, [(call("look"),), (REFUSAL,), (say("It was withheld."),)], tools=[look])
    assert (await stage.play("Look")).text == "It was withheld."
    assert BAD not in str(results(stage.provider.requests[-1]))
    assert texts(stage.provider.requests[-1])[0] == ("user", "Look")


async def refused_while(make_core: MakeCore, code: str, bad: Callable[[str], bool]) -> Stage:
    """Return a stage whose model refuses as *code* each prompt that is *bad*."""
    refusal = (fail(code, retryable=False),)
    return await set_stage(make_core, lambda asked: refusal if bad(str(texts(asked))) else (say("Fine."),))


@pytest.mark.parametrize("code", ["invalid", "content_refused", "file_refused", "stale_reasoning"])
async def test_law_10_what_was_answered_once_is_left_out_when_it_is_refused_later(make_core: MakeCore, code: str):
    """A model or a filter that changed refuses an old message: at the latest the third new one is answered."""
    changed: list[str] = []
    stage = await refused_while(make_core, code, lambda seen: bool(changed) and BAD in seen)
    await stage.play(BAD)
    await stage.play("Hello")
    changed.append(code)
    ended = [(await stage.play(text)).status for text in ("one", "two", "three", "four")]
    assert ended[-2:] == ["completed", "completed"], ended
    assert {"three", "four"} <= {text for _, text in texts(stage.provider.requests[-1])}
    check_log(await stage.log())


@pytest.mark.parametrize("code", ["invalid", "content_refused"])
async def test_law_10_what_was_left_out_in_vain_is_back(make_core: MakeCore, code: str):
    """While an operator's mistake or a filter's outage lasts each message waits for the next one; none is lost."""
    mistake: list[str] = []
    stage = await refused_while(make_core, code, lambda _: bool(mistake))
    await stage.play("Hello")
    mistake.append(code)
    asked = ["one", "two", "three"]
    assert {(await stage.play(text)).status for text in asked} == {"failed"}
    mistake.clear()
    again = await restart(make_core, stage, [(say("Back."),)])
    assert (await again.play("four")).text == "Back."
    assert [text for _, text in texts(again.provider.requests[-1])] == ["Hello", "Fine.", *asked, "four"]


async def test_law_10_a_refusal_takes_nothing_answered_in_its_first_run(make_core: MakeCore):
    """One refused message is no reason to blame what was answered before, however often it is tried."""
    stage = await set_stage(make_core, [(say("Hi."),), (REFUSAL,), (REFUSAL,), (say("Back."),)])
    _, failed, _ = [await stage.play(text) for text in ("Hello", "one", "two")]
    assert failed.error
    assert failed.error.message == explanation("content_refused")
    assert [text for _, text in texts(stage.provider.requests[-1])] == ["Hello", "Hi.", "one", "two"]


async def test_law_10_without_a_file_no_file_is_refused(scene: SetScene):
    """Words of files in a refusal are about something else where the conversation has none."""
    error = {"type": _INVALID, "message": "tools.3.custom.name: 'search documents' should match pattern"}
    stage = await scene(MESSAGES, refusing(BAD.encode(), 400, error))
    await stage.play(BAD)
    assert [failed.code for failed in await stage.said(StepFailed)] == ["invalid"]
